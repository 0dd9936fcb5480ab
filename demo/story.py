"""What happens, told line by line, and where the run is in its plan. Written by many threads, read by the screen."""

import sys
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum


class Voice(StrEnum):
    """Who speaks: it decides the colour."""

    STEP = "step"
    """The run's next step."""
    DEED = "deed"
    """What the demo does to the fleet."""
    CLUSTER = "cluster"
    """What is seen in the cluster."""
    GOOD = "good"
    BAD = "bad"


@dataclass(frozen=True, slots=True)
class Line:
    at: float
    """Seconds since the run began."""
    voice: Voice
    text: str


_STEPLESS = {Voice.STEP: "==>", Voice.DEED: " ->", Voice.CLUSTER: "   ", Voice.GOOD: " ok", Voice.BAD: " !!"}


class Story:
    """The lines so far; `plain` also prints each at once, for an output that is no terminal."""

    def __init__(self, plain: bool, clock: Callable[[], float] = time.monotonic) -> None:
        self._plain = plain
        self._clock = clock
        self._begin = clock()
        self._lines: list[Line] = []
        self._steps: list[Line] = []
        self._waiting = ""
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
        with self._lock:
            return tuple(self._steps)

    @property
    def waiting(self) -> str:
        """What is being waited for."""
        return self._waiting

    def wait_for(self, what: str) -> None:
        self._waiting = what

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
            if voice is Voice.STEP:
                self._steps.append(line)
            if self._plain:
                print(f"{clock_text(line.at)} {_STEPLESS[voice]} {text}", file=sys.stderr, flush=True)


def clock_text(seconds: float) -> str:
    """`1:05.2`"""
    return f"{int(seconds // 60)}:{seconds % 60:04.1f}"
