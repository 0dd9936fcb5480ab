"""How much there is to do in a queue, and for how long, as its last looks say: fresh, or not told at all. Pure."""

from collections.abc import Iterable, Mapping
from math import inf
from typing import NamedTuple

FRESH = 15.0
"""Seconds that a look counts. A queue is looked at every five seconds, whoever is a member."""
RATED_OVER = 60.0
"""Seconds over which the rate is averaged at most."""
RATED_FROM = 10.0
"""Seconds without which there is no rate: two looks say too little."""


class Look(NamedTuple):
    """What a queue said at one look."""

    at: float
    """monotonic seconds"""
    lag: Mapping[int, int]
    """Entries that are not finished with, per partition. Empty: its kind cannot say."""
    finished: int | None
    """Entries that are, since it was made."""


Looks = tuple[Look, ...]
"""The oldest first."""


class Backlog:
    """One queue's. Read from any thread: a look replaces what was known in one go."""

    def __init__(self) -> None:
        self._looks: Looks = ()

    def saw(self, look: Look) -> None:
        """A queue that was made again, or lost entries, counts from the beginning."""
        kept = tuple(one for one in self._looks if look.at - one.at <= RATED_OVER)
        if look.finished is None or any(one.finished is None or one.finished > look.finished for one in kept):
            kept = ()
        self._looks = (*kept, look)

    def lost(self) -> None:
        """It does not answer."""
        self._looks = ()

    def fresh(self, now: float) -> Looks:
        """All that counts; empty: nothing is known."""
        looks = self._looks
        return looks if looks and looks[-1].lag and now - looks[-1].at <= FRESH else ()


class Work(NamedTuple):
    """What there is to do."""

    lag: int
    """Entries."""
    seconds: float | None
    """How long it takes as fast as work was done in the last minute; infinite: nothing is done. None: not known yet."""


def work(backlogs: Iterable[Backlog], now: float) -> Work | None:
    """Of all of these queues. None: of one of them it is not known, or there is none."""
    known = [one.fresh(now) for one in backlogs]
    if not known or not all(known):
        return None
    lag = sum(sum(looks[-1].lag.values()) for looks in known)
    rates = [_rate(looks) for looks in known]
    rated = [rate for rate in rates if rate is not None]
    if lag == 0:
        return Work(0, 0.0)
    if len(rated) < len(rates):
        return Work(lag, None)
    return Work(lag, lag / sum(rated) if sum(rated) > 0 else inf)


def _rate(looks: Looks) -> float | None:
    """Entries per second."""
    first, last = looks[0], looks[-1]
    if first.finished is None or last.finished is None or last.at - first.at < RATED_FROM:
        return None
    return (last.finished - first.finished) / (last.at - first.at)
