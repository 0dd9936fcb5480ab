"""What is still to be read of each partition, as far as the queues have said."""

from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import NamedTuple

from baton.model.ids import Partition, QueueName
from baton.spark.offsets import Positions
from baton.spark.queue_outages import QueueAwayError
from baton.spark.queues import FleetQueues

_SHARE = 0.05
"""Of the time is spent at most on asking for all of them."""


class _Entries(NamedTuple):
    """Those that are there: the numbers (before_first, last]. A position may be far below: numbers jump after a failover."""

    before_first: int
    last: int


class LastEntries:
    """For the thread of one query; others may look."""

    def __init__(self, queues: FleetQueues, clock: Callable[[], float]) -> None:
        self._queues, self._clock = queues, clock
        self._known: dict[Partition, _Entries] = {}
        self._heard: set[QueueName] = set()
        """Queues that have said which partitions they have."""
        self._again = float("-inf")

    def saw(self, partition: Partition, first: int, last: int) -> None:
        """The queue has said so by the way."""
        self._known[partition] = _Entries(first - 1, last)

    def behind(self, positions: Positions) -> Mapping[Partition, int]:
        """Entries behind each position, of partitions that there are. Of a thousand partitions that is a second old at most;
        older while a queue is away."""
        began = self._clock()
        if began >= self._again:
            for queue in self._queues.names - self._queues.late():
                with suppress(QueueAwayError):
                    found = self._queues.positions({queue})
                    for partition, bounds in found.items():
                        self._known[partition] = _Entries(bounds.before_first, bounds.last)
                    for partition in [one for one in list(self._known) if one.queue == queue and one not in found]:
                        self._known.pop(partition, None)  # the queue has fewer now; the query's positions keep it
                    self._heard.add(queue)
            now = self._clock()
            self._again = now + (now - began) / _SHARE
        return {
            partition: self._behind(partition, position)
            for partition, position in positions.items()
            if partition in self._known or partition.queue not in self._heard
        }

    def _behind(self, partition: Partition, position: int) -> int:
        known = self._known.get(partition)
        return 0 if known is None else max(0, known.last - max(position, known.before_first))
