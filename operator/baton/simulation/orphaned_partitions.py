"""Partitions whose owner is gone, and no operator has noticed: owned by the timeline, and worked on by nobody."""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from baton.model.ids import Partition
from baton.simulation.run import Result
from baton.simulation.simulated_cluster import PodLife
from baton.simulation.timeline import Line, number


class OrphanedPartition(NamedTuple):
    """One partition, from when its owner was gone to when that was noticed, the owner was back, or the scenario ended."""

    partition: Partition
    owner: str
    start: float
    end: float


def orphaned_partitions(result: Result) -> tuple[OrphanedPartition, ...]:
    """In order of time, then by partition."""
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
    """Who owned what, from its grant to its release, as the ledger has it."""
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
    """The part of a time in which the pod that was there at its beginning was not."""
    uid = [life.uid for life in lives if number(life.start) <= start][-1]
    for life in lives:
        if life.uid != uid or life.end <= start:
            continue
        if start < min(number(life.start), end):
            yield start, min(number(life.start), end)
        start = max(start, number(life.end)) if life.end < end else end
    if start < end:
        yield start, end
