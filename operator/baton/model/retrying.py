"""Pauses between tries."""

from collections.abc import Iterator


def doubling(first: float, longest: float) -> Iterator[float]:
    """Seconds to wait after each try in turn: twice as many each time, up to the longest."""
    pause = first
    while True:
        yield pause
        pause = min(2 * pause, longest)
