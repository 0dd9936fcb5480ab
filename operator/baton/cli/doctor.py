"""`baton doctor`: checks of the installation, groups and pods, each with a cure."""

import re
import sys
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum

import click

import baton
from baton.api import ConditionStatus
from baton.api.crd import crds
from baton.cli.cluster import ask, cluster
from baton.cli.cluster_facts import ClusterFacts, Json, read_facts
from baton.cli.group import UNKNOWN, drained
from baton.cli.options import ClusterTarget, Form, all_namespaces_option, cluster_options, output_option, say_object
from baton.cli.printing import say
from baton.controller.problems import Reason
from baton.engine.step import SIZE_LIMIT
from baton.kube.pods import SEE_LOG, PodView
from baton.model.names import OPERATOR_SELECTOR
from baton.model.times import read_seconds
from baton.model.wording import counted, first_of


class Verdict(StrEnum):
    """Of one finding. Only Failed makes the command end with 1."""

    OK = "OK"
    UNKNOWN = "Unknown"
    WARNING = "Warning"
    FAILED = "Failed"


@dataclass(frozen=True, slots=True)
class CheckResult:
    """One answer of a check."""

    verdict: Verdict
    about: str
    says: str
    cure: str = ""

    def to_json(self) -> Mapping[str, str]:
        """For programs."""
        return {"verdict": self.verdict.value, "about": self.about, "says": self.says, "cure": self.cure}


def unread(why: str, about: str, what: str) -> CheckResult:
    """The result of a check whose facts the caller may not read."""
    says = f"{what}{' of all namespaces ' if what else ''}may not be read: {why}"
    return CheckResult(Verdict.UNKNOWN, about, says, "run this command with an account that may")


OLDEST_KUBERNETES = (1, 29)
"""As the chart's kubeVersion."""


def kubernetes(facts: ClusterFacts) -> Iterator[CheckResult]:
    """Its version is one that Baton names."""
    found = re.match(r"v(\d{1,3})\.(\d{1,3})", facts.kubernetes)
    oldest = ".".join(map(str, OLDEST_KUBERNETES))
    if found is None:
        yield CheckResult(Verdict.UNKNOWN, "Kubernetes", "the API server does not say its version")
    elif (int(found[1]), int(found[2])) < OLDEST_KUBERNETES:
        yield CheckResult(Verdict.FAILED, "Kubernetes", f"is {facts.kubernetes}", f"upgrade it: Baton needs {oldest} or later")
    else:
        yield CheckResult(Verdict.OK, "Kubernetes", f"is {facts.kubernetes}; Baton needs {oldest} or later")


def resources(facts: ClusterFacts) -> Iterator[CheckResult]:
    """The resources are installed, as this release has them."""
    if "resources" in facts.unread:
        yield unread(facts.unread["resources"], "CRDs", "")
        return
    for wanted in crds():
        name = wanted["metadata"]["name"]
        there = facts.resources.get(name)
        if there is None:
            yield CheckResult(
                Verdict.FAILED, f"CRD {name}", "is not installed", "kubectl apply --server-side -f crds/ of this release"
            )
        elif _established(there) is not True:
            yield CheckResult(Verdict.FAILED, f"CRD {name}", "is not established", f"kubectl describe crd {name} says why")
        elif _schemas(there) != _schemas(wanted):
            yield CheckResult(
                Verdict.FAILED,
                f"CRD {name}",
                f"is not that of release {baton.__version__}, which this command is of",
                "kubectl apply --server-side -f crds/ of the operator's release, as helm upgrade leaves CRDs as they are; or "
                "install the command of that release",
            )
        else:
            yield CheckResult(Verdict.OK, f"CRD {name}", f"is that of release {baton.__version__}")


def _established(crd: Json) -> bool:
    conditions = (crd.get("status") or {}).get("conditions") or ()
    return any(one.get("type") == "Established" and one.get("status") == "True" for one in conditions)


def _schemas(crd: Json) -> Mapping[str, object]:
    return {one["name"]: one.get("schema") for one in crd["spec"]["versions"]}


def operators(facts: ClusterFacts) -> Iterator[CheckResult]:
    """An operator runs, of this command's release."""
    if "operators" in facts.unread:
        yield unread(facts.unread["operators"], "operator", "Deployments")
        return
    if not facts.operators:
        yield CheckResult(
            Verdict.WARNING,
            "operator",
            f"no Deployment has the labels {OPERATOR_SELECTOR}: it may run elsewhere",
            "helm install baton charts/baton -n baton-system --create-namespace, unless it runs by other means",
        )
    for one in facts.operators:
        metadata, status = one["metadata"], one.get("status") or {}
        name = f"operator {metadata['namespace']}/{metadata['name']}"
        ready, wanted = status.get("readyReplicas") or 0, (one.get("spec") or {}).get("replicas", 1)
        version = (metadata.get("labels") or {}).get("app.kubernetes.io/version")
        logs = f"kubectl logs -n {metadata['namespace']} deploy/{metadata['name']} says why"
        if not ready:
            yield CheckResult(Verdict.FAILED, name, f"none of {counted(wanted, 'pod is', 'pods is')} Ready", logs)
        elif ready < wanted:
            yield CheckResult(Verdict.WARNING, name, f"{ready} of {counted(wanted, 'pod is', 'pods are')} Ready", logs)
        else:
            yield CheckResult(Verdict.OK, name, f"{counted(ready, 'pod is', 'pods are')} Ready")
        if version is not None and version != baton.__version__:
            cure = f"install the command of release {version}, or upgrade the operator to {baton.__version__}"
            yield CheckResult(Verdict.WARNING, name, f"is release {version}, and this command {baton.__version__}", cure)


