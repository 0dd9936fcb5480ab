"""The status of a ConsumerGroup, from what its engine, its queues and its pods say: what is wrong, what is waited for, and the
conditions. Each problem is a sentence with the cure. Pure."""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import replace
from itertools import islice
from typing import Any

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
    """What has to happen before anything else does; None: nothing. What nothing can go past comes first."""
    if paused:
        return Problem(Reason.PAUSED, "spec.paused holds back what is due, until it is false")
    if whole.held_back:
        return Problem(Reason.SIZE_LIMIT, "what is due waits for room in the ledger")
    if (problem := problem_of(whole)) is not None:
        return Problem(problem.reason, f"no plan can be made ({problem.reason})")
    if whole.proposal is not None:
        return Problem(Reason.WAITING_FOR_APPROVAL, f"proposal {whole.proposal.id} waits for approval")
    if whole.hold_until is not None:
        return Problem(
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


def without_owner(whole: Summary, wait: Problem | None) -> str:
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
        return f"{what}: {wait.message}"
    return f"{what}: no pod that takes part reads them (annotation {SUBSCRIBED_ANNOTATION}), or is in their room"


def as_of(whole: Summary, now: float) -> Summary:
    """Without a hold that is over: what is to follow waits for the ledger."""
    over = whole.hold_until is not None and whole.hold_until <= now
    return replace(whole, hold_until=None) if over else whole


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
    ready: Told, whole: Summary, wait: Problem | None, *, asked_for: int | None, held_back: str = "", missing: str = ""
) -> Told:
    """The condition to wait for after a change: all is well, and nothing is under way.

    `asked_for`: how many pods there are to be, as far as that is known. `held_back`: why they are fewer than spec.replicas.
    `missing`: why fewer take part than are asked for."""
    if ready[1] is not ConditionStatus.TRUE:
        return not_settled(ready)
    if moving := whole.numbers.moving:
        return _unsettled(Reason.HANDING_OFF, f"{_changing_hands(moving)}, or {'is' if moving == 1 else 'are'} to")
    if wait is not None:
        return _unsettled(wait.reason, without_owner(whole, wait) or wait.message)
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


def balanced(whole: Summary, wait: Problem | None, *, to_zero: bool = False) -> Told:
    """`to_zero`: see `ready`."""
    if whole.balanced and whole.numbers.members:
        return ("Balanced", ConditionStatus.TRUE, Reason.BALANCED, "the partitions are spread as evenly as the assignor makes it")
    if to_zero:
        return ("Balanced", ConditionStatus.FALSE, Reason.SCALED_TO_ZERO, NONE_ASKED_FOR)
    if whole.numbers.members == 0:
        return ("Balanced", ConditionStatus.FALSE, Reason.NO_MEMBERS, "no member can own the partitions")
    uneven = "the partitions are not spread evenly (yet)" + ("" if wait is None else f": {wait.message}")
    reason = Reason.HANDING_OFF if whole.numbers.moving else Reason.UNBALANCED if wait is None else wait.reason
    return ("Balanced", ConditionStatus.FALSE, reason, without_owner(whole, wait) or uneven)


def rebalancing(moving: int, wait: Problem | None, overdue: Iterable[str] = ()) -> Told:
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
        return ("Rebalancing", ConditionStatus.FALSE, Reason.HOLDDOWN, wait.message)
    because = "" if wait is None else f": {wait.message}"
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
    """`unfenced`: the queues that cannot reject a former owner."""
    names = ", ".join(sorted(unfenced))
    if not names:
        return ("Fenced", ConditionStatus.TRUE, Reason.ENFORCED, "the queues themselves refuse pods that do not own a partition")
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


MOST_TOLD = 5
"""Sentences of one kind in a condition. A fleet that is wrong all over is told so by its first few."""


def queue_problems(namespace: str, queues: Iterable[QueueSight]) -> list[Problem]:
    """What is wrong with the group's queues."""
    queues = list(queues)
    problems = []
    if without := sorted(without_room(queues)):
        problems.append(
            Problem(
                Reason.SIZE_LIMIT,
                f"{first_of(without, 3)}, which spec.queues names, stay as before: the group would have more than "
                f"{MOST_PARTITIONS:,} partitions in all; give some of its queues a group of their own",
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
                    f"PartitionedQueue {namespace}/{sight.name}, which spec.queues names, {gone}: create it, or take it out of "
                    "spec.queues",
                )
            )
        elif view.spec is None:
            problems.append(Problem(Reason.INVALID_SPEC, f"PartitionedQueue {view.full_name}: {view.problem}"))
        elif sight.facts.problem is not None:
            problems.append(sight.facts.problem)
        elif sight.without_room:
            continue  # the books say it
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
    LeftOut.OTHER_DRIVER: "another driver than its own holds the Lease {lease}, and its own waits for it",
    LeftOut.NAME_TAKEN: "the ledger has a key of that name",
}

_NO_DRIVER_YET = "no driver holds the Lease {lease} yet"

