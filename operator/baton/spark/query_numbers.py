"""The number that a query has at each queue, and what it owes to them from the queries before."""

from collections.abc import Mapping
from contextlib import suppress

from baton.model.ids import QueueName
from baton.queues.logged_ranges import LaterQuery
from baton.spark.offsets import Positions
from baton.spark.queue_outages import QueueAwayError
from baton.spark.recorded_ranges import superseded
from baton.spark.surroundings import Surroundings

_AGAIN = 1.0
"""Seconds until a queue that was away is asked for a number again."""
_SETTLE_EVERY = 30.0


class QueryNumbers:
    """Of one stream, for its thread."""

    def __init__(self, around: Surroundings) -> None:
        self._around = around
        self.known: Mapping[QueueName, int] = {}
        """At each queue that has answered."""
        self._again = self._settled = around.clock()

    def begin(self, start: Positions) -> None:
        """Once the Lease is held: take a number from each queue that answers, and finish what the last query has written down as
        done but had no time to finish. Without a checkpoint all have to answer, or QueueAwayError is raised."""
        names, now = self._around.queues.names, self._around.clock()
        if names == self.known.keys() or (start and now < self._again):
            return
        self._again = now + _AGAIN
        found = self._around.queues.begin(names - self.known.keys())
        for queue, number in found.items():
            with suppress(QueueAwayError):
                if any(partition.queue == queue for partition in start):
                    there = self._around.queues.positions({queue}).keys()  # one that was made again may have fewer partitions
                    left = {one: end for one, end in start.items() if one in there}
                    self._around.queues.finish({queue: number}, left, {})
                self.known = {**self.known, queue: number}
        if not start and names != self.known.keys():
            raise QueueAwayError

    def settle(self, start: Positions) -> None:
        """A failover may have lost that a batch was finished. Of a partition to which nothing new comes it is not said again, and
        if it is to be emptied it would never be. A queue at which a batch is just being finished is left to that, and one that
        does not answer is told the next time."""
        now = self._around.clock()
        if now - self._settled >= _SETTLE_EVERY:
            self._settled = now
            for queue in sorted(self._around.queues.answering(self.known)):
                if not self._around.finishing.settled({queue}):
                    continue
                mine = {partition: end for partition, end in start.items() if partition.queue == queue}
                with suppress(QueueAwayError):
                    for answer in self._around.queues.finish(self.known, mine, {}).values():
                        if isinstance(answer, LaterQuery):
                            raise superseded(answer.number)
