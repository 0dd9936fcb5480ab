"""The progress of long work on one line: what is made, the time so far, the usual time, and how far it is.

On a terminal the line is updated each second. Elsewhere, such as in CI's log, there is a line at the start, each minute, and at
the end.
"""

import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TextIO

_MOVES, _REPEATS = 1.0, 60.0
"""Seconds between updates: on a terminal, and elsewhere."""


class Progress:
    """The progress of a piece of work."""

    far = ""
    """The progress in a few words, set by the working thread."""


@contextmanager
def shown_progress(what: str, usual: str, stream: TextIO | None = None, moves: float | None = None) -> Iterator[Progress]:
    """Show the progress of the work in this block.

    `usual`: how long the work usually takes, such as `1 to 2 minutes`. `moves`: seconds between updates.
    """
    out = stream or sys.stderr
    line = _MovingLine(out) if out.isatty() else _Lines(out)
    progress, over, began = Progress(), threading.Event(), time.monotonic()

    def show(takes: str = f" of {usual}") -> None:
        far = f": {progress.far}" if progress.far else ""
        line.show(f"cluster: {what}, {_clock(time.monotonic() - began)}{takes}{far}")

    def follow() -> None:
        while not over.wait(moves or line.moves):
            show()

    line.show(f"cluster: {what} ({usual})")
    follower = threading.Thread(target=follow, name="progress", daemon=True)
    follower.start()
    how = "failed"
    try:
        yield progress
        how = "done"
    finally:
        over.set()
        follower.join()
        line.end(f"cluster: {what}: {how} after {_clock(time.monotonic() - began)}")


def _clock(seconds: float) -> str:
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes}:{rest:02d}"


class _Lines:
    moves = _REPEATS

    def __init__(self, out: TextIO) -> None:
        self._out = out

    def show(self, text: str) -> None:
        print(text, file=self._out, flush=True)

    end = show


class _MovingLine(_Lines):
    moves = _MOVES

    def show(self, text: str) -> None:
        self._out.write(f"\r\x1b[K{text}")
        self._out.flush()

    def end(self, text: str) -> None:
        self.show(f"{text}\n")
