"""How many partitions of each queue every reader holds. A cell of the table is a queue and one of its readers."""

from bisect import bisect_left
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from baton.assignors.building_blocks.subscriptions import Place, readers
from baton.model.ids import MemberId, QueueName

Cell = int


@dataclass(frozen=True, slots=True)
class QueueReaderTable:
    """Queues and members are indexes here: queues in the order of their names, members in the order of `members`."""

    queues: Sequence[QueueName]
    """The queues that somebody reads."""
    sizes: Sequence[int]
    members: Sequence[MemberId]
    """All members, readers or not."""
    of_queue: Sequence[range]
    """By queue: its cells, one per reader, in the order of the members."""
    queue: Sequence[int]
    """By cell: its queue."""
    member: Sequence[Place]
    """By cell: its member."""
    held: Sequence[int]
    """By cell: how many partitions its member holds alone."""
    uniform: bool
    """Every member that reads any queue reads all of them."""

    def cell(self, queue: int, place: Place) -> Cell:
        """The cell of a queue and a reader of it."""
        return bisect_left(self.member, place, self.of_queue[queue].start, self.of_queue[queue].stop)

    def of_member(self) -> list[list[Cell]]:
        """By member: its cells, in the order of queues."""
        cells: list[list[Cell]] = [[] for _ in self.members]
        for cell, place in enumerate(self.member):
            cells[place].append(cell)
        return cells

    def totals(self, counts: Sequence[int]) -> list[int]:
        """By member: the sum of the counts in its cells."""
        totals = [0] * len(self.members)
        for place, count in zip(self.member, counts, strict=True):
            totals[place] += count
        return totals


def cells_of(
    queues: Mapping[QueueName, int],
    members: Sequence[MemberId],
    subscribed: Mapping[MemberId, frozenset[QueueName]],
    owners: Mapping[QueueName, Sequence[MemberId | None]],
) -> QueueReaderTable:
    """The table of these members, in this order. `owners`, by queue and number, own only what they read."""
    read_by = readers([subscribed[name] for name in members])
    of_queue: list[range] = []
    number: list[int] = []
    member: list[Place] = []
    held: list[int] = []
    for queue, places in read_by.items():
        of_queue.append(range(len(member), len(member) + len(places)))
        number += [len(of_queue) - 1] * len(places)
        member += places
        counts = Counter(owners.get(queue, ()))
        held += [counts.get(members[place], 0) for place in places] if counts else [0] * len(places)
    uniform = len(set(map(id, read_by.values()))) <= 1  # equal ones are one object
    return QueueReaderTable(list(read_by), [queues[queue] for queue in read_by], members, of_queue, number, member, held, uniform)
