"""What runs in the executors: reads the ranges that are this pod's own, and refuses the others."""

import os
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

import pyarrow as pa
from pyspark import Accumulator

from baton.model.ids import MemberId, QueueName, Uid
from baton.model.ledger import LedgerError, MemberEntry
from baton.queues.entry import Entry
from baton.queues.fence import StaleOwner
from baton.queues.spark_side import BatchReader, batch_reader
from baton.spark.batch import Range, ReceivedTask, read_task
from baton.spark.batch_frame import record_batch, task_texts
from baton.spark.ownership import refusal
from baton.spark.receipts import ReadOutcome, Receipt

_ROWS = 10_000
"""Of one Arrow batch."""


class TaskPod(NamedTuple):
    """The pod that a task runs in."""

    name: MemberId
    uid: Uid | None
    """None where the pod template does not set POD_UID."""
    ledger: Path
    """Where the pod has the ledger mounted."""


class QueueAddress(NamedTuple):
    """One queue of the fleet."""

    url: str
    queue: str
    """namespace/name"""


class ReadRanges:
    """The function of `mapInArrow`. Travels to the executors by pickle, so it has no connections of its own."""

    def __init__(
        self,
        sources: Mapping[QueueName, QueueAddress],
        receipts: "Accumulator[list[Receipt]]",
        pod: Callable[[], TaskPod],
        patience: float,
    ) -> None:
        self._sources = dict(sources)
        self._receipts = receipts
        self._pod = pod
        self._patience = patience

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for text in task_texts(batches):
            work = read_task(text)
            for index, one in work.ranges:
                entries, outcome, detail = self._read(work, one)
                self._receipts.add([Receipt(work.batch, index, outcome, len(entries), detail)])
                for start in range(0, len(entries), _ROWS):
                    yield record_batch(entries[start : start + _ROWS])

    def _read(self, work: ReceivedTask, one: Range) -> tuple[list[Entry], ReadOutcome, str]:
        """All of a range or nothing of it: what was read before the queue refused may belong to somebody else by now."""
        try:
            if why := self._refusal(work, one):
                return [], ReadOutcome.NOT_OWNER, why
            grant = one.grant
            entries = list(_reader(self._sources[grant.queue]).read_plan(grant.partition, grant.epoch, one.plan, uid=grant.uid))
            return entries, ReadOutcome.READ, ""
        except StaleOwner as error:
            return [], ReadOutcome.STALE, str(error)
        except Exception as error:  # four failures of one task would end the query; the driver decides what becomes of the range
            return [], ReadOutcome.FAILED, f"{type(error).__name__}: {error}"

    def _refusal(self, work: ReceivedTask, one: Range) -> str | None:
        """Why this pod may not; waits a little where its mounted ledger is older than what the driver has seen."""
        pod = self._pod()
        until = time.monotonic() + self._patience
        while True:
            try:
                entry = _own_entry(pod)
                why = refusal(one.grant, pod.name, pod.uid, entry)
            except OSError as error:  # too many open files, say: that is no answer
                entry, why = None, f"the ledger of {pod.name} cannot be read: {error}"
            behind = pod.name == one.grant.member and (entry is None or entry.generation < work.generation)
            if why is None or not behind or time.monotonic() > until:
                return why
            time.sleep(0.02)


class ExecutorPod:
    """Which pod an executor on Kubernetes is, by what Spark and the pod template put into its environment."""

    def __init__(self, ledger: str) -> None:
        self._ledger = ledger

    def __call__(self) -> TaskPod:
        uid = os.environ.get("POD_UID")
        return TaskPod(MemberId(os.environ.get("SPARK_EXECUTOR_POD_NAME", "")), Uid(uid) if uid else None, Path(self._ledger))


def _own_entry(pod: TaskPod) -> MemberEntry | None:
    try:
        return MemberEntry.from_json((pod.ledger / pod.name).read_text(encoding="utf-8"))
    except (FileNotFoundError, NotADirectoryError, LedgerError):
        return None


_readers: dict[QueueAddress, BatchReader] = {}
"""Of this Python worker, which Spark keeps from batch to batch."""


def _reader(source: QueueAddress) -> BatchReader:
    if source not in _readers:
        _readers[source] = batch_reader(source.url, source.queue, "executor")
    return _readers[source]
