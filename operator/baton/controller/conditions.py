"""The conditions of a group and of a queue, from what the engine and the queues say. Pure."""

from collections.abc import Iterable, Mapping
from typing import Any

from baton.controller.problems import Problem, Reason
from baton.engine import State, Summary
from baton.engine.proposal import Outlook
from baton.kube.times import to_text
from baton.model.wording import counted
from baton.resources import Condition, ConditionStatus, ShownState

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


def settled(ready: Told, whole: Summary, *, paused: bool, asked_for: int | None) -> Told:
    """What somebody waits for who has changed something: all is well, and nothing is under way.

    `asked_for`: how many pods there are to be, as far as that is known."""
    if ready[1] is not ConditionStatus.TRUE:
        return not_settled(ready)
    if whole.moving:
        return _unsettled(Reason.HANDING_OFF, f"{counted(whole.moving, 'partition')} are changing hands, or are to")
    if whole.hold_until is not None:
        return _unsettled(Reason.HOLDDOWN, f"a change of the fleet is held down until {to_text(whole.hold_until)}")
    if whole.proposal is not None:
        return _unsettled(Reason.WAITING_FOR_APPROVAL, f"proposal {whole.proposal.id} waits for approval")
    if paused:
        return _unsettled(Reason.PAUSED, "spec.paused: what is due is not begun")
    if asked_for is not None and whole.members != asked_for:
        return _unsettled(Reason.SCALING, f"{whole.members} of the {asked_for} pods that are asked for take part")
    if ready[2] is Reason.SCALED_TO_ZERO:
        return ("Settled", ConditionStatus.TRUE, Reason.SCALED_TO_ZERO, NONE_ASKED_FOR)
    if not whole.settled:
        return _unsettled(Reason.UNBALANCED, "not every partition is where it is to be (yet)")
    return ("Settled", ConditionStatus.TRUE, Reason.SETTLED, "every partition is with its owner, and nothing is under way or due")


def not_settled(ready: Told) -> Told:
    """Not all is well."""
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


def balanced(value: bool, members: int, *, to_zero: bool = False) -> Told:
    """`value`: the partitions are spread as evenly as the assignor in use makes it. `to_zero`: see `ready`."""
    if value and members:
        return ("Balanced", ConditionStatus.TRUE, Reason.BALANCED, "the partitions are spread as evenly as the assignor makes it")
    if to_zero:
        return ("Balanced", ConditionStatus.FALSE, Reason.SCALED_TO_ZERO, NONE_ASKED_FOR)
    if members == 0:
        return ("Balanced", ConditionStatus.FALSE, Reason.NO_MEMBERS, "there is nobody to own the partitions")
    return ("Balanced", ConditionStatus.FALSE, Reason.UNBALANCED, "the partitions are not spread evenly (yet)")


def rebalancing(moving: int, hold_until: str | None, overdue: Iterable[str] = ()) -> Told:
    """`overdue`: members that have not let go by their deadline, and have to be waited for (External queues)."""
    if moving:
        what = "partition is" if moving == 1 else "partitions are"
        late = sorted(set(overdue))
        are, them = ("is", "it") if len(late) == 1 else ("are", "them")
        waiting = (
            f"; {', '.join(late)} did not let go by the deadline and {are} waited for, as nothing can fence {them} off: stop "
            f"{them}, or set spec.source.external.onDeadline to Force"
        )
        return (
            "Rebalancing",
            ConditionStatus.TRUE,
            Reason.HANDING_OFF,
            f"{moving} {what} changing hands{waiting if late else ''}",
        )
    if hold_until is not None:
        return (
            "Rebalancing",
            ConditionStatus.FALSE,
            Reason.HOLDDOWN,
            f"a change of the fleet is held down until {hold_until}, in case it is undone",
        )
    return ("Rebalancing", ConditionStatus.FALSE, Reason.STABLE, "nothing moves")


def proposal_ready(proposal: Outlook | None) -> Told:
    """Of a group with spec.approval Manual."""
    if proposal is None:
        return ("ProposalReady", ConditionStatus.FALSE, Reason.NOTHING_PROPOSED, "nothing waits for approval")
    what = counted(proposal.count, "partition")
    return (
        "ProposalReady",
        ConditionStatus.TRUE,
        Reason.WAITING_FOR_APPROVAL,
        f"proposal {proposal.id} would move {what}: {proposal.why}; look at status.proposal, and approve "
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
        f"nothing but the consumers' word keeps a former owner from {names}: an External queue cannot refuse anybody",
    )


def sessions_bound(enforced: bool) -> Told:
    """`enforced`: the chart's admission policies are installed."""
    if enforced:
        why = "the API server lets only a pod write the Lease that speaks for it, and only the operator the ledger"
        return ("SessionsBound", ConditionStatus.TRUE, Reason.ENFORCED, why)
    return (
        "SessionsBound",
        ConditionStatus.FALSE,
        Reason.NOT_ENFORCED,
        "nothing binds a session to its pod: in this namespace whoever may write Leases can speak for any pod of the group, "
        "whoever may create or label pods can join it, and whoever may edit ConfigMaps can edit its ledger; install the chart "
        "with admissionPolicy.enabled on Kubernetes 1.30 or later (the operator's --admission-policy=on)",
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
