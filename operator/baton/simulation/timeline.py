"""The lines of an instant, in the order that the format fixes.

First who is fenced, what becomes of a proposal, then Rebalancing, misses and releases, grants, revokes, standbys, a new proposal,
and the final state.
"""

from collections import defaultdict
from typing import Any

from baton.engine.results import (
    Approved,
    DeadlineMissed,
    Fenced,
    Granted,
    Proposed,
    Released,
    Revoked,
    StandsBy,
    State,
    StateChanged,
    StepEvent,
    Withdrawn,
)
from baton.model.ids import Partition

Line = dict[str, Any]
_HandOff = DeadlineMissed | Released | Granted | Revoked


def number(seconds: float) -> float | int:
    """Rounded to the microsecond; whole seconds are whole numbers."""
    rounded = round(seconds, 6)
    return int(rounded) if rounded == int(rounded) else rounded


def time_text(seconds: float) -> str:
    """For people: at most two decimals."""
    return f"{seconds:,.2f}".rstrip("0").rstrip(".")


class Timeline:
    """Collects what happens, instant by instant."""

    def __init__(self) -> None:
        self.lines: list[Line] = []
        self._state: tuple[State, float | None] = (State.READY, None)

    def add(self, now: float, events: list[StepEvent]) -> list[Line]:
        """Add the lines of one instant."""
        t = number(now)
        lines: list[Line] = [
            {"t": t, "event": "fenced", "member": h.member, "why": h.why} for h in events if isinstance(h, Fenced)
        ]
        lines += [{"t": t, "event": "withdrawn", "id": h.id} for h in events if isinstance(h, Withdrawn)]
        lines += [{"t": t, "event": "approved", "id": h.id} for h in events if isinstance(h, Approved)]
        states = [(h.state, h.until) for h in events if isinstance(h, StateChanged)]
        if (State.REBALANCING, None) in states:
            self._change(t, (State.REBALANCING, None), lines)
        lines += _hand_offs(t, events)
        standbys = sorted({h.member for h in events if isinstance(h, StandsBy)})
        lines += [{"t": t, "event": "standby", "member": member} for member in standbys]
        lines += [{"t": t, "event": "proposal", "id": h.id, "moves": h.moves} for h in events if isinstance(h, Proposed)]
        if states:
            self._change(t, states[-1], lines)
        self.lines += lines
        return lines

    def _change(self, t: float, state: tuple[State, float | None], lines: list[Line]) -> None:
        if state == self._state:
            return
        self._state = state
        line: Line = {"t": t, "event": "state", "state": str(state[0])}
        lines.append(line if state[1] is None else line | {"until": number(state[1])})


def _hand_offs(t: float, events: list[StepEvent]) -> list[Line]:
    """Misses and releases, grants, revokes, each by partition. What is revoked and granted in one instant stays
    together, in that order."""
    of: defaultdict[Partition, list[_HandOff]] = defaultdict(list)
    for event in events:
        if isinstance(event, _HandOff):
            of[event.partition].append(event)
    order = {DeadlineMissed: 0, Released: 0, Granted: 1, Revoked: 2}
    keyed: list[tuple[int, Partition, int, Line]] = []
    for partition, its in of.items():
        first = next((n for n, h in enumerate(its) if isinstance(h, Revoked)), len(its))
        for n, event in enumerate(its):
            keyed.append((order[type(event)] if n < first else 2, partition, n, _line(t, event)))
    return [line for *_, line in sorted(keyed, key=lambda entry: entry[:3])]


def _line(t: float, event: _HandOff) -> Line:
    queue, partition = event.partition
    line: Line = {"t": t, "event": "", "queue": queue, "partition": partition, "member": event.member}
    match event:
        case DeadlineMissed():
            return line | {"event": "miss", "taken": event.taken}
        case Released():
            return line | {"event": "release", "how": str(event.how)}
        case Granted():
            return line | {"event": "grant", "epoch": event.epoch}
        case Revoked():
            return line | {"event": "revoke", "epoch": event.epoch, "deadline": number(event.deadline)}
