"""Runnel's assignment: each queue in runs, members in the order of joining."""

from baton.assignors.building_blocks import Declaration, by_rank, in_runs, queue_by_queue
from baton.assignors.request import Answer, Request


def contiguous(request: Request) -> Answer:
    """Exactly Runnel's answer. A new member comes last, so the other runs only shift."""
    return queue_by_queue(request, by_rank(request.members), in_runs)


CONTIGUOUS = Declaration(
    name="contiguous",
    assign=contiguous,
    source="Runnel",
    good_at="As `average`, in the order of joining: a newcomer only shifts the runs",
    costs="Many moves",
)
