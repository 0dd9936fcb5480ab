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
    """Set where GROUP goes on in the partitions of a queue. Shows what that leaves out, and asks.

    For Redis queues; the place in a topic is set by Kafka's own tool, of which the refusal has the command. The group has to be
    paused, and what is reset without an owner. A Redis queue has nothing left of what is finished with: a
    reset there leaves entries out, and cannot go back.
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
    from baton.cli.offset_view import change_table, why_not
    from baton.queues.offsets import SetsOffsets

    async with cluster(target) as (api, where):
        seen = await look_at(api, where, group)
        name = _settable(seen, queue)
        async with adapter_of(api, seen, name) as adapter:
            if not isinstance(adapter, SetsOffsets):
                raise NoAnswerError(f"Baton sets no offset of {name}: it cannot for queues of type {kind_of(seen, name).name}")
            changes = await _changes(adapter, name, to, _chosen(name, await adapter.offsets(), numbers))
            refused = why_not(seen, [one.partition for one in changes])
            if refused and not dry_run:
                raise NoAnswerError(f"nothing is changed: {refused}")
            console().print(change_table(changes))
            if refused:
                raise NoAnswerError(f"as it is now, this would be refused: {refused}")
            wanted = [one for one in changes if one.changes]
            left_out = counted(sum(one.after.entries for one in wanted), "entry", "entries")
            if dry_run or not wanted:
                say(f"{where}/{group}: {'a dry run' if wanted else 'it is there already'}; nothing is changed")
                return
            if not yes:
                click.confirm(f"Leave out {left_out} of {name} for good?", abort=True)
                seen = await look_at(api, where, group)
                if refused := why_not(seen, [one.partition for one in wanted]):
                    raise NoAnswerError(f"nothing is changed: {refused}")
            await _set(adapter, seen, wanted)
    say(f"{where}/{group}: {counted(len(wanted), 'partition')} of {name} set to {to.text}, and {left_out} left out")
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


def _settable(seen: "GroupLook", named: str | None) -> str:
    """The name of the queue that is meant, of a kind whose offsets Baton sets."""
    from baton.cli.live_offsets import kind_of

    if named is None and len(seen.queues) != 1:
        raise NoAnswerError(f"{seen.group.full_name} has the queues {', '.join(seen.queues) or '-'}: name one with --queue")
    name = named or next(iter(seen.queues))
    if name not in seen.queues:
        raise NoAnswerError(f"{seen.group.full_name} has no queue {name}, but {', '.join(seen.queues) or 'none'}")
    kind = kind_of(seen, name)
    if kind.offsets_are_set:
        raise NoAnswerError(f"the offsets of {name}, of type {kind.name}, are set by {kind.offsets_are_set}")
    return name


def _chosen(name: str, told: "Mapping[int, PartitionOffsets]", numbers: "Collection[int]") -> "dict[int, PartitionOffsets]":
    if unknown := sorted(set(numbers) - told.keys()):
        raise NoAnswerError(f"{name} has no partition {unknown[0]}: `baton offsets` lists those that there are")
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
