"""Partitions beside members, in as few bytes as a page of ten thousand can be sent again with each change. Pure."""

from collections.abc import Mapping, Sequence
from itertools import groupby
from typing import Any

from baton.cli.group import PartitionRow
from baton.engine.partition_state import PartitionState
from baton.engine.state import MemberSlot
from baton.model.ids import MemberId, Partition

NOBODY = -1
"""In the place of a member's number."""

LETTERS = {
    PartitionState.READY: "R",
    PartitionState.PAUSED: "P",
    PartitionState.UNBOUND: "U",
    PartitionState.UNASSIGNED: "N",
}


def rows(members: Sequence[MemberId], partitions: Sequence[PartitionRow], slots: Sequence[MemberSlot]) -> list[MemberId]:
    """The members in the grid's order: by name, also those that are gone, whose slots or partitions are still theirs."""
    named = {*members, *(slot.member for slot in slots)}
    named |= {one for row in partitions for one in (row.owner, row.to) if one is not None}
    return sorted(named)


def columns(members: Sequence[MemberId], partitions: Sequence[PartitionRow], slots: Sequence[MemberSlot]) -> list[dict[str, Any]]:
    """The partitions by queue: `owners` has numbers of members, `states` a letter for each, `epochs` their epochs, `numbers` the
    partitions where they are not 0, 1, 2, …, and `to` the next owner of those that have one."""
    number = {name: at for at, name in enumerate(members)}
    kept: Mapping[Partition, MemberId] = {partition: slot.member for slot in slots for partition in slot.vacated or ()}

    def mapped(row: PartitionRow) -> MemberId | None:
        """Whose row it is in: a partition on hold is in that of whom it waits for."""
        return row.owner or kept.get(Partition(row.queue, row.partition))  # type: ignore[arg-type] # a queue's name

    made = []
    for queue, those in groupby(partitions, key=lambda row: row.queue):
        of = list(those)
        numbers = [row.partition for row in of]
        made.append(
            {
                "queue": queue,
                "numbers": None if numbers == list(range(len(of))) else numbers,
                "owners": [NOBODY if (name := mapped(row)) is None else number[name] for row in of],
                "states": "".join(LETTERS[PartitionState(row.state)] for row in of),
                "epochs": [row.epoch for row in of],
                "to": {str(at): number[row.to] for at, row in enumerate(of) if row.to is not None and row.to != row.owner},
            }
        )
    return made
