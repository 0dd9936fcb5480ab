"""The lag of groups as their operator tells it, for `baton lag` and `baton top`. Pure."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import zip_longest
from math import isfinite
from typing import Any

from rich.table import Table

from baton.cli.group_screen import counts
from baton.cli.group_view import GroupLook
from baton.cli.printing import table
from baton.engine import GroupState
from baton.engine.partition_state import partition_state
from baton.model.ids import Partition, QueueName
from baton.model.wording import counted, one_line

_LONGEST_OFFSET = 50


class NotTheOperatorError(ValueError):
    """It is nothing that an operator of this release tells."""


@dataclass(frozen=True, slots=True)
class GroupLag:
    """What a group has to do."""

    namespace: str
    group: str
    lag: int | None = None
    """Entries; None: of one of its queues it is not known."""
    seconds: float | None = None
    """How long that takes at the present pace; while none is known, the same as `waiting`."""
    waiting: float | None = None
    """The age of the oldest entry while nothing is done, or no pace is known yet."""
    queues: Mapping[str, Mapping[int, int] | None] = field(default_factory=dict)
    """By queue and partition, where that was asked for; None: not known."""
    unfinished: Mapping[Partition, tuple[str, int]] = field(default_factory=dict)
    """Likewise: the oldest entry that is not finished with, and how often it was handed out, where that is more than once."""
    problem: str | None = None
    """Why nothing is known."""

    def to_json(self) -> dict[str, Any]:
        """For programs."""
        queues = {name: None if of is None else {"lag": sum(of.values())} for name, of in self.queues.items()}
        told = {"namespace": self.namespace, "group": self.group, "lag": self.lag, "lagSeconds": self.seconds}
        return {**told, "waitingSeconds": self.waiting, "queues": queues, "problem": self.problem}

    def of(self, partition: Partition) -> int | None:
        """None: not known."""
        return (self.queues.get(partition.queue) or {}).get(partition.number)

    @property
    def pace(self) -> str | None:
        """`8 s`: how long it takes. `?`: nothing is done, or it is not known yet."""
        if self.seconds is None or self.waiting is not None:
            return "?" if self.lag else None
        return f"{self.seconds:.0f} s"

    @property
    def text(self) -> str:
        """`412 entries, 8 s of work at the present pace`, or `412 entries, the oldest 90 s old`"""
        if self.lag is None:
            return f"not known{f' ({self.problem})' if self.problem else ': one of its queues does not tell'}"
        pace = f", {self.seconds:.0f} s of work at the present pace" if self.seconds is not None and self.lag else ""
        if self.waiting is not None:
            pace = f", the oldest {self.waiting:.0f} s old"
        return f"{counted(self.lag, 'entry', 'entries')}{pace}"


def read_group(raw: object) -> GroupLag:
    """One group as the operator tells it. Raises NotTheOperatorError."""
    if not isinstance(raw, dict):
        raise NotTheOperatorError
    lag, queues = _number(raw.get("lag")), raw.get("queues", {})
    if not isinstance(queues, dict):
        raise NotTheOperatorError
    seconds, waiting = (_seconds(raw.get(name)) for name in ("lagSeconds", "waitingSeconds"))
    by_queue = {str(name): None if of is None else _partitions(of) for name, of in queues.items()}
    unfinished = dict(_unfinished(raw.get("unfinished", {})))
    return GroupLag(str(raw.get("namespace")), str(raw.get("group")), lag, seconds, waiting, by_queue, unfinished)


def read_groups(raw: object) -> list[GroupLag]:
    """All groups of an operator. Raises NotTheOperatorError."""
    groups = raw.get("groups") if isinstance(raw, dict) else None
    if not isinstance(groups, list):
        raise NotTheOperatorError
    return [read_group(one) for one in groups]


def _partitions(raw: object) -> dict[int, int]:
    if not isinstance(raw, dict):
        raise NotTheOperatorError
    found = {int(name): _number(lag) for name, lag in raw.items() if name.isascii() and name.isdigit() and len(name) < 10}
    return {number: lag for number, lag in sorted(found.items()) if lag is not None}


def _unfinished(raw: object) -> Iterator[tuple[Partition, tuple[str, int]]]:
    for queue, of in raw.items() if isinstance(raw, dict) else ():
        for number, one in of.items() if isinstance(of, dict) else ():
            match one:
                case [str(offset), int(times)] if number.isascii() and number.isdigit() and len(number) < 10:
                    yield Partition(QueueName(queue), int(number)), (one_line(offset, _LONGEST_OFFSET), times)
                case _:
                    raise NotTheOperatorError


def _seconds(raw: object) -> float | None:
    if not isinstance(raw, int | float | None) or isinstance(raw, bool):
        raise NotTheOperatorError
    return raw if raw is not None and isfinite(raw) else None


def _number(raw: object) -> int | None:
    if raw is None:
        return None
    if not isinstance(raw, int) or isinstance(raw, bool) or not 0 <= raw < 2**63:
        raise NotTheOperatorError
    return raw


def lag_table(lags: Iterable[GroupLag], looks: Sequence[GroupLook] = ()) -> Table:
    """A line for each group, and beneath it one for each of its queues. `looks`: for a wide table, the same groups in the same
    order: it has who works on it, too."""
    rows: list[tuple[object, ...]] = []
    for one, look in zip_longest(lags, looks):
        fleet = () if look is None else _fleet(one, look)
        rows.append((one.namespace, one.group, None, shown_lag(one.lag), one.pace, *fleet, one.problem))
        if len(one.queues) > 1 or (look is not None and one.queues):
            rows += [(None, None, name, shown_lag(None if of is None else sum(of.values()))) for name, of in one.queues.items()]
    more = _FLEET if looks else ()
    return table(("NAMESPACE", "GROUP", "QUEUE", "LAG", "WORK", *more, "NOTE"), rows, right=("LAG", "WORK", *more[1:]))


_FLEET = ("STATE", "PARTITIONS", "MEMBERS", "STANDBYS", "EACH")


def _fleet(one: GroupLag, look: GroupLook) -> Iterator[object]:
    """The further cells of a wide line; EACH is the lag for each member that works."""
    status = look.status
    at_work = status.members - status.standbys
    yield from (look.shown_state, *counts(look, ("partitions", "members", "standbys")))
    yield None if one.lag is None or at_work < 1 else f"{one.lag / at_work:,.0f}"


def partition_rows(one: GroupLag, state: GroupState | None) -> Iterator[dict[str, object]]:
    """Each partition whose lag is known, the longest first."""
    known = [(lag, queue, number) for queue, of in one.queues.items() if of is not None for number, lag in of.items()]
    for lag, queue, number in sorted(known, key=lambda row: (-row[0], row[1], row[2])):
        partition = Partition(QueueName(queue), number)
        record = None if state is None else state.records.get(partition)
        yield {
            "queue": queue,
            "partition": number,
            "owner": None if record is None else record.owner,
            "lag": lag,
            "state": None if record is None or state is None else partition_state(state, partition).value,
            "epoch": None if record is None else record.epoch,
        }


def lag_by_partition(rows: Iterable[Mapping[str, object]], *, wide: bool) -> Table:
    """The same for people."""
    head = ("queue", "partition", "owner", "lag", *(("state", "epoch") if wide else ()))
    return table([name.upper() for name in head], [[row[name] for name in head] for row in rows], right=("LAG", "EPOCH"))


def shown_lag(lag: int | None) -> str:
    """A cell; `?`: not known."""
    return "?" if lag is None else f"{lag:,}"
