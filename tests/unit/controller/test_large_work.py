"""Work on very many partitions takes turns."""

import asyncio
import threading

from baton.controller.large_work import LargeWork

LARGE, HALF, SMALL = 100_000, 50_000, 1_000


class Works:
    """Each goes on, on its thread, until it is told to end."""

    def __init__(self) -> None:
        self.large_work = LargeWork(LARGE)
        self.tasks: dict[str, asyncio.Task[str]] = {}
        self._begun: list[str] = []
        self._ends: dict[str, threading.Event] = {}
        self._news = asyncio.Event()
        self._loop = asyncio.get_running_loop()

    def begin(self, name: str, partitions: int) -> None:
        self._ends[name] = threading.Event()
        self.tasks[name] = asyncio.create_task(self.large_work.do(partitions, self._work, name))

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
