"""The status of a ConsumerGroup: its problems, what it waits for, and its conditions. Each problem is a sentence with the cure.
Pure."""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import replace
from itertools import islice
from typing import Any, NamedTuple

from baton.api import Condition, ConditionStatus, ConsumerGroupSpec, ConsumerGroupStatus, Handoff, ProposalStatus, ShownState
from baton.api.group import LONGEST_REASON, MOST_HANDOFFS_SHOWN, OF_QUEUES, Approval, GroupNumbers, ScaleMode
from baton.controller.group_observation import GroupObjects, QueueSight, held_back, without_room
from baton.controller.problems import Problem, Reason, worst
from baton.engine import State, Summary
from baton.engine.ledger import MOST_PARTITIONS
from baton.engine.state import Move
from baton.kube.api import Json
from baton.kube.members import DRIVER, GroupMembers, LeftOut
from baton.kube.objects import GroupView
from baton.kube.pods import PodView
from baton.model.ids import MemberId, Partition, QueueName
from baton.model.names import (
    DRAIN_ANNOTATION,
    GROUP_LABEL,
    SPARK_ROLE_LABEL,
    SUBSCRIBED_ANNOTATION,
    TAKE_OVER_ANNOTATION,
    driver_lease_name,
    session_lease_name,
)
from baton.model.times import to_text
from baton.model.wording import counted, first_of, quoted


def waits_for(whole: Summary, *, paused: bool) -> Problem | None:
    """Return what the group waits for before it does anything else; None: nothing."""
    if paused:
        return Problem(Reason.PAUSED, "spec.paused is true, so nothing new begins")
    if whole.held_back:
        return Problem(Reason.SIZE_LIMIT, "changes wait until the ledger has room")
    if (problem := plan_problem(whole)) is not None:
        return Problem(problem.reason, f"no plan can be made ({problem.reason})")
    if whole.proposal is not None:
        return Problem(Reason.WAITING_FOR_APPROVAL, f"proposal {whole.proposal.id} waits for approval")
    if whole.hold_until is not None:
        return Problem(
            Reason.HOLDDOWN, f"a change of the fleet is held down until {to_text(whole.hold_until)}, in case it is undone"
        )
    return None


def plan_problem(whole: Summary) -> Problem | None:
    """Return why the engine can make no plan; None: it can."""
    return None if whole.problem is None else Problem(Reason(whole.problem.reason), whole.problem.message)


def without_owner(whole: Summary, wait: Problem | None) -> str:
    """Say how many partitions have no owner, and why; empty if all have one."""
    numbers = whole.numbers
    if not numbers.partitions:
        return "no partition is known: there is no queue, or no queue has answered yet"
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
        return f"{what}: {wait.message}"
    return f"{what}: no pod that takes part reads them (annotation {SUBSCRIBED_ANNOTATION}), or is in their room"


def as_of(whole: Summary, now: float) -> Summary:
    """Return the summary without a holddown that is over, because its plan waits for the ledger to be written."""
    over = whole.hold_until is not None and whole.hold_until <= now
    return replace(whole, hold_until=None) if over else whole


NONE_ASKED_FOR = "there is no pod, and no pod is requested"


class BareCondition(NamedTuple):
    """A condition without its times."""

    type: str
    status: ConditionStatus
    reason: Reason
    message: str


def is_true(kind: str, reason: Reason, message: str) -> BareCondition:
    """Return a condition with the status True."""
    return BareCondition(kind, ConditionStatus.TRUE, reason, message)


def is_false(kind: str, reason: Reason, message: str) -> BareCondition:
    """Return a condition with the status False."""
    return BareCondition(kind, ConditionStatus.FALSE, reason, message)


def is_unknown(kind: str, reason: Reason, message: str) -> BareCondition:
    """Return a condition with the status Unknown."""
    return BareCondition(kind, ConditionStatus.UNKNOWN, reason, message)


