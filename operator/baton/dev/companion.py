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

    def has_got_it(self) -> bool:
        """Whether it has got the last signal, too; its process has, then. Not known of one that follows within milliseconds of
        another: that one may reach the process twice."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        try:
            self._process.stdin.write(b"\n")
            answered = self._process.stdout.read(1)
        except BrokenPipeError:
            answered = b""
        if not answered:
            self.stop()
            self._process = self._started()
        return not answered

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
