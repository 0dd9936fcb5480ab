"""What the operator knows and writes nowhere: asked of its leader, through the API server or at a URL."""

import json
from typing import Any

import aiohttp

from baton.cli.cluster import NoAnswerError
from baton.cli.lag_view import GroupLag, NotTheOperatorError, read_group, read_groups
from baton.cli.leader import Leader
from baton.kube.api import Api, core_path
from baton.kube.errors import ApiError, NotFoundError, PageTooLargeError, UnavailableError

LARGEST = 16 * 2**20
"""Bytes of an answer: a hundred thousand partitions take two MiB."""

WITHIN = 10.0
"""Seconds."""


async def lag_of(
    api: Api, namespace: str, name: str, leader: Leader | None, url: str | None, *, partitions: bool = True
) -> GroupLag:
    """Of one group; with its `partitions`, if asked for. What is wrong is its `problem`."""
    try:
        return read_group(await _ask(api, f"groups/{namespace}/{name}/lag{'/partitions' if partitions else ''}", leader, url))
    except NotTheOperatorError:
        return GroupLag(namespace, name, problem=_ODD)
    except NoAnswerError as error:
        return GroupLag(namespace, name, problem=str(error))


async def lag_of_all(api: Api, leader: Leader | None, url: str | None) -> list[GroupLag]:
    """Of all groups that this operator serves. Raises NoAnswerError."""
    try:
        return read_groups(await _ask(api, "groups/lag", leader, url))
    except NotTheOperatorError:
        raise NoAnswerError(_ODD) from None


_ODD = "what answers is no operator of this release"


async def _ask(api: Api, page: str, leader: Leader | None, url: str | None) -> Any:
    if url is not None:
        return await _fetch(f"{url}/{page}")
    if leader is None:
        raise NoAnswerError("no operator has written its ledger yet")
    if not leader.readable:
        raise NoAnswerError(f"only its operator's leader knows it, and you may not read the Lease {leader.lease}: {_CURE}")
    if leader.holder is None:
        raise NoAnswerError(f"only its operator's leader knows it, and the Lease {leader.lease} names none: see `baton doctor`")
    if leader.port is None:
        raise NoAnswerError(
            f"only its operator's leader knows it, and {leader.holder} says no address, for it runs outside of the cluster: give "
            "--operator http://HOST:PORT, of which its log has the port"
        )
    where = leader.lease.partition("/")[0]
    try:
        return await api.relayed(f"{core_path(where, 'pods', f'{leader.holder}:{leader.port}')}/proxy/{page}", LARGEST)
    except PageTooLargeError:
        raise NoAnswerError(f"{leader.holder} says more than {LARGEST:,} bytes: {_ODD}") from None
    except NotFoundError as error:
        gone = f"there is no pod {leader.holder} in namespace {where}: {_CURE}"
        raise NoAnswerError(gone if error.reason == "NotFound" else "its operator does not serve it") from None
    except ApiError:
        raise NoAnswerError(f"you may not get pods/proxy of {leader.holder} in namespace {where}: {_CURE}") from None
    except UnavailableError as error:
        raise NoAnswerError(f"the operator {leader.holder} does not answer through the API server ({error}): {_CURE}") from None


_CURE = "forward its port 8080 to your machine, and give --operator http://127.0.0.1:8080"


async def _fetch(url: str) -> Any:
    try:
        async with (
            aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(WITHIN)) as session,
            session.get(url, allow_redirects=False) as answer,
        ):
            body = await answer.content.read(LARGEST + 1) if answer.status != 200 else await _whole(answer)
            status = answer.status
    except (aiohttp.ClientError, TimeoutError, OSError, ValueError) as error:
        raise NoAnswerError(f"{url} does not answer: {str(error) or type(error).__name__}") from None
    if status == 307:
        raise NoAnswerError(f"{url}: this replica of the operator does not lead: ask the one that the Lease names")
    if status == 404:
        raise NoAnswerError("the operator there does not serve it")
    if status != 200:
        raise NoAnswerError(f"{url} answers {status}")
    try:
        return json.loads(body)
    except (ValueError, RecursionError):
        raise NoAnswerError(_ODD) from None


async def _whole(answer: aiohttp.ClientResponse) -> bytes:
    data = bytearray()
    async for chunk in answer.content.iter_any():
        data += chunk
        if len(data) > LARGEST:
            raise ValueError(f"it says more than {LARGEST:,} bytes")
    return bytes(data)
