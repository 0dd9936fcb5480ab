"""The conditions of a group and of a queue, from what the engine and the queues say. Pure."""

from collections.abc import Iterable, Mapping
from typing import Any

from baton.api import Condition, ConditionStatus, ProposalStatus, ShownState
from baton.controller.hold_ups import HoldUp, without_owner
from baton.controller.problems import Problem, Reason
from baton.engine import State, Summary
from baton.model.times import to_text
from baton.model.wording import counted

NONE_ASKED_FOR = "there is no pod, and none is asked for"

Told = tuple[str, ConditionStatus, Reason, str]
"""type, status, reason, message"""


def ready(problem: Problem | None, sentence: str, *, to_zero: bool = False) -> Told:
    """Ready, with the worst problem or a sentence on how things are. `to_zero`: there is no pod, and none is asked for."""
    if problem is None:
        return ("Ready", ConditionStatus.TRUE, Reason.SCALED_TO_ZERO if to_zero else Reason.READY, sentence)
    if problem.reason is Reason.WAITING_FOR_QUEUE:
        return ("Ready", ConditionStatus.UNKNOWN, problem.reason, problem.message)
    return ("Ready", ConditionStatus.FALSE, problem.reason, problem.message)


def settled(
    ready: Told, whole: Summary, wait: HoldUp | None, *, asked_for: int | None, held_back: str = "", missing: str = ""
) -> Told:
    """What somebody waits for who has changed something: all is well, and nothing is under way.

    `asked_for`: how many pods there are to be, as far as that is known. `held_back`: why they are fewer than spec.replicas.
    `missing`: why fewer take part than are asked for."""
    if ready[1] is not ConditionStatus.TRUE:
        return not_settled(ready)
    if moving := whole.numbers.moving:
        return _unsettled(Reason.HANDING_OFF, f"{_changing_hands(moving)}, or {'is' if moving == 1 else 'are'} to")
    if wait is not None:
        return _unsettled(wait.reason, without_owner(whole, wait) or wait.sentence)
    if asked_for is not None and whole.numbers.members != asked_for:
        what = f"{whole.numbers.members} of the {asked_for} pods that are asked for take part"
        return _unsettled(Reason.SCALING, f"{what}{missing and f'; {missing}'}")
    if ready[2] is Reason.SCALED_TO_ZERO:
        return ("Settled", ConditionStatus.TRUE, Reason.SCALED_TO_ZERO, NONE_ASKED_FOR)
    if not whole.settled:
        return _unsettled(Reason.UNBALANCED, without_owner(whole, wait) or "not every partition is with its owner (yet)")
    return (
        "Settled",
        ConditionStatus.TRUE,
        Reason.SETTLED,
        f"every partition is with its owner, and no change is under way or due{held_back and f'; {held_back}'}",
    )


def not_settled(ready: Told) -> Told:
    """The condition Settled of a group with a problem."""
    return _unsettled(Reason.NOT_READY, f"Ready is {ready[1]}: {ready[2]}")


def _unsettled(reason: Reason, message: str) -> Told:
    return ("Settled", ConditionStatus.FALSE, reason, message)


def shown_state(state: State, ready: Told, *, deleting: bool) -> ShownState:
    """The word for it all. `state`: what the partitions are doing."""
    if deleting:
        return ShownState.DELETING
    if ready[1] is not ConditionStatus.TRUE:
        return ShownState.NOT_READY
    if ready[2] is Reason.SCALED_TO_ZERO and state is State.READY:
        return ShownState.SCALED_TO_ZERO
    return ShownState(state.value)


def balanced(whole: Summary, wait: HoldUp | None, *, to_zero: bool = False) -> Told:
    """`to_zero`: see `ready`."""
    if whole.balanced and whole.numbers.members:
        return ("Balanced", ConditionStatus.TRUE, Reason.BALANCED, "the partitions are spread as evenly as the assignor makes it")
    if to_zero:
        return ("Balanced", ConditionStatus.FALSE, Reason.SCALED_TO_ZERO, NONE_ASKED_FOR)
    if whole.numbers.members == 0:
        return ("Balanced", ConditionStatus.FALSE, Reason.NO_MEMBERS, "no member can own the partitions")
    uneven = "the partitions are not spread evenly (yet)" + ("" if wait is None else f": {wait.sentence}")
    reason = Reason.HANDING_OFF if whole.numbers.moving else Reason.UNBALANCED if wait is None else wait.reason
    return ("Balanced", ConditionStatus.FALSE, reason, without_owner(whole, wait) or uneven)


