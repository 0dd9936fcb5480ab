"""A group on one screen: what is going on, why, and how long it can last. What does not fit is summed up. Pure."""

from collections.abc import Iterable, Iterator, Mapping
from typing import TypeVar

from rich.console import Console, ConsoleRenderable, RenderableType
from rich.table import Table
from rich.text import Text

from baton.api.enums import Approval
from baton.cli.group_problems import MOST_QUEUES, ago
from baton.cli.group_view import GroupLook, PartitionRow, QueueLook, is_idle, numbers
from baton.cli.move_text import handoff, pause, proposed
from baton.cli.printing import printable, table
from baton.engine.partition_state import PartitionState
from baton.engine.partition_text import write_numbers
from baton.model.ids import MemberId, QueueName
from baton.model.ledger import LedgerError, MemberEntry
from baton.model.times import read_seconds
from baton.model.wording import counted

T = TypeVar("T")

MOST_HANDOFFS, MOST_PROPOSED, LEAST_MEMBERS = 5, 4, 3


def screen(look: GroupLook, console: Console, lines: int | None) -> Iterator[RenderableType]:
    """`lines`: how many there are on the console; None: as many as it takes."""
    top = [*_head(look), *problems(look)]
    queues = _queues(look.queues, None if lines is None else MOST_QUEUES)
    bottom = [*_slots(look), *_handoffs(look, None if lines is None else MOST_HANDOFFS), *_proposal(look, lines)]
    # Besides: the heading of the members' table, who is left out of it, who stands by, and the prompt.
    fixed: list[ConsoleRenderable] = [*top, queues, *bottom]
    taken = sum(len(console.render_lines(part)) for part in fixed) + 4
    room = None if lines is None else max(LEAST_MEMBERS, lines - taken)
    yield from top
    if look.queues:
        yield queues
    yield from _members(look.members, room)
    yield from bottom


def partition_table(rows: Iterable[PartitionRow]) -> Table:
    """The table of all partitions."""
    return table(("QUEUE", "PARTITION", "STATE", "OWNER", "EPOCH", "TO", "UNTIL", "WHY"), rows)


def group_table(looks: Iterable[GroupLook], *, wide: bool = False) -> Table:
    """A line for each group."""
    rows = []
    head = ("NAMESPACE", "GROUP", "STATE", "PARTITIONS", "UNOWNED", "MEMBERS", "MOVING", "READY", "SEEN")
    for look in looks:
        ready, looked, status = look.condition("Ready"), look.looked_at, look.status
        shown = [getattr(status, name) if name in status.model_fields_set else None for name in _NUMBERS]
        seen = "" if looked is None else f"{ago(looked, look.now)} ago"
        more = _more(look) if wide else ()
        rows.append((look.group.namespace, look.group.name, look.shown_state, *shown, ready and ready.reason, seen, *more))
    return table((*head, *(_WIDE if wide else ())), rows)


_NUMBERS = ("partitions", "unowned", "members", "moving")
_WIDE = ("ASSIGNOR", "APPROVAL", "STANDBYS", "MOVES", "LEAST", "MISSED", "WHY")


def _more(look: GroupLook) -> Iterator[object]:
    """The further cells of a wide line."""
    status, ready, rebalancing = look.status, look.condition("Ready"), look.condition("Rebalancing")
    yield from (status.assignor, look.approval.value, status.standbys, status.moves, status.lower_bound, status.deadline_misses)
    said = ready if ready is not None and ready.status is not ConditionStatus.TRUE else rebalancing
    yield said and said.message


def _head(look: GroupLook) -> Iterator[Text]:
    status = look.status
    until = "" if status.hold_until is None else f"{_for(look, status.hold_until)}, until {status.hold_until}"
    why = f": {look.why}" if look.why else ""
    yield _line((look.group.full_name, "bold"), ": ", (look.shown_state or "-", "bold"), until, why)
    approval = ", approval Manual" if look.approval is Approval.MANUAL else ""
    unowned = f" ({status.unowned:,} without an owner)" if status.unowned else ""
    yield _line(
        f"{counted(status.partitions, 'partition')}{unowned}, {counted(status.members, 'member')} "
        f"({status.standbys:,} standing by), {status.moving:,} moving; assignor {status.assignor or '-'}{approval}"
    )
    yield _line(
        f"so far {counted(status.moves, 'move')} (the least possible: {status.lower_bound:,}), "
        f"{counted(status.deadline_misses, 'deadline')} missed"
    )


