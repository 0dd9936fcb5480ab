"""The verdict on a run, from its records. Pure.

Like `baton check-order` (baton.order), it finds loss, unmarked repetition and disorder; also accepted stale owners: see `_stale`.
"""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

from baton.order import OrderChecker, OrderViolation, Processing
from demo.records import Evidence, Fence, Processed

_EXAMPLES = 5


@dataclass(frozen=True, slots=True)
class Finding:
    """The number of broken promises of a kind, and the first few cases in words."""

    count: int = 0
    examples: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Verdict:
    """The verdict on a run."""

    produced: int
    processed: int
    """The number of distinct messages processed."""
    redelivered: int
    """Processings marked as redelivered."""
    late: int
    """Results that the sink rejected because it had them already or their epoch was over; not a fault."""
    gaps: Finding
    duplicates: Finding
    order_violations: Finding
    stale_accepted: Finding

    @property
    def clean(self) -> bool:
        """Whether no promise was broken; the number of moves does not count."""
        return not any(found.count for found in (self.gaps, self.duplicates, self.order_violations, self.stale_accepted))


def audit(evidence: Evidence) -> Verdict:
    """Judge a run."""
    rows = list(evidence.processed)
    checker = OrderChecker(produced={key: (1, last) for key, last in evidence.produced.items()}, examples=_EXAMPLES)
    for row in rows:
        checker.add(_processing(row))
    report = checker.report()
    found = {fault: Finding(tally.count, tally.examples) for fault, tally in report.tallies.items()}
    return Verdict(
        produced=sum(evidence.produced.values()),
        processed=report.processed,
        redelivered=found[OrderViolation.REDELIVERED].count,
        late=report.late,
        gaps=found[OrderViolation.GAP],
        duplicates=found[OrderViolation.DUPLICATE],
        order_violations=found[OrderViolation.OUT_OF_ORDER],
        stale_accepted=_stale(rows, evidence),
    )


def _processing(row: Processed) -> Processing:
    return Processing(
        row.key,
        row.sequence,
        redelivered=row.redelivered,
        partition=row.partition,
        member=row.executor,
        epoch=row.epoch,
        run=row.run,
        late=row.late,
    )


def _stale(rows: Sequence[Processed], evidence: Evidence) -> Finding:
    """Reads and commits that the queue accepted from a former owner.

    Three independent signs, without the queue's counters:
    - a direct attempt with lost credentials was accepted;
    - an entry was read at an epoch although it was added after a higher one was in force (except epoch 0, of entries that Spark
      borrowed);
    - an entry's only result was rejected by the sink, and no other member got the entry: a stale commit must have been accepted.
    """
    cases = [
        f"{attempt.operation} of partition {attempt.partition} under the lost epoch {attempt.epoch} was accepted"
        for attempt in evidence.attempts
        if not attempt.refused
    ]
    fences: dict[int, list[Fence]] = defaultdict(list)
    for fence in evidence.fences:
        fences[fence.partition].append(fence)
    taken = {(row.key, row.sequence) for row in rows if not row.late}
    for row in rows:
        for fence in fences.get(row.partition, ()):
            if fence.epoch > row.epoch > 0 and row.added_ms > fence.at_ms:
                cases.append(
                    f"{row.key} #{row.sequence} was read under epoch {row.epoch}, "
                    f"but was added {row.added_ms - fence.at_ms} ms after epoch {fence.epoch} was in force"
                )
                break
        if row.late and (row.key, row.sequence) not in taken:
            cases.append(f"{row.key} #{row.sequence} counts as done, and its only result (epoch {row.epoch}) was not taken")
    return Finding(len(cases), tuple(cases[:_EXAMPLES]))
