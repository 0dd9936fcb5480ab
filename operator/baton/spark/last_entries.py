"""The last entry of each partition, as far as the queues have said."""

from collections.abc import Callable, Mapping
from contextlib import suppress

from baton.model.ids import Partition
from baton.spark.queues import FleetQueues, QueueAwayError

_SHARE = 0.05
"""Of the time is spent at most on asking for all of them."""


class LastEntries:
    """For the thread of one query; others may look."""

    def __init__(self, queues: FleetQueues, clock: Callable[[], float]) -> None:
        self._queues, self._clock = queues, clock
        self._known: dict[Partition, int] = {}
        self._again = float("-inf")

    def saw(self, partition: Partition, last: int) -> None:
        """The queue has said so by the way."""
        self._known[partition] = last

    def ask(self) -> Mapping[Partition, int]:
        """Of all partitions. A second old at most where there are a thousand; older while a queue is away."""
        began = self._clock()
        if began >= self._again:
            with suppress(QueueAwayError):
                self._known |= {partition: bounds.last for partition, bounds in self._queues.positions().items()}
            now = self._clock()
            self._again = now + (now - began) / _SHARE
        return self._known
