"""RocketMQ's AllocateMessageQueueByMachineRoom: only the partitions of certain rooms, in runs and the rest one by one."""

from collections.abc import Iterable, Sequence

from baton.assignors.building_blocks.queue_by_queue import Deal, queue_by_queue
from baton.assignors.building_blocks.zones import zones_of
from baton.assignors.request import Answer, Request
from baton.model.ids import MemberId, Partition, QueueName


def machine_room(request: Request) -> Answer:
    """RocketMQ's answer, exactly. Option rooms: a partition without a replica in one of them goes to nobody (None: to all)."""
    return queue_by_queue(request, sorted(request.members), of_rooms(request))


def of_rooms(request: Request) -> Deal:
    rooms = request.options.get("rooms")
    assert rooms is None or isinstance(rooms, frozenset)

    def deal(queue: QueueName, numbers: Sequence[int], readers: Sequence[MemberId]) -> Iterable[Sequence[int]]:
        ours = [n for n in numbers if rooms is None or not rooms.isdisjoint(zones_of(request, Partition(queue, n)))]
        floor, rest = divmod(len(ours), len(readers))
        tail = floor * len(readers)
        for place in range(len(readers)):
            yield ours[place * floor : (place + 1) * floor] + ours[tail + place : tail + place + (place < rest)]

    return deal