def leaders(facts: ClusterFacts) -> Iterator[CheckResult]:
    """The operators that wrote the ledgers still lead."""
    seen = {look.leader.lease: look.leader for look in facts.groups if look.leader is not None}
    for lease, leader in sorted(seen.items()):
        namespace = lease.partition("/")[0]
        about = f"leader {lease}"
        if not leader.readable:
            yield CheckResult(Verdict.UNKNOWN, about, "you may not read this Lease", f"ask for get on leases in {namespace}")
        elif leader.gone(facts.now):
            cure = f"kubectl get pods -n {namespace} -l {OPERATOR_SELECTOR}: does one run?"
            yield CheckResult(Verdict.FAILED, about, "it has no holder, or its holder does not renew it", cure)
        else:
            yield CheckResult(Verdict.OK, about, f"is held by {leader.holder}")


def own_rights(facts: ClusterFacts) -> Iterator[CheckResult]:
    """The caller's own rights."""
    if "own rights" in facts.unread:
        yield unread(facts.unread["own rights"], "your rights", "")
        return
    missing = [right for right in facts.own_rights if not right.allowed]
    for right in missing:
        cure = f"ask for it, if you need it: kubectl auth can-i {right.verb} {right.resource} -n {right.namespace}"
        yield CheckResult(Verdict.WARNING, "your rights", f"you may not {right.text}: {right.purpose}", cure)
    if facts.own_rights and not missing:
        yield CheckResult(Verdict.OK, "your rights", "are enough for all commands")


def operator_rights(facts: ClusterFacts) -> Iterator[CheckResult]:
    """What the operator's account may do where there are groups."""
    if "operator rights" in facts.unread:
        yield unread(facts.unread["operator rights"], "the operator's rights", "")
        return
    missing = [right for right in facts.operator_rights if not right.allowed]
    for right in missing:
        cure = "helm upgrade with the chart's own roles (rbac.create), and the namespace in watchNamespaces if it is set"
        yield CheckResult(Verdict.FAILED, "the operator's rights", f"{right.account} may not {right.text}: {right.purpose}", cure)
    if facts.operator_rights and not missing:
        yield CheckResult(Verdict.OK, "the operator's rights", "it may do what it has to in the namespaces of the groups")


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
            yield CheckResult(Verdict.WARNING, about, there, cure)
        if unused:
            yield CheckResult(
                Verdict.WARNING, about, "no group names it", "name it in spec.queues of a ConsumerGroup, or delete it"
            )
        elif not wrong and not status.dead_letters:
            yield CheckResult(Verdict.OK, about, "is as it should be")


def groups(facts: ClusterFacts) -> Iterator[CheckResult]:
    """An operator manages them; their conditions, such as whether their queues refuse former owners (Fenced)."""
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
            says = f"is paused, and of its partitions {unowned:,} have no owner and are not read until it goes on"
            yield CheckResult(Verdict.WARNING, about, says, cure)
        ready = look.condition("Ready")
        if not wrong and look.shown_state != UNKNOWN and ready is not None and ready.status is ConditionStatus.TRUE:
            yield CheckResult(Verdict.OK, about, f"is {look.shown_state}")


_TOLD = ("Ready", "Fenced", "SessionsBound")
"""Conditions of a group that report a lasting fault."""


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
            says = f"no partitions for {first_of(away, MOST_NAMED)}: {'it is' if len(away) == 1 else 'they are'} drained"
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


Check = Callable[[ClusterFacts], Iterator[CheckResult]]

CHECKS: tuple[Check, ...] = (
    kubernetes,
    resources,
    operators,
    leaders,
    own_rights,
    operator_rights,
    queues,
    groups,
    pods,
    ledgers,
    deletions,
)


def findings(facts: ClusterFacts) -> list[CheckResult]:
    """Of all checks, in order."""
    return [one for check in CHECKS for one in check(facts)]


@click.command()
@cluster_options
@all_namespaces_option("The groups and queues")
@output_option(wide="also what is as it should be", programs="a list of all findings")
def doctor(all_namespaces: bool, form: Form, target: ClusterTarget) -> None:
    """Check the installation, rights, queues, groups and pods. Says of everything that is not as it should be how to cure it.

    Changes nothing. Ends with 1 if something is wrong; warnings, and what may not be read, are said and do not count.
    """
    found = ask(_examine(target, all_namespaces))
    if form.for_programs:
        say_object([dict(one.to_json()) for one in found], form)
    else:
        _tell(found, everything=form.wide)
    if any(one.verdict is Verdict.FAILED for one in found):
        sys.exit(1)


async def _examine(target: ClusterTarget, everywhere: bool) -> list[CheckResult]:
    async with cluster(target) as (api, where):
        return findings(await read_facts(api, None if everywhere else where))


def _tell(found: list[CheckResult], *, everything: bool) -> None:
    for one in found:
        if everything or one.verdict is not Verdict.OK:
            say(f"{one.verdict:8} {one.about}: {one.says}")
            if one.cure:
                say(f"         {one.cure}")
    counts = {verdict: sum(one.verdict is verdict for one in found) for verdict in Verdict}
    good = counts[Verdict.OK]
    rest = f"{counts[Verdict.FAILED]} failed, {counted(counts[Verdict.WARNING], 'warning')}, {counts[Verdict.UNKNOWN]} unknown"
    say(f"{counted(len(found), 'check')}: {good} passed, {rest}")
