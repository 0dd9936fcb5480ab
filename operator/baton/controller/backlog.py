"""How much there is to do in a queue, and for how long, as its last looks say: fresh, or not told at all. Pure."""

from collections import deque
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


class Known(NamedTuple):
    """What is known of a queue."""

    last: Look
    rate: float | None
    """Entries finished with per second. None: not known yet."""


class Backlog:
    """One queue's. Read from any thread: a look replaces what was known in one go."""

    def __init__(self) -> None:
        self._known: Known | None = None
        self._finished: deque[tuple[float, int]] = deque()
        """At which time how many, the oldest first."""

    def saw(self, look: Look) -> None:
        """A queue that was made again, or lost entries, counts from the beginning."""
        if look.finished is None or (self._finished and look.finished < self._finished[-1][1]):
            self._finished.clear()
        if look.finished is not None:
            self._finished.append((look.at, look.finished))
            while look.at - self._finished[0][0] > RATED_OVER:
                self._finished.popleft()
        self._known = Known(look, self._rate())

    def lost(self) -> None:
        """It does not answer."""
        self._known = None
        self._finished.clear()

    def fresh(self, now: float) -> Known | None:
        """None: nothing that counts."""
        known = self._known
        return known if known is not None and known.last.lag and now - known.last.at <= FRESH else None

    def _rate(self) -> float | None:
        if not self._finished:
            return None
        (began, before), (ended, after) = self._finished[0], self._finished[-1]
        return (after - before) / (ended - began) if ended - began >= RATED_FROM else None


class Work(NamedTuple):
    """What there is to do."""

    lag: int
    """Entries."""
    seconds: float | None
    """How long it takes as fast as work was done in the last minute; infinite: nothing is done. None: not known yet."""


def work(backlogs: Iterable[Backlog], now: float) -> Work | None:
    """Of all of these queues. None: of one of them it is not known, or there is none."""
    known = [one.fresh(now) for one in backlogs]
    fresh = [one for one in known if one is not None]
    if not fresh or len(fresh) < len(known):
        return None
    lag = sum(sum(one.last.lag.values()) for one in fresh)
    rates = [one.rate for one in fresh if one.rate is not None]
    if lag == 0:
        return Work(0, 0.0)
    if len(rates) < len(fresh):
        return Work(lag, None)
    return Work(lag, lag / sum(rates) if sum(rates) > 0 else inf)