def ready(problem: Problem | None, sentence: str, *, to_zero: bool = False) -> BareCondition:
    """Return the condition Ready, with the worst problem or a sentence about the group. `to_zero`: no pod exists or is
    requested."""
    if problem is None:
        return is_true("Ready", Reason.SCALED_TO_ZERO if to_zero else Reason.READY, sentence)
    made = is_unknown if problem.reason is Reason.WAITING_FOR_QUEUE else is_false
    return made("Ready", problem.reason, problem.message)


def settled(
    ready: BareCondition, whole: Summary, wait: Problem | None, *, asked_for: int | None, held_back: str = "", missing: str = ""
) -> BareCondition:
    """Return the condition Settled, for which users wait after a change: no problem, and no change under way.

    `asked_for`: the number of requested pods; None: not known. `held_back`: why that is less than spec.replicas. `missing`: why
    fewer pods take part.
    """
    if ready.status is not ConditionStatus.TRUE:
        return not_settled(ready)
    if moving := whole.numbers.moving:
        return is_false("Settled", Reason.HANDING_OFF, f"{_changing_hands(moving)}, or {'is' if moving == 1 else 'are'} to")
    if wait is not None:
        return is_false("Settled", wait.reason, without_owner(whole, wait) or wait.message)
    if asked_for is not None and whole.numbers.members != asked_for:
        what = f"{whole.numbers.members} of the {asked_for} requested pods take part"
        return is_false("Settled", Reason.SCALING, f"{what}{missing and f'; {missing}'}")
    if ready.reason is Reason.SCALED_TO_ZERO:
        return is_true("Settled", Reason.SCALED_TO_ZERO, NONE_ASKED_FOR)
    if not whole.settled:
        return is_false("Settled", Reason.UNBALANCED, without_owner(whole, wait) or "not every partition is with its owner (yet)")
    rests = "every partition is with its owner, and no change is under way or due"
    return is_true("Settled", Reason.SETTLED, f"{rests}{held_back and f'; {held_back}'}")


def not_settled(ready: BareCondition) -> BareCondition:
    """Return the condition Settled of a group with a problem."""
    return is_false("Settled", Reason.NOT_READY, f"Ready is {ready.status}: {ready.reason}")


def shown_state(state: State, ready: BareCondition, *, deleting: bool) -> ShownState:
    """Return the state that the status shows. `state`: that of the engine."""
    if deleting:
        return ShownState.DELETING
    if ready.status is not ConditionStatus.TRUE:
        return ShownState.NOT_READY
    if ready.reason is Reason.SCALED_TO_ZERO and state is State.READY:
        return ShownState.SCALED_TO_ZERO
    return ShownState(state.value)


def balanced(whole: Summary, wait: Problem | None, *, to_zero: bool = False) -> BareCondition:
    """Return the condition Balanced. `to_zero`: see `ready`."""
    if whole.balanced and whole.numbers.members:
        return is_true("Balanced", Reason.BALANCED, "the partitions are spread as evenly as the assignor can")
    if to_zero:
        return is_false("Balanced", Reason.SCALED_TO_ZERO, NONE_ASKED_FOR)
    if whole.numbers.members == 0:
        return is_false("Balanced", Reason.NO_MEMBERS, "no member can own the partitions")
    uneven = "the partitions are not spread evenly (yet)" + ("" if wait is None else f": {wait.message}")
    reason = Reason.HANDING_OFF if whole.numbers.moving else Reason.UNBALANCED if wait is None else wait.reason
    return is_false("Balanced", reason, without_owner(whole, wait) or uneven)


def rebalancing(moving: int, wait: Problem | None, overdue: Iterable[str] = ()) -> BareCondition:
    """Return the condition Rebalancing. `overdue`: members that missed a deadline and have to be waited for (External queues)."""
    if moving:
        late = sorted(set(overdue))
        if not late:
            return is_true("Rebalancing", Reason.HANDING_OFF, _changing_hands(moving))
        them = "it" if len(late) == 1 else "them"
        waiting = (
            f"; {', '.join(late)} did not release partitions by the deadline, and the hand-off waits, because no queue can fence "
            f"{them} off: stop {them}, or set spec.source.external.onDeadline to Force"
        )
        return is_true("Rebalancing", Reason.DEADLINE_MISSED, f"{_changing_hands(moving)}{waiting}")
    if wait is not None and wait.reason is Reason.HOLDDOWN:
        return is_false("Rebalancing", Reason.HOLDDOWN, wait.message)
    because = "" if wait is None else f": {wait.message}"
    return is_false("Rebalancing", Reason.STABLE, f"nothing moves{because}")


