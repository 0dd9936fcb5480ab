"""The status of a ConsumerGroup, from what its engine and its queues say. Pure."""

from collections.abc import Mapping

from baton.api import ConsumerGroupStatus, Handoff, ProposalStatus, ProposedChange, ProposedMoveStatus, ShownState
from baton.api.enums import Approval
from baton.api.group_status import LONGEST_RANGES, MOST_HANDOFFS_SHOWN, MOST_PROPOSED_SHOWN
from baton.controller.conditions import (
    NONE_ASKED_FOR,
    Told,
    balanced,
    conditions,
    fenced,
    not_settled,
    proposal_ready,
    ready,
    rebalancing,
    sessions_bound,
    settled,
    shown_state,
)
from baton.controller.hold_ups import HoldUp, waits_for, without_owner
from baton.controller.observe import QueueSight
from baton.controller.problems import Problem, worst
from baton.engine import Summary
from baton.engine.proposal import Outlook
from baton.engine.summary import InFlight
from baton.kube.api import Json
from baton.kube.members import GroupMembers
from baton.kube.objects import GroupView
from baton.model.ids import Partition
from baton.model.names import GROUP_LABEL
from baton.model.ranges import format_numbers
from baton.model.times import to_text
from baton.model.wording import counted


def group_status(
    group: GroupView,
    whole: Summary,
    seen: GroupMembers,
    told: list[Told],
    now: float,
    unacknowledged: Mapping[Partition, int | None],
) -> ConsumerGroupStatus:
    """The status of a ConsumerGroup. Pure."""
    return ConsumerGroupStatus(
        observed_generation=group.generation,
        state=shown_state(whole.state, next(one for one in told if one[0] == "Ready"), deleting=group.deleting),
        hold_until=None if whole.hold_until is None else to_text(whole.hold_until),
        assignment_generation=whole.generation,
        **dict(whole.numbers),
        assignor=whole.assignor,
        selector=f"{GROUP_LABEL}={group.name}",
        replicas=seen.pods,
        handoffs=[_handoff(one, unacknowledged.get(one.partition)) for one in whole.in_flight[:MOST_HANDOFFS_SHOWN]],
        proposal=None if whole.proposal is None else _proposal(whole.proposal),
        conditions=conditions(told, group.status.get("conditions") or (), group.generation, now),
    )


def group_conditions(
    group: GroupView,
    whole: Summary,
    sights: list[QueueSight],
    problems: list[Problem],
    now: float,
    *,
    sessions_are_bound: bool,
    asked_for: int | None,
) -> list[Told]:
    """All of them; Ready comes first. `asked_for`: how many pods there are to be, as far as that is known. Pure."""
    to_zero = asked_for == 0 and not whole.numbers.members
    wait = waits_for(whole, paused=group.spec is not None and group.spec.paused)
    is_ready = ready(worst(problems), NONE_ASKED_FOR if to_zero else _shared(whole, wait), to_zero=to_zero)
    told = [
        is_ready,
        settled(is_ready, whole, wait, asked_for=asked_for),
        balanced(whole, wait, to_zero=to_zero),
        rebalancing(whole.numbers.moving, wait, _overdue(whole, sights, now)),
        fenced(sight.name for sight in sights if sight.wanted and not sight.enforced),
        sessions_bound(sessions_are_bound),
    ]
    if group.spec is not None and group.spec.approval is Approval.MANUAL:
        told.append(proposal_ready(whole.proposal))
    return told


def halted_status(group: GroupView, problem: Problem, now: float) -> Json:
    """The status of a group for which nothing is done meanwhile: what was said of it stands, but that all is well, and that a
    hold ends. Pure."""
    before = group.status.get("conditions") or ()
    is_ready = ready(problem, "")
    unsettled = not_settled(is_ready)
    made = conditions([is_ready, unsettled], before, group.generation, now)
    shown = [one.model_dump(by_alias=True, exclude_none=True, mode="json") for one in made]
    rest = [one for one in before if one.get("type") not in (is_ready[0], unsettled[0])]
    state = ShownState.DELETING if group.deleting else ShownState.NOT_READY
    stands = {name: value for name, value in group.status.items() if name != "holdUntil"}
    return {**stands, "state": state.value, "conditions": [*shown, *rest]}


def _overdue(whole: Summary, sights: list[QueueSight], now: float) -> list[str]:
    unfenced = {sight.name for sight in sights if not sight.enforced}
    return [
        one.giver
        for one in whole.in_flight
        if one.giver is not None and one.deadline is not None and now > one.deadline and one.partition.queue in unfenced
    ]


def _shared(whole: Summary, wait: HoldUp | None) -> str:
    members = counted(whole.numbers.members, "member")
    if without := without_owner(whole, wait):
        return f"{members}; {without}"
    return f"{counted(whole.numbers.members, 'member has', 'members share')} {counted(whole.numbers.partitions, 'partition')}"


def _proposal(one: Outlook) -> ProposalStatus:
    return ProposalStatus(
        id=one.id,
        created_at=to_text(one.created),
        reason=one.why[:256],
        moves=one.count,
        paused=one.paused,
        paused_at_once=one.at_once,
        longest_pause_seconds=None if one.longest is None else round(one.longest),
        members=[
            ProposedChange(member=change.member, before=change.before, after=change.after)
            for change in one.changes[:MOST_PROPOSED_SHOWN]
        ],
        handoffs=[
            ProposedMoveStatus(queue=move.queue, partitions=_ranges(move.numbers), giver=move.giver, receiver=move.receiver)
            for move in one.moves[:MOST_PROPOSED_SHOWN]
        ],
    )


def _ranges(numbers: tuple[int, ...]) -> str:
    text = format_numbers(numbers)
    return text if len(text) <= LONGEST_RANGES else text[: text.rindex(",", 0, LONGEST_RANGES)] + ",…"


def _handoff(one: InFlight, unacknowledged: int | None) -> Handoff:
    return Handoff(
        queue=one.partition.queue,
        partition=one.partition.number,
        giver=one.giver,
        receiver=one.receiver,
        epoch=one.epoch,
        deadline=None if one.deadline is None else to_text(one.deadline),
        unacknowledged=unacknowledged,
        reason=one.why[:256],
    )
