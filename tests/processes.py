"""Processes that tests start end with the process that runs the tests, however that one ends."""

import ctypes
import os
import signal
import subprocess
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

_PR_SET_PDEATHSIG = 1
_LIBC = ctypes.CDLL(None)
_STARTER = ThreadPoolExecutor(1, "starter")
"""A child gets the signal when the *thread* that started it ends. This one ends with the process."""

if TYPE_CHECKING:
    ChildProcess = subprocess.Popen
else:

    class ChildProcess(subprocess.Popen):
        """As subprocess.Popen. It gets SIGKILL when this process has ended; what it starts itself is its own affair."""

        def __init__(self, *arguments: Any, **options: Any) -> None:
            here = os.getpid()

            def end_with_starter() -> None:
                _LIBC.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
                if os.getppid() != here:  # it has ended before the call
                    os._exit(1)

            options["preexec_fn"] = end_with_starter
            _STARTER.submit(super().__init__, *arguments, **options).result()


class Freezable:
    """A server in a separate process."""

    _process: "subprocess.Popen[bytes] | None"

    def freeze(self) -> None:
        """SIGSTOP: it takes connections, and does not answer."""
        assert self._process is not None
        self._process.send_signal(signal.SIGSTOP)

    def thaw(self) -> None:
        """SIGCONT."""
        assert self._process is not None
        self._process.send_signal(signal.SIGCONT)
