"""`baton status`: what is going on, on one screen."""

import asyncio
import sys
import time
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import click

from baton.cli.cluster import NoAnswerError, ask, cluster
from baton.cli.cluster_target import ClusterTarget, all_namespaces_option, cluster_options, refuse_group_of_all_namespaces
from baton.cli.group_view import UNKNOWN, GroupLook, PartitionRow, look, partitions
from baton.cli.live_group import look_at
from baton.cli.names import GROUP
from baton.cli.output_form import Form, output_option, say_object
from baton.cli.printing import console, printable, say
from baton.kube.errors import UnavailableError
from baton.kube.objects import groups_path

EVERY = 1.0
"""Seconds between two looks with --watch."""

UNSEEN = 3
"""The exit code where no operator looks after the group that is shown."""

LINES = 24
"""Of a screen where there is no terminal to ask."""


@click.command()
@click.argument("group", type=GROUP, required=False)
@cluster_options
@all_namespaces_option()
@click.option("--partitions", "each", is_flag=True, help="Show each partition: its state, owner, epoch and next owner.")
@click.option("--watch", "-w", is_flag=True, help="Refresh every second, until Ctrl-C.")
@output_option(
    wide="all of it, even if it does not fit on one screen", programs="one object (a list without GROUP, or with --partitions)"
)
def status(group: str | None, all_namespaces: bool, each: bool, watch: bool, form: Form, target: ClusterTarget) -> None:
    """Show a ConsumerGroup: its state, who owns what, and what changes hands. Without GROUP: one line for each group.

    Ends with 3 if no operator looks after GROUP.
    """
    refuse_group_of_all_namespaces(group, all_namespaces)
    if group is None and (each or watch):
        raise click.UsageError("--partitions and --watch show one GROUP: give its name")
    if watch and form.for_programs:
        raise click.UsageError(f"--watch is for people and -o {form} for programs: give one of them")
    if watch and not sys.stdout.isatty():
        raise click.UsageError("--watch draws on a terminal, and this output is none: leave it away")
    if group is None:
        ask(_list(target, all_namespaces, form))
        return
    name, target = target.within(group)
    shown = _Shown(each, form)
    if watch:
        with suppress(KeyboardInterrupt):
            ask(_watch(name, target, shown))
    elif ask(_show(name, target, shown)) == UNKNOWN:
        sys.exit(UNSEEN)


async def _list(target: ClusterTarget, everywhere: bool, form: Form) -> None:
    from baton.cli.group_screen import group_table

    async with cluster(target) as (api, where):
        found = (await api.get(groups_path(None if everywhere else where)))["items"]
    now = time.time()
    looks = [look(one, {}, now=now) for one in found]
    if form.for_programs:
        say_object([one.listed() for one in looks], form)
    elif looks:
        _print([group_table(looks, wide=form.wide)])
    else:
        say(f"There is no ConsumerGroup in {'the cluster' if everywhere else f'namespace {where}'}.")


Renderables = Iterable[Any]


@dataclass(frozen=True, slots=True)
class _Shown:
    """What of a group is shown, and how."""

    each: bool
    form: Form

    def json(self, group: GroupLook) -> object:
        """For programs."""
        return [row._asdict() for row in _rows(group)] if self.each else group.to_json()

    def drawn(self, group: GroupLook) -> Renderables:
        """For people."""
        from baton.cli.group_screen import partition_table, screen

        if self.each:
            return [partition_table(_rows(group))]
        on = console()
        lines = None if self.form.wide else on.height if sys.stdout.isatty() else LINES
        return screen(group, on, lines)


def _rows(group: GroupLook) -> list[PartitionRow]:
    if group.ledger_problem:
        raise NoAnswerError(f"the ledger does not read as one: {group.ledger_problem}")
    return partitions(group.state)


async def _show(group: str, target: ClusterTarget, shown: _Shown) -> str | None:
    """The group's state, where it is shown."""
    async with cluster(target) as (api, where):
        seen = await look_at(api, where, group)
    if shown.form.for_programs:
        say_object(shown.json(seen), shown.form)
    else:
        _print(shown.drawn(seen))
    return None if shown.each else seen.shown_state


async def _watch(group: str, target: ClusterTarget, shown: _Shown) -> None:
    from rich.console import Group
    from rich.live import Live
    from rich.text import Text

    async with cluster(target) as (api, where):
        seen = Group(*shown.drawn(await look_at(api, where, group)))
        with Live(seen, console=console(), screen=sys.stdout.isatty(), auto_refresh=False) as live:
            while True:
                await asyncio.sleep(EVERY)
                try:
                    seen = Group(*shown.drawn(await look_at(api, where, group)))
                except UnavailableError as error:
                    live.update(Group(Text(printable(f"As last seen: {error}"), "red"), seen), refresh=True)
                else:
                    live.update(seen, refresh=True)


def _print(those: Renderables) -> None:
    on = console()
    for one in those:
        on.print(one)
