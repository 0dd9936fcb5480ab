"""`baton offsets`: show a group's committed offsets, or set them by hand."""

import sys
from collections.abc import AsyncIterator, Collection, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from datetime import datetime
from re import ASCII, fullmatch
from typing import NamedTuple

import click
from rich.table import Table

from baton.cli.cluster import NoAnswerError, ask, cluster
from baton.cli.group import GroupLook, PartitionRow, look_at, partitions
from baton.cli.lag import shown_lag
from baton.cli.main import WholeSummaries
from baton.cli.options import GROUP, OBJECT, ClusterTarget, Form, Parsed, bounded, cluster_options, output_option, say_object
from baton.cli.printing import agree, console, say, table
from baton.controller.adapters import SecretForbidden, open_queue
from baton.kube.api import Api
from baton.model.extras import cure
from baton.model.ids import Partition, QueueName
from baton.model.wording import counted, first_of
from baton.queues.kind import QueueKind
from baton.queues.offsets import PartitionOffsets, Reached, SetsOffsets
from baton.queues.protocol import Claimant, QueueConflict, QueueUnreachable

EARLIEST, LATEST = "earliest", "latest"


@dataclass(frozen=True, slots=True)
class OffsetTarget:
    """The target of a reset, as given; at most one of the numbers is set."""

    text: str
    offset: int | None = None
    since: int | None = None
    """Milliseconds since 1970."""

    def offset_in(self, now: PartitionOffsets) -> int:
        """The target's offset or, for a time, the last offset that it can have. Raises OutsideError."""
        if self.text == EARLIEST:
            return now.earliest
        if self.offset is None:
            return now.end
        if not now.earliest <= self.offset <= now.end:
            raise OutsideError(f"has the offsets {now.earliest} to {now.end}; earlier entries are gone")
        return self.offset

    def without_reading(self, now: PartitionOffsets) -> Reached | None:
        """The result if it is known without reading entries. None: they have to be read, for a time or to be counted.

        Raises OutsideError.
        """
        offset = self.offset_in(now)
        if offset == now.earliest and self.since is None:
            return Reached(offset, 0)
        return Reached(offset, now.lag) if offset == now.end and self.since is None else None


class OutsideError(ValueError):
    """There is no such offset. The message continues a sentence that begins with the partition."""


def _target(value: str) -> OffsetTarget:
    if value in (EARLIEST, LATEST):
        return OffsetTarget(value)
    if fullmatch(r"[0-9]{1,16}", value, ASCII):
        return OffsetTarget(value, offset=int(value))
    with suppress(ValueError, OverflowError):
        time = datetime.fromisoformat(value[:40])
        since = round(time.timestamp() * 1000)
        if time.tzinfo is not None and value.isascii() and since >= 0:
            return OffsetTarget(value, since=since)
    raise ValueError("not earliest, latest, an offset, or a time with its zone such as 2026-11-26T12:00:00Z")


TARGET = Parsed("target", _target)

_MOST_NAMED = 5


class OffsetRow(NamedTuple):
    """A partition: its offsets, and its row of the ledger, if it has one."""

    partition: Partition
    offsets: PartitionOffsets
    known: PartitionRow | None

    def to_json(self) -> dict[str, object]:
        """For programs."""
        told, known = self.offsets, self.known
        return {
            "queue": self.partition.queue,
            "partition": self.partition.number,
            "offset": told.committed,
            "earliest": told.earliest,
            "end": told.end,
            "lag": told.lag,
            "pending": told.pending,
            "owner": known and known.owner,
            "state": known and known.state,
            "epoch": known and known.epoch,
        }


def offset_rows(look: GroupLook, queue: str, told: Mapping[int, PartitionOffsets]) -> list[OffsetRow]:
    """The rows of a queue's partitions, by number."""
    known = {row.partition: row for row in partitions(look.state) if row.queue == queue}
    return [OffsetRow(Partition(QueueName(queue), number), of, known.get(number)) for number, of in sorted(told.items())]


def offset_table(rows: Iterable[OffsetRow], *, wide: bool) -> Table:
    """For people."""
    more = ("EARLIEST", "STATE", "EPOCH") if wide else ()
    lines = []
    for partition, told, known in rows:
        committed = "-" if told.committed is None else told.committed
        line = (*partition, committed, told.end, shown_lag(told.lag), shown_lag(told.pending), known and known.owner)
        lines.append((*line, told.earliest, known and known.state, known and known.epoch) if wide else line)
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
        """The number of finished entries that are read again."""
        before = self.before
        return max(0, min(before.committed or 0, before.end) - self.after.offset)


def change_table(changes: Sequence[OffsetChange], *, back: bool) -> Table:
    """For people. LEFT OUT: entries that no member will read. `back`: the queue's offsets can also be set back."""
    more = ("READ AGAIN",) if back else ()
    rows = []
    for one in changes:
        row = (*one.partition, "-" if one.before.committed is None else one.before.committed, one.after.offset)
        rows.append((*row, f"{one.after.entries:,}", *([f"{one.again:,}"] if back else [])))
    return table(("QUEUE", "PARTITION", "OFFSET", "NEW", "LEFT OUT", *more), rows, right=("OFFSET", "NEW", "LEFT OUT", *more))


