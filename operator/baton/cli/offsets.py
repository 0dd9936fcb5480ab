"""`baton offsets`: where a group is in its partitions, and to set that by hand."""

import sys
from typing import TYPE_CHECKING

import click

from baton.cli.cluster import NoAnswerError, ask, cluster
from baton.cli.cluster_target import ClusterTarget, cluster_options
from baton.cli.names import GROUP, OBJECT
from baton.cli.offset_target import TARGET, OffsetTarget, OutsideError
from baton.cli.output_form import Form, output_option, say_object
from baton.cli.printing import console, say
from baton.model.wording import counted

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

    from baton.cli.group_view import GroupLook
    from baton.cli.offset_view import OffsetChange
    from baton.queues.offsets import PartitionOffsets, SetsOffsets


class _ShowsUnlessTold(click.Group):
    """`baton offsets GROUP` is `baton offsets show GROUP`."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        named = args and (args[0] in self.commands or args[0] in ctx.help_option_names)
        return super().parse_args(ctx, args if named or not args else ["show", *args])


@click.group(cls=_ShowsUnlessTold)
def offsets() -> None:
    """Show where a ConsumerGroup is in each partition (baton offsets GROUP), or set that by hand (baton offsets reset GROUP)."""


@offsets.command()
@click.argument("group", type=GROUP)
@cluster_options
@output_option(wide="also the earliest offset, state and epoch", programs="a list of partitions")
def show(group: str, form: Form, target: ClusterTarget) -> None:
    """Show of each partition the offset up to which GROUP has finished, the end, the lag, what is pending, and the owner.

    The queues themselves are asked. Ends with 1 if one of them does not tell.
    """
    name, target = target.within(group)
    ask(_show(name, target, form))


@offsets.command()
@click.argument("group", type=GROUP)
@click.option(
    "--to", "to", type=TARGET, required=True, metavar="TARGET", help="earliest, latest, a time, or the next offset to be read."
)
@click.option("--queue", type=OBJECT, help="The queue, where the group has several.")
@click.option("--partition", "numbers", type=click.IntRange(0), multiple=True, help="Only this partition; may be repeated.")
@click.option("--dry-run", is_flag=True, help="Only show what would change.")
@click.option("--yes", "-y", is_flag=True, help="Do not ask.")
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
    """Set where GROUP goes on in the partitions of a Redis queue or a topic. Shows which entries are left out or read again, and
    asks.

    The group has to be paused, and the partitions without an owner. A Redis queue deletes finished entries, so a reset there
    cannot go back.
    """
    name, target = target.within(group)
    ask(_reset(name, queue, to, numbers, target, dry_run=dry_run, yes=yes))


async def _show(group: str, target: ClusterTarget, form: Form) -> None:
    from baton.cli.live_group import look_at
    from baton.cli.live_offsets import offsets_of
    from baton.cli.offset_view import offset_rows, offset_table

    async with cluster(target) as (api, where):
        seen = await look_at(api, where, group)
        rows, silent = [], []
        for name in seen.queues:
            try:
                rows += offset_rows(seen, name, await offsets_of(api, seen, name))
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
    numbers: "Collection[int]",
    target: ClusterTarget,
    *,
    dry_run: bool,
    yes: bool,
) -> None:
    from baton.cli.live_group import look_at
    from baton.cli.live_offsets import adapter_of, kind_of
    from baton.cli.offset_view import change_table, effect, why_not
    from baton.queues.offsets import SetsOffsets

    async with cluster(target) as (api, where):
        seen = await look_at(api, where, group)
        name = _named(seen, queue)
        kind = kind_of(seen, name)
        async with adapter_of(api, seen, name) as adapter:
            if not isinstance(adapter, SetsOffsets):
                raise NoAnswerError(f"{name}: queues of type {kind.name} do not tell offsets, and Baton sets none")
            changes = await _changes(adapter, name, to, _chosen(seen, name, await adapter.offsets(), numbers))
            refused = why_not(seen, [one.partition for one in changes])
            if refused and not dry_run:
                raise NoAnswerError(f"nothing is changed: {refused}")
            console().print(change_table(changes, back=kind.keeps_finished))
            if refused:
                raise NoAnswerError(f"as it is now, this would be refused: {refused}")
            wanted = [one for one in changes if one.changes]
            those, outcome = f"{counted(len(wanted), 'partition')} of {name}", effect(wanted)
            if dry_run or not wanted:
                say(f"{where}/{group}: {'a dry run' if wanted else 'it is there already'}; nothing is changed")
                return
            if not yes:
                lasting = "" if kind.keeps_finished else ", for good"
                click.confirm(f"Set {those} to {to.text}: {outcome}{lasting}?", abort=True)
                seen = await look_at(api, where, group)
                if refused := why_not(seen, [one.partition for one in wanted]):
                    raise NoAnswerError(f"nothing is changed: {refused}")
            await _set(adapter, seen, wanted)
    say(f"{where}/{group}: {those} set to {to.text}, and {outcome}")
    say(f"`baton resume {group} -n {where}` lets it go on")


async def _set(adapter: "SetsOffsets", seen: "GroupLook", changes: "Sequence[OffsetChange]") -> None:
    """One partition after the other: where one is refused, or does not answer, those before it stay set."""
    from baton.queues.protocol import QueueConflict, QueueUnreachable

    assert seen.state is not None
    for done, one in enumerate(changes):
        try:
            await adapter.set_offset(one.partition.number, seen.state.records[one.partition].epoch, one.after.offset)
        except (QueueConflict, QueueUnreachable) as problem:
            raise NoAnswerError(f"{problem}; {counted(done, 'partition is', 'partitions are')} set") from None


def _named(seen: "GroupLook", named: str | None) -> str:
    """The name of the queue that is meant."""
    if named is None and len(seen.queues) != 1:
        raise NoAnswerError(f"{seen.group.full_name} has the queues {', '.join(seen.queues) or '-'}: name one with --queue")
    name = named or next(iter(seen.queues))
    if name not in seen.queues:
        raise NoAnswerError(f"{seen.group.full_name} has no queue {name}, but {', '.join(seen.queues) or 'none'}")
    return name


def _chosen(
    seen: "GroupLook", name: str, told: "Mapping[int, PartitionOffsets]", numbers: "Collection[int]"
) -> "dict[int, PartitionOffsets]":
    known = {one.number for one in (seen.state.records if seen.state is not None else ()) if one.queue == name}
    if unknown := sorted(set(numbers) - told.keys() - known):
        raise NoAnswerError(f"{name} has no partition {unknown[0]}: `baton offsets` lists those that there are")
    if silent := sorted((set(numbers) or known) - told.keys()):
        raise NoAnswerError(f"{name}/{silent[0]} does not tell its offsets: see whether all servers of {name} run")
    return {number: one for number, one in told.items() if not numbers or number in numbers}


async def _changes(
    adapter: "SetsOffsets", queue: str, to: OffsetTarget, chosen: "Mapping[int, PartitionOffsets]"
) -> "list[OffsetChange]":
    from baton.cli.offset_view import OffsetChange
    from baton.model.ids import Partition, QueueName

    changes = []
    with click.progressbar(chosen.items(), label="looking at entries", file=sys.stderr, hidden=not sys.stderr.isatty()) as each:
        for number, now in each:
            try:
                reached = to.known(now) or await adapter.reach(number, to.before(now), to.since)
            except OutsideError as why:
                raise NoAnswerError(f"{queue}/{number} {why}") from None
            changes.append(OffsetChange(Partition(QueueName(queue), number), now, reached))
    return changes
