"""The verdict on a run, from the records alone: pure, no cluster, no clock.

The promises, each in a form that a record can break:

- nothing is lost: every produced (key, sequence) was processed;
- nothing is done twice in silence: of all processings of a (key, sequence) all but one are marked redelivered;
- order per key: the first processing of a message comes after the first processing of all before it of its key; and
  within one run of the function a key's sequences only grow, redelivered or not;
- a stale owner is refused: see `stale`.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from demo.records import Evidence, Fence, Processed

_EXAMPLES = 5


@dataclass(frozen=True, slots=True)
class Finding:
    """How often a promise was broken, and the first few cases in words."""

    count: int = 0
    examples: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Verdict:
    """The verdict on one run."""

    produced: int
    processed: int
    """Distinct messages that were processed."""
    redelivered: int
    """Processings that were marked as such."""
    late: int
    """No fault: results of a fenced owner, which the sink did not take because it checks the epoch."""
    gaps: Finding
    duplicates: Finding
    order_violations: Finding
    stale_accepted: Finding

    @property
    def clean(self) -> bool:
        return not any(found.count for found in (self.gaps, self.duplicates, self.order_violations, self.stale_accepted))


class _Tally:
    """Counts cases of one kind and keeps the first few."""

    def __init__(self) -> None:
        self._count = 0
        self._examples: list[str] = []

    def add(self, words: str) -> None:
        self._count += 1
        if len(self._examples) < _EXAMPLES:
            self._examples.append(words)

    def finding(self) -> Finding:
        return Finding(self._count, tuple(self._examples))


def audit(evidence: Evidence) -> Verdict:
    """Judge a run."""
    rows = list(evidence.processed)
    taken = [row for row in rows if not row.late]
    done = {(row.key, row.sequence) for row in taken}
    return Verdict(
        produced=sum(evidence.produced.values()),
        processed=len(done),
        redelivered=sum(row.redelivered for row in taken),
        late=len(rows) - len(taken),
        gaps=_gaps(evidence.produced, done),
        duplicates=_duplicates(rows),
        order_violations=_order(taken),
        stale_accepted=_stale(rows, evidence),
    )


def _gaps(produced: Mapping[str, int], done: set[tuple[str, int]]) -> Finding:
    tally = _Tally()
    for key, last in sorted(produced.items()):
        for sequence in range(1, last + 1):
            if (key, sequence) not in done:
                tally.add(f"{key} #{sequence} was produced and never processed")
    return tally.finding()


def _duplicates(rows: Iterable[Processed]) -> Finding:
    """Second processings that were not marked. Late ones count: the work was done, whoever took the result."""
    tally = _Tally()
    unmarked: dict[tuple[str, int], Processed] = {}
    for row in rows:
        if row.redelivered:
            continue
        first = unmarked.setdefault((row.key, row.sequence), row)
        if first is not row:
            tally.add(
                f"{row.key} #{row.sequence} was processed unmarked by {first.executor} (batch {first.batch}, "
                f"epoch {first.epoch}) and by {row.executor} (batch {row.batch}, epoch {row.epoch})"
            )
    return tally.finding()


def _order(rows: Iterable[Processed]) -> Finding:
    tally = _Tally()
    furthest: dict[str, int] = {}
    last: dict[tuple[str, str], int] = {}
    for row in rows:
        reached = furthest.get(row.key, 0)
        before = last.get((row.run, row.key), 0)
        if row.sequence > reached + 1:
            tally.add(f"{row.key} #{row.sequence} was processed before #{reached + 1} (partition {row.partition})")
        elif row.sequence <= reached and not row.redelivered:
            tally.add(f"{row.key} #{row.sequence} was processed, unmarked, after #{reached} (partition {row.partition})")
        elif row.sequence <= before:
            tally.add(f"{row.key} #{row.sequence} was processed again after #{before} within one run (partition {row.partition})")
        furthest[row.key] = max(reached, row.sequence)
        last[row.run, row.key] = row.sequence
    return tally.finding()


def _stale(rows: Sequence[Processed], evidence: Evidence) -> Finding:
    """Reads and commits that the queue accepted from an owner that it should have refused.

    Three independent signs, none of which asks the queue's own counters:
    - a direct attempt with lost credentials was not refused;
    - an entry was read under an epoch although it was added after a higher one was in force;
    - an entry whose only processing came too late (its result was not taken) was not given to anybody else: a stale commit
      must have been accepted.
    """
    tally = _Tally()
    for attempt in evidence.attempts:
        if not attempt.refused:
            tally.add(f"{attempt.operation} of partition {attempt.partition} under the lost epoch {attempt.epoch} was accepted")
    fences = _by_partition(evidence.fences)
    taken = {(row.key, row.sequence) for row in rows if not row.late}
    for row in rows:
        for fence in fences.get(row.partition, ()):
            if fence.epoch > row.epoch and row.added_ms > fence.at_ms:
                tally.add(
                    f"{row.key} #{row.sequence} was read under epoch {row.epoch}, "
                    f"but was added {row.added_ms - fence.at_ms} ms after epoch {fence.epoch} was in force"
                )
                break
        if row.late and (row.key, row.sequence) not in taken:
            tally.add(f"{row.key} #{row.sequence} was processed only by a fenced owner (epoch {row.epoch}) and counts as done")
    return tally.finding()


def _by_partition(fences: Iterable[Fence]) -> dict[int, list[Fence]]:
    found: dict[int, list[Fence]] = defaultdict(list)
    for fence in fences:
        found[fence.partition].append(fence)
    return found
