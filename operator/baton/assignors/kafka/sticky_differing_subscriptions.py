"""The sticky assignor where members read different queues (Kafka's general assignment)."""

import heapq
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence

from baton.assignors.building_blocks.holders import Holdings, exists
from baton.assignors.building_blocks.partition_list import PartitionList
from baton.assignors.building_blocks.zones import Nearness
from baton.assignors.request import Request
from baton.model.ids import MemberId, Partition, QueueName


def share_among_readers(
    request: Request, queues: Sequence[QueueName], before: Holdings, nearness: Nearness
) -> dict[MemberId, PartitionList]:
    """Keeps what is held by a reader (and near to it, where zones matter), gives the rest to the emptiest readers, then moves
    single partitions as long as one move makes two members more even.

    Kafka's algorithm with three differences: a partition goes back to an earlier owner only if that one still reads its queue;
    instead of a partition another of the same queue is sent back only if it comes from the same member; and what Kafka leaves
    to the order of a HashMap goes by name and number. Every step makes two members more even, so it ends.
    """
    return _Table(request, queues, before, nearness).run()


class _Table:
    def __init__(self, request: Request, queues: Sequence[QueueName], before: Holdings, nearness: Nearness) -> None:
        self._request = request
        self._nearness = nearness
        self._subscribed = {name: member.subscribed.intersection(queues) for name, member in request.members.items()}
        self._hands: dict[MemberId, dict[Partition, None]] = {name: {} for name in sorted(request.members)}
        self._owner: dict[Partition, MemberId] = {}
        self._readers = {queue: [name for name in self._hands if queue in self._subscribed[name]] for queue in queues}
        self._must_revoke = False
        for partition, name in before.held_alone(queues):
            if partition.queue not in self._subscribed[name] or nearness.far(name, partition):
                self._must_revoke = True
            else:
                self._take(name, partition)
        self._emptiest = {queue: [(len(self._hands[name]), name) for name in names] for queue, names in self._readers.items()}
        for heap in self._emptiest.values():
            heapq.heapify(heap)
        self._moved: dict[tuple[QueueName, MemberId, MemberId], set[Partition]] = defaultdict(set)
        self._origin: dict[Partition, MemberId] = {}

    def run(self) -> dict[MemberId, PartitionList]:
        fewest_readers_first = sorted(self._readers, key=lambda queue: (len(self._readers[queue]), queue))
        partitions = [Partition(queue, n) for queue in fewest_readers_first for n in range(self._request.queues[queue])]
        free = [partition for partition in partitions if partition not in self._owner]
        if self._nearness.matters:
            self._give_near(free)
        for partition in free:
            if partition not in self._owner:
                self._grow(self._emptiest_reader(partition.queue)[1], partition)
        earlier = _earlier_owners(self._request)
        if not self._must_revoke:
            self._even_out(free, earlier)
        self._even_out(partitions, earlier)
        return {name: PartitionList.of(hand) for name, hand in self._hands.items()}

    def _take(self, name: MemberId, partition: Partition) -> None:
        self._hands[name][partition] = None
        self._owner[partition] = name

    def _grow(self, name: MemberId, partition: Partition) -> None:
        self._take(name, partition)  # the heaps notice when the member comes up

    def _shrink(self, name: MemberId, partition: Partition) -> None:
        del self._hands[name][partition]
        for queue in self._subscribed[name]:
            heapq.heappush(self._emptiest[queue], (len(self._hands[name]), name))

    def _emptiest_reader(self, queue: QueueName) -> tuple[int, MemberId]:
        return self._emptiest_of(self._emptiest[queue])

    def _emptiest_of(self, heap: list[tuple[int, MemberId]]) -> tuple[int, MemberId]:
        while heap[0][0] != len(self._hands[heap[0][1]]):
            heapq.heapreplace(heap, (len(self._hands[heap[0][1]]), heap[0][1]))
        return heap[0]

    def _give_near(self, partitions: Iterable[Partition]) -> None:
        """To the emptiest near reader. Partitions of a queue in the same zones are near to the same ones, and share a heap."""
        heaps: dict[tuple[QueueName, frozenset[str]], list[tuple[int, MemberId]]] = {}
        for partition in partitions:
            alike = partition.queue, self._nearness.zones(partition)
            if alike not in heaps:
                near = (name for name in self._readers[partition.queue] if not self._nearness.far(name, partition))
                heaps[alike] = [(len(self._hands[name]), name) for name in near]
                heapq.heapify(heaps[alike])
            if heaps[alike]:
                self._grow(self._emptiest_of(heaps[alike])[1], partition)

    def _even_out(self, partitions: Iterable[Partition], earlier: Mapping[Partition, MemberId]) -> None:
        partitions = [partition for partition in partitions if len(self._readers[partition.queue]) > 1]
        changed = True
        while changed:
            changed = False
            for partition in partitions:
                enough = len(self._hands[self._owner[partition]]) - 1
                before = earlier.get(partition)
                if before is not None and partition.queue in self._subscribed[before] and len(self._hands[before]) < enough:
                    self._move(partition, before)
                    changed = True
                else:
                    count, name = self._emptiest_reader(partition.queue)
                    if count < enough:
                        self._move(partition, name)
                        changed = True

    def _move(self, partition: Partition, receiver: MemberId) -> None:
        """Moves this partition or, if one of its queue came the opposite way before, that one back (which saves a move)."""
        giver = self._owner[partition]
        back = [p for p in self._moved.get((partition.queue, receiver, giver), ()) if self._owner[p] == giver]
        moving = min(back, default=partition)
        origin = self._origin.pop(moving, giver)
        self._moved[moving.queue, origin, giver].discard(moving)
        if origin != receiver:
            self._origin[moving] = origin
            self._moved[moving.queue, origin, receiver].add(moving)
        self._shrink(giver, moving)
        self._grow(receiver, moving)


def _earlier_owners(request: Request) -> dict[Partition, MemberId]:
    """Per partition the newest claimant of those that missed the last generation; equal ones by name."""
    newest = max((member.generation for member in request.members.values()), default=0)
    owners: dict[Partition, tuple[int, MemberId]] = {}
    for name in sorted(request.members):
        member = request.members[name]
        for partition in member.owned if member.generation < newest else ():
            known = owners.get(partition)
            if exists(request.queues, partition) and (known is None or member.generation > known[0]):
                owners[partition] = (member.generation, name)
    return {partition: name for partition, (_, name) in owners.items()}
