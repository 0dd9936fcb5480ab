"""Servers of toy queues: each is an entry of a dictionary."""

from collections import defaultdict
from dataclasses import dataclass, field

from baton.model.ids import Epoch
from baton.queues.protocol import Ownership


@dataclass
class ToyQueue:
    """One queue."""

    group: str | None = None
    partitions: int | None = None
    owners: dict[int, Ownership] = field(default_factory=dict)
    values: defaultdict[int, list[bytes]] = field(default_factory=lambda: defaultdict(list))
    done: set[tuple[int, int]] = field(default_factory=set)
    """Partition and place."""

    def owner(self, partition: int) -> Ownership:
        return self.owners.get(partition, Ownership(None, Epoch(0)))


SERVERS: defaultdict[str, defaultdict[str, ToyQueue]] = defaultdict(lambda: defaultdict(ToyQueue))
