"""How much there is to do in a queue, and for how long, as its last looks say: fresh, or not told at all. Pure."""

from collections import deque
from collections.abc import Iterable, Mapping
from itertools import pairwise
from types import MappingProxyType
from typing import NamedTuple

FRESH = 15.0
"""Seconds that a look counts. A queue is looked at every five seconds, with or without members."""
RATED_OVER = 60.0
"""Seconds over which the rate is averaged at most."""
RATED_FROM = 10.0
"""Seconds with something to do without which there is no rate: two looks say too little."""


class Look(NamedTuple):
    """What a queue said at one look."""

    at: float
    """monotonic seconds"""
    lag: Mapping[int, int]
    """Entries that are not finished with, per partition. Empty: its kind cannot say."""
    finished: int | None
    """Entries that are, since it was made."""
    oldest: float | None = None
    """Seconds since the oldest of those that are not was sent. None: not asked."""
    unfinished: Mapping[int, tuple[str, int]] = MappingProxyType({})
    """See `QueueCheck.unfinished`."""


class DoneSoFar(NamedTuple):
    """Of a look, what the rate is made of."""

    at: float
    finished: int
    lags: bool
    """There was something to do."""


class Known(NamedTuple):
    """What is known of a queue."""

    last: Look
    rate: float | None
    """Entries finished with per second, while there was something to do: who waits is not slow. None: not known yet."""
    waiting_since: float
    """When the oldest waiting entry was sent (monotonic seconds). Where the queue does not tell: since when none was finished."""


class Backlog:
    """One queue's. Read from any thread: a look replaces what was known in one go."""

    def __init__(self) -> None:
        self._known: Known | None = None
        self._progress: deque[DoneSoFar] = deque()
        """The oldest first."""

    def saw(self, look: Look) -> None:
        """A queue that was made again, or lost entries, counts from the beginning."""
        before = self._known
        if look.finished is None or (self._progress and look.finished < self._progress[-1].finished):
            self._progress.clear()
        if look.finished is not None:
            self._progress.append(DoneSoFar(look.at, look.finished, any(look.lag.values())))
            while look.at - self._progress[0].at > RATED_OVER:
                self._progress.popleft()
        waiting_since = look.at
        if look.oldest is not None:
            waiting_since -= look.oldest
        elif before is not None and any(before.last.lag.values()) and before.last.finished == look.finished:
            waiting_since = before.waiting_since
        self._known = Known(look, self._rate(), waiting_since)

    def lost(self) -> None:
        """It does not answer."""
        self._known = None
        self._progress.clear()

    def fresh(self, now: float) -> Known | None:
        """None: nothing that counts."""
        known = self._known
        return known if known is not None and known.last.lag and now - known.last.at <= FRESH else None

    def _rate(self) -> float | None:
        busy = [(a, b) for a, b in pairwise(self._progress) if a.lags and b.lags]
        seconds = sum(b.at - a.at for a, b in busy)
        return sum(b.finished - a.finished for a, b in busy) / seconds if seconds >= RATED_FROM else None


class Work(NamedTuple):
    """What there is to do."""

    lag: int
    """Entries."""
    seconds: float
    """How long it takes as fast as work was done in the last minute; without a known pace, `waiting`. Finite, and 0 only without
    lag: autoscalers take infinity and a missing number for 0."""
    waiting: float | None = None
    """The age of the oldest entry, while nothing is done or no pace is known yet."""
    partitions: int = 0
    """Those with lag: more pods than that have nothing to do."""


def work(backlogs: Iterable[Backlog], now: float) -> Work | None:
    """Of all of these queues. None: of one of them it is not known, or there is none."""
    known = [one.fresh(now) for one in backlogs]
    fresh = [one for one in known if one is not None]
    if not fresh or len(fresh) < len(known):
        return None
    lags = [lag for one in fresh for lag in one.last.lag.values() if lag]
    lag = sum(lags)
    if lag == 0:
        return Work(0, 0.0)
    rates = [one.rate for one in fresh if one.rate is not None]
    if len(rates) == len(fresh) and sum(rates) > 0:
        return Work(lag, lag / sum(rates), None, len(lags))
    waiting = max(1.0, *(now - one.waiting_since for one in fresh if any(one.last.lag.values())))
    return Work(lag, waiting, waiting, len(lags))
