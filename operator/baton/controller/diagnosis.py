"""What is wrong with a group: with its queues, its sessions and its pods; each in a sentence with the cure. Pure."""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from itertools import islice

from baton.api import ConsumerGroupSpec
from baton.controller.group_observation import QueueSight, without_room
from baton.controller.problems import Problem, Reason
from baton.engine.ledger_bounds import MOST_PARTITIONS
from baton.kube.members import GroupMembers, LeftOut
from baton.kube.pods import PodView
from baton.model.ids import MemberId, QueueName
from baton.model.names import (
    DRAIN_ANNOTATION,
    SUBSCRIBED_ANNOTATION,
    TAKE_OVER_ANNOTATION,
    driver_lease_name,
    session_lease_name,
)
from baton.model.wording import counted, first_of, quoted

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


def membership_problems(
    group: str, namespace: str, seen: GroupMembers, asked_for: int | None = None, *, unowned: int = 0
) -> list[Problem]:
    """Whether anybody is there who is asked for, and what of the sessions cannot be read. Who is asked to stop works on what it
    has, but takes no more: where partitions are `unowned`, nobody is there for them."""
    unread = sorted({*seen.unread.items(), *seen.refused()})
    problems = [Problem(Reason.PROBLEM, f"Lease {namespace}/{name}: {why}") for name, why in unread[:MOST_TOLD]]
    if asked_for == 0 or seen.staying or (seen.members and not unowned):
        return problems
    if seen.pods == 0 and seen.members:
        stops = "stops and takes" if len(seen.members) == 1 else "stop and take"
        who = f"{_named(sorted(seen.members))} {stops} no more"
        why = f"{who}, and no other pod has the label baton.dev/group: {group}; start others"
    elif seen.pods == 0:
        why = _nobody(group, namespace, seen)
    else:
        what = counted(seen.pods, "pod has", "pods have")
        whys = list(_left_out(group, seen))
        if drains := sorted(name for name, member in seen.members.items() if member.draining):
            whys.append(f"{_named(drains)}: to be drained (annotation {DRAIN_ANNOTATION}); take that back, or start others")
        why = f"{what} the label baton.dev/group: {group}, and none takes part: {'; '.join(whys)}"
    failed = [f"the driver {name} failed: {words}" for name, words in islice(sorted(seen.drivers.items()), MOST_TOLD)]
    return [*problems, Problem(Reason.NO_MEMBERS, "; ".join([*failed, why]))]


def _nobody(group: str, namespace: str, seen: GroupMembers) -> str:
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


def _left_out(group: str, seen: GroupMembers) -> Iterator[str]:
    """Why pods take no part, those of one reason together."""
    by_text: dict[tuple[int, str], list[str]] = defaultdict(list)
    order = {why: place for place, why in enumerate(_WHY)}
    for name, why in sorted(seen.left_out.items()):
        said = f" ({seen.unready[name]})" if name in seen.unready else ""
        by_text[order[why], _WHY[why].format(lease=driver_lease_name(group)) + said].append(name)
    told = sorted(by_text.items())
    yield from (f"{_named(names)}: {text}" for (_, text), names in told[:MOST_TOLD])
    if rest := sum(len(names) for _, names in told[MOST_TOLD:]):
        yield f"and {counted(rest, 'more pod')}"


def missing(group: str, seen: GroupMembers, asked_for: int | None) -> str:
    """Why fewer pods take part than are asked for; empty: as many do, or nobody says how many there are to be."""
    if asked_for is None or len(seen.members) >= asked_for:
        return ""
    there = [] if seen.pods >= asked_for else [f"{counted(seen.pods, 'pod is', 'pods are')} there"]
    return "; ".join([*there, *_left_out(group, seen)])


def unread_problems(kind: str, unread: Mapping[str, str]) -> list[Problem]:
    """Objects that the operator could not make sense of (name -> what went wrong), which none should be."""
    return [
        Problem(
            Reason.PROBLEM,
            f"{kind} {name} cannot be read ({why}), so what was last read of it stands: delete it, and create it again",
        )
        for name, why in islice(sorted(unread.items()), MOST_TOLD)
    ]


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
