"""All groups on one screen: those that need a look first, and what does not fit summed up. Pure."""

from collections import Counter
from collections.abc import Iterator, Sequence

from rich.console import RenderableType
from rich.text import Text

from baton.api import ConditionStatus
from baton.cli.group_view import UNKNOWN, GroupLook
from baton.cli.lag_view import GroupLag
from baton.cli.printing import printable, table
from baton.model.wording import counted

HEAD = ("NAMESPACE", "GROUP", "STATE", "MEMBERS", "PARTITIONS", "UNOWNED", "MOVING", "LAG", "READY")


def top_screen(looks: Sequence[GroupLook], lags: Sequence[GroupLag], lines: int | None) -> Iterator[RenderableType]:
    """`lags`: of the same groups, in the same order. `lines`: how many there are; None: as many as it takes."""
    states = Counter(str(look.shown_state or "New") for look in looks)
    told = ", ".join(f"{count} {state}" for state, count in sorted(states.items()))
    yield Text(printable(counted(len(looks), "group") + (f": {told}" if told else "")), "bold")
    if not looks:
        return
    ranked = sorted(zip(looks, lags, strict=True), key=lambda one: _rank(*one))
    room = len(ranked) if lines is None else max(3, lines - 4)
    shown, rest = ranked[:room], ranked[room:]
    yield table(HEAD, [_row(*one) for one in shown], right=("MEMBERS", "PARTITIONS", "UNOWNED", "MOVING", "LAG"))
    if rest:
        yield Text(f"and {counted(len(rest), 'more group')}, with nothing more urgent")
    problems = sorted({lag.problem for lag in lags if lag.problem})
    if problems:
        yield Text(printable(f"LAG of some is not known: {problems[0]}"), "yellow")


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
    status, ready = look.status, look.condition("Ready")
    counts = [getattr(status, name) if name in status.model_fields_set else None for name in _COUNTED]
    known = "?" if lag.lag is None else f"{lag.lag:,}"
    return (look.group.namespace, look.group.name, look.shown_state, *counts, known, ready and ready.reason)


_COUNTED = ("members", "partitions", "unowned", "moving")