def effect(changes: Iterable[OffsetChange]) -> str:
    """What the changes do to entries: "345 entries left out"."""
    left_out = again = 0
    for one in changes:
        left_out, again = left_out + one.after.entries, again + one.again
    parts = [f"{counted(left_out, 'entry', 'entries')} left out"] if left_out or not again else []
    return " and ".join([*parts, *([f"{counted(again, 'entry', 'entries')} read again"] if again else [])])


def why_not(look: GroupLook, partitions: Sequence[Partition]) -> str | None:
    """Why no offset of these partitions may be set now; None: it may. The group has to be paused, its operator has to have seen
    that, and the partitions must have no owner and no hand-off."""
    group, state = look.group, look.state
    where = f"{group.name} -n {group.namespace}"
    if look.ledger_problem is not None or state is None:
        return f"the ledger of {group.full_name} {'is invalid' if look.ledger_problem else 'does not exist yet'}"
    if group.spec is None or not group.spec.paused:
        return f"{group.full_name} is not paused: `baton pause {where}`, then stop its pods"
    if not look.spec_seen:
        seen = f"no operator has seen yet that {group.full_name} is paused"
        return f"{seen}: `baton status {where}` shows whether an operator is running"
    if unknown := [f"{one.queue}/{one.number}" for one in partitions if one not in state.records]:
        return f"{group.full_name} has no partition {first_of(unknown, _MOST_NAMED)} yet"
    if moving := [f"{one.queue}/{one.number}" for one in partitions if one in state.moves]:
        return f"{first_of(moving, _MOST_NAMED)} is being handed off: wait until `baton status {where}` shows no hand-off"
    owners = sorted({owner for one in partitions if (owner := state.records[one].owner) is not None})
    if owners:
        return f"{first_of(owners, _MOST_NAMED)} may still work on these partitions: stop the pods of {group.full_name} first"
    return None


@asynccontextmanager
async def adapter_of(api: Api, seen: GroupLook, name: str) -> AsyncIterator[tuple[SetsOffsets, QueueKind]]:
    """Open the adapter of a queue of the group, with the queue's kind. Raises NoAnswerError, also for errors in the block and
    for a kind without offsets."""
    view = seen.queues[name].view
    if view is None:
        raise NoAnswerError(f"there is no PartitionedQueue {seen.group.namespace}/{name}")
    if view.spec is None:
        raise NoAnswerError(f"PartitionedQueue {view.full_name}: {view.problem}")
    kind = view.spec.source.kind
    try:
        adapter = await open_queue(api, view, Claimant(seen.group.full_name, seen.group.uid))
        try:
            if not isinstance(adapter, SetsOffsets):
                raise NoAnswerError(f"{name}: Baton can neither read nor set offsets of queues of type {kind.name}")
            yield adapter, kind
        finally:
            await adapter.close()
    except SecretForbidden:
        raise NoAnswerError(
            f"you may not read the Secret that {view.full_name} names: ask for the verb get on it, or run this command in the "
            "operator's pod"
        ) from None
    except (QueueUnreachable, QueueConflict) as problem:
        raise NoAnswerError(str(problem)) from None
    except ModuleNotFoundError as missing:
        raise NoAnswerError(f"{missing.name} is not installed: {cure(kind.name.lower())}") from None


