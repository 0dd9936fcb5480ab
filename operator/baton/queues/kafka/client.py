"""A client for the requests of the fence: it finds the coordinators, and says in sentences what is wrong with a cluster.

aiokafka brings connections, TLS and SASL.
"""

import asyncio
import time
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Any
from zlib import crc32

from aiokafka.client import AIOKafkaClient, ConnectionGroup, CoordinationType
from aiokafka.conn import create_conn
from aiokafka.errors import IncompatibleBrokerVersion, KafkaError

from baton.model.wording import quoted
from baton.queues.kafka.address import KafkaAddress
from baton.queues.kafka.answers import PASSING, STALE, Code, StaleToken, refused
from baton.queues.protocol import QueueUnreachable

ANSWERS_WITHIN = 4.0
"""Seconds for one request, and"""
PASSES_WITHIN = 5.0
"""for which one is asked again that is refused for a moment."""
_FIRST_PAUSE, _LONGEST_PAUSE = 0.002, 0.1
_NO_BROKER = "it names no broker"
"""That has just begun, or is about to end, it may tell of none, not even itself."""
_SETTLES_ELSEWHERE = frozenset({Code.NOT_COORDINATOR, Code.COORDINATOR_NOT_AVAILABLE})


_LANES = (ConnectionGroup.DEFAULT, 2, 3, 4)
"""Connections to a broker: it answers one request of each at a time, and a hand-off has some for each of its partitions."""


def _lane(transactional_id: str) -> int:
    return int(_LANES[crc32(transactional_id.encode()) % len(_LANES)]) if transactional_id else int(ConnectionGroup.DEFAULT)


class TooOld(QueueUnreachable):
    """The brokers do not know a request."""


