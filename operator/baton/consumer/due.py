"""When a consumer's loop has something to do by the clock, unless it is called before."""

import time
from math import inf

from baton.consumer.holding import Holding, Phase
from baton.consumer.holdings import HeldPartitions
from baton.consumer.reader import Reader
from baton.consumer.supply import Supply
from baton.consumer.work import SURE_FOR, QueueRequests

_IDLE = 5.0
"""Seconds after which an idle consumer looks around even if it was not called."""
_WATCH_EVERY = 0.05
"""Seconds after which a busy consumer sees to it that the partitions at rest are waited for."""


class Due:
    """Of one consumer. Times are of the monotonic clock."""

    def __init__(self, holdings: HeldPartitions, supply: Supply, work: QueueRequests) -> None:
        self._holdings = holdings
        self._supply = supply
        self._work = work
        self._watched_at = 0.0

    def next(self, begun: float) -> float:
        """When that is; what fell due since the present turn has `begun` may have been passed over.

        Queues are told which partitions are at rest: an entry of one of these is worth a word.
        """
        now = time.monotonic()
        until = min(now + _IDLE, self._supply.due)
        if self._supply.out and now - self._watched_at < _WATCH_EVERY:
            until = min(until, self._watched_at + _WATCH_EVERY)
        else:
            self._watched_at = now
            self._holdings.watch(lambda holding, reader: self._at_rest(holding, reader, now))
        until = min(until, self._work.retry_at(begun))
        for holding in self._holdings:
            if not (holding.at_rest or holding.over):
                until = min(until, self._of(holding, begun))
        return until

    def _at_rest(self, holding: Holding, reader: Reader, now: float) -> bool:
        """There is nothing to read of it until its queue says so."""
        number, epoch = holding.partition.number, holding.epoch
        return holding.phase is Phase.SERVING and self._work.not_before(holding) <= now and not reader.ready(number, epoch)

    def _of(self, holding: Holding, begun: float) -> float:
        """What was not due when this turn has `begun`."""
        away = self._work.not_before(holding)
        times = [max(away, lane.due) for lane in holding.lanes.values()]
        if not self._supply.shared and holding.out:
            times.append(holding.sure_at + SURE_FOR)
        return min((time for time in times if time > begun), default=inf)
