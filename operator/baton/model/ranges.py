"""Partitions and their epochs as short text: `0-3@12,7@17` says that 0 to 3 were granted at epoch 12 and 7 at 17."""

import re
from collections.abc import Iterable, Mapping

from baton.model.ids import Epoch

Grants = Mapping[int, Epoch]
"""Partition number -> the epoch at which it was granted, for one queue."""

_RANGE = re.compile(r"(\d+)(?:-(\d+))?")
_GRANT = re.compile(r"(\d+)(?:-(\d+))?@(\d+)")


def format_numbers(numbers: Iterable[int]) -> str:
    """`{0, 1, 2, 7}` as `0-2,7`; nothing is the empty string."""
    return ",".join(_span(first, last) for first, last in _runs(sorted(set(numbers))))


def parse_numbers(text: str) -> frozenset[int]:
    """The inverse of `format_numbers`. Raises ValueError for anything else."""
    numbers: set[int] = set()
    for part in filter(None, text.split(",")):
        match = _RANGE.fullmatch(part)
        if match is None:
            raise ValueError(f"{part!r} is not a partition or a range of partitions such as 0-3")
        numbers.update(_between(match[1], match[2], part))
    return frozenset(numbers)


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
    for part in filter(None, text.split(",")):
        match = _GRANT.fullmatch(part)
        if match is None:
            raise ValueError(f"{part!r} is not a grant such as 0-3@12")
        for number in _between(match[1], match[2], part):
            if number in grants:
                raise ValueError(f"partition {number} is named twice in {text!r}")
            grants[number] = Epoch(int(match[3]))
    return grants


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
        raise ValueError(f"the range {part!r} ends before it begins")
    if high > 1_000_000:
        raise ValueError(f"partition {high} in {part!r} is beyond 1,000,000")
    return range(low, high + 1)
