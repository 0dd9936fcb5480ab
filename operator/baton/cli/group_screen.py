"""A group on one screen: what is going on, why, and how long it can last. What does not fit is summed up. Pure."""

from collections.abc import Iterable, Iterator, Mapping
from typing import TypeVar

from rich.console import Console, ConsoleRenderable, RenderableType
from rich.table import Table
from rich.text import Text

from baton.api import ConditionStatus
from baton.api.enums import Approval, ScaleSteps
from baton.cli.group_problems import MOST_QUEUES, Severity, ago, problems_of
from baton.cli.group_view import GroupLook, PartitionRow, QueueLook, is_idle, numbers
from baton.cli.move_text import handoff, pause, proposed
from baton.cli.printing import printable, table
from baton.engine.partition_state import PartitionState
from baton.engine.partition_text import write_numbers
from baton.model.ids import MemberId, QueueName
from baton.model.ledger import LedgerError, MemberEntry
from baton.model.times import read_seconds
from baton.model.wording import counted, first_of

T = TypeVar("T")

MOST_HANDOFFS, MOST_PROPOSED, LEAST_MEMBERS = 5, 4, 3


def screen(look: GroupLook, console: Console, lines: int | None) -> Iterator[RenderableType]:
    """`lines`: how many there are on the console; None: as many as it takes."""
    top = [*_head(look), *problems(look)]
    queues = _queues(look.queues, None if lines is None else MOST_QUEUES)
    bottom = [*_slots(look), *_handoffs(look, None if lines is None else MOST_HANDOFFS), *_proposal(look, lines)]
    # Besides: the heading of the members' table, who is left out of it, who stands by, and the prompt.
    fixed: list[ConsoleRenderable] = [*top, queues, *bottom]
    newcomers = list(_newcomers(look))
    taken = sum(len(console.render_lines(part)) for part in [*fixed, *newcomers]) + 4
    room = None if lines is None else max(LEAST_MEMBERS, lines - taken)
    yield from top
    if look.queues:
        yield queues
    yield from _members(look.members, room)
    yield from newcomers
    yield from bottom


def partition_table(rows: Iterable[PartitionRow]) -> Table:
    """The table of all partitions."""
    return table(("QUEUE", "PARTITION", "STATE", "OWNER", "EPOCH", "TO", "UNTIL", "WHY"), rows)


def group_table(looks: Iterable[GroupLook], *, wide: bool = False) -> Table:
    """A line for each group."""
    rows = []
    head = ("NAMESPACE", "GROUP", "STATE", "PARTITIONS", "UNOWNED", "MEMBERS", "MOVING", "READY", "CHANGED")
    for look in looks:
        ready, looked = look.condition("Ready"), look.changed_at
        shown = counts(look, _NUMBERS)
        seen = "" if looked is None else f"{ago(looked, look.now)} ago"
        more = _more(look) if wide else ()
        rows.append((look.group.namespace, look.group.name, look.shown_state, *shown, ready and ready.reason, seen, *more))
    return table((*head, *(_WIDE if wide else ())), rows)


def counts(look: GroupLook, names: Iterable[str]) -> list[object]:
    """Cells with these numbers of a group; `?`: not known, though an operator has looked."""
    return [look.count(name) if look.changed_at is None or look.count(name) is not None else "?" for name in names]


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
    there = look.count("partitions")
    partitions = "? partitions" if there is None else counted(there, "partition")
    unowned = f" ({status.unowned:,} without an owner)" if status.unowned else ""
    others = f" and those of {first_of(look.uncounted, MOST_QUEUES)}" if there and look.uncounted else ""
    yield _line(
        f"{partitions}{unowned}{others}, {counted(status.members, 'member')} "
        f"({status.standbys:,} standing by), {status.moving:,} moving; assignor {status.assignor or '-'}{approval}"
    )
    yield _line(
        f"so far {counted(status.moves, 'move')} (the least possible: {status.lower_bound:,}), "
        f"{counted(status.deadline_misses, 'deadline')} missed"
    )
    spec, desired = look.group.spec, status.desired_replicas
    if spec is not None and spec.scale is not None and spec.scale.steps is ScaleSteps.EVEN_SHARES and desired != spec.replicas:
        yield _line(f"spec.replicas asks for {counted(spec.replicas or 0, 'pod')}; spec.scale.steps holds the fleet at {desired}")


def problems(look: GroupLook) -> Iterator[Text]:
    """What is wrong with the group, its queues and its operator, a line each."""
    for one in problems_of(look):
        yield _line((one.what, _COLOURS[one.severity]), one.rest)


_COLOURS = {Severity.ERROR: "red", Severity.WARNING: "yellow", Severity.NOTE: ""}


def _queues(queues: Mapping[str, QueueLook], most: int | None) -> Table:
    shown, rest = _cut(queues.items(), most)
    rows: list[list[object]] = [
        [name, "?" if one.partitions is None else one.partitions, *_states(one), one.status.partition_scale_status or "-"]
        for name, one in shown
    ]
    if rest:
        sums = [sum(queue.states.get(state, 0) for _, queue in rest) for state in PartitionState]
        rows.append([f"{len(rest)} more", sum(queue.partitions or 0 for _, queue in rest), *sums, None])
    return table(("QUEUE", "PARTITIONS", *(state.upper() for state in PartitionState), "SCALE"), rows)


def _states(queue: QueueLook) -> list[object]:
    return [queue.states.get(state, 0) if queue.states else "?" for state in PartitionState]


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


def _newcomers(look: GroupLook) -> Iterator[Text]:
    """Those whom the ledger has no key for: they get one with their first plan."""
    count = look.status.members - len(look.members)
    if look.state is not None and count > 0:
        yield _line(f"new, and without a partition so far: {counted(count, 'member')}")


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


def _ranges(of: Mapping[QueueName, str]) -> str:
    return "  ".join(f"{queue} {those}" for queue, those in of.items())
