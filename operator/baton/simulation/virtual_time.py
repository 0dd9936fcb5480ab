"""An asyncio event loop whose time is virtual: where everybody sleeps, it is at once the moment at which the first one wakes up.

Nothing is waited for, and nothing outside the process is listened to. Code that takes its time from the loop (`asyncio.sleep`,
`asyncio.timeout`, `call_later`, and a `Clock` over `loop.time`) runs on it unchanged, and in the same order each time.
"""

import asyncio
import math
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

T = TypeVar("T")


class NothingToWaitForError(RuntimeError):
    """Every task waits for another, and no timer is set: in real time this would hang for ever."""


class _Timers:
    """Stands where an event loop has its selector: instead of waiting it moves the time on to the first timer."""

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
    """An event loop in virtual time, which begins at 0. Work for an executor runs at once, on the same thread."""

    def __init__(self) -> None:
        super().__init__()
        self._selector = _Timers(self)
        self._go_to(0.0)

    def time(self) -> float:
        """Seconds since the loop was made."""
        return self._now

    def advance(self) -> None:
        """On to the first timer."""
        self._go_to(max(self._now, self._scheduled[0].when()))  # type: ignore[attr-defined]

    def _go_to(self, moment: float) -> None:
        """asyncio runs timers early by the clock's resolution. Time stands still while code runs, so code that finds nothing due
        and sets its timer again for the rest would loop for ever. With the smallest possible step, no timer is early."""
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
    """Run to the end in virtual time, as `asyncio.run` does in real time."""
    with asyncio.Runner(loop_factory=VirtualTimeLoop) as runner:
        return runner.run(work)
