"""The status of a ConsumerGroup, from what its engine and its queues say. Pure."""

from collections.abc import Iterable, Mapping
from itertools import islice

from baton.api import ConsumerGroupStatus, Handoff, ShownState
from baton.api.enums import Approval, ScaleMode
from baton.api.group_status import LONGEST_REASON, MOST_HANDOFFS_SHOWN, OF_QUEUES, GroupNumbers
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
from baton.controller.group_observation import QueueSight, held_back
from baton.controller.hold_ups import HoldUp, waits_for, without_owner
from baton.controller.problems import Problem, worst
from baton.engine import Summary
from baton.engine.state import Move
from baton.kube.api import Json
from baton.kube.members import GroupMembers
from baton.kube.objects import GroupView
from baton.model.ids import Partition
from baton.model.names import GROUP_LABEL, SPARK_ROLE_LABEL
from baton.model.times import to_text
from baton.model.wording import counted


def group_status(
    group: GroupView,
    whole: Summary,
    seen: GroupMembers,
    told: list[Told],
    now: float,
    unacknowledged: Mapping[Partition, int | None],
    asked_for: int | None = None,
    *,
    known: bool = True,
) -> ConsumerGroupStatus:
    """The status of a ConsumerGroup. `asked_for`: see `group_conditions`. `known`: see `partitions_are_known`. Pure."""
    numbers = {name: number for name, number in whole.numbers if known or name not in OF_QUEUES}
    return ConsumerGroupStatus(
        observed_generation=group.generation,
        state=shown_state(whole.state, next(one for one in told if one[0] == "Ready"), deleting=group.deleting),
        hold_until=None if whole.hold_until is None else to_text(whole.hold_until),
        assignment_generation=whole.generation,
        **numbers,
        assignor=whole.assignor,
        selector=_selector(group),
        desired_replicas=asked_for,
        replicas=seen.pods,
        handoffs=[
            _handoff(partition, move, unacknowledged.get(partition))
            for partition, move in islice(whole.in_flight.items(), MOST_HANDOFFS_SHOWN)
        ],
        proposal=whole.proposal,
        conditions=conditions(told, group.status.get("conditions") or (), group.generation, now),
    )


def partitions_are_known(whole: Summary, sights: Iterable[QueueSight]) -> bool:
    """Whether it is known how many partitions there are: no 0 is told while a queue is missing, or has never answered. Pure."""
    return whole.numbers.partitions > 0 or not any(
        one.partitions is None if one.wanted else one.named and one.view is None for one in sights
    )


def written(status: ConsumerGroupStatus) -> Json:
    """As it is written: without numbers that are not known. Pure."""
    unknown = GroupNumbers.model_fields.keys() - status.model_fields_set
    return status.model_dump(by_alias=True, exclude_none=True, exclude=unknown, mode="json")


def group_conditions(
    group: GroupView,
    whole: Summary,
    sights: list[QueueSight],
    problems: list[Problem],
    now: float,
    *,
    sessions_are_bound: bool,
    asked_for: int | None,
    missing: str = "",
) -> list[Told]:
    """All of them; Ready comes first. `asked_for`: how many pods there are to be, as far as that is known; `missing`: why fewer
    take part. Pure."""
    to_zero = asked_for == 0 and not whole.numbers.members
    wait = waits_for(whole, paused=group.spec is not None and group.spec.paused)
    is_ready = ready(worst(problems), NONE_ASKED_FOR if to_zero else _shared(whole, wait), to_zero=to_zero)
    held = held_back(group.spec, sights) if group.spec else ""
    told = [
        is_ready,
        settled(is_ready, whole, wait, asked_for=asked_for, held_back=held, missing=missing),
        balanced(whole, wait, to_zero=to_zero),
        rebalancing(whole.numbers.moving, wait, _overdue(whole, sights, now)),
        fenced(sight.name for sight in sights if sight.wanted and not sight.enforced),
        sessions_bound(sessions_are_bound),
    ]
    if group.spec is not None and group.spec.approval is Approval.MANUAL:
        told.append(proposal_ready(whole.proposal))
    return told


def halted_status(group: GroupView, problem: Problem, now: float) -> Json:
    """The status of a group that is at a halt. It keeps what the status said, except that all is well and when a holddown ends.
    Pure."""
    before = group.status.get("conditions") or ()
    is_ready = ready(problem, "")
    unsettled = not_settled(is_ready)
    made = conditions([is_ready, unsettled], before, group.generation, now)
    shown = [one.model_dump(by_alias=True, exclude_none=True, mode="json") for one in made]
    rest = [one for one in before if one.get("type") not in (is_ready[0], unsettled[0])]
    state = ShownState.DELETING if group.deleting else ShownState.NOT_READY
    stands = {name: value for name, value in group.status.items() if name != "holdUntil"}
    return {**stands, "state": state.value, "conditions": [*shown, *rest]}


def _selector(group: GroupView) -> str:
    """The driver of a Spark fleet has the group's label too, and autoscalers are not to count it. `kubectl scale` reads a
    selector with notin, and refuses one with !=."""
    drivers = group.spec is not None and group.spec.scale is not None and group.spec.scale.mode is ScaleMode.SPARK
    return f"{GROUP_LABEL}={group.name}{f',{SPARK_ROLE_LABEL} notin (driver)' if drivers else ''}"


def _overdue(whole: Summary, sights: list[QueueSight], now: float) -> list[str]:
    unfenced = {sight.name for sight in sights if not sight.enforced}
    return [
        move.giver
        for partition, move in whole.in_flight.items()
        if move.giver is not None and now > move.deadline and partition.queue in unfenced
    ]


def _shared(whole: Summary, wait: HoldUp | None) -> str:
    members = counted(whole.numbers.members, "member")
    if without := without_owner(whole, wait):
        return f"{members}; {without}"
    return f"{counted(whole.numbers.members, 'member has', 'members share')} {counted(whole.numbers.partitions, 'partition')}"


def _handoff(partition: Partition, move: Move, unacknowledged: int | None) -> Handoff:
    return Handoff(
        queue=partition.queue,
        partition=partition.number,
        giver=move.giver,
        receiver=move.receiver,
        epoch=move.epoch,
        deadline=None if move.giver is None else to_text(move.deadline),
        unacknowledged=unacknowledged,
        reason=move.why[:LONGEST_REASON],
    )
