"""Runnel's assignment: every queue in runs, members in the order in which they joined."""

from baton.assignors.average import averagely
from baton.assignors.claims import by_seat
from baton.assignors.queue_by_queue import queue_by_queue
from baton.assignors.request import Answer, Request


def contiguous(request: Request) -> Answer:
    """Runnel's answer, exactly. A newcomer is last, so the runs before it only shift; equal ranks go by name."""
    return queue_by_queue(request, by_seat(request.members), averagely(request))