def problems(look: GroupLook) -> Iterator[Text]:
    """What is wrong with the group, its queues and its operator, a line each."""
    group, status = look.group, look.status
    if group.deleted_at:
        yield _line(("Deleted", "yellow"), f" at {group.deleted_at}; it goes when its partitions are taken back")
    if look.shown_state == UNKNOWN:
        looked, as_of = look.looked_at, f"all this is as of then ({status.state})"
        since = " yet" if looked is None else f" since {status.last_look_time} ({ago(looked, look.now)} ago): {as_of}"
        yield _line(("No operator has looked", "red"), f"{since}. Nothing is moved meanwhile.")
        yield _line(
            f"{_leader(look.leader, look.now)}Does one run, and does it serve namespace {group.namespace}? "
            "See kubectl get pods -A -l app.kubernetes.io/component=operator",
        )
    elif not look.spec_seen:
        yield _line(("Out of date", "red"), ": no operator has seen the last change; does one run and serve this namespace?")
    if look.ledger_problem:
        yield _line(("The ledger does not read as one", "red"), f": {look.ledger_problem}")
    for mistake in look.unread:
        yield _line(("This cannot be read", "red"), f" (is this command as old as the operator?): {mistake}")
    for one in status.conditions:
        if one.status is not ConditionStatus.TRUE and _says_more(one.type, one.reason):
            colour = "red" if one.type == "Ready" else "yellow"
            yield _line((f"{one.type} is {one.status}: {one.reason}", colour), f": {one.message}")
    ready, rebalancing = look.condition("Ready"), look.condition("Rebalancing")
    yield from _queue_problems(look.queues, ready.message if ready else "")
    if rebalancing and "waited for" in rebalancing.message:
        yield _line(("Overdue", "yellow"), f": {rebalancing.message}")


def _queue_problems(queues: Mapping[str, QueueLook], told: str) -> Iterator[Text]:
    """What is wrong with queues, besides what the group's condition Ready says (`told`). Those of one server share it."""
    alike: dict[tuple[str, str, str, str], list[str]] = {}
    for name, queue in queues.items():
        for one in queue.status.conditions:
            if one.status is not ConditionStatus.TRUE and one.message not in told:
                alike.setdefault((one.type, one.status, one.reason, one.message), []).append(name)
    shown, rest = _cut(alike.items(), MOST_QUEUES)
    for (kind, status, reason, message), names in shown:
        yield _line((f"{kind} of {first_of(names, MOST_QUEUES)} is {status}: {reason}", "yellow"), f": {message}")
    if rest:
        yield _line(f"and {counted(len(rest), 'more condition')} of queues (kubectl describe pq)")


def _leader(one: Leader | None, now: float) -> str:
    """Of the operator that looked last."""
    if one is None:
        return ""
    namespace, _, name = one.lease.partition("/")
    if not one.readable:
        return f"Look at the Lease of its leader: kubectl get lease -n {namespace} {name}. "
    if one.renewed is None:
        how = "does not exist any more"
    elif one.holder is None:
        how = f"was given up, and last renewed {ago(one.renewed, now)} ago"
    else:
        how = f"was last renewed {ago(one.renewed, now)} ago, by {one.holder}"
    return f"The Lease of its leader, {name} in namespace {namespace}, {how}. "


def _says_more(kind: str, reason: str) -> bool:
    """Than the state does, and the counts below it."""
    if kind == "Settled":
        return reason == "Scaling"
    return kind not in ("Rebalancing", "ProposalReady") and reason != "ScaledToZero"


def _queues(queues: Mapping[str, QueueLook], most: int | None) -> Table:
    shown, rest = _cut(queues.items(), most)
    rows: list[list[object]] = [
        [name, one.partitions, *(one.states.get(state, 0) for state in PartitionState), one.status.partition_scale_status or "-"]
        for name, one in shown
    ]
    if rest:
        sums = [sum(queue.states.get(state, 0) for _, queue in rest) for state in PartitionState]
        rows.append([f"{len(rest)} more", sum(queue.partitions for _, queue in rest), *sums, None])
    return table(("QUEUE", "PARTITIONS", *(state.upper() for state in PartitionState), "SCALE"), rows)


