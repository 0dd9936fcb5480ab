"""The backlog of a queue: its lag, and how long the lag takes to process, from its last looks. Pure."""

from collections import deque
from collections.abc import Iterable
from itertools import pairwise
from typing import NamedTuple

from baton.queues.protocol import QueueCheck

FRESH = 15.0
"""Seconds for which a look counts. A queue is looked at every five seconds, with or without members."""
RATED_OVER = 60.0
"""Most seconds over which the rate is averaged."""
RATED_FROM = 10.0
"""Least seconds with lag from which a rate is computed: two looks are too few."""


class Progress(NamedTuple):
    """The part of a look that the rate is computed from."""

    at: float
    finished: int
    lags: bool


class Known(NamedTuple):
    """A queue's last look, with what was computed from the looks before. Times are monotonic seconds."""

    at: float
    check: QueueCheck
    rate: float | None
    """Entries finished per second while there was lag: idle times do not count. None: not known yet."""
    waiting_since: float
    """When the oldest waiting entry was sent. If the queue does not report it: since when no entry was finished."""


class Backlog:
    """The backlog of one queue. May be read from any thread, because a look replaces one immutable value."""

    def __init__(self) -> None:
        self._known: Known | None = None
        self._progress: deque[Progress] = deque()
        """Oldest first."""

    def saw(self, check: QueueCheck, at: float) -> None:
        """Take in a look. A queue that was created again, or lost entries, counts from the beginning."""
        before = self._known
        if check.finished is None or (self._progress and check.finished < self._progress[-1].finished):
            self._progress.clear()
        if check.finished is not None:
            self._progress.append(Progress(at, check.finished, any(check.lag.values())))
            while at - self._progress[0].at > RATED_OVER:
                self._progress.popleft()
        waiting_since = at
        if check.oldest is not None:
            waiting_since -= check.oldest
        elif before is not None and any(before.check.lag.values()) and before.check.finished == check.finished:
            waiting_since = before.waiting_since
        self._known = Known(at, check, self._rate(), waiting_since)

    def lost(self) -> None:
        """Forget all looks, because the queue does not answer."""
        self._known = None
        self._progress.clear()

    def fresh(self, now: float) -> Known | None:
        """Return the last look; None if it is too old, or the queue does not report its lag."""
        known = self._known
        return known if known is not None and known.check.lag and now - known.at <= FRESH else None

    def _rate(self) -> float | None:
        busy = [(a, b) for a, b in pairwise(self._progress) if a.lags and b.lags]
        seconds = sum(b.at - a.at for a, b in busy)
        return sum(b.finished - a.finished for a, b in busy) / seconds if seconds >= RATED_FROM else None


class Work(NamedTuple):
    """The work that a group has to do."""

    lag: int
    """Entries."""
    seconds: float
    """How long the lag takes at the rate of the last minute; without a known rate, `waiting`. Finite, and 0 only without lag,
    because autoscalers treat infinity and a missing number as 0."""
    waiting: float | None = None
    """The age of the oldest entry, while no entry is finished or no rate is known yet."""
    partitions: int = 0
    """The number of partitions with lag. More pods than that have nothing to do."""


def work(backlogs: Iterable[Backlog], now: float) -> Work | None:
    """Return the work of all of these queues. None: no queue, or the lag of one of them is not known."""
    known = [one.fresh(now) for one in backlogs]
    fresh = [one for one in known if one is not None]
    if not fresh or len(fresh) < len(known):
        return None
    lags = [lag for one in fresh for lag in one.check.lag.values() if lag]
    lag = sum(lags)
    if lag == 0:
        return Work(0, 0.0)
    rates = [one.rate for one in fresh if one.rate is not None]
    if len(rates) == len(fresh) and sum(rates) > 0:
        return Work(lag, lag / sum(rates), None, len(lags))
    waiting = max(1.0, *(now - one.waiting_since for one in fresh if any(one.check.lag.values())))
    return Work(lag, waiting, waiting, len(lags))
