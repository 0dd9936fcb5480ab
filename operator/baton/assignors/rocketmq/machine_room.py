"""RocketMQ's AllocateMessageQueueByMachineRoom: only the partitions of certain rooms, in runs, then what remains one by one."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Annotated

from pydantic import AfterValidator

from baton.assignors.building_blocks.queue_by_queue import Deal, queue_by_queue
from baton.assignors.building_blocks.zones import zones_of
from baton.assignors.declaration import Declaration, Option, Traits
from baton.assignors.fields import EachOnce, Text
from baton.assignors.request import Answer, Request
from baton.model.ids import MemberId, Partition, QueueName


def machine_room(request: Request) -> Answer:
    """Exactly RocketMQ's answer. Option rooms: a partition without a replica in one of them goes to nobody. Without the option
    every partition goes to somebody."""
    return queue_by_queue(request, sorted(request.members), _of_rooms(request))


def _of_rooms(request: Request) -> Deal:
    rooms = request.options.get("rooms")
    assert rooms is None or isinstance(rooms, frozenset)

    def deal(queue: QueueName, numbers: Sequence[int], readers: Sequence[MemberId]) -> Iterable[Sequence[int]]:
        ours = [n for n in numbers if rooms is None or not rooms.isdisjoint(zones_of(request, Partition(queue, n)))]
        floor, rest = divmod(len(ours), len(readers))
        tail = floor * len(readers)
        for place in range(len(readers)):
            yield ours[place * floor : (place + 1) * floor] + ours[tail + place : tail + place + (place < rest)]

    return deal


def _leaves_out(options: Mapping[str, object], zones: frozenset[str]) -> bool:
    rooms = options.get("rooms")
    return isinstance(rooms, frozenset) and rooms.isdisjoint(zones)


_Rooms = Annotated[list[Text], EachOnce, AfterValidator(frozenset)]

MACHINE_ROOM = Declaration(
    name="machine-room",
    assign=machine_room,
    source="RocketMQ's AllocateMessageQueueByMachineRoom",
    good_at="Only partitions of certain rooms",
    costs="What is elsewhere goes to nobody",
    traits=Traits(leaves_out=_leaves_out),
    deal=_of_rooms,
    options=lambda _: {"rooms": Option(_Rooms, missing="machine-room gives out the partitions of these rooms only")},
)
