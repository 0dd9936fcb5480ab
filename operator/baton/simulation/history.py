"""The history of a run: the owner and the pauses of each partition over time, the group's state, and the fleet's events."""

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import IntEnum
from typing import NamedTuple

from baton.model.ids import Partition
from baton.model.wording import counted
from baton.simulation.run import Line, Result, number
from baton.simulation.scenario import EventPart, Scenario
from baton.simulation.simulated_cluster import PodLife


class OrphanedPartition(NamedTuple):
    """A partition whose owner is gone, until the operator notices, the owner is back, or the scenario ends."""

    partition: Partition
    owner: str
    start: float
    end: float


def orphaned_partitions(result: Result) -> tuple[OrphanedPartition, ...]:
    """Return the orphaned partitions of a run, by time, then by partition."""
    lives: defaultdict[str, list[PodLife]] = defaultdict(list)
    for life in result.lives:
        lives[life.member].append(life)
    found = [
        OrphanedPartition(partition, owner, start, end)
        for partition, owner, since, to in _ownerships(result.lines[:-1], result.until)
        for start, end in _without(lives[owner], since, to)
    ]
    return tuple(sorted(found, key=lambda one: (one.start, one.partition)))


def _ownerships(lines: Iterable[Line], until: float) -> Iterator[tuple[Partition, str, float, float]]:
    """Yield partition, owner, and the times of grant and release, as the ledger has them."""
    held: dict[Partition, tuple[str, float]] = {}
    for line in lines:
        if line["event"] not in ("grant", "release", "miss") or not line.get("taken", True):
            continue
        partition = Partition(line["queue"], line["partition"])
        if (before := held.pop(partition, None)) is not None:
            yield partition, *before, line["t"]
        if line["event"] == "grant":
            held[partition] = line["member"], line["t"]
    for partition, before in held.items():
        yield partition, *before, until


def _without(lives: Sequence[PodLife], start: float, end: float) -> Iterator[tuple[float, float]]:
    """Yield the parts of a period in which the pod that was alive at its start was not."""
    uid = [life.uid for life in lives if number(life.start) <= start][-1]
    for life in lives:
        if life.uid != uid or life.end <= start:
            continue
        if start < min(number(life.start), end):
            yield start, min(number(life.start), end)
        start = max(start, number(life.end)) if life.end < end else end
    if start < end:
        yield start, end


OPERATOR_DOWN = "operator down"
SEVERAL = "several members"
"""The owner in a row of partitions with the same history but different owners."""


class WorkPhase(IntEnum):
    """The state of work on a partition. A higher value is drawn over a lower one, so that the worst state stays visible."""

    OWNED = 0
    PAUSED = 1
    """The owner has to release the partition, and has not yet."""
    ORPHANED = 2
    """The owner is gone, and the operator has not noticed."""
    UNOWNED = 3


class Stretch(NamedTuple):
    """A period in which nothing changed for a partition."""

    start: float
    end: float
    phase: WorkPhase
    owner: str | None
    """Paused: the member that has to release. Orphaned: the member that is gone."""


class Row(NamedTuple):
    """Partitions of one queue with the same history."""

    queue: str
    numbers: tuple[int, ...]
    stretches: tuple[Stretch, ...]
    """In order of time, with gaps while the partition does not exist."""


class Spell(NamedTuple):
    """A period with one state of the group, named as in its status, or "operator down"."""

    start: float
    end: float
    state: str


class Mark(NamedTuple):
    """An event of the scenario."""

    at: float
    text: str


@dataclass(frozen=True, slots=True)
class History:
    """The history of a run, for a chart or a drawing."""

    until: float
    rows: tuple[Row, ...]
    """By queue, then lowest number."""
    spells: tuple[Spell, ...]
    marks: tuple[Mark, ...]
    owners: Mapping[str, int]
    """All members that ever owned a partition, numbered in the order of their first grants."""

    def shown(self, most: int) -> tuple[tuple[Row, ...], int]:
        """Return at most so many rows, and the number of rows left out. Rows that differ only in owners are merged first."""
        rows = self.rows if len(self.rows) <= most else fold_alike(self.rows)
        return rows[:most], max(len(rows) - most, 0)


def history(scenario: Scenario, result: Result) -> History:
    """Return the history of a run."""
    lines = result.lines[:-1]
    until = result.until
    owners = dict.fromkeys(line["member"] for line in lines if line["event"] == "grant")
    return History(
        until=until,
        rows=_folded(_tracks(result)),
        spells=tuple(_spells(scenario, lines, until)),
        marks=tuple(Mark(number(event.at), text) for event in in_time(scenario) for text in describe(event)),
        owners={owner: place for place, owner in enumerate(owners)},
    )


def in_time(scenario: Scenario) -> list[EventPart]:
    """Return the events before the scenario's end, in order of time."""
    return sorted((event for event in scenario.events if event.at <= scenario.until), key=lambda event: event.at)


def describe(event: EventPart) -> Iterator[str]:
    """Describe an event in a few words: pods that leave, stop or join, and other changes."""
    several = {
        "leave": ("leaves", "leave"),
        "terminate": ("is asked to stop", "are asked to stop"),
        "unready": ("is not Ready", "are not Ready"),
        "ready": ("is Ready again", "are Ready again"),
        "join": ("joins", "join"),
    }
    for field, (one, more) in several.items():
        who = [str(getattr(member, "id", member)) for member in getattr(event, field)]
        if who:
            yield f"{names(who)} {one if len(who) == 1 else more}"
    yield from (f"{queue} has {counted(count, 'partition')}" for queue, count in event.scale.items())
    yield from (f"queue {queue} is {'removed' if new is None else 'changed'}" for queue, new in event.queues.items())
    yield from (f"{path}: {value}" for path, value in _leaves(event.group))
    if event.operator is not None:
        yield f"the operator {event.operator}s"
    if event.lose is not None:
        yield "the next observation is lost"
    if event.request is not None:
        yield "a rebalance is requested"
    if event.approve:
        yield "the proposal is approved"


