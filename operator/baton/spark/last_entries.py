"""The last entry of each partition, as far as the queues have said."""

import time
from collections.abc import Mapping
from contextlib import suppress

from baton.model.ids import Partition
from baton.spark.queues import FleetQueues, QueueAwayError


class LastEntries:
    """The queues are asked for all of them once a second at most. For the thread of one query; others may look."""

    def __init__(self, queues: FleetQueues, every: float = 1.0) -> None:
        self._queues, self._every = queues, every
        self._known: dict[Partition, int] = {}
        self._asked = float("-inf")

    def saw(self, partition: Partition, last: int) -> None:
        """The queue has said so by the way."""
        self._known[partition] = last

    def ask(self) -> Mapping[Partition, int]:
        """As new as a second, unless a queue is away."""
        if time.monotonic() - self._asked >= self._every:
            with suppress(QueueAwayError):
                self._known |= {partition: bounds.last for partition, bounds in self._queues.positions().items()}
            self._asked = time.monotonic()
        return self._known