def _members(members: Mapping[MemberId, MemberEntry | LedgerError], most: int | None) -> Iterator[RenderableType]:
    busy = {name: entry for name, entry in members.items() if not is_idle(entry)}
    standbys = [name for name in members if name not in busy]
    ranked = sorted(busy.items(), key=lambda one: (isinstance(one[1], MemberEntry) and not any(one[1].revoking.values()), one[0]))
    shown, rest = _cut(ranked, most)
    rows = [
        (name, entry.count, _ranges(numbers(entry.owned)), _ranges(numbers(entry.revoking)))
        if isinstance(entry, MemberEntry)
        else (name, "?", entry, None)
        for name, entry in sorted(shown, key=lambda one: one[0])
    ]
    if rows:
        yield table(("MEMBER", "N", "OWNS", "LETS GO OF"), rows)
    if rest:
        counts = [entry.count if isinstance(entry, MemberEntry) else 0 for _, entry in rest]
        yield _line(
            f"and {len(rest):,} more, with {min(counts):,} to {counted(max(counts), 'partition')} each (-o wide shows all)"
        )
    if standbys:
        names, others = _cut(standbys, 5)
        yield _line("standing by: ", ", ".join(names) + (f" and {len(others):,} more" if others else ""))


def _slots(look: GroupLook) -> Iterator[Text]:
    slots, rest = _cut(look.vacant, 3)
    for slot in slots:
        until = "" if slot.expires is None else f" for {max(0.0, slot.expires - look.now):.0f} s more"
        yield _line(f"the slot of {slot.member} is kept{until}: {_ranges(write_numbers(slot.vacated or ()))}")
    if rest:
        yield _line(f"and {counted(len(rest), 'more slot')}")


def _handoffs(look: GroupLook, most: int | None) -> Iterator[Text]:
    moves = look.status.handoffs
    shown, rest = _cut(moves, most)
    for move in shown:
        yield _line(handoff(move, look.now))
    if hidden := len(rest) + max(0, look.status.moving - len(moves)):
        yield _line(f"and {hidden:,} more on their way or planned (--partitions shows all)")


def _proposal(look: GroupLook, lines: int | None) -> Iterator[Text]:
    proposal = look.status.proposal
    if proposal is None:
        return
    yield _line(
        (f"proposal {proposal.id}", "bold"),
        f": {proposal.moves:,} would move, {proposal.paused_at_once:,} at once, each paused {pause(proposal)} "
        f"({proposal.reason})",
    )
    shown, _ = _cut(proposal.handoffs, None if lines is None else MOST_PROPOSED)
    for move in shown:
        yield _line(f"  {proposed(move)}")
    yield _line(f"  to carry it out: baton approve {look.group.name} -n {look.group.namespace}")


def _line(*parts: str | tuple[str, str]) -> Text:
    """Words, or words and their style."""
    told = (printable(part) if isinstance(part, str) else (printable(part[0]), part[1]) for part in parts)
    return Text.assemble(*told, no_wrap=False, overflow="ellipsis")


def _cut(those: Iterable[T], most: int | None) -> tuple[list[T], list[T]]:
    """The first of them, and the rest; a rest of one is shown instead of counted."""
    every = list(those)
    return (every, []) if most is None or len(every) <= most + 1 else (every[:most], every[most:])


def _for(look: GroupLook, until: str) -> str:
    end = read_seconds(until, None)
    return "" if end is None else f" for {max(0.0, end - look.now):.0f} s more"


def ago(then: float, now: float) -> str:
    """`12 s`, `7 min`, `3 h`, `5 d`"""
    seconds = max(0.0, now - then)
    for unit, length, most in (("s", 1, 120), ("min", 60, 7200), ("h", 3600, 172_800)):
        if seconds < most:
            return f"{seconds / length:.0f} {unit}"
    return f"{seconds / 86_400:.0f} d"


def _ranges(of: Mapping[QueueName, str]) -> str:
    return "  ".join(f"{queue} {those}" for queue, those in of.items())
