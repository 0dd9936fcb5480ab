"""The event loop, and requests for single partitions that are sent together."""

import asyncio
import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from types import SimpleNamespace

import pytest

from baton.queues.kafka import event_loop
from baton.queues.kafka.event_loop import AT_ONCE, AskedTogether, EventLoopThread, each, in_time
from baton.queues.kafka.record import Committed
from baton.queues.protocol import QueueUnreachable
from tests.waiting import PATIENCE, until

# -- The event loop's thread is started by the first user, even if two threads are first at the same time.


class SlowStart(threading.Thread):
    """Another thread may come between the check whether it was started and the start."""

    def __init__(self, started: threading.Thread, both: threading.Barrier) -> None:
        super().__init__()
        self._started_one, self._both = started, both

    @property
    def ident(self) -> int | None:
        found = self._started_one.ident
        with suppress(threading.BrokenBarrierError):  # the other one waits for its turn
            self._both.wait(0.2)
        return found

    def start(self) -> None:
        self._started_one.start()

    def join(self, timeout: float | None = None) -> None:
        self._started_one.join(timeout)

    def is_alive(self) -> bool:
        return self._started_one.is_alive()


async def answer() -> int:
    return 1


def test_two_threads_may_start_the_loop_at_once() -> None:
    thread = EventLoopThread()
    user = thread.user()
    thread._thread = SlowStart(thread._thread, threading.Barrier(2))
    with ThreadPoolExecutor(2) as both:
        asked = [both.submit(user.run, answer(), PATIENCE) for _ in range(2)]
        assert [one.result(PATIENCE) for one in asked] == [1, 1]
    user.close()


def test_closing_a_user_cancels_only_its_own_tasks() -> None:
    thread = EventLoopThread()
    one, other = thread.user(), thread.user()
    ended, closed = list[str](), list[str]()

    async def lasts(name: str) -> None:
        try:
            await asyncio.Event().wait()
        finally:
            ended.append(name)

    async def close() -> None:
        closed.append("one")

    one.begin(lasts("one"))
    other.begin(lasts("other"))
    with ThreadPoolExecutor(1) as another:
        waits = another.submit(one.run, lasts("one too"))
        until(lambda: len(one._tasks) == 2 and other._tasks)
        one.close(close)
        with pytest.raises(QueueUnreachable, match="closed"):
            waits.result(PATIENCE)
    assert (sorted(ended), closed) == (["one", "one too"], ["one"])
    with pytest.raises(QueueUnreachable, match="closed"):
        one.run(answer())
    assert other.run(answer(), PATIENCE) == 1
    other.close()
    assert ended[-1] == "other"


def test_a_new_user_may_follow_the_last_one() -> None:
    thread = EventLoopThread()
    for _ in range(2):
        user = thread.user()
        assert user.run(answer(), PATIENCE) == 1
        user.close()
        assert not thread._thread.is_alive()


def test_a_request_that_takes_too_long_is_given_up() -> None:
    user = EventLoopThread().user()
    with pytest.raises(QueueUnreachable, match="within 0 s"):
        user.run(in_time(asyncio.Event().wait(), 0.0))
    user.close()


# -- Work on many partitions: all are tried, a bounded number at a time.


async def test_all_partitions_are_processed_a_bounded_number_at_a_time() -> None:
    under_way = most = 0

    async def doubled(number: int) -> int:
        nonlocal under_way, most
        under_way += 1
        most = max(most, under_way)
        await asyncio.sleep(0)
        under_way -= 1
        return 2 * number

    assert await each(doubled, range(1000)) == {number: 2 * number for number in range(1000)}
    assert most == AT_ONCE


async def test_one_failure_does_not_stop_the_others() -> None:
    done = set()

    async def odd(number: int) -> None:
        if number % 2 == 0:
            raise ValueError(number)
        done.add(number)

    with pytest.raises(ValueError, match=r"^0$"):
        await each(odd, range(1000))
    assert done == set(range(1, 1000, 2))


async def test_no_work_begins_after_its_time_is_over(monkeypatch: pytest.MonkeyPatch) -> None:
    now, begun = 0.0, []
    monkeypatch.setattr(event_loop, "time", SimpleNamespace(monotonic=lambda: now))

    async def lasts(number: int) -> int:
        nonlocal now
        begun.append(number)
        await asyncio.sleep(0)
        now += 1.0
        return number

    found = await each(lasts, range(1000), 0.5)
    assert list(found) == begun == list(range(AT_ONCE))


class Coordinator:
    """Answers while it is `open`. Odd partitions have a commit under way."""

    def __init__(self) -> None:
        self.asked: list[tuple[int, ...]] = []
        self.is_asked = asyncio.Event()
        self.open = asyncio.Event()
        self.open.set()
        self.away = False

    async def ask(self, partitions: tuple[int, ...]) -> tuple[dict[int, Committed], tuple[int, ...]]:
        self.asked.append(partitions)
        self.is_asked.set()
        await self.open.wait()
        if self.away:
            raise QueueUnreachable("no broker answers")
        return {one: Committed(one, None) for one in partitions if one % 2 == 0}, tuple(one for one in partitions if one % 2)


async def test_simultaneous_requests_are_sent_as_one() -> None:
    coordinator = Coordinator()
    together = AskedTogether(coordinator.ask)
    assert await asyncio.gather(*map(together.of, (2, 1, 4))) == [Committed(2, None), None, Committed(4, None)]
    assert await together.of(6) == Committed(6, None)
    assert coordinator.asked == [(1, 2, 4), (6,)]


async def test_a_request_made_later_is_sent_separately() -> None:
    coordinator = Coordinator()
    coordinator.open.clear()
    together = AskedTogether(coordinator.ask)
    first = asyncio.create_task(together.of(2))
    await coordinator.is_asked.wait()
    coordinator.is_asked.clear()
    second = asyncio.create_task(together.of(2))
    await coordinator.is_asked.wait()
    coordinator.open.set()
    assert [await first, await second] == [Committed(2, None)] * 2


async def test_a_failure_reaches_all_callers_and_a_cancelled_one_none() -> None:
    coordinator = Coordinator()
    together = AskedTogether(coordinator.ask)
    gone, patient = asyncio.create_task(together.of(2)), asyncio.create_task(together.of(4))
    await asyncio.sleep(0)
    gone.cancel()
    assert await patient == Committed(4, None)
    coordinator.away = True
    for answer in await asyncio.gather(together.of(2), together.of(4), return_exceptions=True):
        with pytest.raises(QueueUnreachable, match="no broker answers"):
            raise answer  # type: ignore[misc]
