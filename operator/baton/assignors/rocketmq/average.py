"""RocketMQ's AllocateMessageQueueAveragely, its default: every queue in runs, members by name."""

from baton.assignors.building_blocks.queue_by_queue import in_runs, queue_by_queue
from baton.assignors.request import Answer, Request


def average(request: Request) -> Answer:
    """RocketMQ's answer, exactly."""
    return queue_by_queue(request, sorted(request.members), in_runs)
