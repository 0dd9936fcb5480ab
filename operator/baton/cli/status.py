"""`baton status`: a group on one screen: its state, why, and how long that can last."""

import sys
from collections.abc import Iterable, Iterator, Mapping
from contextlib import nullcontext, suppress
from typing import TypeVar

import click
from rich.console import Console, ConsoleRenderable, Group, RenderableType
from rich.table import Table
from rich.text import Text

from baton.api import ConditionStatus
from baton.api.group import Approval, ScaleSteps
from baton.cli.cluster import NoAnswerError, ask, cluster
from baton.cli.group import UNKNOWN, GroupLook, PartitionRow, QueueLook, is_idle, look_at, look_at_all, numbers, partitions
from baton.cli.group_words import MOST_QUEUES, Severity, ago, handoff, pause, problems_of, proposed
from baton.cli.options import (
    GROUP,
    ClusterTarget,
    Form,
    all_namespaces_option,
    cluster_options,
    output_option,
    say_object,
)
from baton.cli.printing import console, keep_drawing, printable, say, table
from baton.engine.ledger import write_numbers
from baton.engine.state_machine import PartitionState
from baton.model.ids import MemberId, QueueName
from baton.model.ledger import LedgerError, MemberEntry
from baton.model.times import read_seconds
from baton.model.wording import counted, first_of

T = TypeVar("T")

MOST_HANDOFFS, MOST_PROPOSED, LEAST_MEMBERS = 5, 4, 3


def screen(look: GroupLook, console: Console, lines: int | None) -> Iterator[RenderableType]:
    """The parts of the screen. `lines`: the height of the console; None: unlimited."""
    top = [*_head(look), *(_line((one.what, _COLOURS[one.severity]), one.rest) for one in problems_of(look))]
    queues = _queues(look.queues, None if lines is None else MOST_QUEUES)
    bottom = [*_slots(look), *_handoffs(look, None if lines is None else MOST_HANDOFFS), *_proposal(look, lines)]
    # The 4 lines: the head of the members' table, the members left out, the standbys, and the prompt.
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
    """A table of all partitions."""
    return table(("QUEUE", "PARTITION", "STATE", "OWNER", "EPOCH", "TO", "UNTIL", "WHY"), rows)


def group_table(looks: Iterable[GroupLook], *, wide: bool = False) -> Table:
    """A table with a line for each group."""
    rows = []
    head = ("NAMESPACE", "GROUP", "STATE", "PARTITIONS", "UNOWNED", "MEMBERS", "MOVING", "READY", "CHANGED")
    for one in looks:
        ready, looked = one.condition("Ready"), one.changed_at
        shown = one.cells(_NUMBERS)
        seen = "" if looked is None else f"{ago(looked, one.now)} ago"
        more = _more(one) if wide else ()
        rows.append((one.group.namespace, one.group.name, one.shown_state, *shown, ready and ready.reason, seen, *more))
    return table((*head, *(_WIDE if wide else ())), rows)


_NUMBERS = ("partitions", "unowned", "members", "moving")
_WIDE = ("ASSIGNOR", "APPROVAL", "STANDBYS", "MOVES", "LEAST", "MISSED", "WHY")


def _more(look: GroupLook) -> Iterator[object]:
    """The additional cells of a wide line."""
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
        f"{counted(status.moves, 'move')} so far (minimum {status.lower_bound:,}), "
        f"{counted(status.deadline_misses, 'deadline')} missed"
    )
    spec, desired = look.group.spec, status.desired_replicas
    if spec is not None and spec.scale is not None and spec.scale.steps is ScaleSteps.EVEN_SHARES and desired != spec.replicas:
        yield _line(f"spec.replicas asks for {counted(spec.replicas or 0, 'pod')}; spec.scale.steps holds the fleet at {desired}")


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
        yield table(("MEMBER", "COUNT", "OWNS", "RELEASING"), rows)
    if rest:
        counts = [entry.count if isinstance(entry, MemberEntry) else 0 for _, entry in rest]
        yield _line(
            f"and {len(rest):,} more, with {min(counts):,} to {counted(max(counts), 'partition')} each (-o wide shows all)"
        )
    if standbys:
        names, others = _cut(standbys, 5)
        yield _line("standing by: ", ", ".join(names) + (f" and {len(others):,} more" if others else ""))


