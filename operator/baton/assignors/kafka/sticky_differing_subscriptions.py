"""The sticky assignors where members read different queues (Kafka's general assignment)."""

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
    """Readers keep what they hold (and what is near to them, where zones matter). The readers with the fewest get the rest. Then
    single partitions move, as long as a move makes two members more even.

    This is Kafka's algorithm with three differences. A partition goes back to an earlier owner only if that member still reads
    its queue. Another partition of the queue goes back in its place only if it came from the same member. Where Kafka leaves the
    order to a HashMap, names and numbers decide. Every move makes two members more even, so the moves come to an end.
    """
    return _Table(request, queues, before, nearness).run()


class _Table:
    def __init__(self, request: Request, queues: Sequence[QueueName], before: Holdings, nearness: Nearness) -> None:
        self._request = request
        self._nearness = nearness
        self._subscribed = {name: member.subscribed.intersection(queues) for name, member in request.members.items()}
        self._owned_by: dict[MemberId, dict[Partition, None]] = {name: {} for name in sorted(request.members)}
        self._owner: dict[Partition, MemberId] = {}
        self._readers = {queue: [name for name in self._owned_by if queue in self._subscribed[name]] for queue in queues}
        self._must_revoke = False
        for partition, name in before.held_alone(queues):
            if partition.queue not in self._subscribed[name] or nearness.far(name, partition):
                self._must_revoke = True
            else:
                self._take(name, partition)
        self._emptiest = {queue: [(len(self._owned_by[name]), name) for name in names] for queue, names in self._readers.items()}
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
        return {name: PartitionList.of(owned) for name, owned in self._owned_by.items()}

    def _take(self, name: MemberId, partition: Partition) -> None:
        self._owned_by[name][partition] = None
        self._owner[partition] = name

    def _grow(self, name: MemberId, partition: Partition) -> None:
        self._take(name, partition)  # _emptiest_of corrects the heaps later

    def _shrink(self, name: MemberId, partition: Partition) -> None:
        del self._owned_by[name][partition]
        for queue in self._subscribed[name]:
            heapq.heappush(self._emptiest[queue], (len(self._owned_by[name]), name))

    def _emptiest_reader(self, queue: QueueName) -> tuple[int, MemberId]:
        return self._emptiest_of(self._emptiest[queue])

    def _emptiest_of(self, heap: list[tuple[int, MemberId]]) -> tuple[int, MemberId]:
        while heap[0][0] != len(self._owned_by[heap[0][1]]):
            heapq.heapreplace(heap, (len(self._owned_by[heap[0][1]]), heap[0][1]))
        return heap[0]

    def _give_near(self, partitions: Iterable[Partition]) -> None:
        """Gives each to the near reader with the fewest. Partitions of one queue in the same zones share a heap."""
        heaps: dict[tuple[QueueName, frozenset[str]], list[tuple[int, MemberId]]] = {}
        for partition in partitions:
            alike = partition.queue, self._nearness.zones(partition)
            if alike not in heaps:
                near = (name for name in self._readers[partition.queue] if not self._nearness.far(name, partition))
                heaps[alike] = [(len(self._owned_by[name]), name) for name in near]
                heapq.heapify(heaps[alike])
            if heaps[alike]:
                self._grow(self._emptiest_of(heaps[alike])[1], partition)

    def _even_out(self, partitions: Iterable[Partition], earlier: Mapping[Partition, MemberId]) -> None:
        partitions = [partition for partition in partitions if len(self._readers[partition.queue]) > 1]
        changed = True
        while changed:
            changed = False
            for partition in partitions:
                enough = len(self._owned_by[self._owner[partition]]) - 1
                before = earlier.get(partition)
                if before is not None and partition.queue in self._subscribed[before] and len(self._owned_by[before]) < enough:
                    self._move(partition, before)
                    changed = True
                else:
                    count, name = self._emptiest_reader(partition.queue)
                    if count < enough:
                        self._move(partition, name)
                        changed = True

    def _move(self, partition: Partition, receiver: MemberId) -> None:
        """Moves this partition. If one of its queue moved the opposite way, that one moves back instead: it saves a move."""
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
    """By partition: the newest claimant among the members that missed the last generation; of equal ones the first by name."""
    newest = max((member.generation for member in request.members.values()), default=0)
    owners: dict[Partition, tuple[int, MemberId]] = {}
    for name in sorted(request.members):
        member = request.members[name]
        for partition in member.owned if member.generation < newest else ():
            known = owners.get(partition)
            if exists(request.queues, partition) and (known is None or member.generation > known[0]):
                owners[partition] = (member.generation, name)
    return {partition: name for partition, (_, name) in owners.items()}