def _changing_hands(moving: int) -> str:
    return f"{counted(moving, 'partition is', 'partitions are')} changing hands"


def proposal_ready(proposal: ProposalStatus | None) -> BareCondition:
    """Return the condition ProposalReady of a group with spec.approval Manual."""
    if proposal is None:
        return is_false("ProposalReady", Reason.NOTHING_PROPOSED, "nothing waits for approval")
    what = counted(proposal.moves, "partition")
    return is_true(
        "ProposalReady",
        Reason.WAITING_FOR_APPROVAL,
        f"proposal {proposal.id} would move {what}: {proposal.reason}; look at status.proposal, and approve "
        f"it with `baton approve`, or with the annotation baton.dev/approve: {proposal.id}",
    )


def fenced(unfenced: Iterable[str]) -> BareCondition:
    """Return the condition Fenced. `unfenced`: the queues that cannot reject a former owner."""
    names = ", ".join(sorted(unfenced))
    if not names:
        return is_true("Fenced", Reason.ENFORCED, "the queues reject pods that do not own the partition")
    which = f"{'queues' if ', ' in names else 'queue'} {names}"
    return is_false("Fenced", Reason.NOT_ENFORCED, f"{which} cannot reject former owners; only the consumers stop themselves")


def sessions_bound(enforced: bool) -> BareCondition:
    """Return the condition SessionsBound. `enforced`: the chart's admission policies are installed."""
    if enforced:
        why = (
            "the API server lets a pod write only the Lease of its session, and others only with the verb join on the group; "
            "only the operator writes the ledger"
        )
        return is_true("SessionsBound", Reason.ENFORCED, why)
    return is_false(
        "SessionsBound",
        Reason.NOT_ENFORCED,
        "no policy binds a session to its pod: an account of this namespace that may write Leases can speak for any pod of the "
        "group, one that may create or label pods can join it, and one that may edit ConfigMaps can edit its ledger; install the "
        "chart with admissionPolicy.enabled on Kubernetes 1.30 or later (the operator's --admission-policy=on)",
    )


def conditions(
    bare: Iterable[BareCondition], before: Iterable[Mapping[str, Any]], generation: int, now: float
) -> list[Condition]:
    """Add transition times. A condition whose status has not changed keeps its time. `before`: as in the last status."""
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
        for kind, status, reason, message in bare
    ]


MOST_SENTENCES = 5
"""Most sentences of one kind in a condition, which may concern every pod of a large fleet."""


def queue_problems(namespace: str, queues: Iterable[QueueSight]) -> list[Problem]:
    """Return the problems of the group's queues."""
    queues = list(queues)
    problems = []
    if without := sorted(without_room(queues)):
        problems.append(
            Problem(
                Reason.SIZE_LIMIT,
                f"{first_of(without, 3)}, which spec.queues names, stay as before: the group would have more than "
                f"{MOST_PARTITIONS:,} partitions in total; move some of its queues to another group",
            )
        )
    for sight in queues:
        view = sight.view
        if not sight.named:
            if sight.facts.problem is not None:
                problems.append(sight.facts.problem)
        elif view is None or view.deleting:
            gone = "does not exist" if view is None else "is being deleted"
            problems.append(
                Problem(
                    Reason.QUEUE_NOT_FOUND,
                    f"PartitionedQueue {namespace}/{sight.name}, which spec.queues names, {gone}: create it, or remove it from "
                    "spec.queues",
                )
            )
        elif view.spec is None:
            problems.append(Problem(Reason.INVALID_SPEC, f"PartitionedQueue {view.full_name}: {view.problem}"))
        elif sight.facts.problem is not None:
            problems.append(sight.facts.problem)
        elif sight.without_room:
            continue  # GroupCapacity reports it
        elif sight.partitions is None:
            why = "has not answered yet; until then its partitions have no owner"
            problems.append(Problem(Reason.WAITING_FOR_QUEUE, f"PartitionedQueue {view.full_name} {why}"))
        else:
            problems += (
                Problem(Reason.INVALID_ATTRIBUTES, f"PartitionedQueue {view.full_name}: {sentence}")
                for sentence in sight.attributes.beyond(sight.partitions)
            )
    return problems


