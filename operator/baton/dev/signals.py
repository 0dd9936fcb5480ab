"""Signals to `baton dev`: the first ends it gracefully, the next at once; and whether a signal was for the process group."""

import asyncio
import os
import signal
import subprocess
import time
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager, suppress
from types import FrameType

TOGETHER = 0.2
"""Seconds within which several signals count as one: `timeout` sends one to the process and then one to its group."""


class EndSignals:
    """Handlers of this process's signals to end. They raise nothing: an exception in a destructor or a callback would be lost."""

    def __init__(self) -> None:
        self._since: float | None = None
        """When the first signal came (monotonic seconds)."""
        self._end: Callable[[], object] | None = None

    def asked(self) -> bool:
        """Whether there was a signal."""
        return self._since is not None

    @contextmanager
    def handled(self) -> Iterator[None]:
        """Handle the signals in the block, also if they were ignored, as SIGINT is in background jobs of scripts."""
        before = {number: signal.signal(number, self._got) for number in (signal.SIGTERM, signal.SIGINT)}
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)

    def run(self, work: Callable[[], Coroutine[None, None, None]]) -> None:
        """Run a coroutine until it is done, or cancelled by the first signal."""

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


_PROGRAM = 'cat; kill -KILL "$1"'


class Companion:
    """A helper process in the process group of this process and of `pid`, which this process runs.

    - A signal to the whole group, such as Ctrl-C at a terminal, ends the helper. If the helper still answers, the signal was for
      this process alone and has to be passed on.
    - If this process ends without `stop` (SIGKILL), the helper kills `pid`.
    """

    def __init__(self, pid: int) -> None:
        """Install the handlers of this process first: a helper inherits ignored signals."""
        self._pid = pid
        self._process = self._started()

    def ended_by(self) -> int | None:
        """The signal that the whole group got, after which the helper is started again; None: the last signals were not for the
        group."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        try:
            self._process.stdin.write(b"\n")
            if self._process.stdout.read(1):
                return None
        except BrokenPipeError:
            pass
        number = -self._process.wait()
        self.stop()
        self._process = self._started()
        return number

    def stop(self) -> None:
        self._process.kill()
        self._process.communicate()

    def _started(self) -> "subprocess.Popen[bytes]":
        return subprocess.Popen(
            ["sh", "-c", _PROGRAM, "sh", str(self._pid)],
            bufsize=0,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
        )
