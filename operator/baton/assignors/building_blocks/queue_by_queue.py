"""Assignors that share out every queue for itself, among those that read it (RocketMQ's and Runnel's do).

With several queues the members that come first have the rests of all of them: the price of looking at one queue at a time.
"""

from collections.abc import Callable, Iterable, Sequence

from baton.assignors.building_blocks.partition_list import PartitionList
from baton.assignors.building_blocks.subscriptions import readable, readers
from baton.assignors.request import Answer, Request
from baton.model.ids import MemberId, QueueName

Deal = Callable[[QueueName, Sequence[int], Sequence[MemberId]], Iterable[Sequence[int]]]
"""Which of these numbers of a queue (ascending) each of these readers gets (ascending), in the order of the readers (at least
one). Readers that come after the last one with something may be left out."""


def queue_by_queue(request: Request, order: Sequence[MemberId], deal: Deal) -> Answer:
    """Deals every queue out among its readers, which are asked in `order`."""
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
    """A `Deal`: each reader gets consecutive numbers. Where these runs cannot all be equal, the first ones are longer by one."""
    floor, longer = divmod(len(numbers), len(readers))
    for place in range(len(readers) if floor else longer):
        first = floor * place + min(place, longer)
        yield numbers[first : first + floor + (place < longer)]
