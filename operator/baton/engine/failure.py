"""An assignor that fails: nobody's work may depend on it, so everything stays as it is until it can be asked again."""

from collections.abc import Iterator
from contextlib import contextmanager

from baton.assignors import AssignorError, UnknownAssignorError
from baton.engine.draft import Draft
from baton.engine.state import PlanProblem

FAILURES = (AssignorError, UnknownAssignorError)
"""What asking for an assignor and asking it may raise."""


def problem_of(error: Exception) -> PlanProblem:
    """The reason of the condition, and the sentence."""
    return PlanProblem("InvalidAssignment" if isinstance(error, AssignorError) else "UnknownAssignor", str(error))


@contextmanager
def unplanned_if_it_fails(draft: Draft) -> Iterator[None]:
    """Around the making of a plan, whose first change to the draft that is not undone here comes after the assignor's answer. The
    holddown stands, so that every step tries again."""
    before = draft.holddown, dict(draft.waiting), list(draft.member_slots), list(draft.standbys)
    try:
        yield
    except FAILURES as error:
        draft.holddown, draft.waiting, draft.member_slots, draft.standbys = before
        draft.problem = problem_of(error)
