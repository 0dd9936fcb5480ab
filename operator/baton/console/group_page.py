"""What the console shows of groups, as JSON: made of what `baton status` shows, by the same readings. Pure."""

from collections.abc import Iterable, Sequence
from typing import Any

from baton.cli.group import COUNTS, GroupLook, is_idle, numbers, partitions
from baton.cli.group_words import pause, problems_of
from baton.cli.lag import GroupLag
from baton.console.grid import columns, rows
from baton.console.ranges_text import short, short_numbers
from baton.console.timeline import TimelineEntry, newest
from baton.model.ids import MemberId
from baton.model.ledger import LedgerError, MemberEntry
from baton.model.times import read_seconds
from baton.model.wording import one_line

Json = dict[str, Any]

MOST_HANDOFFS = 100
"""That are listed; the grid shows all."""

LONGEST_RANGES = 400
"""Characters of a member's partitions; the grid shows all."""


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
        **{name: look.count(name) for name in ("partitions", "unowned", "members", "standbys", "moving")},
    }


def group_page(
    look: GroupLook,
    happened: Sequence[Iterable[TimelineEntry]] = (),
    lag: GroupLag | None = None,
    notes: Iterable[str] = (),
) -> Json:
    """All of one group. `lag`: what its operator answers; `notes`: what could not be asked."""
    every = partitions(look.state)
    shown = rows(list(look.members), every, look.vacant)
    written = look.status.model_dump(mode="json", exclude_unset=True, by_alias=True)
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
        "conditions": [
            {
                "type": one.type,
                "status": one.status,
                "reason": one.reason,
                "message": one.message,
                "since": read_seconds(one.last_transition_time, None),
            }
            for one in look.status.conditions
        ],
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
            {
                "member": slot.member,
                "until": slot.expires,
                "partitions": short_numbers(slot.vacated or (), LONGEST_RANGES),
            }
            for slot in look.vacant[:MOST_HANDOFFS]
        ],
        "proposal": _proposal(look),
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
            "owned": {queue: short(of, LONGEST_RANGES) for queue, of in numbers(entry.owned).items()},
            "revoking": {queue: short(of, LONGEST_RANGES) for queue, of in numbers(entry.revoking).items()},
        }
    problem = str(entry) if isinstance(entry, LedgerError) else None
    return {"name": name, "count": 0, "role": "gone", "owned": {}, "revoking": {}, "problem": problem}


def _handoffs(look: GroupLook) -> Json:
    """Those that run, by their clocks."""
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
                "length": move.length,
                "why": move.why,
                "unacknowledged": waits.get((partition.queue, partition.number)),
            }
            for deadline, partition, move in moving[:MOST_HANDOFFS]
        ],
    }


def _proposal(look: GroupLook) -> Json | None:
    proposal = look.status.proposal
    if proposal is None:
        return None
    return {
        "id": proposal.id,
        "moves": proposal.moves,
        "paused": proposal.paused,
        "pausedAtOnce": proposal.paused_at_once,
        "pause": pause(proposal),
        "reason": proposal.reason,
        "since": read_seconds(proposal.created_at, None),
        "handoffs": [
            {"queue": one.queue, "partitions": one.partitions, "from": one.giver, "to": one.receiver} for one in proposal.handoffs
        ],
        "members": [{"member": one.member, "before": one.before, "after": one.after} for one in proposal.members],
    }
