"""What is found wrong, and how often."""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

from baton.order.processing import ProcessedRange, moment


class OrderViolation(StrEnum):
    """A promise, by how it is broken."""

    GAP = "gap"
    """Never processed."""
    DUPLICATE = "duplicate"
    """Processed again without a mark."""
    OUT_OF_ORDER = "out of order"
    """Processed before an earlier one of its key; or after a later one without a mark; or backwards within one run."""
    REDELIVERED = "redelivered"
    """Processed again and marked as such: no fault, for a queue that hands out each message at least once."""


@dataclass(frozen=True, slots=True)
class Finding:
    """One violation: the key, the sequences and the members."""

    fault: OrderViolation
    key: str
    first: int
    last: int
    """Of a gap; else the same as `first`."""
    text: str
    """What is wrong, in words."""
    by: ProcessedRange | None = None
    """Who processed it this time; of a gap: who processed the one behind it."""
    before: ProcessedRange | None = None
    """Who processed it, or the one before it, earlier."""

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


@dataclass(frozen=True, slots=True)
class ViolationCount:
    """How often, and the first few cases."""

    count: int = 0
    findings: tuple[Finding, ...] = ()

    @property
    def examples(self) -> tuple[str, ...]:
        return tuple(one.text for one in self.findings)


@dataclass(frozen=True, slots=True)
class KeyCounts:
    """The counts of one key."""

    key: str
    processed: int
    """Distinct messages."""
    gaps: int
    duplicates: int
    out_of_order: int
    redelivered: int

    def faults(self) -> int:
        return self.gaps + self.duplicates + self.out_of_order

    def to_json(self) -> dict[str, object]:
        return {
            "key": self.key,
            "processed": self.processed,
            "gaps": self.gaps,
            "duplicates": self.duplicates,
            "out_of_order": self.out_of_order,
            "redelivered": self.redelivered,
        }


@dataclass(frozen=True, slots=True)
class Report:
    """The counts and findings of all keys."""

    records: int
    keys: int
    processed: int
    """Distinct messages that were processed."""
    late: int
    """Results that a sink did not take."""
    tallies: Mapping[OrderViolation, ViolationCount]
    worst: tuple[KeyCounts, ...]
    """The keys with most faults, the worst first; no more of them than there are examples of each kind."""
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
            "worst": [one.to_json() for one in self.worst],
            "findings": [one.to_json() for tally in tallies.values() for one in tally.findings],
        }


def _json(stretch: ProcessedRange | None) -> dict[str, object] | None:
    if stretch is None:
        return None
    times = {name: moment(at) for name, at in (("since", stretch.since), ("until", stretch.until)) if at is not None}
    return {"member": stretch.member, "partition": stretch.partition, "epoch": stretch.epoch, **times}
