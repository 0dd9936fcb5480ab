"""`baton top`: all groups on one live screen, the most urgent first."""

import sys
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from typing import Any

import click
from rich.console import Group, RenderableType
from rich.text import Text

from baton.api import ConditionStatus
from baton.cli.cluster import ask, cluster
from baton.cli.group import UNKNOWN, GroupLook, look_at_all
from baton.cli.lag import GroupLag, lags, shown_lag
from baton.cli.options import (
    ClusterTarget,
    Form,
    all_namespaces_option,
    cluster_options,
    operator_option,
    output_option,
    say_object,
)
from baton.cli.printing import console, keep_drawing, printable, table
from baton.model.wording import counted

HEAD = ("NAMESPACE", "GROUP", "STATE", "MEMBERS", "PARTITIONS", "UNOWNED", "MOVING", "LAG", "READY")
_WIDE = ("WORK", "STANDBYS", "MOVES", "MISSED", "ASSIGNOR", "WHY")
_NUMBERS = ("MEMBERS", "PARTITIONS", "UNOWNED", "MOVING", "LAG", *_WIDE[:4])


def top_screen(
    looks: Sequence[GroupLook], lags: Sequence[GroupLag], lines: int | None, *, wide: bool = False
) -> Iterator[RenderableType]:
    """The parts of the screen. `lags`: of the same groups, in the same order. `lines`: the height; None: unlimited."""
    states = Counter(str(look.shown_state or "New") for look in looks)
    told = ", ".join(f"{count} {state}" for state, count in sorted(states.items()))
    yield Text(printable(counted(len(looks), "group") + (f": {told}" if told else "")), "bold")
    if not looks:
        return
    ranked = _ranked(looks, lags)
    room = len(ranked) if lines is None else max(3, lines - 4)
    shown, rest = ranked[:room], ranked[room:]
    head = (*HEAD, *(_WIDE if wide else ()))
    yield table(head, [(*_row(*one), *(_more(*one) if wide else ())) for one in shown], right=_NUMBERS)
    if rest:
        yield Text(f"and {counted(len(rest), 'more group')}, with nothing more urgent")
    problems = sorted({lag.problem for lag in lags if lag.problem})
    if problems:
        yield Text(printable(f"the lag of some groups is unknown: {problems[0]}"), "yellow")


def top_json(looks: Sequence[GroupLook], lags: Sequence[GroupLag]) -> list[dict[str, Any]]:
    """The groups for programs, in the order of the screen. `lags`: as for `top_screen`."""
    return [
        {**look.listed(), "lag": lag.lag, "lagSeconds": lag.seconds, "lagProblem": lag.problem}
        for look, lag in _ranked(looks, lags)
    ]


def _ranked(looks: Sequence[GroupLook], lags: Sequence[GroupLag]) -> list[tuple[GroupLook, GroupLag]]:
    return sorted(zip(looks, lags, strict=True), key=lambda one: _rank(*one))


def _rank(look: GroupLook, lag: GroupLag) -> tuple[int, int, str, str]:
    ready, status = look.condition("Ready"), look.status
    if look.shown_state == UNKNOWN or ready is None or ready.status is not ConditionStatus.TRUE:
        urgent = 0
    elif status.unowned:
        urgent = 1
    else:
        urgent = 2 if status.moving else 3
    return urgent, -(lag.lag or 0), look.group.namespace, look.group.name


def _row(look: GroupLook, lag: GroupLag) -> tuple[object, ...]:
    ready = look.condition("Ready")
    shown = look.cells(_COUNTED)
    return (look.group.namespace, look.group.name, look.shown_state, *shown, shown_lag(lag.lag), ready and ready.reason)


def _more(look: GroupLook, lag: GroupLag) -> tuple[object, ...]:
    """The additional cells of a wide line."""
    status, ready = look.status, look.condition("Ready")
    told = ready.message if ready is not None and ready.status is not ConditionStatus.TRUE else None
    return (lag.pace, status.standbys, status.moves, status.deadline_misses, status.assignor, told)


_COUNTED = ("members", "partitions", "unowned", "moving")


LOOK_EVERY = 2.0
"""Seconds between two refreshes."""


@click.command()
@cluster_options
@all_namespaces_option()
@click.option("--once", is_flag=True, help="Show one screen and exit. The default when stdout is not a terminal.")
@operator_option
@output_option(wide="more columns", programs="once, a list of groups")
def top(all_namespaces: bool, once: bool, url: str | None, form: Form, target: ClusterTarget) -> None:
    """Show all ConsumerGroups live: state, members, partitions, hand-offs and lag, the most urgent first.

    Refreshes every two seconds until Ctrl-C; with -o json or yaml prints once.
    """
    with suppress(KeyboardInterrupt):
        ask(_top(target, all_namespaces, url, form, live=sys.stdout.isatty() and not once))


async def _top(target: ClusterTarget, everywhere: bool, url: str | None, form: Form, *, live: bool) -> None:
    async with cluster(target) as (api, where):

        async def seen() -> tuple[list[GroupLook], list[GroupLag]]:
            looks = await look_at_all(api, None if everywhere else where)
            return looks, await lags(api, [(one.group.namespace, one.group.name) for one in looks], url)

        async def draw() -> Iterable[RenderableType]:
            return top_screen(*await seen(), console().height - 1 if live else None, wide=form.wide)

        if form.for_programs:
            say_object(top_json(*await seen()), form)
        elif live:
            await keep_drawing(draw, LOOK_EVERY)
        else:
            console().print(Group(*await draw()))