def names(who: list[str], most: int = 3) -> str:
    """Format names as `a, b, c`, or `a, b and 5 more` if there are many."""
    return ", ".join(who) if len(who) <= most else f"{', '.join(who[: most - 1])} and {len(who) - most + 1} more"


def fold_alike(rows: Iterable[Row]) -> tuple[Row, ...]:
    """Merge rows that differ only in their owners, which become SEVERAL."""
    return _merged(rows, lambda row: tuple((s.start, s.end, s.phase) for s in row.stretches))


def _folded(tracks: dict[Partition, list[Stretch]]) -> tuple[Row, ...]:
    rows = [Row(partition.queue, (partition.number,), tuple(track)) for partition, track in sorted(tracks.items())]
    return _merged(rows, lambda row: row.stretches)


def _merged(rows: Iterable[Row], shape: Callable[[Row], object]) -> tuple[Row, ...]:
    alike: defaultdict[tuple[str, object], list[Row]] = defaultdict(list)
    for row in rows:
        alike[row.queue, shape(row)].append(row)
    return tuple(_merge(those) for those in alike.values())


def _merge(rows: list[Row]) -> Row:
    first = rows[0]
    numbers = tuple(sorted(number for row in rows for number in row.numbers))
    whose = [{owners[n].owner for owners in (row.stretches for row in rows)} for n in range(len(first.stretches))]
    stretches = (
        stretch if len(owners) == 1 else stretch._replace(owner=SEVERAL)
        for stretch, owners in zip(first.stretches, whose, strict=True)
    )
    return Row(first.queue, numbers, tuple(stretches))


def _tracks(result: Result) -> dict[Partition, list[Stretch]]:
    """Return the stretches of every partition, from its lines, its existence and its owners' lives."""
    changes: defaultdict[Partition, list[tuple[float, WorkPhase, str | None]]] = defaultdict(list)
    for line in result.lines[:-1]:
        if "queue" in line and line.get("taken", True):
            phases = {"grant": WorkPhase.OWNED, "revoke": WorkPhase.PAUSED}
            phase = phases.get(line["event"], WorkPhase.UNOWNED)
            owner = None if phase is WorkPhase.UNOWNED else line["member"]
            changes[Partition(line["queue"], line["partition"])].append((line["t"], phase, owner))
    tracks = {partition: _track(changes[partition], lives, result.until) for partition, lives in result.existence.items()}
    for one in orphaned_partitions(result):
        if one.partition in tracks:
            tracks[one.partition] = list(_cut(tracks[one.partition], one))
    return tracks


def _cut(track: Iterable[Stretch], by: OrphanedPartition) -> Iterator[Stretch]:
    """Yield the track with an orphaned period cut out of it."""
    for stretch in track:
        start, end = max(stretch.start, by.start), min(stretch.end, by.end)
        if stretch.owner != by.owner or start >= end:
            yield stretch
            continue
        if stretch.start < start:
            yield stretch._replace(end=start)
        yield Stretch(start, end, WorkPhase.ORPHANED, by.owner)
        if end < stretch.end:
            yield stretch._replace(start=end)


def _track(
    changes: list[tuple[float, WorkPhase, str | None]], lives: Sequence[tuple[float, float]], until: float
) -> list[Stretch]:
    """Return the stretches of one partition. After its end it may still be owned until it is released."""
    stretches: list[Stretch] = []
    changes = [(lives[0][0], WorkPhase.UNOWNED, None), *changes]
    ends = [change[0] for change in changes[1:]] + [until]
    for (start, phase, owner), end in zip(changes, ends, strict=True):
        pieces = [(start, end)]
        if phase is WorkPhase.UNOWNED:
            pieces = [(max(start, born), min(end, gone)) for born, gone in lives]
        stretches += [Stretch(a, b, phase, owner) for a, b in pieces if a < b]
    return stretches


def _spells(scenario: Scenario, lines: Iterable[Line], until: float) -> Iterator[Spell]:
    changes = [(0.0, "Ready")] + [(line["t"], line["state"]) for line in lines if line["event"] == "state"]
    last = "Ready"
    merged: list[tuple[float, int, str]] = [(at, 1, state) for at, state in changes]
    merged += [(number(event.at), 0, event.operator) for event in in_time(scenario) if event.operator is not None]
    states: list[tuple[float, str]] = []
    for at, _, what in sorted(merged, key=lambda change: change[:2]):
        if what not in ("start", "stop"):
            last = what
        states.append((at, OPERATOR_DOWN if what == "stop" else last))
    for (start, state), end in zip(states, [at for at, _ in states[1:]] + [until], strict=True):
        if start < end:
            yield Spell(start, end, state)


def _leaves(tree: object, path: str = "") -> Iterator[tuple[str, object]]:
    """Yield the values that a change of the spec sets, each with the last part of its path."""
    if isinstance(tree, dict):
        for key, value in tree.items():
            yield from _leaves(value, str(key))
    else:
        yield path, ", ".join(map(str, tree)) if isinstance(tree, list) else tree
