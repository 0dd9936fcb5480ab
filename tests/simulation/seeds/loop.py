"""One event loop for all processes of a seed, each of which can be stopped, woken up and killed at any of its awaits.

A callback belongs to the process in whose context it was asked for. While a process is held, none of its callbacks run: neither
those that are ready nor its timers. What it has sent is on its way in the world's context, and arrives.
"""

from __future__ import annotations

import asyncio
import heapq
from collections.abc import Callable
from contextvars import Context, ContextVar, copy_context
from functools import partial
from typing import Any, TypeVar

from baton.simulation.virtual_time import NothingToWaitForError, VirtualTimeLoop

T = TypeVar("T")

PROCESS: ContextVar[object | None] = ContextVar("PROCESS", default=None)
"""The process that asks; None: the world itself."""

Computed = Callable[[Any, tuple[Any, ...], Any], float]
"""Hears of the process, the arguments and the result of what was given to a thread; says how many seconds it takes."""


MOST_AT_ONCE = 20_000
"""Rounds of the loop without any time passing. A task that goes round and round would hold up everybody."""


class SeedLoop(VirtualTimeLoop):
    """See above."""

    def __init__(self, spins: Callable[[], None]) -> None:
        """`spins` is called where time does not pass any more."""
        super().__init__()
        self._selector = _Rounds(self, spins)
        self._world = copy_context()
        self.computed: Computed = lambda process, arguments, result: 0.0
        self._held: dict[object, list[asyncio.Handle]] = {}

    def context_of(self, process: object) -> Context:
        """What runs in it belongs to this process."""
        context = self._world.copy()
        context.run(PROCESS.set, process)
        return context

    def later(self, seconds: float, do: Callable[..., object], *arguments: Any) -> None:
        """In nobody's context."""
        self.call_at(self.time() + seconds, do, *arguments, context=self._world)

    def hold(self, process: object) -> None:
        """SIGSTOP."""
        if process in self._held:
            return
        ready, timers = self._ready, self._scheduled  # type: ignore[attr-defined]
        held: list[asyncio.Handle] = []
        for n, handle in enumerate(ready):
            if handle._context.get(PROCESS) is process:
                held.append(handle)
                ready[n] = asyncio.Handle(_nothing, (), self, self._world)  # so many are to be run in this round
        held += [timer for timer in timers if timer._context.get(PROCESS) is process]
        timers[:] = [timer for timer in timers if timer._context.get(PROCESS) is not process]
        heapq.heapify(timers)
        self._held[process] = held

    def let_go(self, process: object) -> None:
        """SIGCONT: what was ready, then what became due meanwhile, in the order of its time."""
        handles = [handle for handle in self._held.pop(process, ()) if not handle.cancelled()]
        self._ready.extend(handle for handle in handles if not isinstance(handle, asyncio.TimerHandle))  # type: ignore[attr-defined]
        for handle in handles:
            if isinstance(handle, asyncio.TimerHandle):
                heapq.heappush(self._scheduled, handle)  # type: ignore[attr-defined]

    def call_soon(self, callback: Callable[..., object], *args: Any, context: Context | None = None) -> asyncio.Handle:  # type: ignore[override]
        handle = asyncio.Handle(callback, args, self, context)
        ready = self._ready  # type: ignore[attr-defined]
        if self._held:
            ready = self._held.get(handle._context.get(PROCESS), ready)  # type: ignore[attr-defined]
        ready.append(handle)
        return handle

    def run_in_executor(self, executor: Any, func: Callable[..., T], *args: Any) -> asyncio.Future[T]:  # type: ignore[override]
        """Nothing runs at the same time here, but it may take a while."""
        done: asyncio.Future[T] = self.create_future()
        try:
            result = func(*args)
        except Exception as error:
            done.set_exception(error)
            return done
        call = func.args if isinstance(func, partial) else args
        seconds = self.computed(PROCESS.get(), call, result)
        if seconds > 0:
            self.call_at(self.time() + seconds, _answer, done, result)
        else:
            done.set_result(result)
        return done


class _Rounds:
    """Stands where the event loop waits: moves the time on, and sees that it moves."""

    def __init__(self, loop: SeedLoop, spins: Callable[[], None]) -> None:
        self._loop = loop
        self._spins = spins
        self._rounds = 0

    def select(self, timeout: float | None) -> tuple[()]:
        if timeout is None:
            raise NothingToWaitForError("all tasks wait, and no timer is set")
        if timeout > 0:
            self._rounds = 0
            self._loop.advance()
        else:
            self._rounds += 1
            if self._rounds == MOST_AT_ONCE:
                self._spins()
        return ()

    def close(self) -> None:
        """There is nothing to close."""


def _answer(future: asyncio.Future[T], result: T) -> None:
    if not future.done():
        future.set_result(result)


def _nothing() -> None:
    """In the place of what does not run."""