class KafkaClient:
    """Of one group. Used in one event loop. Its methods raise QueueUnreachable; the next call connects again."""

    def __init__(self, address: KafkaAddress, group: str, client_id: str) -> None:
        self.address = address
        self.group = group
        self._client_id = client_id
        self._client: Any = None
        self._connecting = asyncio.Lock()
        self._coordinators: dict[tuple[int, str], int] = {}

    async def to_group(self, request: Any, *, patient: bool = False, transactional_id: str = "") -> Any:
        """To the group's coordinator. `patient`: on a connection of its own, for an answer that may take long.
        `transactional_id`: it is part of this one's transaction."""
        lane = ConnectionGroup.COORDINATION if patient else _lane(transactional_id)
        return await self._send(await self._coordinator(CoordinationType.GROUP, self.group), request, lane)

    async def to_transactions(self, transactional_id: str, request: Any) -> Any:
        """To the coordinator of this transactional id."""
        coordinator = await self._coordinator(CoordinationType.TRANSACTION, transactional_id)
        return await self._send(coordinator, request, _lane(transactional_id))

    async def to_anybody(self, request: Any) -> Any:
        client = await self._connected()
        node = client.get_random_node()
        if node is None:
            raise await self._lost(client, ConnectionError(_NO_BROKER))
        return await self._send(node, request)

    async def to_broker(self, node: int, request: Any) -> Any:
        return await self._send(node, request)

    async def until_taken(self, what: str, ask: Callable[[], Awaitable[int]], topic: str, transactional_id: str = "") -> None:
        """Ask until it is taken: `ask` answers the error code. Raises StaleToken and QueueUnreachable."""
        until, pause = time.monotonic() + PASSES_WITHIN, _FIRST_PAUSE
        while (code := await ask()) != Code.NONE:
            if code in STALE:
                raise StaleToken(what)
            if code not in PASSING or time.monotonic() >= until:
                raise self.refused(what, code, topic, transactional_id)
            if code in _SETTLES_ELSEWHERE:
                self._coordinators.clear()
            await asyncio.sleep(pause)
            pause = min(2 * pause, _LONGEST_PAUSE)

    def refused(self, what: str, code: int, topic: str, transactional_id: str = "") -> QueueUnreachable:
        """A sentence with the cure."""
        address = self.address
        return refused(
            address.place, what, code, who=address.who, topic=topic, group=self.group, transactional_id=transactional_id
        )

    async def close(self) -> None:
        """It may be used again."""
        client, self._client = self._client, None
        self._coordinators.clear()
        if client is not None:
            with suppress(KafkaError, OSError, TimeoutError):
                await client.close()

    async def _coordinator(self, kind: int, key: str) -> int:
        found = self._coordinators.get((kind, key))
        if found is None:
            client = await self._connected()
            until, pause = time.monotonic() + PASSES_WITHIN, _FIRST_PAUSE
            while found is None:
                if client.get_random_node() is None:
                    raise await self._lost(client, ConnectionError(_NO_BROKER))
                try:
                    found = await client.coordinator_lookup(kind, key)
                except (KafkaError, OSError, TimeoutError) as error:
                    code = getattr(error, "errno", None)
                    if code in PASSING and time.monotonic() < until:  # its topic is being made, or read
                        await asyncio.sleep(pause)
                        pause = min(2 * pause, _LONGEST_PAUSE)
                        continue
                    if isinstance(code, int) and code > 0:
                        raise self.refused("the question for a coordinator", code, "", key) from None
                    raise await self._lost(client, error) from None
            self._coordinators[kind, key] = found
        return found

    async def _send(self, node: int, request: Any, lane: int = ConnectionGroup.DEFAULT) -> Any:
        client = await self._connected()
        try:
            return await client.send(node, request, group=lane)
        except IncompatibleBrokerVersion:
            raise TooOld(f"{self.address.place} is too old: take Kafka 2.8, or a later one") from None
        except (KafkaError, OSError, TimeoutError, asyncio.IncompleteReadError) as error:
            raise await self._lost(client, error) from None

    async def _connected(self) -> Any:
        async with self._connecting:
            if self._client is None:
                client = AIOKafkaClient(
                    client_id=self._client_id,
                    request_timeout_ms=int(ANSWERS_WITHIN * 1000),
                    **self.address.for_aiokafka(),
                )
                try:
                    async with asyncio.timeout(ANSWERS_WITHIN):
                        await client.bootstrap()
                except (KafkaError, OSError, TimeoutError) as error:
                    with suppress(KafkaError, OSError, TimeoutError):
                        await client.close()
                    raise QueueUnreachable(f"{self.address.place} {await self._why(error)}") from None
                self._client = client
            return self._client

    async def _lost(self, client: Any, error: Exception) -> QueueUnreachable:
        """Connect again with the next request, unless another request has done so since."""
        if self._client is client:
            await self.close()
        if isinstance(error, TimeoutError) or "Timeout" in type(error).__name__:
            return QueueUnreachable(f"{self.address.place} did not answer within {ANSWERS_WITHIN:g} s")
        return QueueUnreachable(f"{self.address.place} does not answer ({quoted(str(error), 200)}): see whether its brokers run")

    async def _why(self, error: Exception) -> str:
        """Why no broker could be reached: aiokafka keeps that to itself."""
        host, _, port = self.address.servers[0].rpartition(":")
        parts = self.address.for_aiokafka()
        parts.pop("bootstrap_servers")
        try:
            async with asyncio.timeout(ANSWERS_WITHIN):
                connection = await create_conn(
                    host.strip("[]"), int(port), request_timeout_ms=int(ANSWERS_WITHIN * 1000), **parts
                )
            connection.close()
        except (KafkaError, OSError, TimeoutError, asyncio.IncompleteReadError) as known:
            error = known
        if "Authentication" in type(error).__name__ or "uthentication" in str(error) or "SASL" in type(error).__name__.upper():
            return f"refuses the user {self.address.user}: correct the user, the password or the mechanism in the Secret"
        if self.address.tls and not self.address.certificate and "closed" in str(error):  # TLS 1.3 says no more
            return "closes the connection: give a client certificate and its key, if it asks for one"
        if "CERTIFICATE_VERIFY_FAILED" in str(error):
            return "shows a certificate that is not trusted: give the CA that has signed it"
        seen = quoted(str(error) or type(error).__name__, 200)
        return f"does not answer ({seen}): see whether its brokers run, and on these ports"
