"""`baton top`: all groups on one live screen."""

import asyncio
import sys
import time
from contextlib import suppress
from typing import TYPE_CHECKING

import click

from baton.cli.cluster import ask, cluster
from baton.cli.cluster_target import ClusterTarget, all_namespaces_option, cluster_options
from baton.cli.lag import operator_option
from baton.cli.output_form import Form, output_option, say_object
from baton.cli.printing import console, printable
from baton.kube.api import Api
from baton.kube.errors import UnavailableError
from baton.kube.objects import groups_path

if TYPE_CHECKING:
    from rich.console import Group

    from baton.cli.group_view import GroupLook
    from baton.cli.lag_view import GroupLag

LOOK_EVERY = 2.0
"""Seconds between two looks."""


@click.command()
@cluster_options
@all_namespaces_option()
@click.option("--once", is_flag=True, help="Show it once. So it is where the output is no terminal.")
@operator_option
@output_option(wide="more columns", programs="once, a list of groups")
def top(all_namespaces: bool, once: bool, url: str | None, form: Form, target: ClusterTarget) -> None:
    """Show all ConsumerGroups live: state, members, partitions, what moves, and lag. What needs a look stands first.

    Refreshed every two seconds, until Ctrl-C; not with -o json or yaml.
    """
    with suppress(KeyboardInterrupt):
        if form.for_programs:
            ask(_tell(target, all_namespaces, url, form))
        else:
            ask(_top(target, all_namespaces, url, live=sys.stdout.isatty() and not once, wide=form.wide))


async def _tell(target: ClusterTarget, everywhere: bool, url: str | None, form: Form) -> None:
    from baton.cli.top_screen import top_json

    async with cluster(target) as (api, where):
        seen = await _look(api, groups_path(None if everywhere else where), url)
    say_object(top_json(*seen), form)


async def _top(target: ClusterTarget, everywhere: bool, url: str | None, *, live: bool, wide: bool) -> None:
    from rich.console import Group
    from rich.live import Live
    from rich.text import Text

    async with cluster(target) as (api, where):
        path = groups_path(None if everywhere else where)
        on = console()
        seen = await _screen(api, path, url, on.height - 1 if live else None, wide=wide)
        if not live:
            on.print(seen)
            return
        with Live(seen, console=on, screen=True, auto_refresh=False) as drawn:
            while True:
                await asyncio.sleep(LOOK_EVERY)
                try:
                    seen = await _screen(api, path, url, on.height - 1, wide=wide)
                except UnavailableError as error:
                    drawn.update(Group(Text(printable(f"As last seen: {error}"), "red"), seen), refresh=True)
                else:
                    drawn.update(seen, refresh=True)


async def _screen(api: Api, path: str, url: str | None, lines: int | None, *, wide: bool) -> "Group":
    from rich.console import Group

    from baton.cli.top_screen import top_screen

    return Group(*top_screen(*await _look(api, path, url), lines, wide=wide))


async def _look(api: Api, path: str, url: str | None) -> "tuple[list[GroupLook], list[GroupLag]]":
    """All groups, and their lags in the same order."""
    from baton.cli.group_view import look
    from baton.cli.live_lags import lags

    found = (await api.get(path))["items"]
    looks = [look(one, {}, now=time.time()) for one in found]
    return looks, await lags(api, [(one.group.namespace, one.group.name) for one in looks], url)
