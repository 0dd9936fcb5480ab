"""A fake queue with one partition and no entries."""

import threading
from collections.abc import Sequence

from baton.queues.protocol import QueueUnreachable
from tests.simulation.spark.modelled_ranges import ModelledRanges
from tests.simulation.spark.partition import Partition
from tests.waiting import HOUR, PATIENCE


class QueueWithoutEntries(ModelledRanges):
    """A queue that answers every request unless it is `away`."""

    def __init__(self) -> None:
        super().__init__({0: Partition()})
        self.away = False
        self.answers_now = threading.Event()
        """Cleared: requests hang, like at a server that accepts connections and does not answer. An interrupt ends no wait."""
        self.answers_now.set()
        self.news = threading.Event()
        """Set to end a wait."""
        self.finished: list[int] = []
        """The requested ends."""
        self.asked = self.waits = self.interrupts = 0
        self._interrupted = threading.Event()

    def before(self) -> None:
        self.asked += 1
        assert self.answers_now.wait(HOUR)
        if self.away:
            raise QueueUnreachable("it is away")

    def finishing(self, number: int, end: int) -> None:
        self.finished.append(end)

    def wait(self, partitions: Sequence[int], timeout: float) -> set[int]:
        self.waits += 1
        self.before()
        for _ in range(int(PATIENCE * 1000)):
            if self.news.is_set():
                self.news.clear()
                return {0}
            if self._interrupted.wait(min(timeout, 0.001)):
                self._interrupted.clear()
                return set()
            if timeout < 1:
                return set()
        raise AssertionError("nothing ended the wait")

    def interrupt(self) -> None:
        self.interrupts += 1
        self._interrupted.set()
