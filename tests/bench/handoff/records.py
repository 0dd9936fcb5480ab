"""What was handled, and what a change of the fleet did to it. Pure."""

from collections import Counter
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from statistics import quantiles
from typing import NamedTuple


class Row(NamedTuple):
    """A message was handled."""

    at: float
    """Seconds, monotonic."""
    partition: int
    number: int
    """In its partition, from 0."""
    member: str


@dataclass
class Record:
    """Of one system, in the order in which it was handled."""

    partitions: int
    rows: list[Row] = field(default_factory=list)
    owners: dict[int, Row] = field(default_factory=dict)
    """Of each partition, what was handled of it last."""

    def take_in(self, lines: Sequence[str]) -> None:
        for line in lines:
            at, partition, number, member = line.split()
            row = Row(int(at) / 1e9, int(partition), int(number), member)
            self.rows.append(row)
            self.owners[row.partition] = row

    def spread_over(self, members: Collection[str], since: float) -> bool:
        """These have all partitions, and each as many as any other, or one more or less; all were at work since then."""
        counts = Counter(row.member for row in self.owners.values() if row.at > since)
        return (
            counts.keys() == set(members)
            and counts.total() == self.partitions
            and max(counts.values()) - min(counts.values()) <= 1
        )

    def missing(self, sent: Sequence[int]) -> int:
        handled = {(row.partition, row.number) for row in self.rows}
        return sum(count for count in sent) - len(handled)


class Effect(NamedTuple):
    """What a change did."""

    paused_partitions: int
    """Of which nothing was handled for longer than PAUSED."""
    pauses: list[float]
    """Of the partitions that moved: the longest time between two messages that were handled of each, in seconds;"""
    all_pauses: list[float]
    """and of all partitions."""
    moves: int
    """How often a partition was handled by another member than before."""
    duplicates: int
    """Handlings of what had been handled before."""
    order_violations: int
    """Messages that were handled for the first time after a later one of their partition."""
    balanced_after: float
    """Seconds from the change's last part until the last partition that moved was handled by its last owner."""


PAUSED = 0.2
"""Seconds."""


def effect(record: Record, begun: float, ended: float, acted: float) -> Effect:
    """Of a change that was made from `begun` to `acted`, and was over by `ended`."""
    last: dict[int, Row] = {}
    handled: set[tuple[int, int]] = set()
    furthest: dict[int, int] = {}
    longest = dict.fromkeys(range(record.partitions), 0.0)
    moved: Counter[int] = Counter()
    duplicates = violations = 0
    settled = acted
    for row in record.rows:
        if row.at > ended:
            break
        place, before = (row.partition, row.number), last.get(row.partition)
        if row.at >= begun and before is not None:
            longest[row.partition] = max(longest[row.partition], row.at - before.at)
            if before.member != row.member:
                moved[row.partition] += 1
                settled = row.at
            duplicates += place in handled
            violations += place not in handled and row.number < furthest[row.partition]
        handled.add(place)
        furthest[row.partition] = max(row.number, furthest.get(row.partition, -1))
        last[row.partition] = row
    for partition, row in last.items():  # perhaps nothing came any more
        longest[partition] = max(longest[partition], ended - row.at)
    return Effect(
        sum(pause > PAUSED for pause in longest.values()),
        [longest[partition] for partition in moved],
        list(longest.values()),
        moved.total(),
        duplicates,
        violations,
        max(0.0, settled - acted),
    )


def spread(seconds: Sequence[float]) -> tuple[float, float, float]:
    """p50, p99 and the longest, in milliseconds; zeros of none."""
    if not seconds:
        return 0.0, 0.0, 0.0
    cuts = quantiles(seconds, n=100, method="inclusive") if len(seconds) > 1 else [seconds[0]] * 99
    return 1e3 * cuts[49], 1e3 * cuts[98], 1e3 * max(seconds)
