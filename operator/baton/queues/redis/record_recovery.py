"""The record of a queue that somebody deleted, found again with its partitions: they know which slots they accept."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from re import fullmatch

from baton.queues.redis import records, scripts, server_answers
from baton.queues.redis.keys import PartitionKeys
from baton.queues.redis.routing import SLOTS, RoutingTable
from baton.queues.redis.transport import Transport

_LINE = r"([0-9]{1,4}) ([0-9]{1,16})(?: ([0-9]{1,4}|moved))?"


@dataclass
class KnownSlots:
    """What partitions know of slots."""

    accepted: dict[int, tuple[int, int]] = field(default_factory=dict)
    """By slot, the version and the partition of the latest that accepts it."""
    on_the_way: dict[int, int] = field(default_factory=dict)
    """By slot, the partition that its entries wait for."""
    gone: dict[int, tuple[int, int]] = field(default_factory=dict)
    """By slot, the version and the partition of the latest that it went from."""
    highest: int = 0
    """Version of any slot, those that went elsewhere included."""
    partitions: int = 0
    """That know of any."""

    def take(self, partition: int, lines: str, highest: int) -> None:
        """What one partition says."""
        self.highest = max(self.highest, highest)
        self.partitions = partition + 1 if highest else self.partitions
        for line in lines.split(","):
            found = fullmatch(_LINE, line)
            if found is None or int(found[1]) >= SLOTS:
                continue
            slot, version = int(found[1]), int(found[2])
            if found[3] == "moved":
                self.gone[slot] = max(self.gone.get(slot, (0, 0)), (version, partition))
            elif version > self.accepted.get(slot, (0, 0))[0]:
                self.accepted[slot] = (version, partition)
                self.on_the_way.pop(slot, None)
                if found[3] is not None:
                    self.on_the_way[slot] = int(found[3])

    def record(self, even: RoutingTable) -> Sequence[object]:
        """As scripts/recall.lua takes it; where nobody knows of a slot, it goes where an even table puts it. One that was sealed
        and never opened does too, and its entries wait there for those of the partition that it went from."""
        homes = [self.accepted.get(slot, (0, home))[1] for slot, home in enumerate(even.partitions)]
        waits = dict(self.on_the_way)
        elsewhere = next((homes[slot] for slot in self.on_the_way), None)
        for slot, (version, source) in self.gone.items():
            if version > self.accepted.get(slot, (0, 0))[0]:
                home = even.partitions[slot]
                # At the version at which others are on their way a partition does not take back what it gave up.
                homes[slot] = elsewhere if home == source and elsewhere is not None else home
                waits[slot] = source
        waits = {slot: source for slot, source in waits.items() if homes[slot] != source}
        table = RoutingTable(self.highest + (not self.on_the_way), tuple(homes))
        former = tuple(waits.get(slot, home) for slot, home in enumerate(homes))
        there = max(*homes, *former) + 1
        under_way = (replace(table, partitions=former).to_text(), max(homes) + 1) if waits else ()
        return (table.version, table.to_text(), there, max(there, self.partitions), *under_way)


async def known_slots(transport: Transport, keys: Callable[[int], PartitionKeys], count: int) -> KnownSlots | None:
    """What `count` partitions know, and those after them up to one that knows nothing. None: nobody knows anything."""
    found, partition, highest = KnownSlots(), 0, 0
    while partition < SLOTS and (partition < count or highest):
        text, version = await transport.run(scripts.SLOTS, keys(partition), (), server_answers.scalars(2))
        highest = records.number(version, "version")
        found.take(partition, (server_answers.text(text) or b"").decode(errors="replace"), highest)
        partition += 1
    return found if found.highest else None
