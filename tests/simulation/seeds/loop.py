"""One event loop for all processes of a seed, each of which can be stopped, woken up and killed at any of its awaits.

A callback belongs to the process in whose context it was asked for. While a process is held, none of its callbacks run: neither
those that are ready nor its timers. What it has sent is on its way in the environment's context, and arrives.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextvars import Context, ContextVar, copy_context
from functools import partial
from heapq import heapify, heappop, heappush
from itertools import count
from typing import Any, TypeVar

from baton.simulation.virtual_time import NothingToWaitForError, VirtualTimeLoop

T = TypeVar("T")

PROCESS: ContextVar[object | None] = ContextVar("PROCESS", default=None)
"""The present process; None: the environment."""

Computed = Callable[[Any, tuple[Any, ...], Any], float]
"""Hears of the process, the arguments and the result of what was given to a thread; says how many seconds it takes."""

MOST_AT_ONCE = 20_000
"""Most rounds of the loop in which no time passes. A busy loop would stop all processes."""


class SeedLoop(VirtualTimeLoop):
    """The event loop of a seed. Timers of one moment run in the order in which they were set."""

    def __init__(self, spins: Callable[[], None]) -> None:
        """`spins` is called if time no longer passes."""
        super().__init__()
        self._environment = copy_context()
        self.computed: Computed = lambda process, arguments, result: 0.0
        self._spins = spins
        self._rounds = 0
        self._timers: list[tuple[float, int, asyncio.TimerHandle]] = []
        self._numbers = count()
        self._held: dict[object, tuple[list[asyncio.Handle], list[tuple[float, int, asyncio.TimerHandle]]]] = {}

    def context_of(self, process: object) -> Context:
        """Return a context for the tasks of this process."""
        context = self._environment.copy()
        context.run(PROCESS.set, process)
        return context

    def later(self, seconds: float, do: Callable[..., object], *arguments: Any) -> None:
        """Call `do` later, outside any process."""
        when = self._now + seconds
        heappush(self._timers, (when, next(self._numbers), _Call(when, do, arguments, self, self._environment)))

    def hold(self, process: object) -> None:
        """SIGSTOP."""
        if process in self._held:
            return
        ready: list[asyncio.Handle] = []
        for n, handle in enumerate(self._ready):  # type: ignore[attr-defined]
            if handle._context.get(PROCESS) is process:
                ready.append(handle)
                self._ready[n] = asyncio.Handle(_nothing, (), self, self._environment)  # type: ignore[attr-defined] # so many run in this round
        timers = [timer for timer in self._timers if timer[2]._context.get(PROCESS) is process]  # type: ignore[attr-defined]
        self._timers[:] = [timer for timer in self._timers if timer[2]._context.get(PROCESS) is not process]  # type: ignore[attr-defined]
        heapify(self._timers)
        self._held[process] = ready, timers

    def resume(self, process: object) -> None:
        """SIGCONT: run what was ready, then the timers that became due meanwhile, in order."""
        ready, timers = self._held.pop(process, ([], []))
        self._ready.extend(ready)  # type: ignore[attr-defined]
        for timer in timers:
            heappush(self._timers, timer)

    # -- the event loop

    def call_at(  # type: ignore[override]
        self, when: float, callback: Callable[..., object], *args: Any, context: Context | None = None
    ) -> asyncio.TimerHandle:
        timer = _Call(when, callback, args, self, copy_context() if context is None else context)
        heappush(self._timers, (when, next(self._numbers), timer))
        return timer

    def call_later(  # type: ignore[override]
        self, delay: float, callback: Callable[..., object], *args: Any, context: Context | None = None
    ) -> asyncio.TimerHandle:
        return self.call_at(self._now + delay, callback, *args, context=context)

    def call_soon(self, callback: Callable[..., object], *args: Any, context: Context | None = None) -> asyncio.Handle:  # type: ignore[override]
        context = copy_context() if context is None else context
        handle = _Call(self._now, callback, args, self, context)
        if self._held and (held := self._held.get(context.get(PROCESS))) is not None:
            held[0].append(handle)
        else:
            self._ready.append(handle)  # type: ignore[attr-defined]
        return handle

    def run_in_executor(self, executor: Any, func: Callable[..., T], *args: Any) -> asyncio.Future[T]:  # type: ignore[override]
        """Run the function at once, and return its result after some time."""
        done: asyncio.Future[T] = self.create_future()
        try:
            result = func(*args)
        except Exception as error:
            done.set_exception(error)
            return done
        call = func.args if isinstance(func, partial) else args
        seconds = self.computed(PROCESS.get(), call, result)
        if seconds > 0:
            self.call_at(self._now + seconds, _answer, done, result)
        else:
            done.set_result(result)
        return done

    def _run_once(self) -> None:
        """Run until the loop is stopped: everything that is ready, or else the next timer."""
        ready, timers = self._ready, self._timers  # type: ignore[attr-defined]
        while True:
            if ready or self._stopping:  # type: ignore[attr-defined]
                self._rounds += 1
                if self._rounds == MOST_AT_ONCE:
                    self._spins()
            else:
                while timers and timers[0][2]._cancelled:
                    heappop(timers)
                if not timers:
                    raise NothingToWaitForError("all tasks wait, and no timer is set")
                self._rounds = 0
                self._now = max(self._now, timers[0][0])
            now = self._now
            while timers and timers[0][0] <= now:
                ready.append(heappop(timers)[2])
            for _ in range(len(ready)):
                call = ready.popleft()
                if not call._cancelled:
                    try:
                        call._context.run(call._callback, *call._args)
                    except Exception as error:
                        self.call_exception_handler({"message": f"Exception in {call}", "exception": error, "handle": call})
            if self._stopping:  # type: ignore[attr-defined]
                return

    def _timer_handle_cancelled(self, handle: asyncio.TimerHandle) -> None:
        """Skip the timer when it is due."""


class _Call(asyncio.TimerHandle):
    """A handle that is made and cancelled without a look at the loop's debug mode: there are thousands of them in a life."""

    __slots__ = ()

    def __init__(
        self, when: float, callback: Callable[..., object], args: tuple[Any, ...], loop: SeedLoop, context: Context
    ) -> None:
        self._context = context
        self._loop = loop
        self._callback = callback
        self._args = args
        self._cancelled = False
        self._repr = None
        self._source_traceback = None
        self._when = when
        self._scheduled = False

    def cancel(self) -> None:
        if not self._cancelled:
            self._cancelled = True
            self._callback = self._args = None  # type: ignore[assignment] # as asyncio does: it holds them no longer


def _answer(future: asyncio.Future[T], result: T) -> None:
    if not future.done():
        future.set_result(result)


def _nothing() -> None:
    """Replaces a callback that must not run."""
