"""Checks of a queue's promises per key, from records:

- nothing is lost: every sequence of a key was processed;
- nothing is done twice unmarked: all but one processing of a (key, sequence) are marked redelivered;
- order per key: a message is first processed after all earlier messages of its key were; and within one run of the function
  the sequences of a key only grow, redelivered or not.

Pure. Memory grows with the keys, and per key with gaps and hand-offs up to a limit, not with the records.
"""

from bisect import bisect_right
from collections import OrderedDict, deque
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from enum import StrEnum
from typing import NamedTuple


class Processing(NamedTuple):
    """A record: a member processed a message of a key."""

    key: str
    sequence: int
    """The number of the message within the key, without gaps."""
    redelivered: bool = False
    """Whether the message was marked as perhaps processed before."""
    partition: int | None = None
    member: str = ""
    """The member that processed the message."""
    epoch: int | None = None
    """The epoch at which the member owned the partition."""
    time: float | None = None
    """Seconds since 1970."""
    run: str = ""
    """The run of the function, within which sequences only grow, redelivered or not; empty: unknown."""
    late: bool = False
    """Whether a sink that checks the epoch rejected the result, so that the work does not count."""


@dataclass(slots=True)
class ProcessedRange:
    """Consecutive sequences that one member processed at one epoch."""

    first: int
    last: int
    member: str
    epoch: int | None
    partition: int | None
    since: float | None
    until: float | None

    @classmethod
    def of(cls, one: Processing) -> "ProcessedRange":
        return cls(one.sequence, one.sequence, one.member, one.epoch, one.partition, one.time, one.time)

    def grew(self, one: Processing) -> bool:
        """Add the record if it continues the range, and return whether it does."""
        if one.sequence != self.last + 1 or (one.member, one.epoch, one.partition) != (self.member, self.epoch, self.partition):
            return False
        self.last, self.until = one.sequence, one.time
        return True

    def __str__(self) -> str:
        """`orders-a (partition 3, epoch 12, 2026-11-22T09:00:00.000Z)`"""
        times = [moment(at) for at in dict.fromkeys((self.since, self.until)) if at is not None]
        details = [
            f"partition {self.partition}" if self.partition is not None else "",
            f"epoch {self.epoch}" if self.epoch is not None else "",
            " to ".join(times),
        ]
        known = ", ".join(filter(None, details))
        who = self.member or "a member"
        return f"{who} ({known})" if known else who


