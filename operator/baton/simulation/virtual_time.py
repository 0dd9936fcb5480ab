"""An asyncio event loop in virtual time: when all tasks sleep, the time advances at once to the first timer.

The loop never waits, and does no I/O. Code that takes its time from the loop (`asyncio.sleep`, `asyncio.timeout`, `call_later`,
and a `Clock` over `loop.time`) runs on it unchanged, and in the same order each time.
"""

import asyncio
import math
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

T = TypeVar("T")


class NothingToWaitForError(RuntimeError):
    """All tasks wait for each other, and no timer is set. In real time this would hang for ever."""


class _Timers:
    """Replaces the selector of the event loop: advances the time to the first timer instead of waiting."""

    def __init__(self, loop: "VirtualTimeLoop") -> None:
        self._loop = loop

    def select(self, timeout: float | None) -> tuple[()]:
        if timeout is None:
            raise NothingToWaitForError("all tasks wait, and no timer is set")
        if timeout > 0:
            self._loop.advance()
        return ()

    def close(self) -> None:
        pass


class VirtualTimeLoop(asyncio.BaseEventLoop):
    """An event loop in virtual time, which starts at 0. Work for an executor runs at once, on the same thread."""

    def __init__(self) -> None:
        super().__init__()
        self._selector = _Timers(self)
        self._go_to(0.0)

    def time(self) -> float:
        return self._now

    def advance(self) -> None:
        self._go_to(max(self._now, self._scheduled[0].when()))  # type: ignore[attr-defined]

    def _go_to(self, moment: float) -> None:
        """Set the time, and the smallest possible clock resolution, so that no timer is early.

        asyncio runs timers early by the clock's resolution. Time stands still while code runs, so code that finds nothing due and
        sets its timer again for the rest would loop for ever.
        """
        self._now, self._clock_resolution = moment, math.ulp(moment)

    def run_in_executor(self, executor: object, func: Callable[..., T], *args: object) -> asyncio.Future[T]:
        done: asyncio.Future[T] = self.create_future()
        try:
            done.set_result(func(*args))
        except Exception as error:
            done.set_exception(error)
        return done

    def _process_events(self, event_list: object) -> None:
        pass

    def _write_to_self(self) -> None:
        pass


def run(work: Coroutine[Any, Any, T]) -> T:
    """Run a coroutine in virtual time, as `asyncio.run` does in real time."""
    with asyncio.Runner(loop_factory=VirtualTimeLoop) as runner:
        return runner.run(work)
