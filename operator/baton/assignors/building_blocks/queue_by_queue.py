"""Assignors that look at one queue at a time, as RocketMQ's and Runnel's do.

Where a queue cannot be divided evenly, its first readers get more. With several queues the same members get more of each.
"""

from collections.abc import Callable, Iterable, Sequence

from baton.assignors.building_blocks.partition_list import PartitionList
from baton.assignors.building_blocks.subscriptions import readable, readers
from baton.assignors.request import Answer, Request
from baton.model.ids import MemberId, QueueName

Deal = Callable[[QueueName, Sequence[int], Sequence[MemberId]], Iterable[Sequence[int]]]
"""From a queue, partition numbers (ascending) and readers (at least one) to the numbers of each reader (ascending), in the
readers' order. It may leave out the readers after the last one that gets something."""


def queue_by_queue(request: Request, order: Sequence[MemberId], deal: Deal) -> Answer:
    """Divides each queue among its readers by `deal`. `order` lists all members."""
    subscribed = readable(request)
    queues: dict[MemberId, list[QueueName]] = {name: [] for name in request.members}
    numbers: dict[MemberId, list[int]] = {name: [] for name in request.members}
    names: dict[tuple[int, ...], Sequence[MemberId]] = {}
    for queue, places in readers([subscribed[name] for name in order]).items():
        if not request.queues[queue]:
            continue
        if places not in names:
            names[places] = [order[place] for place in places]
        for name, dealt in zip(names[places], deal(queue, range(request.queues[queue]), names[places]), strict=False):
            queues[name] += [queue] * len(dealt)
            numbers[name] += dealt
    return Answer({name: PartitionList(tuple(queues[name]), tuple(numbers[name])) for name in request.members})


def in_runs(_: QueueName, numbers: Sequence[int], readers: Sequence[MemberId]) -> Iterable[Sequence[int]]:
    """A `Deal`: each reader gets consecutive numbers. Where it cannot be even, the first readers get one more."""
    floor, longer = divmod(len(numbers), len(readers))
    for place in range(len(readers) if floor else longer):
        first = floor * place + min(place, longer)
        yield numbers[first : first + floor + (place < longer)]
