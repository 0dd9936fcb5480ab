"""Failures of an assignor: the group keeps its owners, and the engine asks again with every step."""

from collections.abc import Iterator
from contextlib import contextmanager

from baton.assignors import AssignorError, UnknownAssignorError
from baton.engine.draft import Draft
from baton.engine.state import PlanProblem

FAILURES = (AssignorError, UnknownAssignorError)
"""The errors of looking an assignor up and of calling it."""


def problem_of(error: Exception) -> PlanProblem:
    """The reason and message of the condition Ready for this error."""
    return PlanProblem("InvalidAssignment" if isinstance(error, AssignorError) else "UnknownAssignor", str(error))


@contextmanager
def restored_if_it_fails(draft: Draft) -> Iterator[None]:
    """A context for making a plan. If the assignor fails, it records the problem and restores the draft, so the holddown stands.

    It restores only what a plan changes before it calls the assignor: the holddown, waiting hand-offs, slots and standbys.
    """
    before = draft.holddown, dict(draft.waiting), list(draft.member_slots), list(draft.standbys)
    try:
        yield
    except FAILURES as error:
        draft.holddown, draft.waiting, draft.member_slots, draft.standbys = before
        draft.problem = problem_of(error)
