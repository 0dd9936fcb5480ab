"""The promises of a queue that keeps order per key, each in a form that a record can break:

- nothing is lost: every sequence of a key was processed;
- nothing is done twice in silence: of all processings of a (key, sequence) all but one are marked redelivered;
- order per key: the first processing of a message comes after the first processing of all before it of its key; and
  within one run of the function a key's sequences only grow, redelivered or not.

Pure. What it keeps grows with the keys, and within a key with holes and hand-offs up to a bound, not with the records.
"""

from collections import OrderedDict, deque
from collections.abc import Mapping
from dataclasses import dataclass, field

from baton.order.finding import Finding, KeyCounts, OrderViolation, Report, ViolationCount
from baton.order.processing import ProcessedRange, Processing
from baton.order.sequences import Sequences

FIRST = 1
STRETCHES = 32
"""Of a key: who processed what is told of the last ones."""
RUNS = 16
"""Of a key: the last sequence of so many runs is known."""


@dataclass(slots=True)
class _Key:
    first: int
    reached: int
    """The highest sequence that was processed, of those whose results count."""
    done: Sequences = field(default_factory=Sequences)
    unmarked: Sequences = field(default_factory=Sequences)
    stretches: deque[ProcessedRange] = field(default_factory=lambda: deque(maxlen=STRETCHES))
    runs: OrderedDict[str, int] = field(default_factory=OrderedDict)
    processed: int = 0
    gaps: int = 0
    duplicates: int = 0
    out_of_order: int = 0
    redelivered: int = 0


