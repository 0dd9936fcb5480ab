"""Work on very many partitions takes turns, and what does not come to its end is waited for only so long."""

import asyncio
import threading

import pytest

from baton.controller.large_work import THREADS, GroupWork, LargeWork
from baton.controller.problems import Reason, Stuck
from tests.waiting import eventually

LARGE, HALF, SMALL = 100_000, 50_000, 1_000


class Works:
    """Each goes on, on its thread, until it is told to end."""

    def __init__(self, longest: float = 60) -> None:
        self.large_work = LargeWork(LARGE, longest)
        self.tasks: dict[str, asyncio.Task[str]] = {}
        self._begun: list[str] = []
        self._ends: dict[str, threading.Event] = {}
        self._news = asyncio.Event()
        self._loop = asyncio.get_running_loop()

    def begin(self, name: str, partitions: int) -> None:
        self.do(name, partitions, self.large_work.of(name))

    def do(self, name: str, partitions: int, group: GroupWork) -> None:
        self._ends[name] = threading.Event()
        self.tasks[name] = asyncio.create_task(group.do(partitions, self._work, name))

    def end(self, name: str) -> None:
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


async def test_two_large_plans_are_not_made_at_the_same_time() -> None:
    works = Works()
    works.begin("a", LARGE)
    await works.have_begun("a")
    works.begin("b", LARGE + 1)
    works.begin("c", HALF)
    works.begin("d", HALF)
    works.begin("e", LARGE)
    await works.have_begun("a")
    works.begin("small", SMALL)
    await works.have_begun("a", "small")
    works.end("a")
    await works.have_begun("a", "small", "b")
    works.end("b")
    await works.have_begun("a", "small", "b", "c", "d")
    works.end("c")
    await works.have_begun("a", "small", "b", "c", "d")
    works.end("d")
    await works.have_begun("a", "small", "b", "c", "d", "e")
    works.end("e")
    works.end("small")
    assert await asyncio.gather(*works.tasks.values()) == [*works.tasks]


async def test_a_turn_lasts_as_long_as_its_thread_also_where_nobody_waits_for_it() -> None:
    works = Works()
    works.begin("a", LARGE)
    works.begin("b", LARGE)
    await works.have_begun("a")
    works.tasks["a"].cancel()
    await asyncio.wait([works.tasks["a"]])
    await works.have_begun("a")
    works.end("a")
    await works.have_begun("a", "b")
    works.end("b")
    assert await works.tasks["b"] == "b"


async def test_who_is_cancelled_while_it_waits_holds_up_nobody() -> None:
    works = Works()
    works.begin("a", LARGE)
    works.begin("b", LARGE)
    works.begin("c", LARGE)
    await works.have_begun("a")
    works.tasks["b"].cancel()
    works.end("a")
    await works.have_begun("a", "c")
    works.end("c")
    assert await works.tasks["c"] == "c"


async def test_who_waits_for_a_thread_of_its_namespace_has_no_turn_that_others_could_have() -> None:
    works = Works()
    hanging = [f"evil {number}" for number in range(THREADS // 2)]
    for name in hanging:
        works.do(name, SMALL, works.large_work.of("evil"))
    await works.have_begun(*hanging)
    works.do("evil large", LARGE, works.large_work.of("evil"))
    works.begin("a", HALF)
    works.begin("b", LARGE)
    works.begin("c", HALF)
    await works.have_begun(*hanging, "a")
    works.end(hanging[0])
    await works.tasks[hanging[0]]
    works.end("a")
    await works.have_begun(*hanging, "a", "evil large")
    works.end("evil large")
    await works.have_begun(*hanging, "a", "evil large", "b")
    works.end("b")
    await works.have_begun(*hanging, "a", "evil large", "b", "c")
    for name in (*hanging, "c"):
        works.end(name)
    assert await asyncio.gather(*works.tasks.values()) == [*works.tasks]


async def test_what_is_little_does_not_wait_behind_what_is_much_in_its_namespace() -> None:
    works = Works()
    works.begin("a", LARGE)
    await works.have_begun("a")
    works.do("large", LARGE, works.large_work.of("b"))
    works.do("small", SMALL, works.large_work.of("b"))
    await works.have_begun("a", "small")
    for name in ("a", "small", "large"):
        works.end(name)
    assert await asyncio.gather(*works.tasks.values()) == [*works.tasks]


async def test_what_does_not_come_to_its_end_is_told_and_gives_its_turn_back_but_not_its_thread() -> None:
    works = Works(longest=0.2)
    group = works.large_work.of("evil")
    works.do("a", LARGE, group)
    await works.have_begun("a")
    with pytest.raises(Stuck, match=r"the plan of this group has not come to its end .* spec.assignors") as told:
        await works.tasks["a"]
    assert told.value.problem.reason is Reason.PLAN_OVERDUE
    works.begin("b", LARGE)
    await works.have_begun("a", "b")
    works.end("b")
    assert await works.tasks["b"] == "b"
    works.do("again", SMALL, group)
    with pytest.raises(Stuck):
        await works.tasks["again"]
    await works.have_begun("a", "b")
    works.do("at last", SMALL, group)
    works.end("a")
    await works.have_begun("a", "b", "at last")
    works.end("at last")
    assert await works.tasks["at last"] == "at last"


async def test_only_where_nobody_will_have_a_turn_any_more_it_hangs() -> None:
    works = Works(longest=0.2)
    names = [f"{number}/{name}" for number in range(THREADS) for name in range(THREADS)]
    for name in names:
        works.do(name, SMALL, works.large_work.of(name.partition("/")[0]))
    loop, begun = asyncio.get_running_loop(), [works.tasks[name] for name in names]
    for task in begun:
        with pytest.raises(Stuck):
            await task
    assert works.large_work.hangs(loop.time() + 1)
    for name in names:
        works.end(name)

    async def over() -> bool:
        return not works.large_work.hangs(loop.time() + 1)

    await eventually(over, "threads are free again")
