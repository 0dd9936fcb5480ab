"""All groups on one screen: those that need a look first, and what does not fit summed up. Pure."""

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any

from rich.console import RenderableType
from rich.text import Text

from baton.api import ConditionStatus
from baton.cli.group_screen import counts
from baton.cli.group_view import UNKNOWN, GroupLook
from baton.cli.lag_view import GroupLag, shown_lag
from baton.cli.printing import printable, table
from baton.model.wording import counted

HEAD = ("NAMESPACE", "GROUP", "STATE", "MEMBERS", "PARTITIONS", "UNOWNED", "MOVING", "LAG", "READY")
_WIDE = ("WORK", "STANDBYS", "MOVES", "MISSED", "ASSIGNOR", "WHY")
_NUMBERS = ("MEMBERS", "PARTITIONS", "UNOWNED", "MOVING", "LAG", *_WIDE[:4])


def top_screen(
    looks: Sequence[GroupLook], lags: Sequence[GroupLag], lines: int | None, *, wide: bool = False
) -> Iterator[RenderableType]:
    """`lags`: of the same groups, in the same order. `lines`: how many there are; None: as many as it takes."""
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
        yield Text(printable(f"LAG of some is not known: {problems[0]}"), "yellow")


def top_json(looks: Sequence[GroupLook], lags: Sequence[GroupLag]) -> list[dict[str, Any]]:
    """The same groups in the same order, for programs."""
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
    shown = counts(look, _COUNTED)
    return (look.group.namespace, look.group.name, look.shown_state, *shown, shown_lag(lag.lag), ready and ready.reason)


def _more(look: GroupLook, lag: GroupLag) -> tuple[object, ...]:
    """The further cells of a wide line."""
    status, ready = look.status, look.condition("Ready")
    told = ready.message if ready is not None and ready.status is not ConditionStatus.TRUE else None
    return (lag.pace, status.standbys, status.moves, status.deadline_misses, status.assignor, told)


_COUNTED = ("members", "partitions", "unowned", "moving")
