"""Finishes batches at their queues once Spark is done with them, and then releases the partitions that the ledger revokes."""

import logging
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from queue import SimpleQueue

from baton.model.ids import Partition, QueueName
from baton.model.wording import counted
from baton.queues.logged_ranges import Finished, LaterQuery
from baton.spark.ledger import GrantsInUse, PartitionGrant
from baton.spark.queues import AGAIN, FleetQueues, QueueAwayError
from baton.spark.statistics import Counts, RangeReport, outcomes

log = logging.getLogger("baton.spark")


class EntrySizes:
    """Average bytes per entry of each partition's last range, for queues that do not know the sizes. Thread-safe."""

    def __init__(self) -> None:
        self._of: dict[Partition, int] = {}
        self._read: dict[QueueName, int] = {}
        """The size in the partition that was read last, used for partitions of which nothing was read yet."""

    def learn(self, reports: Iterable[RangeReport]) -> None:
        """Take the sizes from the tasks' reports of a batch."""
        for report in reports:
            if report.rows:
                size = max(1, report.bytes // report.rows)
                self._of[report.partition] = self._read[report.partition.queue] = size

    def of(self, partition: Partition) -> int | None:
        """Bytes per entry; None before anything of the queue was read."""
        return self._of.get(partition, self._read.get(partition.queue))


@dataclass(frozen=True, slots=True)
class PlannedBatch:
    """A batch that Spark was given to read."""

    stream: str
    query: Mapping[QueueName, int]
    """The query's number at each queue."""
    ends: Mapping[Partition, int]
    """The end of each partition's range."""
    grants: frozenset[PartitionGrant]
    """The grants that the batch keeps in use."""
    batch: str = ""
    """Spark's number of the batch."""

    def queues(self) -> frozenset[QueueName]:
        return frozenset(partition.queue for partition in self.ends)

    def part(self, queue: QueueName) -> "PlannedBatch":
        """The batch, restricted to one queue."""
        ends = {partition: end for partition, end in self.ends.items() if partition.queue == queue}
        return replace(self, ends=ends, grants=frozenset(grant for grant in self.grants if grant.queue == queue))


class Finishing:
    """Has a thread per queue that finishes one batch after the other there. A queue that is unreachable delays no other."""

    def __init__(
        self,
        queues: FleetQueues,
        grants_in_use: GrantsInUse,
        counts: Counts,
        reports: Callable[[str], Sequence[RangeReport]],
    ) -> None:
        """`reports`: drains the reports of a stream's tasks."""
        self._queues, self._grants_in_use, self._counts, self._reports = queues, grants_in_use, counts, reports
        self.sizes = EntrySizes()
        self._done: Mapping[QueueName, SimpleQueue[PlannedBatch | None]] = {name: SimpleQueue() for name in queues.names}
        self._closed = threading.Event()
        self._open: Counter[QueueName] = Counter()
        self._lock = threading.Lock()
        self._threads = [
            threading.Thread(target=self._run, args=(name,), name=f"baton-finish-{name}", daemon=True) for name in self._done
        ]

    def start(self) -> None:
        for thread in self._threads:
            thread.start()

    def submit(self, batch: PlannedBatch) -> None:
        """Finish a batch that is in Spark's commit log."""
        queues = batch.queues()
        with self._lock:
            self._open.update(queues)
        reports = self.reported(batch)
        self._counts.batch(len(batch.ends), outcomes(batch.ends, reports), reports)
        self.sizes.learn(reports)
        for queue in queues:
            self._done[queue].put(batch.part(queue))

    def settled(self, queues: Iterable[QueueName] | None = None) -> bool:
        """Whether all submitted batches are finished at these queues (default: all queues)."""
        return not any(self._open[queue] for queue in (self._done if queues is None else queues))

    def close(self, seconds: float) -> None:
        """Finish the submitted batches, for at most `seconds`. The next query finishes the rest."""
        for done in self._done.values():
            done.put(None)
        until = time.monotonic() + seconds
        for thread in self._threads:
            thread.join(max(0.0, until - time.monotonic()))
        self._closed.set()
        until = time.monotonic() + AGAIN * 2
        for thread in self._threads:
            thread.join(max(0.0, until - time.monotonic()))

    def finish_next(self, queue: QueueName) -> bool:
        """Wait for a batch, and finish it at this queue. Returns False after `close`, when all batches were processed."""
        batch = self._done[queue].get()
        if batch is None:
            return False
        try:
            self._finish(batch)
        except Exception:  # the next query finishes it
            log.exception("finishing batch %s of %s at queue %s failed", batch.batch, batch.stream, queue)
        finally:
            self._grants_in_use.put_back(batch.grants)
            with self._lock:
                self._open[queue] -= 1
        return True

    def _run(self, queue: QueueName) -> None:
        while self.finish_next(queue):
            pass

    def reported(self, batch: PlannedBatch) -> Sequence[RangeReport]:
        """Drain the reports of the stream's tasks."""
        try:
            return self._reports(batch.stream)
        except Exception as error:  # the JVM is gone: the batch is finished all the same
            log.warning("no reports of the tasks of batch %s of %s: %s", batch.batch, batch.stream, error)
            return ()

    def _finish(self, batch: PlannedBatch) -> None:
        while True:
            try:
                with self._counts.step("finish"):
                    answers = self._queues.finish(batch.query, batch.ends)
                break
            except QueueAwayError:
                if self._closed.wait(AGAIN):
                    return
        finished = sum(isinstance(answer, Finished) for answer in answers.values())
        self._counts.add("ranges_finished", finished)
        if refused := len(answers) - finished:
            self._counts.add("finishes_refused", refused)
            later = any(isinstance(answer, LaterQuery) for answer in answers.values())
            log.warning(
                "batch %s of %s: %s could not be finished: %s",
                batch.batch,
                batch.stream,
                counted(refused, "range"),
                "a later query reads them" if later else "they are already finished, or a pod has read the partitions singly",
            )
