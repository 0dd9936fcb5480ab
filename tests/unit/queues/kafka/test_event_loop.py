"""An event loop in a thread of its own is started by whoever needs it first, also where two do at the same time."""

import asyncio
import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress

import pytest

from baton.queues.kafka.event_loop import EventLoopThread, in_time
from baton.queues.protocol import QueueUnreachable
from tests.waiting import PATIENCE, until


class SlowStart(threading.Thread):
    """Another thread may come between the question whether it was started and its start."""

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


def test_two_threads_may_be_the_first() -> None:
    thread = EventLoopThread()
    user = thread.user()
    thread._thread = SlowStart(thread._thread, threading.Barrier(2))
    with ThreadPoolExecutor(2) as both:
        asked = [both.submit(user.run, answer(), PATIENCE) for _ in range(2)]
        assert [one.result(PATIENCE) for one in asked] == [1, 1]
    user.close()


def test_who_is_closed_ends_what_it_has_begun_and_nothing_of_others() -> None:
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


def test_after_the_last_user_another_may_come() -> None:
    thread = EventLoopThread()
    for _ in range(2):
        user = thread.user()
        assert user.run(answer(), PATIENCE) == 1
        user.close()
        assert not thread._thread.is_alive()


def test_what_takes_too_long_is_given_up() -> None:
    user = EventLoopThread().user()
    with pytest.raises(QueueUnreachable, match="within 0 s"):
        user.run(in_time(asyncio.Event().wait(), 0.0))
    user.close()
