"""Waiting for a condition, never for time: with a bound, and with words for what did not come about.

The bound says that something is wrong, never that it is slow: a busy machine has PATIENCE at least, whatever a test expects.
"""

import asyncio
import time
from collections.abc import Awaitable, Callable
from typing import TypeVar

from cluster.waiting import PATIENCE

__all__ = ["HOUR", "PATIENCE", "eventually", "until"]

T = TypeVar("T")

HOUR = 3600.0
"""Seconds. For what a test shows not to be waited for: nothing here waits so long."""


def until(look: Callable[[], T | None], what: str = "it has come about", seconds: float = PATIENCE) -> T:
    """The first answer of `look` that is true. Raises AssertionError after that many seconds, with the last answer."""
    begun, seconds = time.monotonic(), max(seconds, PATIENCE)
    while not (found := look()):
        waited = time.monotonic() - begun
        assert waited < seconds, f"not within {seconds:g} s: {what}; there is {found!r}"
        time.sleep(_pause(waited))
    return found


async def eventually(
    look: Callable[[], Awaitable[T | None]],
    what: str = "it has come about",
    seconds: float = PATIENCE,
    shown: Callable[[], Awaitable[object]] | None = None,
) -> T:
    """`until` for a look that is awaited; where it fails, `shown` says what there is instead."""
    begun, seconds = time.monotonic(), max(seconds, PATIENCE)
    while not (found := await look()):
        waited = time.monotonic() - begun
        assert waited < seconds, f"not within {seconds:g} s: {what}; there is {await shown() if shown else found!r}"
        await asyncio.sleep(_pause(waited))
    return found


def _pause(waited: float) -> float:
    """Seconds until the next look: the longer it takes, the less it matters."""
    return min(0.25, max(0.01, waited / 3))
