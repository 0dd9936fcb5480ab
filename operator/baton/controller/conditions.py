"""The conditions of a group and of a queue, from what the engine and the queues say. Pure."""

from collections.abc import Iterable, Mapping
from typing import Any

from baton.controller.problems import Problem, Reason
from baton.engine.proposal import Outlook
from baton.kube.times import to_text
from baton.model.wording import counted
from baton.resources import Condition, ConditionStatus

Told = tuple[str, ConditionStatus, Reason, str]
"""type, status, reason, message"""


def ready(problem: Problem | None, sentence: str) -> Told:
    """Ready, with the worst problem or a sentence on how things are."""
    if problem is None:
        return ("Ready", ConditionStatus.TRUE, Reason.READY, sentence)
    return ("Ready", ConditionStatus.FALSE, problem.reason, problem.message)


def balanced(value: bool, members: int) -> Told:
    """`value`: the partitions are spread as evenly as the assignor in use makes it."""
    if value:
        return ("Balanced", ConditionStatus.TRUE, Reason.BALANCED, "the partitions are spread as evenly as the assignor makes it")
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
