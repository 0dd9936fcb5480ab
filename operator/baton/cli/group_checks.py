"""Whether groups, their queues, pods and ledgers are as they should be. Pure."""

from collections import defaultdict
from collections.abc import Iterable, Iterator

from baton.api import ConditionStatus
from baton.cli.check_result import CheckResult, Verdict, unread
from baton.cli.cluster_facts import ClusterFacts
from baton.cli.group_view import UNKNOWN, drained
from baton.controller.problems import Reason
from baton.engine.fitting import SIZE_LIMIT
from baton.kube.pods import SEE_LOG, PodView
from baton.model.times import read_seconds
from baton.model.wording import counted, first_of

NEARLY_FULL = 0.8
"""Of a ledger's size."""

STUCK_AFTER = 120.0
"""Seconds after which a deletion should be over."""

MOST_NAMED = 5


def queues(facts: ClusterFacts) -> Iterator[CheckResult]:
    """Their conditions."""
    used = {(look.group.namespace, name) for look in facts.groups for name in look.queues}
    for queue in facts.queues:
        about = f"queue {queue.namespace}/{queue.name}"
        status, mistake = queue.read_status()
        if queue.problem or mistake:
            yield CheckResult(Verdict.FAILED, about, f"cannot be read: {queue.problem or mistake}", "correct the field")
        unused = (queue.namespace, queue.name) not in used
        wrong = [
            one
            for one in status.conditions
            if one.status is not ConditionStatus.TRUE and not (unused and one.reason == Reason.UNUSED)
        ]
        for one in wrong:
            yield CheckResult(Verdict.FAILED, about, f"{one.type} is {one.status}: {one.reason}", one.message)
        if status.dead_letters:
            there = counted(status.dead_letters, "dead letter waits", "dead letters wait")
            cure = f"look (baton dead-letters list {queue.name} -n {queue.namespace}), then redrive or drop them"
            yield CheckResult(Verdict.WARNING, about, f"{there} for somebody", cure)
        if unused:
            yield CheckResult(
                Verdict.WARNING, about, "no group names it", "name it in spec.queues of a ConsumerGroup, or delete it"
            )
        elif not wrong and not status.dead_letters:
            yield CheckResult(Verdict.OK, about, "is as it should be")


def groups(facts: ClusterFacts) -> Iterator[CheckResult]:
    """Somebody looks after them, and their conditions; among these is whether their queues refuse former owners (Fenced)."""
    for look in facts.groups:
        about = f"group {look.group.full_name}"
        wrong = [
            *([f"its spec cannot be read: {look.group.problem}"] if look.group.problem else []),
            *([f"its ledger does not read as one: {look.ledger_problem}"] if look.ledger_problem else []),
        ]
        yield from (CheckResult(Verdict.FAILED, about, one, "correct it, or see the operator's log") for one in wrong)
        if look.shown_state == UNKNOWN:
            cure = f"does an operator run, and does it serve namespace {look.group.namespace}?"
            yield CheckResult(Verdict.FAILED, about, "no operator has looked at it for five minutes or its leader is gone", cure)
        for one in look.status.conditions:
            if one.status is ConditionStatus.TRUE or one.type not in _TOLD:
                continue
            verdict = Verdict.FAILED if one.type == "Ready" else Verdict.WARNING
            yield CheckResult(verdict, about, f"{one.type} is {one.status}: {one.reason}", one.message)
        if look.group.spec is not None and look.group.spec.paused and (unowned := look.status.unowned):
            cure = f"baton resume {look.group.name} -n {look.group.namespace}"
            says = f"is paused, and of its partitions {unowned:,} have no owner: nobody reads them until it goes on"
            yield CheckResult(Verdict.WARNING, about, says, cure)
        ready = look.condition("Ready")
        if not wrong and look.shown_state != UNKNOWN and ready is not None and ready.status is ConditionStatus.TRUE:
            yield CheckResult(Verdict.OK, about, f"is {look.shown_state}")


_TOLD = ("Ready", "Fenced", "SessionsBound")
"""Conditions of a group that say of something lasting that it is not as it should be."""


def pods(facts: ClusterFacts) -> Iterator[CheckResult]:
    """Those of the groups are Ready, and their annotations mean something."""
    if "pods" in facts.unread:
        yield unread(facts.unread["pods"], "pods", "")
        return
    known = {(look.group.namespace, look.group.name) for look in facts.groups}
    for pod in facts.pods:
        about = f"pod {pod.namespace}/{pod.name}"
        yield from (CheckResult(Verdict.WARNING, about, one, "correct the template of its workload") for one in pod.problems)
        if (pod.namespace, pod.group) not in known:
            cure = "correct the label in its template, or create the group"
            yield CheckResult(
                Verdict.FAILED, about, f"its label baton.dev/group names {pod.group}, and there is no such group", cure
            )
    yield from _unready(pod for pod in facts.pods if not pod.ready and not pod.ended and not pod.terminating)
    for namespace, group in sorted({(pod.namespace, pod.group) for pod in facts.pods}):
        away = drained(pod for pod in facts.pods if (pod.namespace, pod.group) == (namespace, group))
        if away:
            says = f"no partitions for {first_of(away, MOST_NAMED)}: somebody drains {'it' if len(away) == 1 else 'them'}"
            cure = f"baton drain {group} {away[0]} -n {namespace} --undo, unless that is meant"
            yield CheckResult(Verdict.WARNING, f"pods of {namespace}/{group}", says, cure)


def _unready(those: Iterable[PodView]) -> Iterator[CheckResult]:
    """Pods of a group that wait for the same are one finding."""
    alike: dict[tuple[str, str, str], list[PodView]] = defaultdict(list)
    for pod in those:
        alike[pod.namespace, pod.group, pod.hindrance or ""].append(pod)
    for (namespace, group, hindrance), pods in sorted(alike.items()):
        names = sorted(pod.name for pod in pods)
        says = f"{first_of(names, MOST_NAMED)} {'is' if len(names) == 1 else 'are'} not Ready"
        cure = f"kubectl describe pod -n {namespace} {names[0]}"
        if SEE_LOG in hindrance:
            cure = f"kubectl logs -n {namespace} {names[0]} --all-containers --previous"
        elif not hindrance:
            cure += ": its probe, its image, its node"
        yield CheckResult(Verdict.WARNING, f"pods of {namespace}/{group}", says + (hindrance and f": {hindrance}"), cure)


def ledgers(facts: ClusterFacts) -> Iterator[CheckResult]:
    """They have room."""
    for name, size in sorted(facts.sizes.items()):
        if size > NEARLY_FULL * SIZE_LIMIT:
            yield CheckResult(
                Verdict.WARNING,
                f"ledger of {name}",
                f"has {size // 1024:,} of {SIZE_LIMIT // 1024:,} KiB; plans wait when it is full",
                "fewer members or partitions, or several groups",
            )


def deletions(facts: ClusterFacts) -> Iterator[CheckResult]:
    """None takes longer than it should."""
    for what, since, finalizers in facts.deleted:
        began = read_seconds(since, facts.now)
        if facts.now - began > STUCK_AFTER:
            cure = "the group's condition Ready says what it waits for; does its operator run? Take a finalizer off last"
            says = f"is being deleted since {since}, and waits for {', '.join(finalizers) or 'nothing that it names'}"
            yield CheckResult(Verdict.FAILED, what, says, cure)
