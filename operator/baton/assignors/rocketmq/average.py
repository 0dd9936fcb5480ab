"""RocketMQ's AllocateMessageQueueAveragely, its default: each queue in runs, members by name."""

from baton.assignors.building_blocks.queue_by_queue import in_runs, queue_by_queue
from baton.assignors.declaration import Declaration
from baton.assignors.request import Answer, Request


def average(request: Request) -> Answer:
    """Exactly RocketMQ's answer."""
    return queue_by_queue(request, sorted(request.members), in_runs)


AVERAGE = Declaration(
    name="average",
    assign=average,
    source="RocketMQ's AllocateMessageQueueAveragely",
    good_at="Runs of partitions, every queue for itself",
    costs="The first members have the rests of all queues; many moves",
    deal=lambda _: in_runs,
)
