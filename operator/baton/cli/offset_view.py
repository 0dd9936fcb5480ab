"""Where a group is in its partitions, for people and for programs; and what a reset would change. Pure."""

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

from baton.cli.group_view import GroupLook
from baton.cli.lag_view import shown_lag
from baton.cli.printing import table
from baton.engine.partition_state import partition_state
from baton.model.ids import Epoch, MemberId, Partition, QueueName
from baton.model.wording import counted, first_of
from baton.queues.offsets import PartitionOffsets, Reached

if TYPE_CHECKING:
    from rich.table import Table

_MOST_NAMED = 5


class OffsetRow(NamedTuple):
    """A partition: where the group is in it, and whose it is."""

    partition: Partition
    offsets: PartitionOffsets
    owner: MemberId | None
    state: str | None
    """None: the ledger does not have it."""
    epoch: Epoch | None

    def to_json(self) -> dict[str, object]:
        """For programs."""
        told = self.offsets
        return {
            "queue": self.partition.queue,
            "partition": self.partition.number,
            "offset": told.committed,
            "earliest": told.earliest,
            "end": told.end,
            "lag": told.lag,
            "pending": told.pending,
            "owner": self.owner,
            "state": self.state,
            "epoch": self.epoch,
        }


def offset_rows(look: GroupLook, queue: str, told: Mapping[int, PartitionOffsets]) -> list[OffsetRow]:
    """Of the partitions of a queue, by number."""
    rows = []
    for number, offsets in sorted(told.items()):
        partition = Partition(QueueName(queue), number)
        record = None if look.state is None else look.state.records.get(partition)
        if look.state is None or record is None:
            rows.append(OffsetRow(partition, offsets, None, None, None))
        else:
            doing = partition_state(look.state, partition).value
            rows.append(OffsetRow(partition, offsets, record.owner, doing, record.epoch))
    return rows


def offset_table(rows: Iterable[OffsetRow], *, wide: bool) -> "Table":
    """For people."""
    more = ("EARLIEST", "STATE", "EPOCH") if wide else ()
    lines = []
    for partition, told, owner, state, epoch in rows:
        committed = "-" if told.committed is None else told.committed
        line = (*partition, committed, told.end, shown_lag(told.lag), shown_lag(told.pending), owner)
        lines.append((*line, told.earliest, state, epoch) if wide else line)
    head = ("QUEUE", "PARTITION", "OFFSET", "END", "LAG", "PENDING", "OWNER", *more)
    return table(head, lines, right=("OFFSET", "END", "LAG", "PENDING", "EARLIEST", "EPOCH"))


class OffsetChange(NamedTuple):
    """What a reset does to a partition."""

    partition: Partition
    before: PartitionOffsets
    after: Reached

    @property
    def changes(self) -> bool:
        return self.after.offset != self.before.committed

    @property
    def again(self) -> int:
        """Entries that were finished with and are read again."""
        before = self.before
        return max(0, min(before.committed or 0, before.end) - self.after.offset)


def change_table(changes: Sequence[OffsetChange], *, back: bool) -> "Table":
    """For people. LEFT OUT: entries that no member will read. `back`: the queue can be set back, too."""
    more = ("READ AGAIN",) if back else ()
    rows = []
    for one in changes:
        row = (*one.partition, "-" if one.before.committed is None else one.before.committed, one.after.offset)
        rows.append((*row, f"{one.after.entries:,}", *([f"{one.again:,}"] if back else [])))
    return table(("QUEUE", "PARTITION", "OFFSET", "NEW", "LEFT OUT", *more), rows, right=("OFFSET", "NEW", "LEFT OUT", *more))


def effect(changes: Iterable[OffsetChange]) -> str:
    """What becomes of entries: "345 entries left out"."""
    left_out = again = 0
    for one in changes:
        left_out, again = left_out + one.after.entries, again + one.again
    parts = [f"{counted(left_out, 'entry', 'entries')} left out"] if left_out or not again else []
    return " and ".join([*parts, *([f"{counted(again, 'entry', 'entries')} read again"] if again else [])])


def why_not(look: GroupLook, partitions: Sequence[Partition]) -> str | None:
    """Why no offset of these partitions may be set now; None: it may. No member owns one of them, or is about to: the group is
    paused, its operator knows it, and the partitions have no owner."""
    group, state = look.group, look.state
    where = f"{group.name} -n {group.namespace}"
    if look.ledger_problem is not None or state is None:
        return f"the ledger of {group.full_name} {'does not read as one' if look.ledger_problem else 'is not there yet'}"
    if group.spec is None or not group.spec.paused:
        return f"{group.full_name} is not paused: `baton pause {where}`, then stop its pods"
    if not look.spec_seen:
        return f"no operator has seen yet that {group.full_name} is paused: `baton status {where}` says whether one looks"
    if unknown := [f"{one.queue}/{one.number}" for one in partitions if one not in state.records]:
        return f"{group.full_name} has no partition {first_of(unknown, _MOST_NAMED)} yet"
    if moving := [f"{one.queue}/{one.number}" for one in partitions if one in state.moves]:
        return f"{first_of(moving, _MOST_NAMED)} changes hands: wait until `baton status {where}` shows no hand-off"
    owners = sorted({owner for one in partitions if (owner := state.records[one].owner) is not None})
    if owners:
        return f"{first_of(owners, _MOST_NAMED)} may still work on what is reset: stop the pods of {group.full_name} first"
    return None
