"""Assignors that share out every queue for itself, among those that read it (RocketMQ's and Runnel's do).

With several queues the members that come first have the rests of all of them: the price of looking at one queue at a time.
"""

from collections.abc import Callable, Iterable, Sequence

from baton.assignors.claims import readable
from baton.assignors.request import Answer, Request
from baton.model.ids import MemberId, Partition, QueueName

Deal = Callable[[QueueName, Sequence[int], Sequence[MemberId]], Iterable[Sequence[int]]]
"""Which of these numbers of a queue (ascending) each of these readers gets, in the order of the readers (at least one)."""

Strategy = Callable[[Request], Deal]
"""The deal that a request's options and zones ask for."""


def queue_by_queue(request: Request, order: Sequence[MemberId], deal: Deal) -> Answer:
    """Deals every queue out among its readers, which are asked in `order`."""
    subscribed = readable(request)
    hands: dict[MemberId, list[Partition]] = {name: [] for name in request.members}
    for queue in sorted(request.queues):
        readers = [name for name in order if queue in subscribed[name]]
        numbers = range(request.queues[queue])
        if readers and numbers:
            for name, dealt in zip(readers, deal(queue, numbers, readers), strict=True):
                hands[name] += (Partition(queue, number) for number in dealt)
    return Answer({name: tuple(sorted(hand)) for name, hand in hands.items()})


def chunks(numbers: Sequence[int], count: int) -> Iterable[Sequence[int]]:
    """`count` runs of numbers; the first ones are longer by one where they cannot all be equal."""
    floor, longer = divmod(len(numbers), count)
    for place in range(count):
        first = floor * place + min(place, longer)
        yield numbers[first : first + floor + (place < longer)]
