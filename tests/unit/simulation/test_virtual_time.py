"""Time that passes only when everybody sleeps."""

import asyncio
import time

import pytest

from baton.simulation.virtual_time import NothingToWaitForError, run


def test_an_hour_passes_at_once() -> None:
    async def sleeps() -> float:
        await asyncio.sleep(3600)
        return asyncio.get_running_loop().time()

    began = time.process_time()
    assert run(sleeps()) == 3600
    assert time.process_time() - began < 1


def test_timers_fire_in_order_at_their_very_times() -> None:
    async def timed() -> list[tuple[str, float]]:
        loop = asyncio.get_running_loop()
        fired: list[tuple[str, float]] = []

        async def one(name: str, after: float) -> None:
            await asyncio.sleep(after)
            fired.append((name, loop.time()))

        await asyncio.gather(one("late", 0.3), one("early", 0.1), one("also early", 0.1))
        return fired

    assert run(timed()) == [("early", 0.1), ("also early", 0.1), ("late", 0.3)]


def test_a_time_out_comes_in_virtual_time() -> None:
    async def waits() -> float:
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(10):
                await asyncio.Event().wait()
        return asyncio.get_running_loop().time()

    assert run(waits()) == 10


def test_what_would_go_to_a_thread_runs_in_between() -> None:
    async def elsewhere() -> int:
        return await asyncio.to_thread(lambda: 42)

    assert run(elsewhere()) == 42


def test_what_fails_in_a_thread_fails_here() -> None:
    def fails() -> None:
        raise ValueError("no")

    with pytest.raises(ValueError, match="no"):
        run(asyncio.to_thread(fails))


def test_a_deadlock_is_an_error_and_not_a_hang() -> None:
    async def stuck() -> None:
        await asyncio.Event().wait()

    with pytest.raises(NothingToWaitForError):
        run(stuck())