class _Cases:
    """Counts cases of one kind and keeps the first few."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._count = 0
        self._findings: list[Finding] = []

    def tell(self) -> bool:
        """Whether the next one is kept."""
        return len(self._findings) < self._most

    def add(self, finding: Finding | None, count: int = 1) -> None:
        self._count += count
        if finding is not None:
            self._findings.append(finding)

    def tally(self) -> ViolationCount:
        return ViolationCount(self._count, tuple(self._findings))


class OrderChecker:
    """Takes processings, those of one key in the order in which they happened, and reports what was wrong with them.

    `first`: where each key begins to count; None: with the sequence that was processed first. `produced`: of each key the first
    and the last sequence that were sent; without, what is lost at the end of a key is not seen. `examples`: of each kind of case.
    """

    def __init__(
        self, *, first: int | None = FIRST, produced: Mapping[str, tuple[int, int]] | None = None, examples: int = 5
    ) -> None:
        self._first, self._produced, self._examples = first, produced or {}, examples
        self._keys: dict[str, _Key] = {}
        self._cases = {fault: _Cases(examples) for fault in OrderViolation}
        self._records = self._late = 0

    def add(self, one: Processing) -> None:
        self._records += 1
        state = self._keys.get(one.key)
        if state is None:
            first = self._begins(one.key, one.sequence)
            state = self._keys[one.key] = _Key(first, reached=first - 1)
        if not one.redelivered and not state.unmarked.add(one.sequence):
            self._duplicate(state, one)
        if one.late:
            self._late += 1
            return
        self._in_order(state, one)
        if one.redelivered:
            self._redelivered(state, one)
        if state.done.add(one.sequence):
            state.processed += 1
        if not state.stretches or not state.stretches[-1].grew(one):
            state.stretches.append(ProcessedRange.of(one))

    def report(self) -> Report:
        """Call it once, at the end."""
        for key in sorted({*self._keys, *self._produced}):
            self._gaps(key)
        counts = [
            KeyCounts(key, state.processed, state.gaps, state.duplicates, state.out_of_order, state.redelivered)
            for key, state in self._keys.items()
        ]
        at_fault = sorted((one for one in counts if one.faults()), key=lambda one: (-one.faults(), one.key))
        return Report(
            records=self._records,
            keys=len(counts),
            processed=sum(one.processed for one in counts),
            late=self._late,
            tallies={fault: cases.tally() for fault, cases in self._cases.items()},
            worst=tuple(at_fault[: self._examples]),
            keys_at_fault=len(at_fault),
        )

    def _begins(self, key: str, seen: int) -> int:
        if self._first is not None:
            return self._first
        return self._produced[key][0] if key in self._produced else seen

    def _duplicate(self, state: _Key, one: Processing) -> None:
        state.duplicates += 1
        cases = self._cases[OrderViolation.DUPLICATE]
        finding = None
        if cases.tell():
            by, before = ProcessedRange.of(one), _who(state, one.sequence)
            text = f"{one.key} #{one.sequence} was processed unmarked by {before or 'an earlier owner'} and by {by}"
            finding = Finding(OrderViolation.DUPLICATE, one.key, one.sequence, one.sequence, text, by, before)
        cases.add(finding)

    def _in_order(self, state: _Key, one: Processing) -> None:
        reached = state.reached
        run = one.run
        what = ""
        if one.sequence < state.first:
            what = f"although its key begins with #{state.first} (--first)"
        elif one.sequence > reached + 1:
            what = f"before #{reached + 1}"
        elif one.sequence <= reached and not one.redelivered:
            what = f"unmarked, after #{reached}"
        elif run and one.sequence <= state.runs.get(run, one.sequence - 1):
            what = f"again after #{state.runs[run]} within one run"
        state.reached = max(reached, one.sequence)
        if run:
            state.runs[run] = one.sequence
            state.runs.move_to_end(run)
            if len(state.runs) > RUNS:
                state.runs.popitem(last=False)
        if not what:
            return
        state.out_of_order += 1
        cases = self._cases[OrderViolation.OUT_OF_ORDER]
        finding = None
        if cases.tell():
            by, before = ProcessedRange.of(one), _who(state, reached)
            after = f"; #{reached} was by {before}" if before else ""
            text = f"{one.key} #{one.sequence} was processed {what}, by {by}{after}"
            finding = Finding(OrderViolation.OUT_OF_ORDER, one.key, one.sequence, one.sequence, text, by, before)
        cases.add(finding)

    def _redelivered(self, state: _Key, one: Processing) -> None:
        state.redelivered += 1
        cases = self._cases[OrderViolation.REDELIVERED]
        finding = None
        if cases.tell():
            by, before = ProcessedRange.of(one), _who(state, one.sequence)
            earlier = f"; before by {before}" if before else ", for the first time as far as is recorded"
            text = f"{one.key} #{one.sequence} was redelivered to {by}{earlier}"
            finding = Finding(OrderViolation.REDELIVERED, one.key, one.sequence, one.sequence, text, by, before)
        cases.add(finding)

    def _gaps(self, key: str) -> None:
        sent = self._produced.get(key)
        state = self._keys.get(key)
        if state is None:
            assert sent is not None
            state = self._keys[key] = _Key(self._begins(key, sent[0]), reached=0)
        highest = state.done.highest(state.first - 1)
        last = max(sent[1], highest) if sent else highest
        cases = self._cases[OrderViolation.GAP]
        given_up = state.done.given_up
        if given_up:
            state.gaps += given_up
            cases.add(None, given_up)
        for low, high in state.done.holes(state.first, last):
            state.gaps += high - low + 1
            cases.add(_gap(state, key, low, high) if cases.tell() else None, high - low + 1)


def _gap(state: _Key, key: str, low: int, high: int) -> Finding:
    before, after = _who(state, low - 1), _who(state, high + 1)
    neighbours = [f"#{number} was by {who}" for number, who in ((low - 1, before), (high + 1, after)) if who]
    numbers, was = (f"#{low}", "was") if low == high else (f"#{low} to #{high}", "were")
    text = f"{key} {numbers} {was} never processed" + (f"; {', '.join(neighbours)}" if neighbours else "")
    return Finding(OrderViolation.GAP, key, low, high, text, after, before)


def _who(state: _Key, sequence: int) -> ProcessedRange | None:
    """Who processed it first, as far as that is known."""
    return next((one for one in state.stretches if one.first <= sequence <= one.last), None)