_BY_THEMSELVES = frozenset({LeftOut.NOT_READY, LeftOut.NO_SESSION, LeftOut.NOT_REGISTERED, LeftOut.NO_DRIVER})
"""What is so of pods that start, and ends without help."""


def object_problems(
    sight: GroupObjects, spec: ConsumerGroupSpec, seen: GroupMembers, now: float, asked_for: int | None, unowned: int
) -> list[Problem]:
    """What is wrong with pods and sessions. `asked_for`: how many pods there are to be, as far as that is known; `unowned`: how
    many partitions have no owner."""
    pods = [pod for pod in sight.pods if pod.spark_role != DRIVER]
    target = None if spec.scale is None else spec.scale.target_ref
    whose = "" if target is None else f" of {target.kind} {target.name}"
    starts = sight.starts(seen, asked_for, now)
    return [
        *membership_problems(sight.key[1], sight.key[0], seen, asked_for, unowned=unowned, starts=starts, whose=whose),
        *word_problems(seen),
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
    """Whether pods are there that are asked for, and what of the sessions cannot be read. Who is asked to stop works on what it
    has, but takes no more: where partitions are `unowned`, no pod is there for them. `starts`: no member has been there for so
    short a time that pods may be on their way; `whose`: " of " and the workload that makes them."""
    unread = sorted({*seen.unread.items(), *seen.refused()})
    problems = [Problem(Reason.PROBLEM, f"Lease {namespace}/{name}: {why}") for name, why in unread[:MOST_TOLD]]
    if asked_for == 0 or seen.staying or (seen.members and not unowned):
        return problems
    if seen.pods == 0 and seen.members:
        stops = "stops and takes" if len(seen.members) == 1 else "stop and take"
        who = f"{_named(sorted(seen.members))} {stops} no more"
        why = f"{who}, and no other pod has the label baton.dev/group: {group}; start others"
    elif seen.pods == 0 and starts and asked_for and not (seen.drivers or seen.idle_drivers):
        why = f"waiting for {counted(asked_for, 'pod')}{whose}"
    elif seen.pods == 0:
        why = _no_pod(group, namespace, seen)
    else:
        what = counted(seen.pods, "pod has", "pods have")
        whys = list(_left_out(group, seen, starts=starts))
        if drains := sorted(name for name, member in seen.members.items() if member.draining):
            whys.append(f"{_named(drains)}: to be drained (annotation {DRAIN_ANNOTATION}); take that back, or start others")
        why = f"{what} the label baton.dev/group: {group}, and none takes part: {'; '.join(whys)}"
    failed = [f"the driver {name} failed: {words}" for name, words in islice(sorted(seen.drivers.items()), MOST_TOLD)]
    expected = starts and not seen.drivers and not seen.members and _BY_THEMSELVES.issuperset(seen.left_out.values())
    return [*problems, Problem(Reason.NO_MEMBERS, "; ".join([*failed, why]), expected)]


def _no_pod(group: str, namespace: str, seen: GroupMembers) -> str:
    """No pod is there that could take part."""
    label = f"the label baton.dev/group: {group}"
    if seen.drivers or seen.idle_drivers:
        idle = [f"the driver {name} {how}" for name, how in islice(sorted(seen.idle_drivers.items()), MOST_TOLD)]
        return "; ".join([*idle, f"no executor with {label} is there (yet)"])
    gone = [(seen.ended, "that came to an end"), (seen.stopping, "that stops" if seen.stopping == 1 else "that stop")]
    but = " and ".join(f"{'one' if count == 1 else f'{count:,}'} {how}" for count, how in gone if count)
    return (
        f"no pod in namespace {namespace} has {label}{but and f' but {but}'}; add it to the pods' template (or, "
        "where there are to be none, say so by spec.replicas: 0, or name the workload in spec.scale.targetRef)"
    )


def _left_out(group: str, seen: GroupMembers, *, starts: bool = False) -> Iterator[str]:
    """Why pods take no part, those of one reason together. `starts`: a driver of them may not have its Lease yet."""
    by_text: dict[tuple[int, str], list[str]] = defaultdict(list)
    order = {why: place for place, why in enumerate(_WHY)}
    for name, why in sorted(seen.left_out.items()):
        said = f" ({seen.unready[name]})" if name in seen.unready else ""
        text = _NO_DRIVER_YET if starts and why is LeftOut.NO_DRIVER else _WHY[why]
        by_text[order[why], text.format(lease=driver_lease_name(group)) + said].append(name)
    told = sorted(by_text.items())
    yield from (f"{_named(names)}: {text}" for (_, text), names in told[:MOST_TOLD])
    if rest := sum(len(names) for _, names in told[MOST_TOLD:]):
        yield f"and {counted(rest, 'more pod')}"


def missing(group: str, seen: GroupMembers, asked_for: int | None) -> str:
    """Why fewer pods take part than are asked for; empty: as many do, or their number is not known."""
    if asked_for is None or len(seen.members) >= asked_for:
        return ""
    there = [] if seen.pods >= asked_for else [f"{counted(seen.pods, 'pod is', 'pods are')} there"]
    return "; ".join([*there, *_left_out(group, seen)])


def word_problems(seen: GroupMembers) -> Iterator[Problem]:
    """What members, and the driver of a Spark fleet, say that they cannot do, in their own words."""
    said = {
        Reason.MISSING_RIGHTS: seen.missing_rights,
        Reason.MEMBER_CUT_OFF: seen.trouble,
        Reason.QUERY_FAILED: seen.query_failures,
    }
    for reason, words in said.items():
        by_text: dict[str, list[str]] = defaultdict(list)
        for name, text in sorted(words.items()):
            by_text[text].append(name)
        for text, names in islice(by_text.items(), MOST_TOLD):
            yield Problem(reason, f"{_named(names)}: {text}")


def session_problems(silent: Iterable[str]) -> list[Problem]:
    """Pods that are Ready and keep no session, where members have to."""
    names = sorted(silent)
    if not names:
        return []
    lease = session_lease_name(MemberId(names[0]))
    why = (
        f"Ready, and without a session: there is no Lease such as {lease} whose holderIdentity is the pod's UID, so it gets "
        "nothing. baton.consumer keeps it, if the pod's service account may get, create and update Leases. If it is no consumer, "
        "take the label baton.dev/group off it; if it cannot keep a Lease, set spec.membership.session to Optional"
    )
    return [Problem(Reason.NO_SESSION, f"{_named(names)}: {why}")]


def annotation_problems(spec: ConsumerGroupSpec, pods: Iterable[PodView]) -> list[Problem]:
    """Annotations of pods whose values make no sense. Of each kind the message names the first few pods."""
    queues = {QueueName(one.name) for one in spec.queues}
    by_text: dict[str, list[str]] = defaultdict(list)
    for pod in sorted(pods, key=lambda pod: pod.name):
        for text in (*pod.problems, *_reads_nothing(pod, queues)):
            by_text[text].append(pod.name)
    return [Problem(Reason.BAD_ANNOTATION, f"{_named(names)}: {text}") for text, names in islice(by_text.items(), MOST_TOLD)]


def _reads_nothing(pod: PodView, queues: Set[QueueName]) -> Iterator[str]:
    """A slip in the name of a queue would otherwise only show as a pod that gets nothing. An annotation that could not be read
    (the empty set) is among the pod's problems already."""
    if pod.subscribed and not pod.subscribed & queues:
        names = [quoted(name) for name in sorted(pod.subscribed)]
        yield (
            f"annotation {SUBSCRIBED_ANNOTATION} names {first_of(names, 3)}, which spec.queues does not: "
            f"it gets nothing; name one of {first_of(sorted(queues), 10)} there, or add the queue to spec.queues"
        )


def identity_problems(spec: ConsumerGroupSpec, pods: Iterable[PodView]) -> list[Problem]:
    """Pods that cannot be static members although the group is to have such."""
    label = spec.membership.identity_label
    if label is None or not spec.membership.session_timeout_seconds:
        return []
    without = sorted(pod.name for pod in pods if pod.ready and not pod.terminating and not pod.label(label))
    if not without:
        return []
    why = f"no label {label}, which spec.membership.identityLabel names, or an empty one, so no slot is kept for it"
    return [
        Problem(Reason.NO_IDENTITY, f"{_named(without)}: {why}: add it to the pods, or correct spec.membership.identityLabel")
    ]


def _named(pods: Sequence[str]) -> str:
    """The first few."""
    more = f" and {counted(len(pods) - 3, 'more pod')}" if len(pods) > 3 else ""
    return f"{', '.join(pods[:3])}{more}"


def deletion_problem(left: int, others: Iterable[Problem]) -> Problem:
    """What a group that is being deleted still waits for."""
    reasons = (Reason.QUEUE_UNREACHABLE, Reason.LEDGER_REFUSED, Reason.LEDGER_NAME_TAKEN)
    waiting = "; ".join(sorted(one.message for one in others if one.reason in reasons))
    blocked = f". It waits, a minute at most: {waiting}" if waiting else ""
    what = counted(left, "partition is", "partitions are")
    return Problem(Reason.DELETING, f"the group is being deleted: {what} still to be taken back{blocked}")


def not_released(queue: QueueName, why: str, uid: str) -> str:
    """A group that is being deleted has waited long enough for a queue."""
    return (
        f"the group is removed, and its queue {queue} stays as it is, because it cannot be reached: {why.rstrip('.')}. It may "
        f"still record this group: then the next one needs the annotation {TAKE_OVER_ANNOTATION} with the uid {uid}"
    )


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
            handoff_of(partition, move, unacknowledged.get(partition))
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


def _shared(whole: Summary, wait: Problem | None) -> str:
    members = counted(whole.numbers.members, "member")
    if without := without_owner(whole, wait):
        return f"{members}; {without}"
    return f"{counted(whole.numbers.members, 'member has', 'members share')} {counted(whole.numbers.partitions, 'partition')}"


def handoff_of(partition: Partition, move: Move, unacknowledged: int | None) -> Handoff:
    """As the status and `baton explain` show it."""
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
