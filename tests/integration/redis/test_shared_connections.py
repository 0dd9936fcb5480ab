"""Queues at one Redis share the operator's connections. A hanging server delays only its own queues."""

import asyncio
from collections.abc import Iterator
from typing import Any

import pytest

from baton.model.ids import Epoch, Uid
from baton.queues.opening import LOOKUP_NAMESPACE
from baton.queues.protocol import Claimant, QueueCheck, QueueUnreachable
from baton.queues.redis import RedisQueue
from tests.redis_server import RedisServer
from tests.waiting import until

QUEUES, PARTITIONS, CONNECTIONS = 40, 4, 16


@pytest.fixture
def alone() -> Iterator[RedisServer]:
    """A server that has no other clients."""
    with RedisServer(password="right", append_only=False) as running:
        yield running


def queues_at(url: str, count: int = QUEUES) -> list[RedisQueue]:
    """Return queues in two namespaces."""
    names = [f"{'shop' if number % 2 else 'bank'}/orders-{number}" for number in range(count)]
    return [RedisQueue(url, name, Claimant(name, f"uid-of-{name}"), shared=True) for name in names]


async def begun(queue: RedisQueue) -> QueueCheck:
    """Create, grant and check the queue."""
    await queue.ensure(PARTITIONS)
    await asyncio.gather(*(queue.grant(number, Uid("a"), Epoch(1)) for number in range(PARTITIONS)))
    return await queue.check()


async def test_queues_share_connections_until_the_last_one_is_closed(alone: RedisServer) -> None:
    with alone.client() as raw:
        before = _ever(raw)
        *others, last = queues_at(alone.url)
        for check in await asyncio.gather(*map(begun, [*others, last])):
            assert [owner.uid for owner in check.owners.values()] == ["a"] * PARTITIONS
        await asyncio.gather(*(queue.close() for queue in others))
        assert (await last.check()).partitions == PARTITIONS
        assert _ever(raw) - before <= CONNECTIONS
        await last.close()
        until(lambda: len(_clients(raw)) == 1, "all are closed but this one")


async def test_different_passwords_use_different_connections(alone: RedisServer) -> None:
    (right,), (wrong,) = queues_at(alone.url, 1), queues_at(alone.url.replace("right", "wrong"), 1)
    checked, refused = await asyncio.gather(begun(right), begun(wrong), return_exceptions=True)
    assert isinstance(checked, QueueCheck)
    assert isinstance(refused, QueueUnreachable) and "refused the user or password for bank/orders-0" in str(refused)
    await right.close()
    await wrong.close()


async def test_a_hanging_server_delays_only_its_own_queues(alone: RedisServer) -> None:
    with RedisServer(append_only=False) as hangs:
        hanging, (other,) = queues_at(f"{hangs.url}?socket_timeout=1"), queues_at(alone.url, 1)
        await asyncio.gather(*map(begun, [*hanging, other]))
        hangs.freeze()
        asked = asyncio.ensure_future(asyncio.gather(*(queue.check() for queue in hanging), return_exceptions=True))
        assert (await other.check()).partitions == PARTITIONS
        assert not asked.done()
        for queue, told in zip(hanging, await asked, strict=True):
            assert isinstance(told, QueueUnreachable) and "does not answer" in str(told), queue
        hangs.thaw()
        assert {check.partitions for check in await asyncio.gather(*(queue.check() for queue in hanging))} == {PARTITIONS}
        for queue in (*hanging, other):
            await queue.close()


async def test_host_lookups_take_turns_between_namespaces(alone: RedisServer) -> None:
    """Lookups of one namespace may hang (controller/event_loop.py)."""
    loop, names = asyncio.get_running_loop(), []
    resolve = loop.getaddrinfo

    async def seen(*arguments: Any, **options: Any) -> Any:
        names.append(LOOKUP_NAMESPACE.get())
        return await resolve(*arguments, **options)

    loop.getaddrinfo = seen  # type: ignore[method-assign]
    queues = queues_at(alone.url.replace("127.0.0.1", "localhost"), 4)
    await asyncio.gather(*map(begun, queues))
    assert set(names) == {"bank", "shop"}
    for queue in queues:
        await queue.close()


def _clients(raw: Any) -> list[Any]:
    return list(raw.client_list())


def _ever(raw: Any) -> int:
    """Return the number of connections made so far."""
    return int(raw.info("stats")["total_connections_received"])
