"""A resolver that does not answer for the hosts of one namespace holds up nobody else."""

import asyncio
import socket
import threading
from collections.abc import Iterator
from typing import Any

import pytest

from baton.controller.event_loop_stalls import EventLoopStalls
from baton.controller.large_work import LargeWork
from baton.controller.lookups import THREADS
from baton.controller.offload import MUCH, aside
from baton.queues.protocol import Claimant, QueueUnreachable
from baton.queues.redis import RedisQueue
from tests.waiting import eventually


class Resolver:
    """Answers at last for blackhole.example, at once for others: there is no such host."""

    def __init__(self) -> None:
        self.asked: list[str] = []
        self.ends = threading.Event()

    def __call__(self, host: str, *_: Any, **__: Any) -> Any:
        self.asked.append(host)
        if host.endswith("blackhole.example"):
            assert self.ends.wait(60)
        raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")


@pytest.fixture
def resolver(monkeypatch: pytest.MonkeyPatch) -> Iterator[Resolver]:
    made = Resolver()
    monkeypatch.setattr(socket, "getaddrinfo", made)
    yield made
    made.ends.set()


async def ask(namespace: str, host: str) -> str:
    name = f"{namespace}/orders"
    queue = RedisQueue(f"redis://{host}:6379", name, Claimant(f"{namespace}/g", "uid", frozenset()))
    try:
        await queue.check()
    except QueueUnreachable as error:
        return str(error)
    finally:
        await queue.close()
    raise AssertionError("it has an address")


def test_steps_others_and_the_operator_itself_go_on(resolver: Resolver) -> None:
    async def story() -> None:
        hanging = [asyncio.create_task(ask("evil", f"h{number}.blackhole.example")) for number in range(3 * THREADS)]

        async def asked() -> bool:
            return len(resolver.asked) == THREADS // 2

        await eventually(asked, "half of the threads hang")
        assert "cannot resolve 'redis.shop'" in await ask("shop", "redis.shop")
        assert await LargeWork().of("shop").do(3, lambda: "a step") == "a step"
        assert await aside(MUCH + 1, lambda: "much") == "much"
        with pytest.raises(socket.gaierror):
            await asyncio.get_running_loop().getaddrinfo("the-api-server.example", 6443)
        assert len([host for host in resolver.asked if "blackhole" in host]) == THREADS // 2
        told = await asyncio.gather(*hanging)
        assert all("blackhole.example:6379 does not answer" in words for words in told)
        resolver.ends.set()

    with asyncio.Runner(loop_factory=EventLoopStalls().loop) as runner:
        runner.run(story())