class _ShowByDefault(WholeSummaries):
    """Run `baton offsets GROUP` as `baton offsets show GROUP`."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        named = args and (args[0] in self.commands or args[0] in ctx.help_option_names)
        return super().parse_args(ctx, args if named or not args else ["show", *args])


@click.group(cls=_ShowByDefault)
def offsets() -> None:
    """Show the committed offsets of a ConsumerGroup (baton offsets GROUP), or set them (baton offsets reset GROUP)."""


@offsets.command()
@click.argument("group", type=GROUP)
@cluster_options
@output_option(wide="also the earliest offset, state and epoch", programs="a list of partitions")
def show(group: str, form: Form, target: ClusterTarget) -> None:
    """Show for each partition the committed offset of GROUP, the end, the lag, the pending entries and the owner.

    Reads from the queues' servers. Exits with 1 if the offsets of a queue cannot be read.
    """
    ask(_show(group, target, form))


@offsets.command()
@click.argument("group", type=GROUP)
@click.option(
    "--to", "to", type=TARGET, required=True, metavar="TARGET", help="earliest, latest, a time, or the next offset to be read."
)
@click.option("--queue", type=OBJECT, help="The queue, if the group has several.")
@click.option("--partition", "numbers", type=bounded(0), multiple=True, help="Only this partition; repeatable.")
@click.option("--dry-run", is_flag=True, help="Only show what would change.")
@click.option("--yes", "-y", is_flag=True, help="Skip the confirmation.")
@cluster_options
def reset(
    group: str,
    to: OffsetTarget,
    queue: str | None,
    numbers: tuple[int, ...],
    dry_run: bool,
    yes: bool,
    target: ClusterTarget,
) -> None:
    """Set the offsets from which GROUP reads the partitions of a Redis queue or a Kafka topic. Shows which entries will be
    skipped or read again, and asks for confirmation.

    The group has to be paused, and its partitions without an owner. A Redis queue deletes finished entries, so its offsets
    cannot be set back.
    """
    ask(_reset(group, queue, to, numbers, target, dry_run=dry_run, yes=yes))


async def _show(group: str, target: ClusterTarget, form: Form) -> None:
    async with cluster(target) as (api, where):
        seen = await look_at(api, where, group)
        rows, silent = [], []
        for name in seen.queues:
            try:
                async with adapter_of(api, seen, name) as (adapter, _):
                    rows += offset_rows(seen, name, await adapter.offsets())
            except NoAnswerError as why:
                silent.append(str(why))
    if form.for_programs:
        say_object([row.to_json() for row in rows], form)
    elif rows or not silent:
        console().print(offset_table(rows, wide=form.wide))
    if silent:
        raise NoAnswerError("; ".join(silent))


async def _reset(
    group: str,
    queue: str | None,
    to: OffsetTarget,
    numbers: Collection[int],
    target: ClusterTarget,
    *,
    dry_run: bool,
    yes: bool,
) -> None:
    async with cluster(target) as (api, where):
        seen = await look_at(api, where, group)
        name = _named(seen, queue)
        async with adapter_of(api, seen, name) as (adapter, kind):
            changes = await _changes(adapter, name, to, _chosen(seen, name, await adapter.offsets(), numbers))
            refused = why_not(seen, [one.partition for one in changes])
            if refused and not dry_run:
                raise NoAnswerError(f"nothing was changed: {refused}")
            console().print(change_table(changes, back=kind.keeps_finished))
            if refused:
                raise NoAnswerError(f"a reset would be refused now: {refused}")
            wanted = [one for one in changes if one.changes]
            those, outcome = f"{counted(len(wanted), 'partition')} of {name}", effect(wanted)
            if dry_run or not wanted:
                say(f"{where}/{group}: {'dry run' if wanted else 'already there'}; nothing was changed")
                return
            if not yes:
                lasting = "" if kind.keeps_finished else ", permanently"
                agree(f"Set {those} to {to.text}: {outcome}{lasting}?")
                seen = await look_at(api, where, group)
                if refused := why_not(seen, [one.partition for one in wanted]):
                    raise NoAnswerError(f"nothing was changed: {refused}")
            await _set(adapter, seen, wanted)
    say(f"{where}/{group}: {those} set to {to.text}, and {outcome}")
    say(f"To let the group continue: baton resume {group} -n {where}")


async def _set(adapter: SetsOffsets, seen: GroupLook, changes: Sequence[OffsetChange]) -> None:
    """Set the offsets one by one. If one is refused or the server does not answer, those before it stay set."""
    assert seen.state is not None
    for done, one in enumerate(changes):
        try:
            await adapter.set_offset(one.partition.number, seen.state.records[one.partition].epoch, one.after.offset)
        except (QueueConflict, QueueUnreachable) as problem:
            raise NoAnswerError(f"{problem}; {counted(done, 'partition is', 'partitions are')} set") from None


def _named(seen: GroupLook, named: str | None) -> str:
    """The name of the queue: the named one, or the only one."""
    if named is None and len(seen.queues) != 1:
        raise NoAnswerError(f"{seen.group.full_name} has the queues {', '.join(seen.queues) or '-'}: name one with --queue")
    name = named or next(iter(seen.queues))
    if name not in seen.queues:
        raise NoAnswerError(f"{seen.group.full_name} has no queue {name}, but {', '.join(seen.queues) or 'none'}")
    return name


def _chosen(
    seen: GroupLook, name: str, told: Mapping[int, PartitionOffsets], numbers: Collection[int]
) -> dict[int, PartitionOffsets]:
    known = {one.number for one in (seen.state.records if seen.state is not None else ()) if one.queue == name}
    if unknown := sorted(set(numbers) - told.keys() - known):
        raise NoAnswerError(f"{name} has no partition {unknown[0]}: `baton offsets` lists the partitions")
    if silent := sorted((set(numbers) or known) - told.keys()):
        raise NoAnswerError(f"the offsets of {name}/{silent[0]} cannot be read: see whether all servers of {name} run")
    return {number: one for number, one in told.items() if not numbers or number in numbers}


async def _changes(
    adapter: SetsOffsets, queue: str, to: OffsetTarget, chosen: Mapping[int, PartitionOffsets]
) -> list[OffsetChange]:
    changes = []
    with click.progressbar(chosen.items(), label="reading entries", file=sys.stderr, hidden=not sys.stderr.isatty()) as each:
        for number, now in each:
            try:
                reached = to.without_reading(now) or await adapter.reach(number, to.offset_in(now), to.since)
            except OutsideError as why:
                raise NoAnswerError(f"{queue}/{number} {why}") from None
            changes.append(OffsetChange(Partition(QueueName(queue), number), now, reached))
    return changes
