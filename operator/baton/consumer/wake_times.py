"""When a consumer's loop has something to do by the clock, unless it is called before."""

import time
from math import inf

from baton.consumer.dispatcher import Dispatcher
from baton.consumer.held_partition import HeldPartition, Notice, Phase
from baton.consumer.held_partitions import HeldPartitions
from baton.consumer.queue_requests import QueueRequests
from baton.consumer.slow_handlers import SlowHandlers
from baton.queues.consumer_side import SURE_FOR, Reader

_IDLE = 5.0
"""Seconds after which an idle consumer looks around even if it was not called."""
_WATCH_EVERY = 0.05
"""Seconds after which a busy consumer sees to it that the partitions at rest are waited for."""


class WakeTimes:
    """When the loop of one consumer has something to do. Times are monotonic seconds."""

    def __init__(self, holdings: HeldPartitions, dispatcher: Dispatcher, requests: QueueRequests, slow: SlowHandlers) -> None:
        self._slow_handlers = slow
        self._holdings = holdings
        self._dispatcher = dispatcher
        self._requests = requests
        self._watched_at = 0.0
        self._came_meanwhile = False
        """There is something to read that was not there when its partition had its turn: nobody waits for that at its queue."""

    def next(self, begun: float) -> float:
        """When that is; what fell due since the present turn has `begun` may have been passed over.

        Queues are told which partitions are at rest: an entry of one of these is worth a word.
        """
        now = time.monotonic()
        until = min(now + _IDLE, self._dispatcher.due, self._slow_handlers.next)
        if self._dispatcher.out and now - self._watched_at < _WATCH_EVERY:
            until = min(until, self._watched_at + _WATCH_EVERY)
        else:
            self._watched_at, self._came_meanwhile = now, False
            self._holdings.wait_for_entries(lambda holding, reader: self._at_rest(holding, reader, now))
            if self._dispatcher.wants and self._came_meanwhile:
                return now
        until = min(until, self._requests.retry_at(begun))
        for holding in self._holdings:
            if not (holding.at_rest or holding.over):
                until = min(until, self._of(holding, begun))
        return until

    def _at_rest(self, holding: HeldPartition, reader: Reader, now: float) -> bool:
        """There is nothing to read of it until its queue says so."""
        if holding.phase is not Phase.SERVING or self._requests.not_before(holding) > now:
            return False
        ready = reader.ready(holding.partition.number, holding.epoch)
        self._came_meanwhile |= ready and holding.at_rest and holding.notice is Notice.ASSIGNED
        return not ready

    def _of(self, holding: HeldPartition, begun: float) -> float:
        """What was not due when this turn has `begun`."""
        away = self._requests.not_before(holding)
        times = [away, *(max(away, sequence.due) for sequence in holding.sequences.values())]
        if holding.watched(shared=self._dispatcher.shared):
            times.append(holding.sure_at + SURE_FOR)
        return min((time for time in times if time > begun), default=inf)
