"""How much a ledger may name. A range of a few characters can name a million partitions: so what a ledger names is counted before
anything is made of it, and to read one costs no more than to read one of a large group, whatever stands there.
"""

import json
from collections.abc import Iterable, Iterator, Mapping
from itertools import chain
from typing import Any

from baton.model.ledger import LedgerError
from baton.model.names import LEDGER_GROUP_KEY
from baton.model.ranges import count_named

MOST_PARTITIONS = 100_000
"""Of all queues of a group together."""

WITHDRAWN_OF_ONE = 4
"""Partitions that were withdrawn, and of which only the epoch is kept, take as much memory as one that the group has."""

MOST_WITHDRAWN = MOST_PARTITIONS
"""Partitions that were withdrawn, and of which an epoch each is kept."""

_MOST_NAMED = 8 * MOST_PARTITIONS
"""A partition stands with its owner or among the free, and may have a move, an origin, a kept epoch, and places in a plan."""


def partitions_named(data: Mapping[str, str]) -> int:
    """How many partitions a group has by its ledger's data, without making any of them, and a quarter of those that were
    withdrawn; 0: it does not read as a ledger."""
    try:
        group = json.loads(data.get(LEDGER_GROUP_KEY) or "{}")
        Extent().of_group(group)
        has = sum(facts["partitions"] for facts in group.get("queues", {}).values())
        return int(has) + sum(map(count_named, group.get("epoch_tombstones", {}).values())) // WITHDRAWN_OF_ONE
    except (LedgerError, LookupError, ValueError, TypeError, AttributeError, RecursionError):
        return 0


class Extent:
    """How much one ledger has named so far. Methods raise LedgerError where that is too much, and what comes of what is none."""

    def __init__(self) -> None:
        self._named = 0

    def of_group(self, group: Mapping[str, Any]) -> None:
        """What was read of the key `group`."""
        partitions = 0
        for name, facts in group.get("queues", {}).items():
            if not 0 <= (count := facts["partitions"]) <= MOST_PARTITIONS:
                raise LedgerError(f"queues.{name}.partitions: {count} is not between 0 and {MOST_PARTITIONS:,}")
            partitions += count
        if partitions > MOST_PARTITIONS:
            raise LedgerError(f"queues: {partitions:,} partitions are more than the {MOST_PARTITIONS:,} of a group")
        self._name(chain(_grants(group), _numbers(group)))

    def of_member(self, entry: Mapping[str, Any]) -> None:
        """What was read of a member's key."""
        for side in (entry.get("owned"), entry.get("revoking")):
            if isinstance(side, dict):
                self._name(map(str, side.values()))

    def _name(self, texts: Iterable[str]) -> None:
        for text in texts:
            self._named += count_named(text)
            if self._named > _MOST_NAMED:
                raise LedgerError(f"it names partitions more than {_MOST_NAMED:,} times")


def _grants(group: Mapping[str, Any]) -> Iterator[str]:
    yield from group.get("epoch_tombstones", {}).values()
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
    for slot in group.get("member_slots", ()):
        if not isinstance(slot, str):
            yield from slot["vacated"].values()