def _newcomers(look: GroupLook) -> Iterator[Text]:
    """The number of members without a key in the ledger; they get one with their first plan."""
    count = look.status.members - len(look.members)
    if look.state is not None and count > 0:
        yield _line(f"new, without partitions so far: {counted(count, 'member')}")


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
        yield _line(f"and {hidden:,} more in flight or planned (--partitions shows all)")


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
    yield _line(f"  to approve it: baton approve {look.group.name} -n {look.group.namespace}")


def _line(*parts: str | tuple[str, str]) -> Text:
    """A line of plain texts, or of texts with a style."""
    told = (printable(part) if isinstance(part, str) else (printable(part[0]), part[1]) for part in parts)
    return Text.assemble(*told, no_wrap=False, overflow="ellipsis")


def _cut(those: Iterable[T], most: int | None) -> tuple[list[T], list[T]]:
    """The first `most` items, and the rest; a single remaining item is shown, not counted."""
    every = list(those)
    return (every, []) if most is None or len(every) <= most + 1 else (every[:most], every[most:])


def _for(look: GroupLook, until: str) -> str:
    end = read_seconds(until, None)
    return "" if end is None else f" for {max(0.0, end - look.now):.0f} s more"


def _ranges(of: Mapping[QueueName, str]) -> str:
    return "  ".join(f"{queue} {those}" for queue, those in of.items())


EVERY = 1.0
"""Seconds between two refreshes with --watch."""

UNSEEN = 3
"""The exit code if no operator runs for the group."""

LINES = 24
"""The height of a screen if the output is not a terminal."""


@click.command()
@click.argument("group", type=GROUP, required=False)
@cluster_options
@all_namespaces_option()
@click.option("--partitions", "each", is_flag=True, help="Show each partition: its state, owner, epoch and next owner.")
@click.option("--watch", "-w", is_flag=True, help="Refresh every second, until Ctrl-C.")
@output_option(
    wide="everything, even if it does not fit on a screen", programs="one object (a list without GROUP, or with --partitions)"
)
def status(group: str | None, all_namespaces: bool, each: bool, watch: bool, form: Form, target: ClusterTarget) -> None:
    """Show a ConsumerGroup: its state, owners and hand-offs. Without GROUP: one line for each group.

    Exits with 3 if no operator runs for GROUP.
    """
    if group is None and (each or watch):
        raise click.UsageError("--partitions and --watch need a GROUP")
    if watch and form.for_programs:
        raise click.UsageError(f"--watch is for people and -o {form} for programs: use one of them")
    if watch and not sys.stdout.isatty():
        raise click.UsageError("--watch needs a terminal, and the output is not one: omit it")
    if group is None:
        ask(_list(target, all_namespaces, form))
        return
    with suppress(KeyboardInterrupt) if watch else nullcontext():
        if ask(_show(group, target, form, each=each, watch=watch)) == UNKNOWN:
            sys.exit(UNSEEN)


async def _list(target: ClusterTarget, everywhere: bool, form: Form) -> None:
    async with cluster(target) as (api, where):
        looks = await look_at_all(api, None if everywhere else where)
    if form.for_programs:
        say_object([one.listed() for one in looks], form)
    elif looks:
        console().print(group_table(looks, wide=form.wide))
    else:
        say(f"There is no ConsumerGroup in {'the cluster' if everywhere else f'namespace {where}'}.")


def _rows(group: GroupLook) -> list[PartitionRow]:
    if group.ledger_problem:
        raise NoAnswerError(f"the ledger is invalid: {group.ledger_problem}")
    return partitions(group.state)


def _drawn(group: GroupLook, form: Form, *, each: bool) -> Iterable[RenderableType]:
    """The group for people: the screen, or the table of partitions."""
    if each:
        return [partition_table(_rows(group))]
    on = console()
    return screen(group, on, None if form.wide else on.height if sys.stdout.isatty() else LINES)


async def _show(group: str, target: ClusterTarget, form: Form, *, each: bool, watch: bool) -> str | None:
    """Show the group, and return the state shown, if any."""
    async with cluster(target) as (api, where):

        async def draw() -> Iterable[RenderableType]:
            return _drawn(await look_at(api, where, group), form, each=each)

        if watch:
            await keep_drawing(draw, EVERY)
        seen = await look_at(api, where, group)
    if form.for_programs:
        say_object([row._asdict() for row in _rows(seen)] if each else seen.to_json(), form)
    else:
        console().print(Group(*_drawn(seen, form, each=each)))
    return None if each else seen.shown_state
