"""A change of the number of partitions: what it is, and which slots it moves. Pure; told in docs/concepts/repartitioning.md.

The queue's server keeps the record of it, so that whoever comes next goes on where it stands.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

from baton.queues.redis.routing import RoutingTable

Way = tuple[int, int]
"""From which partition to which."""


@dataclass(frozen=True)
class ResizeRecord:
    """One change, as it is recorded at the queue."""

    before: RoutingTable
    after: RoutingTable
    partitions: int
    """How many there will be."""
    published: bool
    """Producers are told of the table after it: all slots that move have been opened at their new places."""

    @property
    def version(self) -> int:
        """Of the table after it: the version of all steps."""
        return self.after.version

    @cached_property
    def ways(self) -> Mapping[Way, Sequence[int]]:
        """The slots that move."""
        found: dict[Way, list[int]] = {}
        for slot, way in enumerate(zip(self.before.partitions, self.after.partitions, strict=True)):
            if way[0] != way[1]:
                found.setdefault(way, []).append(slot)
        return found

    @cached_property
    def leaving(self) -> Mapping[int, Sequence[int]]:
        """By partition, the slots that go from it."""
        found: dict[int, list[int]] = {}
        for (source, _), slots in self.ways.items():
            found.setdefault(source, []).extend(slots)
        return found
