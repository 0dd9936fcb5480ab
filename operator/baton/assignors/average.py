"""RocketMQ's AllocateMessageQueueAveragely, its default: every queue in runs, members by name."""

from collections.abc import Iterable, Sequence

from baton.assignors.queue_by_queue import Deal, chunks, queue_by_queue
from baton.assignors.request import Answer, Request
from baton.model.ids import MemberId, QueueName


def average(request: Request) -> Answer:
    """RocketMQ's answer, exactly."""
    return queue_by_queue(request, sorted(request.members), averagely(request))


def averagely(_: Request) -> Deal:
    def deal(_: QueueName, numbers: Sequence[int], readers: Sequence[MemberId]) -> Iterable[Sequence[int]]:
        return chunks(numbers, len(readers))

    return deal
