"""SIGINT and SIGTERM to `baton dev`: the first one ends it in order, whatever it is about, and the next one at once."""

import asyncio
import os
import signal
import time
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager, suppress
from types import FrameType

TOGETHER = 0.2
"""Seconds in which several signals are one: `timeout` sends one to the process and then one to its group."""


class EndSignals:
    """Of this process. A handler raises nothing: an exception that comes up in a destructor or a callback is lost there."""

    def __init__(self) -> None:
        self._since: float | None = None
        """When the first one came (monotonic seconds)."""
        self._end: Callable[[], object] | None = None

    def asked(self) -> bool:
        """There was one."""
        return self._since is not None

    @contextmanager
    def handled(self) -> Iterator[None]:
        """Also where they were ignored: a script's background has SIGINT ignored."""
        before = {number: signal.signal(number, self._got) for number in (signal.SIGTERM, signal.SIGINT)}
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)

    def run(self, work: Callable[[], Coroutine[None, None, None]]) -> None:
        """On an event loop, until it is done, or cancelled by the first one."""

        async def cancellable() -> None:
            loop, task = asyncio.get_running_loop(), asyncio.current_task()
            assert task is not None
            self._end = lambda: loop.call_soon_threadsafe(task.cancel)
            try:
                if not self.asked():
                    await work()
            finally:
                self._end = None

        with suppress(asyncio.CancelledError):
            asyncio.run(cancellable())

    def _got(self, number: int, _: FrameType | None) -> None:
        now = time.monotonic()
        if self._since is None:
            self._since = now
            if self._end is not None:
                self._end()
        elif now - self._since > TOGETHER:
            signal.signal(number, signal.SIG_DFL)
            os.kill(os.getpid(), number)
