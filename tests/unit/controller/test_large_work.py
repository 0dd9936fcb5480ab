"""Large work runs on threads, and work that never ends is waited for only for a limited time."""

import asyncio
import socket
import threading
import time
from collections.abc import Iterator
from typing import Any

import pytest

from baton.controller.event_loop import BUCKET, BUCKETS, LOOKUPS, OF_NAMESPACE, EventLoopStalls
from baton.controller.large_work import MUCH, GroupWork, LargeWork, SharedThreads, aside
from baton.controller.problems import Reason, Stuck
from baton.queues.protocol import Claimant, QueueUnreachable
from baton.queues.redis import RedisQueue
from tests.waiting import eventually

LARGE, SMALL = MUCH + 1, MUCH


class Works:
    """Calls that each block their thread until released."""

    def __init__(self, longest: float = 60) -> None:
        self.large_work = LargeWork(longest)
        self.tasks: dict[str, asyncio.Task[str]] = {}
        self._begun: list[str] = []
        self._ends: dict[str, threading.Event] = {}
        self._news = asyncio.Event()
        self._loop = asyncio.get_running_loop()

    def do(self, name: str, partitions: int, group: GroupWork, *, installed: bool = False) -> None:
        self._ends[name] = threading.Event()
        self.tasks[name] = asyncio.create_task(group.do(partitions, self._work, name, installed=installed))

    def end(self, *names: str) -> None:
        for name in names:
            self._ends[name].set()

    async def have_begun(self, *names: str) -> None:
        """In this order; and no other, however often the event loop goes round meanwhile."""
        async with asyncio.timeout(60):
            while len(self._begun) < len(names):
                self._news.clear()
                await self._news.wait()
        for _ in range(20):
            await asyncio.sleep(0)
        assert self._begun == [*names]

    def _work(self, name: str) -> str:
        self._loop.call_soon_threadsafe(self._told, name)
        assert self._ends[name].wait(60)
        return name

    def _told(self, name: str) -> None:
        self._begun.append(name)
        self._news.set()


async def test_large_plans_run_one_after_another_and_small_ones_at_once() -> None:
    works = Works()
    for name in "abc":
        works.do(name, LARGE, works.large_work.of(name))
    await works.have_begun("a")
    assert await works.large_work.of("d").do(SMALL, threading.current_thread) is threading.current_thread()
    works.tasks["b"].cancel()
    await asyncio.wait([works.tasks["b"]])
    works.end("a")
    await works.have_begun("a", "c")
    works.end("c")
    assert await works.tasks["c"] == "c"


async def test_a_thread_that_cannot_be_started_takes_no_slot() -> None:
    threads = SharedThreads(1, 1, "few")
    threads._executor.shutdown()
    for _ in range(2):
        with pytest.raises(RuntimeError):
            await asyncio.wait_for(threads.begin("shop", int), 60)


async def test_hanging_assignors_stop_neither_other_namespaces_nor_large_plans() -> None:
    works = Works()
    hanging = [f"evil {number}" for number in range(2)]
    for name in (*hanging, "evil too"):
        works.do(name, SMALL, works.large_work.of("evil"), installed=True)
    works.do("good", SMALL, works.large_work.of("good"), installed=True)
    await works.have_begun(*hanging, "good")
    works.do("large", LARGE, works.large_work.of("evil"))
    await works.have_begun(*hanging, "good", "large")
    works.end(hanging[0])
    await works.have_begun(*hanging, "good", "large", "evil too")
    works.end(*works.tasks)
    assert await asyncio.gather(*works.tasks.values()) == [*works.tasks]


async def test_overdue_work_is_reported_and_keeps_one_thread() -> None:
    works = Works(longest=0.2)
    group = works.large_work.of("evil")
    works.do("a", SMALL, group, installed=True)
    await works.have_begun("a")
    with pytest.raises(Stuck, match=r"the plan of this group has not finished .* spec.assignors") as told:
        await works.tasks["a"]
    assert told.value.problem.reason is Reason.PLAN_OVERDUE
    works.do("again", SMALL, group, installed=True)
    with pytest.raises(Stuck):
        await works.tasks["again"]
    assert await group.do(SMALL, lambda: "by a built-in assignor") == "by a built-in assignor"
    await works.have_begun("a")
    works.do("at last", SMALL, group, installed=True)
    works.end("a")
    await works.have_begun("a", "at last")
    works.end("at last")
    assert await works.tasks["at last"] == "at last"


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


def test_hosts_that_do_not_resolve_in_one_namespace_delay_no_other(resolver: Resolver) -> None:
    async def story() -> None:
        hanging = [asyncio.create_task(ask("evil", f"h{number}.blackhole.example")) for number in range(LOOKUPS)]

        async def asked() -> bool:
            return len(resolver.asked) == OF_NAMESPACE

        await eventually(asked, "as many as a namespace may have hang")
        assert "cannot resolve 'redis.shop'" in await ask("shop", "redis.shop")
        assert await LargeWork().of("shop").do(3, lambda: "a plan", installed=True) == "a plan"
        assert await aside(MUCH + 1, lambda: "much") == "much"
        with pytest.raises(socket.gaierror):
            await asyncio.get_running_loop().getaddrinfo("the-api-server.example", 6443)
        assert len([host for host in resolver.asked if "blackhole" in host]) == OF_NAMESPACE
        told = await asyncio.gather(*hanging)
        assert all("blackhole.example:6379 does not answer" in words for words in told)
        resolver.ends.set()

    with asyncio.Runner(loop_factory=EventLoopStalls().loop) as runner:
        runner.run(story())


# -- Stalls of the event loop.


class Hands:
    """A clock that is set."""

    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


def busy(stalls: EventLoopStalls, clock: Hands, seconds: float) -> None:
    stalls.answered()
    clock.now += seconds
    stalls.asks()


def test_the_longest_stall_is_reported_for_five_minutes_and_since_the_start() -> None:
    clock = Hands()
    stalls = EventLoopStalls(clock)
    stalls.asks()
    busy(stalls, clock, 0.2)
    busy(stalls, clock, 0.1)
    assert (round(stalls.recent(), 3), round(stalls.longest, 3)) == (0.2, 0.2)
    clock.now += BUCKET * BUCKETS
    busy(stalls, clock, 0.05)
    assert (round(stalls.recent(), 3), round(stalls.longest, 3)) == (0.05, 0.2)


def test_a_continuing_stall_is_seen() -> None:
    clock = Hands()
    stalls = EventLoopStalls(clock)
    stalls.asks()
    stalls.answered()
    clock.now += 7
    assert stalls.recent() == 7
    stalls.asks()
    clock.now += 60  # it sleeps
    assert stalls.recent() == 7


def test_an_event_loop_is_measured() -> None:
    stalls = EventLoopStalls(time.thread_time)

    async def work() -> None:
        await asyncio.sleep(0.01)
        until = time.thread_time() + 0.05
        while time.thread_time() < until:
            pass
        await asyncio.sleep(0.01)

    with asyncio.Runner(loop_factory=stalls.loop) as runner:
        runner.run(work())
    assert stalls.longest >= 0.05
