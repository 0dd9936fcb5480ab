"""An event loop in a thread of its own is started by whoever needs it first, also where two do at the same time."""

import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress

from baton.queues.kafka.event_loop import EventLoopThread
from tests.waiting import PATIENCE


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
    loop = EventLoopThread("of-the-test")
    loop._thread = SlowStart(loop._thread, threading.Barrier(2))
    with ThreadPoolExecutor(2) as both:
        asked = [both.submit(loop.run, answer(), PATIENCE) for _ in range(2)]
        assert [one.result(PATIENCE) for one in asked] == [1, 1]
    loop.close()