_WHY = {
    LeftOut.NOT_READY: "not Ready",
    LeftOut.LAPSED: "its session has lapsed: it hangs, or its service account may not write its Lease",
    LeftOut.NO_SESSION: "no session: it keeps no Lease, and spec.membership.session is Required",
    LeftOut.NOT_REGISTERED: "its driver has not registered it",
    LeftOut.NO_DRIVER: "no driver holds the Lease {lease}: it works in another namespace or for another group, its account may "
    "not write Leases, or it hangs; its log says which",
    LeftOut.OTHER_DRIVER: "the Lease {lease} is held by another driver, and the pod's driver waits for it",
    LeftOut.NAME_TAKEN: "the ledger has a key of that name",
}

_NO_DRIVER_YET = "no driver holds the Lease {lease} yet"

_BY_THEMSELVES = frozenset({LeftOut.NOT_READY, LeftOut.NO_SESSION, LeftOut.NOT_REGISTERED, LeftOut.NO_DRIVER})
"""Reasons that apply to starting pods, and go away without any help."""


def object_problems(
    sight: GroupObjects, spec: ConsumerGroupSpec, seen: GroupMembers, now: float, asked_for: int | None, unowned: int
) -> list[Problem]:
    """Return the problems of pods and sessions.

    `asked_for`: the number of requested pods; None: not known. `unowned`: the number of partitions without an owner.
    """
    pods = [pod for pod in sight.pods if pod.spark_role != DRIVER]
    target = None if spec.scale is None else spec.scale.target_ref
    whose = "" if target is None else f" of {target.kind} {target.name}"
    starts = sight.starts(seen, asked_for, now)
    return [
        *membership_problems(sight.key[1], sight.key[0], seen, asked_for, unowned=unowned, starts=starts, whose=whose),
        *reported_problems(seen),
        *session_problems(sight.silent(now)),
        *annotation_problems(spec, pods),
        *identity_problems(spec, pods),
    ]


def membership_problems(
    group: str,
    namespace: str,
    seen: GroupMembers,
    asked_for: int | None = None,
    *,
    unowned: int = 0,
    starts: bool = False,
    whose: str = "",
) -> list[Problem]:
    """Return the problems of a group without members, and of sessions that cannot be read.

    Stopping members work on their partitions, but get no more: if partitions are `unowned`, no member is left for them. `starts`:
    the group has been without members only for so long that pods may still be starting. `whose`: " of " and the workload that
    creates the pods.
    """
    unread = sorted({*seen.unread.items(), *seen.refused()})
    problems = [Problem(Reason.PROBLEM, f"Lease {namespace}/{name}: {why}") for name, why in unread[:MOST_SENTENCES]]
    if asked_for == 0 or seen.staying or (seen.members and not unowned):
        return problems
    if seen.pods == 0 and seen.members:
        stops = "is stopping and gets" if len(seen.members) == 1 else "are stopping and get"
        who = f"{_named(sorted(seen.members))} {stops} no"
        why = f"{who} more partitions, and no other pod has the label baton.dev/group: {group}; start another pod"
    elif seen.pods == 0 and starts and asked_for and not (seen.drivers or seen.idle_drivers):
        why = f"waiting for {counted(asked_for, 'pod')}{whose}"
    elif seen.pods == 0:
        why = _no_pod(group, namespace, seen)
    else:
        what = counted(seen.pods, "pod has", "pods have")
        whys = list(_left_out(group, seen, starts=starts))
        if drains := sorted(name for name, member in seen.members.items() if member.draining):
            whys.append(f"{_named(drains)}: to be drained (annotation {DRAIN_ANNOTATION}); undo that, or start another pod")
        why = f"{what} the label baton.dev/group: {group}, and none takes part: {'; '.join(whys)}"
    failed = [f"the driver {name} failed: {words}" for name, words in islice(sorted(seen.drivers.items()), MOST_SENTENCES)]
    expected = starts and not seen.drivers and not seen.members and _BY_THEMSELVES.issuperset(seen.left_out.values())
    return [*problems, Problem(Reason.NO_MEMBERS, "; ".join([*failed, why]), expected)]


