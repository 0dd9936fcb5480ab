"""Batches that Spark is done with are finished at their queues, and what the ledger wants back of them is released."""

import logging
import queue
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from baton.model.ids import Partition, QueueName
from baton.model.wording import counted
from baton.queues.logged_ranges import Finished, LaterQuery
from baton.spark.grants_in_use import GrantsInUse
from baton.spark.ownership import PartitionGrant
from baton.spark.queues import AGAIN, FleetQueues, QueueAwayError
from baton.spark.receipts import RangeReport, foreign_entries, outcomes
from baton.spark.statistics import Counts

log = logging.getLogger("baton.spark")


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


class Finishing:
    """A thread that finishes one batch after the other. A queue that is away is waited for."""

    def __init__(
        self,
        queues: FleetQueues,
        grants_in_use: GrantsInUse,
        counts: Counts,
        reports: Callable[[str], Sequence[RangeReport]],
    ) -> None:
        """`reports`: what the tasks of a stream have reported since it was last asked."""
        self._queues, self._grants_in_use, self._counts, self._reports = queues, grants_in_use, counts, reports
        self._done: queue.Queue[PlannedBatch | None] = queue.Queue()
        self._closed = threading.Event()
        self._open = 0
        self._lock = threading.Lock()
        self._thread = threading.Thread(target=self._run, name="baton-finish", daemon=True)

    def start(self) -> None:
        """Finish from now on what is submitted."""
        self._thread.start()

    def submit(self, batch: PlannedBatch) -> None:
        """Spark has this batch in its commit log."""
        with self._lock:
            self._open += 1
        self._done.put(batch)

    def settled(self) -> bool:
        """Everything that was submitted is finished."""
        return self._open == 0

    def close(self, seconds: float) -> None:
        """Finish what was submitted, as far as queues answer within so many seconds. The next query finishes the rest."""
        self._done.put(None)
        self._thread.join(seconds)
        self._closed.set()
        self._thread.join(AGAIN * 2)

    def finish_next(self) -> bool:
        """Wait for a batch, and finish it. False: there is none to come."""
        batch = self._done.get()
        if batch is None:
            return False
        try:
            self._finish(batch)
        except Exception:  # the next query finishes it
            log.exception("finishing batch %s of %s failed", batch.batch, batch.stream)
        finally:
            self._grants_in_use.put_back(batch.grants)
            with self._lock:
                self._open -= 1
        return True

    def _run(self) -> None:
        while self.finish_next():
            pass

    def _finish(self, batch: PlannedBatch) -> None:
        reports = self._reports(batch.stream)
        self._counts.batch(len(batch.ends), outcomes(batch.ends, reports), reports)
        foreign = foreign_entries(batch.ends, reports)
        while True:
            try:
                with self._counts.step("finish"):
                    answers = self._queues.finish(batch.query, batch.ends, foreign)
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
