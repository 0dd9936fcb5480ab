"""How much a ledger may name. A range of a few characters can name a million partitions: so what a ledger names is counted before
anything is made of it, and to read one costs no more than to read one of a large group, whatever stands there.
"""

import json
from collections.abc import Iterable, Iterator, Mapping
from itertools import chain
from typing import Any

from baton.model.ledger import LedgerError
from baton.model.ranges import count_grants, count_numbers

MOST_PARTITIONS = 200_000
"""Of all queues of a group together."""

_MOST_NAMED = 8 * MOST_PARTITIONS
"""A partition stands with its owner or among the free, and may have a move, an origin, a kept epoch, and places in a plan."""


def check_extent(group: Mapping[str, Any], members: Iterable[str]) -> None:
    """`group`: what was read of the key `group`; `members`: the texts of the others, of which only what can be read counts.

    Raises LedgerError where they name too much, and what comes of a `group` that is none."""
    partitions = 0
    for name, facts in group.get("queues", {}).items():
        if not 0 <= (count := facts["partitions"]) <= MOST_PARTITIONS:
            raise LedgerError(f"queues.{name}.partitions: {count} is not between 0 and {MOST_PARTITIONS:,}")
        partitions += count
    if partitions > MOST_PARTITIONS:
        raise LedgerError(f"queues: {partitions:,} partitions are more than the {MOST_PARTITIONS:,} of a group")
    named = 0
    for count in chain(_owned(members), map(count_grants, _grants(group)), map(count_numbers, _numbers(group))):
        named += count
        if named > _MOST_NAMED:
            raise LedgerError(f"it names partitions more than {_MOST_NAMED:,} times")


def _owned(members: Iterable[str]) -> Iterator[int]:
    for member in members:
        try:
            raw = json.loads(member)
            texts = [text for side in ("owned", "revoking") for text in raw[side].values()]
        except (ValueError, RecursionError, LookupError, TypeError, AttributeError):
            continue
        for text in texts:
            try:
                yield count_grants(str(text))
            except ValueError:
                break


def _grants(group: Mapping[str, Any]) -> Iterator[str]:
    yield from group.get("tombs", {}).values()
    for part in group.get("free", ()):
        yield from part["of"].values()
    for batch in group.get("moves", ()):
        for of in batch["to"].values():
            yield from of.values()


def _numbers(group: Mapping[str, Any]) -> Iterator[str]:
    for of in group.get("waiting", {}).values():
        yield from of.values()
    for part in group.get("origins", ()):
        yield from part["of"].values()
    for of in (group.get("proposal") or {"to": {}})["to"].values():
        yield from of.values()
    for seat in group.get("seats", ()):
        if not isinstance(seat, str):
            yield from seat["left"].values()