def _no_pod(group: str, namespace: str, seen: GroupMembers) -> str:
    """Say why no pod could take part."""
    label = f"the label baton.dev/group: {group}"
    if seen.drivers or seen.idle_drivers:
        idle = [f"the driver {name} {how}" for name, how in islice(sorted(seen.idle_drivers.items()), MOST_SENTENCES)]
        return "; ".join([*idle, f"no executor with {label} is there (yet)"])
    gone = ((seen.ended, "has ended", "have ended"), (seen.stopping, "is stopping", "are stopping"))
    but = " and ".join(f"one that {one}" if count == 1 else f"{count:,} that {many}" for count, one, many in gone if count)
    return (
        f"no pod in namespace {namespace} has {label}{but and f' but {but}'}; add it to the pods' template (or, "
        "to have no pods, set spec.replicas: 0 or name the workload in spec.scale.targetRef)"
    )


def _left_out(group: str, seen: GroupMembers, *, starts: bool = False) -> Iterator[str]:
    """Say why pods take no part, one sentence for each reason. `starts`: their driver may not have its Lease yet."""
    by_text: dict[tuple[int, str], list[str]] = defaultdict(list)
    order = {why: place for place, why in enumerate(_WHY)}
    for name, why in sorted(seen.left_out.items()):
        detail = f" ({seen.unready[name]})" if name in seen.unready else ""
        text = _NO_DRIVER_YET if starts and why is LeftOut.NO_DRIVER else _WHY[why]
        by_text[order[why], text.format(lease=driver_lease_name(group)) + detail].append(name)
    sentences = sorted(by_text.items())
    yield from (f"{_named(names)}: {text}" for (_, text), names in sentences[:MOST_SENTENCES])
    if rest := sum(len(names) for _, names in sentences[MOST_SENTENCES:]):
        yield f"and {counted(rest, 'more pod')}"


def missing(group: str, seen: GroupMembers, asked_for: int | None) -> str:
    """Say why fewer pods take part than are requested; empty: as many do, or the requested number is not known."""
    if asked_for is None or len(seen.members) >= asked_for:
        return ""
    there = [] if seen.pods >= asked_for else [f"{counted(seen.pods, 'pod is', 'pods are')} there"]
    return "; ".join([*there, *_left_out(group, seen)])


def reported_problems(seen: GroupMembers) -> Iterator[Problem]:
    """Yield the problems that members, or the driver of a Spark fleet, report themselves."""
    reported = {
        Reason.MISSING_RIGHTS: seen.missing_rights,
        Reason.MEMBER_CUT_OFF: seen.trouble,
        Reason.QUERY_FAILED: seen.query_failures,
    }
    for reason, texts in reported.items():
        yield from (Problem(reason, sentence) for sentence in _sentences(sorted(texts.items())))


def _sentences(texts: Iterable[tuple[str, str]]) -> Iterator[str]:
    """Yield a sentence for each of the first few texts, which names the first few of its pods. `texts`: pods and their texts."""
    by_text: dict[str, list[str]] = defaultdict(list)
    for pod, text in texts:
        by_text[text].append(pod)
    yield from (f"{_named(pods)}: {text}" for text, pods in islice(by_text.items(), MOST_SENTENCES))


def session_problems(silent: Iterable[str]) -> list[Problem]:
    """Return the problem of pods that are Ready and keep no session, in a group that requires sessions."""
    names = sorted(silent)
    if not names:
        return []
    lease = session_lease_name(MemberId(names[0]))
    why = (
        f"Ready, and without a session: there is no Lease such as {lease} whose holderIdentity is the pod's UID, so the pod "
        "gets no partitions. baton.consumer keeps the Lease if the pod's service account may get, create and update Leases. If "
        "the pod is not a consumer, remove its label baton.dev/group; if it cannot keep a Lease, set spec.membership.session to "
        "Optional"
    )
    return [Problem(Reason.NO_SESSION, f"{_named(names)}: {why}")]