def rebalancing(moving: int, wait: HoldUp | None, overdue: Iterable[str] = ()) -> Told:
    """`overdue`: members that have not let go by their deadline, and have to be waited for (External queues)."""
    if moving:
        late = sorted(set(overdue))
        them = "it" if len(late) == 1 else "them"
        waiting = (
            f"; {', '.join(late)} did not let go by the deadline, and the hand-off waits, as no queue can fence {them} off: "
            f"stop {them}, or set spec.source.external.onDeadline to Force"
        )
        return (
            "Rebalancing",
            ConditionStatus.TRUE,
            Reason.HANDING_OFF,
            f"{_changing_hands(moving)}{waiting if late else ''}",
        )
    if wait is not None and wait.reason is Reason.HOLDDOWN:
        return ("Rebalancing", ConditionStatus.FALSE, Reason.HOLDDOWN, wait.sentence)
    because = "" if wait is None else f": {wait.sentence}"
    return ("Rebalancing", ConditionStatus.FALSE, Reason.STABLE, f"nothing moves{because}")


def _changing_hands(moving: int) -> str:
    return f"{counted(moving, 'partition is', 'partitions are')} changing hands"


def proposal_ready(proposal: ProposalStatus | None) -> Told:
    """Of a group with spec.approval Manual."""
    if proposal is None:
        return ("ProposalReady", ConditionStatus.FALSE, Reason.NOTHING_PROPOSED, "nothing waits for approval")
    what = counted(proposal.moves, "partition")
    return (
        "ProposalReady",
        ConditionStatus.TRUE,
        Reason.WAITING_FOR_APPROVAL,
        f"proposal {proposal.id} would move {what}: {proposal.reason}; look at status.proposal, and approve "
        f"it with `baton approve`, or with the annotation baton.dev/approve: {proposal.id}",
    )


def fenced(unfenced: Iterable[str]) -> Told:
    """`unfenced`: the queues that cannot refuse anybody."""
    names = ", ".join(sorted(unfenced))
    if not names:
        return ("Fenced", ConditionStatus.TRUE, Reason.ENFORCED, "the queues themselves refuse whoever does not own a partition")
    return (
        "Fenced",
        ConditionStatus.FALSE,
        Reason.NOT_ENFORCED,
        f"only the consumers themselves end their work on {names}: the queue cannot refuse a former owner there",
    )


def sessions_bound(enforced: bool) -> Told:
    """`enforced`: the chart's admission policies are installed."""
    if enforced:
        why = (
            "the API server lets a pod write the Lease of its own session only, and others only with the verb join on the group; "
            "only the operator writes the ledger"
        )
        return ("SessionsBound", ConditionStatus.TRUE, Reason.ENFORCED, why)
    return (
        "SessionsBound",
        ConditionStatus.FALSE,
        Reason.NOT_ENFORCED,
        "no policy binds a session to its pod: an account of this namespace that may write Leases can speak for any pod of the "
        "group, one that may create or label pods can join it, and one that may edit ConfigMaps can edit its ledger; install the "
        "chart with admissionPolicy.enabled on Kubernetes 1.30 or later (the operator's --admission-policy=on)",
    )


def conditions(told: Iterable[Told], before: Iterable[Mapping[str, Any]], generation: int, now: float) -> list[Condition]:
    """With transition times: a condition whose status is what it was keeps its time."""
    since = {(one.get("type"), one.get("status")): one.get("lastTransitionTime") for one in before}
    return [
        Condition(
            type=kind,
            status=status,
            reason=reason,
            message=message[:4096],
            last_transition_time=since.get((kind, status.value)) or to_text(now),
            observed_generation=generation,
        )
        for kind, status, reason, message in told
    ]
