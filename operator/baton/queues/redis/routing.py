"""Maps keys to partitions: a hash of the key gives one of 1024 slots, and a table gives the slot's partition.

The table is a hint for producers. Each partition itself records the slots that it accepts, and that is authoritative.
"""

import struct
from collections import Counter
from dataclasses import dataclass
from itertools import groupby

SLOTS = 1024

_FOUR_BYTES = struct.Struct("<I")
_SEED, _FACTOR, _MASK = 0x9747B28C, 0x5BD1E995, 0xFFFFFFFF


def slot_of(key: bytes) -> int:
    """(murmur2(key) & 0x7fffffff) mod 1024. A linear hash such as CRC16 would be unsuitable: keys that differ in the last digit
    would get neighboring slots, and partitions own runs of slots."""
    return (murmur2(key) & 0x7FFFFFFF) % SLOTS


def murmur2(key: bytes) -> int:
    """32-bit MurmurHash2 with the seed of Kafka's Java clients."""
    whole = len(key) & ~3
    found = _SEED ^ len(key)
    for (four,) in _FOUR_BYTES.iter_unpack(key[:whole]):
        mixed = four * _FACTOR & _MASK
        found = (found * _FACTOR ^ (mixed ^ mixed >> 24) * _FACTOR) & _MASK
    if rest := key[whole:]:
        found = (found ^ int.from_bytes(rest, "little")) * _FACTOR & _MASK
    found = (found ^ found >> 13) * _FACTOR & _MASK
    return found ^ found >> 15


@dataclass(frozen=True, slots=True)
class RoutingTable:
    """One version of the table slot -> partition."""

    version: int
    partitions: tuple[int, ...]
    """1024 partition numbers, by slot."""

    @classmethod
    def even(cls, version: int, count: int) -> "RoutingTable":
        """One run of slots for each partition, equal to within one slot. Raises ValueError for more partitions than slots."""
        _check_count(count)
        return cls(version, tuple(((slot + 1) * count - 1) // SLOTS for slot in range(SLOTS)))

    def resized(self, count: int) -> "RoutingTable":
        """Return the next version, for `count` partitions, balanced to within one slot by the fewest moves.

        Slots move only to new partitions, or away from removed ones. Raises ValueError for more partitions than slots.
        """
        _check_count(count)
        held = Counter(partition for partition in self.partitions if partition < count)
        least, over = divmod(SLOTS, count)
        fullest = sorted(range(count), key=lambda partition: (-held[partition], partition))
        room = {partition: least + (rank < over) for rank, partition in enumerate(fullest)}
        kept: list[int | None] = []
        for partition in self.partitions:
            stays = room.get(partition, 0) > 0
            kept.append(partition if stays else None)
            if stays:
                room[partition] -= 1
        others = (partition for partition in range(count) for _ in range(room[partition]))
        return RoutingTable(self.version + 1, tuple(next(others) if one is None else one for one in kept))

    def partition_of(self, key: bytes) -> int:
        return self.partitions[slot_of(key)]

    def by_partition(self, count: int) -> list[list[int]]:
        """Return the slots of each partition."""
        slots: list[list[int]] = [[] for _ in range(count)]
        for slot, partition in enumerate(self.partitions):
            slots[partition].append(slot)
        return slots

    def to_text(self) -> str:
        """Return runs of `partition x length`, in the order of slots: `0x86,1x85,…`."""
        return ",".join(f"{partition}x{len(list(run))}" for partition, run in groupby(self.partitions))

    @classmethod
    def from_text(cls, version: int, text: str) -> "RoutingTable":
        """Parse the output of `to_text`. Raises ValueError for other texts."""
        runs = [run.split("x") for run in text.split(",")]
        partitions = tuple(int(partition) for partition, length in runs for _ in range(int(length)))
        if len(partitions) != SLOTS:
            raise ValueError(f"a routing table has {SLOTS} slots, found {len(partitions)}")
        return cls(version, partitions)


def _check_count(partitions: int) -> None:
    if not 0 < partitions <= SLOTS:
        raise ValueError(f"a queue has 1 to {SLOTS} partitions, not {partitions}")
