"""RocketMQ's AllocateMessageQueueAveragelyByCircle: every queue is dealt out in turn, members by name."""

from collections.abc import Iterable, Sequence

from baton.assignors.building_blocks.queue_by_queue import Deal, queue_by_queue
from baton.assignors.request import Answer, Request
from baton.model.ids import MemberId, QueueName


def circle(request: Request) -> Answer:
    """RocketMQ's answer, exactly. Every queue begins with the first member, unlike Kafka's round-robin."""
    return queue_by_queue(request, sorted(request.members), in_turn(request))


def in_turn(_: Request) -> Deal:
    def deal(_: QueueName, numbers: Sequence[int], readers: Sequence[MemberId]) -> Iterable[Sequence[int]]:
        return (numbers[place :: len(readers)] for place in range(min(len(numbers), len(readers))))

    return deal
