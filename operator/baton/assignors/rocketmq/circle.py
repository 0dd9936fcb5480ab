"""RocketMQ's AllocateMessageQueueAveragelyByCircle: readers get each queue in turn, by name."""

from collections.abc import Iterable, Sequence

from baton.assignors.building_blocks.queue_by_queue import queue_by_queue
from baton.assignors.declaration import Declaration
from baton.assignors.request import Answer, Request
from baton.model.ids import MemberId, QueueName


def circle(request: Request) -> Answer:
    """Exactly RocketMQ's answer. Each queue begins with the first reader, unlike Kafka's round-robin."""
    return queue_by_queue(request, sorted(request.members), _in_turn)


def _in_turn(_: QueueName, numbers: Sequence[int], readers: Sequence[MemberId]) -> Iterable[Sequence[int]]:
    return (numbers[place :: len(readers)] for place in range(min(len(numbers), len(readers))))


CIRCLE = Declaration(
    name="circle",
    assign=circle,
    source="RocketMQ's AllocateMessageQueueAveragelyByCircle",
    good_at="Every queue in turn, for itself",
    costs="As `average`, and nearly everything moves",
    deal=lambda _: _in_turn,
)
