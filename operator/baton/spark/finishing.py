"""Batches that Spark is done with are finished at their queues, and what the ledger revokes of them is released."""

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
    """Bytes of an entry, of the last range of each partition on the average, for queues that do not tell. Thread-safe."""

    def __init__(self) -> None:
        self._of: dict[Partition, int] = {}
        self._read: dict[QueueName, int] = {}
        """Of the partition that was read last; for those of which nothing was read yet."""

    def learn(self, reports: Iterable[RangeReport]) -> None:
        """What tasks of a batch have read."""
        for report in reports:
            if report.rows:
                size = max(1, report.bytes // report.rows)
                self._of[report.partition] = self._read[report.partition.queue] = size

    def of(self, partition: Partition) -> int | None:
        """None: nothing of its queue was read yet."""
        return self._of.get(partition, self._read.get(partition.queue))


@dataclass(frozen=True, slots=True)
class PlannedBatch:
    """What Spark was given to read."""

    stream: str
    query: Mapping[QueueName, int]
    ends: Mapping[Partition, int]
    """Of its ranges."""
    grants: frozenset[PartitionGrant]
    """That are in use for it."""
    batch: str = ""
    """Spark's number of it."""

    def queues(self) -> frozenset[QueueName]:
        """That it reads."""
        return frozenset(partition.queue for partition in self.ends)

    def part(self, queue: QueueName) -> "PlannedBatch":
        """What it has of one queue."""
        ends = {partition: end for partition, end in self.ends.items() if partition.queue == queue}
        return replace(self, ends=ends, grants=frozenset(grant for grant in self.grants if grant.queue == queue))


class Finishing:
    """A thread for each queue finishes one batch after the other there. A queue that is away is waited for, and holds up no
    other."""

    def __init__(
        self,
        queues: FleetQueues,
        grants_in_use: GrantsInUse,
        counts: Counts,
        reports: Callable[[str], Sequence[RangeReport]],
    ) -> None:
        """`reports`: what the tasks of a stream have reported since it was last asked."""
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
        """Finish from now on what is submitted."""
        for thread in self._threads:
            thread.start()

    def submit(self, batch: PlannedBatch) -> None:
        """Spark has this batch in its commit log."""
        queues = batch.queues()
        with self._lock:
            self._open.update(queues)
        reports = self.reported(batch)
        self._counts.batch(len(batch.ends), outcomes(batch.ends, reports), reports)
        self.sizes.learn(reports)
        for queue in queues:
            self._done[queue].put(batch.part(queue))

    def settled(self, queues: Iterable[QueueName] | None = None) -> bool:
        """Everything that was submitted is finished, at these queues; None: at all."""
        return not any(self._open[queue] for queue in (self._done if queues is None else queues))

    def close(self, seconds: float) -> None:
        """Finish what was submitted, as far as queues answer within so many seconds. The next query finishes the rest."""
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
        """Wait for a batch, and finish it at this queue. False: there is none to come."""
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
        """What tasks of its stream have said since this was last asked."""
        try:
            return self._reports(batch.stream)
        except Exception as error:  # the JVM is gone: what was read is finished all the same
            log.warning("what tasks of batch %s of %s have reported is not known: %s", batch.batch, batch.stream, error)
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
                "a later query reads them" if later else "they are finished already, or a pod has read the partitions singly",
            )
