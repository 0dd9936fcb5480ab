"""Signals to `baton dev`: the first one ends it in order, the next one at once; and whether one was for the whole group."""

import asyncio
import os
import signal
import subprocess
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


_PROGRAM = 'cat; kill -KILL "$1"'


class Companion:
    """Of a process `pid` that this one runs, in the same process group as both.

    - It ends with a signal that everybody in the group gets, as on Ctrl-C at a terminal, and answers after one for this process
      alone: that one is to be handed on.
    - Where this process ends and `stop` was not called (SIGKILL), it kills the other.
    """

    def __init__(self, pid: int) -> None:
        """Where signals that this process handles are ignored, install the handlers first."""
        self._pid = pid
        self._process = self._started()

    def ended_by(self) -> int | None:
        """The signal that it has got, and so has its process; None: the last ones were not for the group. There is another one
        afterwards."""
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