def moment(seconds: float) -> str:
    """The time in RFC 3339, with milliseconds."""
    return datetime.fromtimestamp(seconds, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


class OrderViolation(StrEnum):
    """A kind of broken promise."""

    GAP = "gap"
    """Never processed."""
    DUPLICATE = "duplicate"
    """Processed again without a mark."""
    OUT_OF_ORDER = "out of order"
    """Processed before an earlier message of its key, or unmarked after a later one, or backwards within one run."""
    REDELIVERED = "redelivered"
    """Processed again and marked as such: not a fault of a queue with at-least-once delivery."""


@dataclass(frozen=True, slots=True)
class Finding:
    """One violation: the key, the sequences and the members."""

    fault: OrderViolation
    key: str
    first: int
    last: int
    """The end of a gap; else the same as `first`."""
    text: str
    """The violation in words."""
    by: ProcessedRange | None = None
    """The processing at fault; for a gap, that of the message after it."""
    before: ProcessedRange | None = None
    """The earlier processing of the message, or of the one before it."""

    def to_json(self) -> dict[str, object]:
        return {
            "fault": self.fault.value,
            "key": self.key,
            "first": self.first,
            "last": self.last,
            "text": self.text,
            "by": _json(self.by),
            "before": _json(self.before),
        }


@dataclass(slots=True)
class ViolationCount:
    """The number of violations of a kind, and the first few cases."""

    count: int = 0
    findings: list[Finding] = field(default_factory=list)

    @property
    def examples(self) -> tuple[str, ...]:
        return tuple(one.text for one in self.findings)


@dataclass(slots=True)
class KeyCounts:
    """The counts of one key."""

    key: str
    processed: int = 0
    """The number of distinct messages."""
    gaps: int = 0
    duplicates: int = 0
    out_of_order: int = 0
    redelivered: int = 0

    def faults(self) -> int:
        return self.gaps + self.duplicates + self.out_of_order


@dataclass(frozen=True, slots=True)
class Report:
    """The counts and findings of all keys."""

    records: int
    keys: int
    processed: int
    """The number of distinct messages processed."""
    late: int
    """The number of results that a sink rejected."""
    tallies: Mapping[OrderViolation, ViolationCount]
    worst: tuple[KeyCounts, ...]
    """The keys with most faults, the worst first; as many as examples of each kind."""
    keys_at_fault: int

    @property
    def clean(self) -> bool:
        return not self.keys_at_fault

    def to_json(self) -> dict[str, object]:
        tallies = self.tallies
        return {
            "records": self.records,
            "keys": self.keys,
            "processed": self.processed,
            "gaps": tallies[OrderViolation.GAP].count,
            "duplicates": tallies[OrderViolation.DUPLICATE].count,
            "out_of_order": tallies[OrderViolation.OUT_OF_ORDER].count,
            "redelivered": tallies[OrderViolation.REDELIVERED].count,
            "late": self.late,
            "keys_at_fault": self.keys_at_fault,
            "worst": [asdict(one) for one in self.worst],
            "findings": [one.to_json() for tally in tallies.values() for one in tally.findings],
        }


def _json(stretch: ProcessedRange | None) -> dict[str, object] | None:
    if stretch is None:
        return None
    times = {name: moment(at) for name, at in (("since", stretch.since), ("until", stretch.until)) if at is not None}
    return {"member": stretch.member, "partition": stretch.partition, "epoch": stretch.epoch, **times}


MOST_HOLES = 1_000
"""The most gaps remembered per key. Of more, the oldest counts as lost and can no longer be filled."""


class Sequences:
    """The set of processed sequences of a key."""

    __slots__ = ("_firsts", "_lasts", "given_up")

    def __init__(self) -> None:
        self._firsts: list[int] = []
        self._lasts: list[int] = []
        self.given_up = 0
        """The number of sequences in forgotten gaps."""

    def add(self, number: int) -> bool:
        """Add a sequence. False: it was in the set already."""
        firsts, lasts = self._firsts, self._lasts
        if lasts and number == lasts[-1] + 1:  # as nearly all are
            lasts[-1] = number
            return True
        at = bisect_right(firsts, number) - 1
        if at >= 0 and number <= lasts[at]:
            return False
        after_one = at >= 0 and lasts[at] + 1 == number
        before_one = at + 1 < len(firsts) and firsts[at + 1] == number + 1
        if after_one and before_one:
            lasts[at] = lasts.pop(at + 1)
            firsts.pop(at + 1)
        elif after_one:
            lasts[at] = number
        elif before_one:
            firsts[at + 1] = number
        else:
            firsts.insert(at + 1, number)
            lasts.insert(at + 1, number)
            self._bound()
        return True

    def holes(self, first: int, last: int) -> Iterator[tuple[int, int]]:
        begin = first
        for low, high in zip(self._firsts, self._lasts, strict=True):
            if low > last:
                break
            if low > begin:
                yield begin, low - 1
            begin = max(begin, high + 1)
        if begin <= last:
            yield begin, last

    def highest(self, default: int) -> int:
        return self._lasts[-1] if self._lasts else default

    def _bound(self) -> None:
        if len(self._firsts) > MOST_HOLES + 1:
            self.given_up += self._firsts[1] - self._lasts[0] - 1
            self._firsts.pop(1)
            self._lasts[0] = self._lasts.pop(1)


FIRST = 1
STRETCHES = 32
"""The most ranges remembered per key, the last ones, to name their members."""
RUNS = 16
"""The most runs remembered per key, each with its last sequence."""


@dataclass(slots=True)
class _Key:
    counts: KeyCounts
    first: int
    reached: int
    """The highest processed sequence whose result counts."""
    done: Sequences = field(default_factory=Sequences)
    unmarked: Sequences = field(default_factory=Sequences)
    stretches: deque[ProcessedRange] = field(default_factory=lambda: deque(maxlen=STRETCHES))
    runs: OrderedDict[str, int] = field(default_factory=OrderedDict)

    def who(self, sequence: int) -> ProcessedRange | None:
        """The first known processing of the sequence."""
        return next((one for one in self.stretches if one.first <= sequence <= one.last), None)


class OrderChecker:
    """Takes records, those of a key in the order in which they happened, and reports violations.

    `first`: the first sequence of each key; None: the one processed first. `produced`: by key the first and the last sequence
    sent; without it, losses at the end of a key are not found. `examples`: the most cases to keep of each kind.
    """

    def __init__(
        self, *, first: int | None = FIRST, produced: Mapping[str, tuple[int, int]] | None = None, examples: int = 5
    ) -> None:
        self._first, self._produced, self._examples = first, produced or {}, examples
        self._keys: dict[str, _Key] = {}
        self._tallies = {fault: ViolationCount() for fault in OrderViolation}
        self._records = self._late = 0

    def add(self, one: Processing) -> None:
        self._records += 1
        state = self._keys.get(one.key)
        if state is None:
            first = self._begins(one.key, one.sequence)
            state = self._keys[one.key] = _Key(KeyCounts(one.key), first, reached=first - 1)
        if not one.redelivered and not state.unmarked.add(one.sequence):
            state.counts.duplicates += 1
            self._found(
                OrderViolation.DUPLICATE,
                one,
                state.who(one.sequence),
                lambda by, before: f"processed unmarked by {before or 'an earlier owner'} and by {by}",
            )
        if one.late:
            self._late += 1
            return
        self._in_order(state, one)
        if one.redelivered:
            state.counts.redelivered += 1
            self._found(OrderViolation.REDELIVERED, one, state.who(one.sequence), _redelivered)
        if state.done.add(one.sequence):
            state.counts.processed += 1
        if not state.stretches or not state.stretches[-1].grew(one):
            state.stretches.append(ProcessedRange.of(one))

    def report(self) -> Report:
        """Return the report. Call it once, at the end."""
        for key in sorted({*self._keys, *self._produced}):
            self._gaps(key)
        counts = [state.counts for state in self._keys.values()]
        at_fault = sorted((one for one in counts if one.faults()), key=lambda one: (-one.faults(), one.key))
        return Report(
            records=self._records,
            keys=len(counts),
            processed=sum(one.processed for one in counts),
            late=self._late,
            tallies=self._tallies,
            worst=tuple(at_fault[: self._examples]),
            keys_at_fault=len(at_fault),
        )

    def _begins(self, key: str, seen: int) -> int:
        if self._first is not None:
            return self._first
        return self._produced[key][0] if key in self._produced else seen

    def _found(
        self,
        fault: OrderViolation,
        one: Processing,
        before: ProcessedRange | None,
        text: Callable[[ProcessedRange, ProcessedRange | None], str],
    ) -> None:
        """Count a case, and keep the first ones. `text` describes what a member did, and the earlier processing, if known."""
        tally = self._tallies[fault]
        tally.count += 1
        if len(tally.findings) < self._examples:
            by = ProcessedRange.of(one)
            said = f"{one.key} #{one.sequence} was {text(by, before)}"
            tally.findings.append(Finding(fault, one.key, one.sequence, one.sequence, said, by, before))

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
        state.counts.out_of_order += 1
        self._found(
            OrderViolation.OUT_OF_ORDER,
            one,
            state.who(reached),
            lambda by, before: f"processed {what}, by {by}" + (f"; #{reached} was by {before}" if before else ""),
        )

    def _gaps(self, key: str) -> None:
        sent = self._produced.get(key)
        state = self._keys.get(key)
        if state is None:
            assert sent is not None
            state = self._keys[key] = _Key(KeyCounts(key), self._begins(key, sent[0]), reached=0)
        highest = state.done.highest(state.first - 1)
        last = max(sent[1], highest) if sent else highest
        tally, missing = self._tallies[OrderViolation.GAP], state.done.given_up
        for low, high in state.done.holes(state.first, last):
            missing += high - low + 1
            if len(tally.findings) < self._examples:
                tally.findings.append(_gap(state, key, low, high))
        state.counts.gaps = missing
        tally.count += missing


def _redelivered(by: ProcessedRange, before: ProcessedRange | None) -> str:
    earlier = f"; before by {before}" if before else ", for the first time as far as is recorded"
    return f"redelivered to {by}{earlier}"


def _gap(state: _Key, key: str, low: int, high: int) -> Finding:
    before, after = state.who(low - 1), state.who(high + 1)
    neighbours = [f"#{number} was by {who}" for number, who in ((low - 1, before), (high + 1, after)) if who]
    numbers, was = (f"#{low}", "was") if low == high else (f"#{low} to #{high}", "were")
    text = f"{key} {numbers} {was} never processed" + (f"; {', '.join(neighbours)}" if neighbours else "")
    return Finding(OrderViolation.GAP, key, low, high, text, after, before)
