"""What keeps a group from doing what is due, and which partitions have no owner until then, as messages. Pure."""

from dataclasses import replace
from typing import NamedTuple

from baton.controller.problems import Problem, Reason
from baton.engine import Summary
from baton.model.names import SUBSCRIBED_ANNOTATION
from baton.model.times import to_text
from baton.model.wording import counted


class HoldUp(NamedTuple):
    """What a group waits for before it does what is due."""

    reason: Reason
    sentence: str


def waits_for(whole: Summary, *, paused: bool) -> HoldUp | None:
    """What has to happen before anything else does; None: nothing. What nothing can go past comes first."""
    if paused:
        return HoldUp(Reason.PAUSED, "spec.paused holds back what is due, until it is false")
    if whole.held_back:
        return HoldUp(Reason.SIZE_LIMIT, "what is due waits for room in the ledger")
    if (problem := problem_of(whole)) is not None:
        return HoldUp(problem.reason, f"no plan can be made ({problem.reason})")
    if whole.proposal is not None:
        return HoldUp(Reason.WAITING_FOR_APPROVAL, f"proposal {whole.proposal.id} waits for approval")
    if whole.hold_until is not None:
        return HoldUp(
            Reason.HOLDDOWN, f"a change of the fleet is held down until {to_text(whole.hold_until)}, in case it is undone"
        )
    return None


def problem_of(whole: Summary) -> Problem | None:
    """Why the engine can make no plan."""
    if whole.problem is None:
        return None
    try:
        reason = Reason(whole.problem.reason)
    except ValueError:
        reason = Reason.PROBLEM
    return Problem(reason, whole.problem.message)


def without_owner(whole: Summary, wait: HoldUp | None) -> str:
    """How many partitions have no owner, and why; empty where all have one."""
    numbers = whole.numbers
    if not numbers.partitions:
        return "no partition is known: there is no queue, or none that has answered yet"
    if not numbers.unowned:
        return ""
    what = (
        f"{numbers.unowned:,} of {counted(numbers.partitions, 'partition')} {'has' if numbers.unowned == 1 else 'have'} no owner"
    )
    if numbers.moving:
        return f"{what} yet: partitions are changing hands"
    if not numbers.members:
        return f"{what}: no pod takes part"
    if wait is not None:
        return f"{what}: {wait.sentence}"
    return f"{what}: no pod that takes part reads them (annotation {SUBSCRIBED_ANNOTATION}), or is in their room"


def as_of(whole: Summary, now: float) -> Summary:
    """Without a hold that is over: what is to follow waits for the ledger."""
    over = whole.hold_until is not None and whole.hold_until <= now
    return replace(whole, hold_until=None) if over else whole