def annotation_problems(spec: ConsumerGroupSpec, pods: Iterable[PodView]) -> list[Problem]:
    """Return the problems of invalid annotations of pods. Each message names the first few pods."""
    queues, in_order = {*spec.queue_names}, sorted(pods, key=lambda pod: pod.name)
    texts = ((pod.name, text) for pod in in_order for text in (*pod.problems, *_reads_nothing(pod, queues)))
    return [Problem(Reason.BAD_ANNOTATION, sentence) for sentence in _sentences(texts)]


def _reads_nothing(pod: PodView, queues: Set[QueueName]) -> Iterator[str]:
    """Yield a sentence if the pod reads no queue of the group, because a misspelled name would otherwise show only as a pod
    without partitions. An unreadable annotation (the empty set) is among the pod's problems already."""
    if pod.subscribed and not pod.subscribed & queues:
        names = [quoted(name) for name in sorted(pod.subscribed)]
        yield (
            f"annotation {SUBSCRIBED_ANNOTATION} names {first_of(names, 3)}, which spec.queues does not: "
            f"it gets no partitions; name one of {first_of(sorted(queues), 10)} there, or add the queue to spec.queues"
        )


def identity_problems(spec: ConsumerGroupSpec, pods: Iterable[PodView]) -> list[Problem]:
    """Return the problem of pods without an identity in a group with static members."""
    label = spec.membership.identity_label
    if label is None or not spec.membership.session_timeout_seconds:
        return []
    without = sorted(pod.name for pod in pods if pod.ready and not pod.terminating and not pod.label(label))
    if not without:
        return []
    why = f"no label {label}, which spec.membership.identityLabel names, or an empty one, so no slot is reserved for the pod"
    return [
        Problem(Reason.NO_IDENTITY, f"{_named(without)}: {why}: add it to the pods, or correct spec.membership.identityLabel")
    ]


def _named(pods: Sequence[str]) -> str:
    """Name the first few pods."""
    more = f" and {counted(len(pods) - 3, 'more pod')}" if len(pods) > 3 else ""
    return f"{', '.join(pods[:3])}{more}"


def deletion_problem(left: int, others: Iterable[Problem]) -> Problem:
    """Return what a group that is being deleted still waits for."""
    reasons = (Reason.QUEUE_UNREACHABLE, Reason.LEDGER_REFUSED, Reason.LEDGER_NAME_TAKEN)
    waiting = "; ".join(sorted(one.message for one in others if one.reason in reasons))
    blocked = f". It waits at most a minute, because {waiting}" if waiting else ""
    what = counted(left, "partition has", "partitions have")
    return Problem(Reason.DELETING, f"the group is being deleted: {what} yet to be released{blocked}")


def not_released(queue: QueueName, why: str, uid: str) -> str:
    """Say that a group that is being deleted no longer waits for a queue."""
    return (
        f"the group was deleted, but its queue {queue} stays as it is, because it cannot be reached: {why.rstrip('.')}. If the "
        f"queue still records this group, the next group needs the annotation {TAKE_OVER_ANNOTATION} with the uid {uid}"
    )


def group_status(
    group: GroupView,
    whole: Summary,
    seen: GroupMembers,
    bare: list[BareCondition],
    now: float,
    unacknowledged: Mapping[Partition, int | None],
    asked_for: int | None = None,
    *,
    known: bool = True,
) -> ConsumerGroupStatus:
    """Return the status of a ConsumerGroup. `asked_for`: see `group_conditions`. `known`: see `partitions_are_known`. Pure."""
    numbers = {name: number for name, number in whole.numbers if known or name not in OF_QUEUES}
    return ConsumerGroupStatus(
        observed_generation=group.generation,
        state=shown_state(whole.state, next(one for one in bare if one.type == "Ready"), deleting=group.deleting),
        hold_until=None if whole.hold_until is None else to_text(whole.hold_until),
        assignment_generation=whole.generation,
        **numbers,
        assignor=whole.assignor,
        selector=_selector(group),
        desired_replicas=asked_for,
        replicas=seen.pods,
        handoffs=[
            handoff_of(partition, move, unacknowledged.get(partition))
            for partition, move in islice(whole.in_flight.items(), MOST_HANDOFFS_SHOWN)
        ],
        proposal=whole.proposal,
        conditions=conditions(bare, group.status.get("conditions") or (), group.generation, now),
    )


