"""The console's pages as JSON, made from the same data as `baton status`. Pure."""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from itertools import groupby
from typing import Any, NamedTuple

from baton.cli.group import COUNTS, GroupLook, Manifest, PartitionRow, is_idle, numbers, partitions
from baton.cli.group_words import pause, problems_of
from baton.cli.lag import GroupLag
from baton.engine import GroupState
from baton.engine.ledger import write_numbers
from baton.engine.state import MemberSlot
from baton.engine.state_machine import PartitionState
from baton.model.ids import MemberId, Partition, QueueName
from baton.model.ledger import LedgerError, MemberEntry
from baton.model.ranges import shortened
from baton.model.times import read_seconds
from baton.model.wording import one_line


def short_numbers(partitions: Iterable[Partition], most: int) -> dict[QueueName, str]:
    """The partitions as ranges by queue: `{"orders": "0-3,7"}`"""
    return {queue: shortened(ranges, most) for queue, ranges in write_numbers(partitions).items()}


UNOWNED = -1
"""The number of no member."""

LETTERS = {
    PartitionState.READY: "R",
    PartitionState.PAUSED: "P",
    PartitionState.UNBOUND: "U",
    PartitionState.UNASSIGNED: "N",
}


def rows(members: Sequence[MemberId], partitions: Sequence[PartitionRow], slots: Sequence[MemberSlot]) -> list[MemberId]:
    """The members of the grid, by name, including former members that still have slots or partitions."""
    named = {*members, *(slot.member for slot in slots)}
    named |= {one for row in partitions for one in (row.owner, row.to) if one is not None}
    return sorted(named)


def columns(members: Sequence[MemberId], partitions: Sequence[PartitionRow], slots: Sequence[MemberSlot]) -> list[dict[str, Any]]:
    """The partitions by queue: `owners` has numbers of members, `states` a letter each, `numbers` the partitions if they are not
    0, 1, 2, …, and `to` the next owners by index."""
    number = {name: at for at, name in enumerate(members)}
    kept: Mapping[Partition, MemberId] = {partition: slot.member for slot in slots for partition in slot.vacated or ()}

    def mapped(row: PartitionRow) -> MemberId | None:
        """The member of the partition's row; for a partition on hold the member that it waits for."""
        return row.owner or kept.get(Partition(row.queue, row.partition))  # type: ignore[arg-type] # a queue's name

    made = []
    for queue, those in groupby(partitions, key=lambda row: row.queue):
        of = list(those)
        numbers = [row.partition for row in of]
        made.append(
            {
                "queue": queue,
                "numbers": None if numbers == list(range(len(of))) else numbers,
                "owners": [UNOWNED if (name := mapped(row)) is None else number[name] for row in of],
                "states": "".join(LETTERS[row.state] for row in of),
                "epochs": [row.epoch for row in of],
                "to": {str(at): number[row.to] for at, row in enumerate(of) if row.to is not None and row.to != row.owner},
            }
        )
    return made


MOST_ENTRIES = 200
"""The most entries shown: the newest."""

MOST_AT_ONCE = 20
"""The most entries for one change of the ledger."""

LONGEST_MOVED, LONGEST_NOTE = 120, 600
"""The most characters of moved partitions, and of an event's note."""


class TimelineEntry(NamedTuple):
    """An entry of the timeline. `at`: Unix seconds."""

    at: float
    kind: str
    """`Moved`, or the reason of an event."""
    text: str
    warning: bool = False


def moves_between(before: GroupState | None, after: GroupState | None, now: float) -> list[TimelineEntry]:
    """The moves between two states of a ledger, by giver and receiver."""
    if before is None or after is None:
        return []
    moved: defaultdict[tuple[MemberId | None, MemberId | None, str], list[Partition]] = defaultdict(list)
    for partition, record in after.records.items():
        known = before.records.get(partition)
        if known is None or known.owner != record.owner:
            planned = before.moves.get(partition) or after.moves.get(partition)
            giver = None if known is None else known.owner or known.last
            if giver == record.owner and record.owner is not None and (known is None or known.owner is not None):
                continue
            moved[giver, record.owner, "" if planned is None else planned.why].append(partition)
    told = sorted(moved.items(), key=lambda one: -len(one[1]))
    entries = [TimelineEntry(now, "Moved", _sentence(*pair, those)) for pair, those in told[:MOST_AT_ONCE]]
    if rest := told[MOST_AT_ONCE:]:
        count = sum(len(those) for _, those in rest)
        entries.append(TimelineEntry(now, "Moved", f"and {count:,} more partitions between {len(rest):,} other pairs"))
    return entries


def of_events(events: Iterable[Manifest]) -> list[TimelineEntry]:
    """The operator's events, except invalid ones."""
    entries = []
    for event in events:
        series = event.get("series") or {}
        last = series.get("lastObservedTime") or event.get("eventTime") or event.get("deprecatedLastTimestamp")
        at = read_seconds(last, None)
        if at is None:
            continue
        reason = one_line(str(event.get("reason") or ""), 128)
        entries.append(
            TimelineEntry(at, reason, one_line(str(event.get("note") or ""), LONGEST_NOTE), event.get("type") == "Warning")
        )
    return entries


