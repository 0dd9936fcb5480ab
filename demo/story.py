"""The story line by line, and the progress of the run. Written by many threads, read by the screen."""

import sys
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum


class Voice(StrEnum):
    """The source of a line, which decides its colour."""

    STEP = "step"
    """A step of the run."""
    DEED = "deed"
    """A change of the fleet by the demo."""
    CLUSTER = "cluster"
    """An observation in the cluster."""
    GOOD = "good"
    BAD = "bad"


@dataclass(frozen=True, slots=True)
class Line:
    at: float
    """Seconds since the run began."""
    voice: Voice
    text: str


_MARKS = {Voice.STEP: "==>", Voice.DEED: " ->", Voice.CLUSTER: "   ", Voice.GOOD: " ok", Voice.BAD: " !!"}


class Story:
    """The lines so far; `plain` also prints each at once, for outputs that are not a terminal."""

    def __init__(self, plain: bool, clock: Callable[[], float] = time.monotonic) -> None:
        self._plain = plain
        self._clock = clock
        self._begin = clock()
        self._lines: list[Line] = []
        self._waiting = ""
        self._since = 0.0
        self._lock = threading.Lock()

    @property
    def elapsed(self) -> float:
        return self._clock() - self._begin

    @property
    def lines(self) -> tuple[Line, ...]:
        with self._lock:
            return tuple(self._lines)

    @property
    def steps(self) -> tuple[Line, ...]:
        return tuple(line for line in self.lines if line.voice is Voice.STEP)

    @property
    def waiting(self) -> str:
        """What the run waits for, and for how many seconds; empty: nothing."""
        return f"{self._waiting} ({self.elapsed - self._since:.0f} s)" if self._waiting else ""

    def wait_for(self, what: str) -> None:
        self._waiting, self._since = what, self.elapsed

    def remind(self) -> None:
        """Print what the run waits for, if there is no screen."""
        if self._plain and self._waiting and self.elapsed - self._since > 5:
            self._print(self.elapsed, " ..", self.waiting)

    def step(self, text: str) -> None:
        self._say(Voice.STEP, text)

    def deed(self, text: str) -> None:
        self._say(Voice.DEED, text)

    def cluster(self, text: str) -> None:
        self._say(Voice.CLUSTER, text)

    def good(self, text: str) -> None:
        self._say(Voice.GOOD, text)

    def bad(self, text: str) -> None:
        self._say(Voice.BAD, text)

    def _say(self, voice: Voice, text: str) -> None:
        line = Line(self.elapsed, voice, text)
        with self._lock:
            self._lines.append(line)
            if self._plain:
                self._print(line.at, _MARKS[voice], text)

    def _print(self, at: float, mark: str, text: str) -> None:
        print(f"{clock_text(at)} {mark} {text}", file=sys.stderr, flush=True)


def clock_text(seconds: float) -> str:
    """`1:05.2`"""
    return f"{int(seconds // 60)}:{seconds % 60:04.1f}"
