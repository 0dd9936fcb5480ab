"""The first connection to a cluster: to whichever of the servers that are named answers first.

One that does not answer (its process is stopped, its machine is cut off) must not keep anybody from the others.
"""

import asyncio
import random
import ssl
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from typing import Any

from aiokafka.client import AIOKafkaClient
from aiokafka.conn import create_conn
from aiokafka.errors import IllegalSaslStateError, KafkaError, RequestTimedOutError
from aiokafka.protocol.metadata import MetadataRequest

from baton.model.wording import quoted
from baton.queues.kafka.address import KafkaAddress
from baton.queues.protocol import QueueUnreachable

_NEXT_AFTER = 0.5
"""Seconds for which one server alone is waited for before the next one is tried, too."""
_ANSWERS = 6
"""That it takes to connect: versions, three of SASL, and the brokers there are; and one for the connection itself."""
_ERRORS = (KafkaError, OSError, TimeoutError, asyncio.IncompleteReadError)


async def connected(address: KafkaAddress, client_id: str, within: float) -> Any:
    """A client that knows the cluster's brokers. `within`: seconds for each server, and for each request of the client later.
    Raises QueueUnreachable with what is wrong and the cure."""
    parts = address.for_aiokafka()
    parts.pop("bootstrap_servers")

    async def to(server: str) -> Any:
        client = AIOKafkaClient(client_id=client_id, request_timeout_ms=int(within * 1000), bootstrap_servers=[server], **parts)
        try:
            async with asyncio.timeout(_ANSWERS * within):
                await client.bootstrap()
        except BaseException:
            with suppress(*_ERRORS):
                await client.close()
            raise
        return client

    servers = random.sample(address.servers, len(address.servers))
    try:
        return await _first(servers, to)
    except _ERRORS as error:
        raise QueueUnreachable(f"{address.place} {await _why(address, error, within)}") from None


async def _first(servers: Sequence[str], connect: Callable[[str], Awaitable[Any]]) -> Any:
    """The first connection there is. Raises the last error where there is none."""
    trying: set[asyncio.Future[Any]] = set()
    waiting = list(servers)
    error: BaseException | None = None
    try:
        while trying or waiting:
            if waiting:
                trying.add(asyncio.ensure_future(connect(waiting.pop(0))))
            ended, trying = await asyncio.wait(
                trying, timeout=_NEXT_AFTER if waiting else None, return_when=asyncio.FIRST_COMPLETED
            )
            for one in ended:
                if (error := one.exception()) is None:
                    trying |= ended - {one}
                    return one.result()
    finally:
        await asyncio.gather(*map(_given_up, trying))
    assert error is not None
    raise error


async def _given_up(attempt: "asyncio.Future[Any]") -> None:
    attempt.cancel()
    with suppress(asyncio.CancelledError, *_ERRORS):
        await (await attempt).close()  # it had just connected


async def _why(address: KafkaAddress, error: Exception, within: float) -> str:
    """Why no broker could be reached: aiokafka keeps that to itself. What a broker refuses comes before that another is away."""
    found = await asyncio.gather(*(_refusal(address, server, error, within) for server in address.servers))
    told = [why for why in found if not why.startswith("does not answer")]
    return (told or found)[0]


async def _refusal(address: KafkaAddress, server: str, error: Exception, within: float) -> str:
    host, _, port = server.rpartition(":")
    parts = address.for_aiokafka()
    parts.pop("bootstrap_servers")
    try:
        async with asyncio.timeout(_ANSWERS * within):
            connection = await create_conn(host.strip("[]"), int(port), request_timeout_ms=int(within * 1000), **parts)
            try:
                await connection.send(MetadataRequest([]))  # what asks for a user tells its versions to everybody
            finally:
                connection.close()
    except _ERRORS as known:
        error = known
    if isinstance(error, IllegalSaslStateError):
        return f"asks for no user at port {port}, and the user {address.user} was given: take the port that does, or no user"
    if "Authentication" in type(error).__name__ or "uthentication" in str(error) or "SASL" in type(error).__name__.upper():
        return address.refused
    if address.tls and not address.certificate and "closed" in str(error):  # TLS 1.3 says no more
        return "closes the connection: give a client certificate and its key, if it asks for one"
    if "CERTIFICATE_VERIFY_FAILED" in str(error):
        return "shows a certificate that is not trusted: give the CA that has signed it"
    if isinstance(error, TimeoutError | RequestTimedOutError):
        return (
            f"does not answer within {within:g} s: see whether its brokers run, and on these ports, whether one has come to a "
            "stop or has too much to do, and whether their disks have room; or correct the address"
        )
    seen = quoted(str(error) or type(error).__name__, 200)
    if isinstance(error, ssl.SSLError | ConnectionResetError | asyncio.IncompleteReadError) or "closed" in str(error):
        return (
            f"takes a connection at port {port} and ends it ({seen}). It is spoken to as {address.protocol}: give a user where "
            "the port is one of SASL, speak TLS where it does so, and else not; or the broker has just come to its end"
        )
    return (
        f"does not answer ({seen}): see whether its brokers run, and on these ports, and whether their disks have room; or "
        "correct the address"
    )
