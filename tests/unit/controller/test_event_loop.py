"""Stalls of an event loop."""

import asyncio
import time

from baton.controller.event_loop import BUCKET, BUCKETS, EventLoopStalls


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
