"""Partitions and their epochs as short text: `0-3@12,7@17` means that 0 to 3 were granted at epoch 12 and 7 at 17.

A range of a few characters can name a million partitions. So these functions count the partitions that a text names before they
create objects for them, and `GrantSpans` answers for single partitions without creating any.
"""

import re
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import TypeVar

from baton.model.ids import Epoch
from baton.model.wording import quoted

T = TypeVar("T")

Spans = tuple[tuple[int, int, T], ...]
"""A value for each run of partitions: first, last, value. Sorted; a partition is in one run at most."""

Grants = Mapping[int, Epoch]
"""Partition number -> the epoch at which it was granted, for one queue."""

HIGHEST = 1_000_000
"""The highest number of a partition."""

MOST = 1_000_000
"""The most partitions that one text may name."""

_RANGE = re.compile(r"([0-9]{1,10})(?:-([0-9]{1,10}))?")
_SPAN = re.compile(r"([0-9]{1,10})-([0-9]{1,10})")
_GRANT = re.compile(r"([0-9]{1,10})(?:-([0-9]{1,10}))?@([0-9]{1,18})")


def format_numbers(numbers: Iterable[int]) -> str:
    """`{0, 1, 2, 7}` as `0-2,7`; nothing is the empty string."""
    return ",".join(_span(first, last) for first, last in _runs(sorted(set(numbers))))


def parse_numbers(text: str) -> frozenset[int]:
    """The inverse of `format_numbers`. Raises ValueError for anything else."""
    numbers: set[int] = set()
    named = 0
    for between in _numbers(text):
        named = _counted(named, between)
        numbers.update(between)
    return frozenset(numbers)


def shortened(ranges: str, most: int) -> str:
    """`0-3,7,9,…`: whole ranges of `0-3,7,9,11-40`, `most` characters of them at most."""
    return ranges if len(ranges) <= most else ranges[: ranges.rfind(",", 0, most) + 1] + "…"


def count_named(text: str) -> int:
    """The number of partitions that a text of numbers or grants names, without making any. For any other text: some number."""
    if not text:
        return 0
    spans = _SPAN.findall(text) if "-" in text else ()
    return 1 + text.count(",") + sum(max(0, int(last) - int(first)) for first, last in spans)


def format_grants(grants: Grants) -> str:
    """`{0: 12, 1: 12, 7: 17}` as `0-1@12,7@17`: consecutive partitions of one epoch share a range."""
    parts: list[str] = []
    first = last = epoch = -1
    for number in sorted(grants):
        at = grants[number]
        if number == last + 1 and at == epoch:
            last = number
            continue
        if epoch >= 0:
            parts.append(f"{_span(first, last)}@{epoch}")
        first, last, epoch = number, number, at
    if epoch >= 0:
        parts.append(f"{_span(first, last)}@{epoch}")
    return ",".join(parts)


def parse_grants(text: str) -> dict[int, Epoch]:
    """The inverse of `format_grants`. Raises ValueError for anything else, also for a partition that is named twice."""
    grants: dict[int, Epoch] = {}
    named = 0
    for part in filter(None, text.split(",")):
        first, last, epoch = _grant(part)
        if last is None and len(first) < len(str(HIGHEST)):  # the usual case in a large group
            grants[int(first)] = epoch
            named += 1
        else:
            between = _between(first, last, part)
            named = _counted(named, between)
            grants.update(dict.fromkeys(between, epoch))
        if len(grants) < named:
            raise ValueError(f"a partition of {part.partition('@')[0]} is named twice in {quoted(text)}")
    return grants


@dataclass(frozen=True, slots=True)
class GrantSpans:
    """The grants of a text as spans. They cost what the text costs, however many partitions it names.

    Ranges may overlap and come in any order. A text may name a partition at several epochs.
    """

    _starts: tuple[tuple[Epoch, int], ...]
    """Epoch and first number of each span, sorted; spans of one epoch do not touch."""
    _ends: tuple[int, ...]

    @classmethod
    def read(cls, text: str) -> "GrantSpans":
        """The grants of this text. Raises ValueError as `parse_grants` does, but not for a partition that is named twice."""
        starts: list[tuple[Epoch, int]] = []
        ends: list[int] = []
        for epoch, first, last in sorted((epoch, between[0], between[-1]) for between, epoch in _grants(text)):
            if starts and starts[-1][0] == epoch and first <= ends[-1] + 1:
                ends[-1] = max(ends[-1], last)
            else:
                starts.append((epoch, first))
                ends.append(last)
        return cls(tuple(starts), tuple(ends))

    def names(self, number: int, epoch: Epoch) -> bool:
        """The text names this partition at this epoch."""
        n = bisect_right(self._starts, (epoch, number)) - 1
        return n >= 0 and self._starts[n][0] == epoch and number <= self._ends[n]


def _numbers(text: str) -> Iterator[range]:
    for part in filter(None, text.split(",")):
        match = _RANGE.fullmatch(part)
        if match is None:
            raise ValueError(f"{quoted(part)} is not a partition or a range of partitions such as 0-3")
        yield _between(match[1], match[2], part)


def _grants(text: str) -> Iterator[tuple[range, Epoch]]:
    for part in filter(None, text.split(",")):
        first, last, epoch = _grant(part)
        yield _between(first, last, part), epoch


def _grant(part: str) -> tuple[str, str | None, Epoch]:
    match = _GRANT.fullmatch(part)
    if match is None:
        raise ValueError(f"{quoted(part)} is not a grant such as 0-3@12")
    first, last, epoch = match.groups()
    return first, last, Epoch(int(epoch))


def _counted(named: int, between: range) -> int:
    if named + len(between) > MOST:
        raise ValueError(f"more than {MOST:,} partitions are named at once")
    return named + len(between)


def _span(first: int, last: int) -> str:
    return str(first) if first == last else f"{first}-{last}"


def _runs(numbers: Iterable[int]) -> Iterable[tuple[int, int]]:
    first = last = None
    for number in numbers:
        if first is None or last is None:
            first = last = number
        elif number == last + 1:
            last = number
        else:
            yield first, last
            first = last = number
    if first is not None and last is not None:
        yield first, last


def _between(first: str, last: str | None, part: str) -> range:
    low, high = int(first), int(last if last is not None else first)
    if high < low:
        raise ValueError(f"the range {quoted(part)} ends before it begins")
    if high > HIGHEST:
        raise ValueError(f"partition {high} in {quoted(part)} is beyond {HIGHEST:,}")
    return range(low, high + 1)
