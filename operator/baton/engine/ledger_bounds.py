"""Bounds on what a ledger may name. A range of a few characters can name a million partitions, so they are counted before any
object is made of them. Reading any ledger then costs no more than reading that of a large group.
"""

import json
from collections.abc import Iterable, Iterator, Mapping
from itertools import chain
from typing import Any

from baton.model.ledger import LedgerError
from baton.model.names import LEDGER_GROUP_KEY
from baton.model.ranges import count_named

MOST_PARTITIONS = 100_000
"""The most partitions of all queues of a group together."""

WITHDRAWN_OF_ONE = 4
"""So many epoch tombstones, or owners of partitions that are gone, take as much memory as one partition of the group."""

MOST_WITHDRAWN = MOST_PARTITIONS
"""The most epoch tombstones of a group, and the most partitions that are gone and not released."""

_MOST_NAMED = 8 * MOST_PARTITIONS
"""A ledger names a partition at its owner or as free, and perhaps with the epoch of its last owner, in a move, an origin, a
tombstone, a slot and a plan, and as unreleased."""


def partitions_named(data: Mapping[str, str]) -> int:
    """The partitions that a ledger's data gives a group, and a quarter of those that are gone; 0 if it does not read as a ledger.

    It makes no object per partition.
    """
    try:
        group = json.loads(data.get(LEDGER_GROUP_KEY) or "{}")
        Extent().of_group(group)
        has = sum(facts["partitions"] for facts in group.get("queues", {}).values())
        gone = [group.get("epoch_tombstones", {}), *(part["of"] for part in group.get("unreleased", ()))]
        return int(has) + sum(count_named(text) for of in gone for text in of.values()) // WITHDRAWN_OF_ONE
    except (LedgerError, LookupError, ValueError, TypeError, AttributeError, RecursionError):
        return 0


class Extent:
    """Counts the partitions that one ledger names. The methods raise LedgerError for too many, and other errors for a malformed
    one."""

    def __init__(self) -> None:
        self._named = 0

    def of_group(self, group: Mapping[str, Any]) -> None:
        """Count the key `group`."""
        partitions = 0
        for name, facts in group.get("queues", {}).items():
            if not 0 <= (count := facts["partitions"]) <= MOST_PARTITIONS:
                raise LedgerError(f"queues.{name}.partitions: {count} is not between 0 and {MOST_PARTITIONS:,}")
            partitions += count
        if partitions > MOST_PARTITIONS:
            raise LedgerError(f"queues: {partitions:,} partitions are more than the {MOST_PARTITIONS:,} of a group")
        self._name(chain(_grants(group), _numbers(group)))

    def of_member(self, entry: Mapping[str, Any]) -> None:
        """Count the key of a member."""
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
    for part in (*group.get("free", ()), *group.get("unreleased", ())):
        yield from part["of"].values()
        yield from part.get("ended", {}).values()
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
