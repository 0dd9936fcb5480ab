"""`baton top`: all groups on one live screen."""

import asyncio
import sys
import time
from contextlib import suppress
from typing import TYPE_CHECKING

import click

from baton.cli.cluster import ask, cluster
from baton.cli.cluster_target import ClusterTarget, cluster_options
from baton.cli.lag import operator_option
from baton.cli.printing import console, printable
from baton.kube.api import Api, UnavailableError
from baton.kube.objects import groups_path

if TYPE_CHECKING:
    from rich.console import Group

LOOK_EVERY = 2.0
"""Seconds between two looks."""


@click.command()
@cluster_options
@click.option("--all-namespaces", "-A", is_flag=True, help="The groups of all namespaces.")
@click.option("--once", is_flag=True, help="Show it once. So it is where the output is no terminal.")
@operator_option
def top(all_namespaces: bool, once: bool, url: str | None, target: ClusterTarget) -> None:
    """Show all ConsumerGroups live: state, members, partitions, what moves, and lag. What needs a look stands first.

    Refreshed every two seconds, until Ctrl-C.
    """
    with suppress(KeyboardInterrupt):
        ask(_top(target, all_namespaces, url, live=sys.stdout.isatty() and not once))


async def _top(target: ClusterTarget, everywhere: bool, url: str | None, *, live: bool) -> None:
    from rich.console import Group
    from rich.live import Live
    from rich.text import Text

    async with cluster(target) as (api, where):
        path = groups_path(None if everywhere else where)
        on = console()
        seen = await _screen(api, path, url, on.height - 1 if live else None)
        if not live:
            on.print(seen)
            return
        with Live(seen, console=on, screen=True, auto_refresh=False) as drawn:
            while True:
                await asyncio.sleep(LOOK_EVERY)
                try:
                    seen = await _screen(api, path, url, on.height - 1)
                except UnavailableError as error:
                    drawn.update(Group(Text(printable(f"As last seen: {error}"), "red"), seen), refresh=True)
                else:
                    drawn.update(seen, refresh=True)


async def _screen(api: Api, path: str, url: str | None, lines: int | None) -> "Group":
    from rich.console import Group

    from baton.cli.group_view import look
    from baton.cli.live_lags import lags
    from baton.cli.top_screen import top_screen

    found = (await api.get(path))["items"]
    looks = [look(one, {}, now=time.time()) for one in found]
    known = await lags(api, [(one.group.namespace, one.group.name) for one in looks], url)
    return Group(*top_screen(looks, known, lines))
