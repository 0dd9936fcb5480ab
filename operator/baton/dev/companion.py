"""A process that tells whether a signal was for the whole process group, and outlives nobody."""

import subprocess

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