def newest(*lists: Iterable[TimelineEntry]) -> list[dict[str, Any]]:
    """The newest entries of all lists, the newest first."""
    every = sorted((one for some in lists for one in some), key=lambda one: one.at, reverse=True)
    return [one._asdict() for one in every[:MOST_ENTRIES]]


def _sentence(giver: MemberId | None, owner: MemberId | None, why: str, those: Iterable[Partition]) -> str:
    what = " and ".join(f"{numbers} of {queue}" for queue, numbers in short_numbers(sorted(those), LONGEST_MOVED).items())
    return f"{what}: {giver or 'unowned'} → {owner or 'unowned'}" + (f": {why}" if why else "")


Json = dict[str, Any]

MOST_HANDOFFS = 100
"""The most hand-offs listed; the grid shows all."""

LONGEST_RANGES = 400
"""The most characters of a member's partitions; the grid shows all."""


def group_row(look: GroupLook) -> Json:
    """A line of the list of groups."""
    ready = look.condition("Ready")
    return {
        "namespace": look.group.namespace,
        "name": look.group.name,
        "state": look.shown_state,
        "reason": ready and ready.reason,
        "holdUntil": read_seconds(look.status.hold_until, None),
        "proposal": look.status.proposal is not None,
        "changedAt": look.changed_at,
        **{name: look.count(name) for name in ("partitions", "unowned", "members", "moving")},
    }


def group_page(
    look: GroupLook,
    happened: Sequence[Iterable[TimelineEntry]] = (),
    lag: GroupLag | None = None,
    notes: Iterable[str] = (),
) -> Json:
    """The page of one group. `lag`: the operator's answer; `notes`: what could not be read."""
    every = partitions(look.state)
    shown = rows(list(look.members), every, look.vacant)
    written = look.status.model_dump(mode="json", exclude_unset=True, by_alias=True)
    proposal = look.status.proposal
    return {
        "namespace": look.group.namespace,
        "name": look.group.name,
        "state": look.shown_state,
        "why": look.why,
        "holdUntil": read_seconds(look.status.hold_until, None),
        "approval": look.approval,
        **{name: written.get(name) for name in COUNTS if name != "members"},
        "memberCount": written.get("members"),
        "partitions": look.count("partitions"),
        "unowned": sum(row.owner is None for row in every) if every else look.count("unowned"),
        "problems": [{"what": one.what, "rest": one.rest, "severity": one.severity} for one in problems_of(look)],
        "conditions": written.get("conditions", []),
        "queues": [
            {
                "name": name,
                "partitions": queue.partitions,
                "states": dict(queue.states),
                "scale": queue.status.partition_scale_status,
            }
            for name, queue in look.queues.items()
        ],
        "members": [_member(look, name) for name in shown],
        "grid": columns(shown, every, look.vacant),
        "handoffs": _handoffs(look),
        "slots": [
            {"member": slot.member, "until": slot.expires, "partitions": short_numbers(slot.vacated or (), LONGEST_RANGES)}
            for slot in look.vacant[:MOST_HANDOFFS]
        ],
        "proposal": proposal and {**proposal.model_dump(mode="json", by_alias=True), "pause": pause(proposal)},
        "timeline": newest(*happened),
        "lag": None if lag is None else one_line(lag.text, 400),
        "notes": list(notes),
    }


def _member(look: GroupLook, name: MemberId) -> Json:
    entry = look.members.get(name)
    if isinstance(entry, MemberEntry):
        return {
            "name": name,
            "count": entry.count,
            "role": "standby" if is_idle(entry) else "member",
            "owned": {queue: shortened(of, LONGEST_RANGES) for queue, of in numbers(entry.owned).items()},
            "revoking": {queue: shortened(of, LONGEST_RANGES) for queue, of in numbers(entry.revoking).items()},
        }
    problem = str(entry) if isinstance(entry, LedgerError) else None
    return {"name": name, "count": 0, "role": "gone", "owned": {}, "revoking": {}, "problem": problem}


def _handoffs(look: GroupLook) -> Json:
    """The hand-offs in progress, the earliest deadline first."""
    state = look.state
    if state is None:
        return {"count": 0, "shown": []}
    waits = {(one.queue, one.partition): one.unacknowledged for one in look.status.handoffs}
    moving = [
        (move.deadline if move.giver else None, partition, move) for partition, move in state.moves.items() if not move.quiet
    ]
    moving.sort(key=lambda one: (one[0] is None, one[0] or 0.0, one[1]))
    return {
        "count": len(moving),
        "shown": [
            {
                "queue": partition.queue,
                "partition": partition.number,
                "from": move.giver,
                "to": move.receiver,
                "deadline": deadline,
                "why": move.why,
                "unacknowledged": waits.get((partition.queue, partition.number)),
            }
            for deadline, partition, move in moving[:MOST_HANDOFFS]
        ],
    }