def partitions_are_known(whole: Summary, sights: Iterable[QueueSight]) -> bool:
    """True if the number of partitions is known, so that no 0 is shown while a queue is missing or has never answered. Pure."""
    return whole.numbers.partitions > 0 or not any(
        one.partitions is None if one.wanted else one.named and one.view is None for one in sights
    )


def written(status: ConsumerGroupStatus) -> Json:
    """Return the status as JSON, without numbers that are not known. Pure."""
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
) -> list[BareCondition]:
    """Return all conditions, Ready first.

    `asked_for`: the number of requested pods; None: not known. `missing`: why fewer pods take part. Pure.
    """
    to_zero = asked_for == 0 and not whole.numbers.members
    wait = waits_for(whole, paused=group.spec is not None and group.spec.paused)
    is_ready = ready(worst(problems), NONE_ASKED_FOR if to_zero else _shared(whole, wait), to_zero=to_zero)
    held = held_back(group.spec, sights) if group.spec else ""
    bare = [
        is_ready,
        settled(is_ready, whole, wait, asked_for=asked_for, held_back=held, missing=missing),
        balanced(whole, wait, to_zero=to_zero),
        rebalancing(whole.numbers.moving, wait, _overdue(whole, sights, now)),
        fenced(sight.name for sight in sights if sight.wanted and not sight.enforced),
        sessions_bound(sessions_are_bound),
    ]
    if group.spec is not None and group.spec.approval is Approval.MANUAL:
        bare.append(proposal_ready(whole.proposal))
    return bare


def halted_status(group: GroupView, problem: Problem, now: float) -> Json:
    """Return the status of a group that cannot go on: the last status with a new Ready and Settled, and without `holdUntil`.
    Pure."""
    before = group.status.get("conditions") or ()
    is_ready = ready(problem, "")
    unsettled = not_settled(is_ready)
    made = conditions([is_ready, unsettled], before, group.generation, now)
    shown = [one.model_dump(by_alias=True, exclude_none=True, mode="json") for one in made]
    rest = [one for one in before if one.get("type") not in (is_ready.type, unsettled.type)]
    state = ShownState.DELETING if group.deleting else ShownState.NOT_READY
    stands = {name: value for name, value in group.status.items() if name != "holdUntil"}
    return {**stands, "state": state.value, "conditions": [*shown, *rest]}


def _selector(group: GroupView) -> str:
    """Return the pod selector for autoscalers. The driver of a Spark fleet has the group's label too, and must not be counted.
    `kubectl scale` accepts a selector with notin, and rejects one with !=."""
    drivers = group.spec is not None and group.spec.scale is not None and group.spec.scale.mode is ScaleMode.SPARK
    return f"{GROUP_LABEL}={group.name}{f',{SPARK_ROLE_LABEL} notin (driver)' if drivers else ''}"


def _overdue(whole: Summary, sights: list[QueueSight], now: float) -> list[str]:
    unfenced = {sight.name for sight in sights if not sight.enforced}
    return [
        move.giver
        for partition, move in whole.in_flight.items()
        if move.giver is not None and now > move.deadline and partition.queue in unfenced
    ]


def _shared(whole: Summary, wait: Problem | None) -> str:
    members = counted(whole.numbers.members, "member")
    if without := without_owner(whole, wait):
        return f"{members}; {without}"
    return f"{counted(whole.numbers.members, 'member has', 'members share')} {counted(whole.numbers.partitions, 'partition')}"


def handoff_of(partition: Partition, move: Move, unacknowledged: int | None) -> Handoff:
    """Return a hand-off as the status and `baton explain` show it."""
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
