"""A member's partitions in two columns: a million partitions are two million references, and not a million objects."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import partial
from itertools import chain, groupby, islice, pairwise
from operator import itemgetter, lt
from typing import overload

from baton.model.ids import Partition, QueueName

_PARTITION = partial(tuple.__new__, Partition)
"""Makes a Partition from a pair without a call into Python."""


class PartitionList(Sequence[Partition]):
    """Partitions, sorted and each once. It reads like a tuple of them; a loop over many partitions is faster over the columns."""

    __slots__ = ("numbers", "queues")

    def __init__(self, queues: tuple[QueueName, ...] = (), numbers: tuple[int, ...] = ()) -> None:
        """Each partition's queue and number, in the order of queues, then numbers."""
        self.queues = queues
        self.numbers = numbers

    @classmethod
    def of(cls, partitions: Iterable[tuple[QueueName, int]]) -> "PartitionList":
        """From partitions in any order, repeated ones too."""
        if isinstance(partitions, PartitionList):
            return partitions
        listed = list(partitions)
        if not listed:
            return NOTHING
        in_order = all(map(lt, listed, islice(listed, 1, None)))
        return cls.of_sorted(listed if in_order else sorted(set(listed)))

    @classmethod
    def of_sorted(cls, partitions: Sequence[tuple[QueueName, int]]) -> "PartitionList":
        """From partitions in order, each once."""
        return cls(*zip(*partitions, strict=True)) if partitions else NOTHING

    @classmethod
    def joined(cls, parts: Iterable["PartitionList"]) -> "PartitionList":
        """From lists without a partition in common."""
        parts = [part for part in parts if part.numbers]
        if len(parts) > 1:
            parts.sort(key=itemgetter(0))
            if any(before[-1] > after[0] for before, after in pairwise(parts)):
                return cls.of_sorted(sorted(chain.from_iterable(part.pairs() for part in parts)))
        return cls.in_a_row(parts)

    @classmethod
    def in_a_row(cls, parts: Iterable["PartitionList"]) -> "PartitionList":
        """From lists of which each begins after the end of the list before it."""
        parts = list(parts)
        if len(parts) < 2:
            return parts[0] if parts else NOTHING
        return cls(
            tuple(chain.from_iterable(part.queues for part in parts)),
            tuple(chain.from_iterable(part.numbers for part in parts)),
        )

    def at(self, places: Sequence[int]) -> "PartitionList":
        """The partitions at these indexes, which ascend."""
        if len(places) < 2:  # an itemgetter of one makes no tuple
            return PartitionList(tuple(self.queues[one] for one in places), tuple(self.numbers[one] for one in places))
        pick = itemgetter(*places)
        return PartitionList(pick(self.queues), pick(self.numbers))

    def pairs(self) -> Iterable[tuple[QueueName, int]]:
        """Queue and number of each partition. Plain pairs are much faster to make than Partitions."""
        return zip(self.queues, self.numbers, strict=True)

    def by_queue(self) -> Iterator[tuple[QueueName, list[int]]]:
        """Each queue of which there is a partition, with the numbers."""
        for queue, pairs in groupby(self.pairs(), itemgetter(0)):
            yield queue, [number for _, number in pairs]

    def __len__(self) -> int:
        return len(self.numbers)

    def __iter__(self) -> Iterator[Partition]:
        return map(_PARTITION, self.pairs())

    @overload
    def __getitem__(self, place: int) -> Partition: ...
    @overload
    def __getitem__(self, place: slice) -> Sequence[Partition]: ...
    def __getitem__(self, place: int | slice) -> Partition | Sequence[Partition]:
        if isinstance(place, slice):
            forwards = place.step is None or place.step > 0
            return PartitionList(self.queues[place], self.numbers[place]) if forwards else tuple(self)[place]
        return Partition(self.queues[place], self.numbers[place])

    def __eq__(self, other: object) -> bool:
        if isinstance(other, PartitionList):
            return self.numbers == other.numbers and self.queues == other.queues
        return tuple(self) == other if isinstance(other, tuple) else NotImplemented

    def __hash__(self) -> int:
        return hash(tuple(self))

    def __repr__(self) -> str:
        return f"PartitionList.of({list(self)!r})"


NOTHING = PartitionList()


def whole(queues: Iterable[QueueName], sizes: Mapping[QueueName, int]) -> Iterator[PartitionList]:
    """All partitions of each of these queues, one list per queue."""
    queues = list(queues)
    counted = tuple(range(max((sizes[queue] for queue in queues), default=0)))
    for queue in queues:
        yield PartitionList((queue,) * sizes[queue], counted[: sizes[queue]])
