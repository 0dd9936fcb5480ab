"""How large the entries are of queues that do not tell: by what tasks have read of them."""

import threading
from collections.abc import Iterable

from baton.model.ids import Partition, QueueName
from baton.spark.receipts import RangeReport


class EntrySizes:
    """Bytes of an entry, of the last range of each partition on the average. Thread-safe."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._of: dict[Partition, int] = {}
        self._read: dict[QueueName, int] = {}
        """Of the partition that was read last; for those of which nothing was read yet."""

    def learn(self, reports: Iterable[RangeReport]) -> None:
        """What tasks of a batch have read."""
        with self._lock:
            for report in reports:
                if report.rows:
                    self._of[report.partition] = max(1, report.bytes // report.rows)
                    self._read[report.partition.queue] = self._of[report.partition]

    def of(self, partition: Partition) -> int | None:
        """None: nothing of its queue was read yet."""
        with self._lock:
            return self._of.get(partition, self._read.get(partition.queue))
