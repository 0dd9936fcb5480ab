"""`baton doctor`: read facts of a cluster and check them; each finding has a cure. Facts that the caller may not read are
reported, and the rest is checked."""

import asyncio
import re
import sys
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from enum import StrEnum

import click

import baton
from baton.api import ConditionStatus
from baton.api.crd import crds
from baton.cli.cluster import ask, cluster, may
from baton.cli.group import UNKNOWN, GroupLook, Leader, Manifest, drained, leader_of, look
from baton.cli.options import ClusterTarget, Form, all_namespaces_option, cluster_options, output_option, say_object
from baton.cli.printing import say
from baton.controller.problems import Reason
from baton.engine.step import SIZE_LIMIT
from baton.kube.api import Api, core_path, group_path
from baton.kube.errors import ApiError
from baton.kube.ledger_configmap import ledger_of
from baton.kube.objects import QueueView, groups_path, queue_view, queues_path
from baton.kube.pods import SEE_LOG, PodView, view
from baton.kube.releases import release_of
from baton.model.names import GROUP_LABEL, OPERATOR_SELECTOR, ledger_name
from baton.model.times import read_seconds
from baton.model.wording import counted, first_of


@dataclass(frozen=True, slots=True)
class AccountRight:
    """Whether an account has a right in a namespace."""

    verb: str
    resource: str
    """RESOURCE or RESOURCE/SUBRESOURCE"""
    namespace: str
    allowed: bool
    purpose: str
    account: str = ""
    """Empty: the caller."""

    @property
    def text(self) -> str:
        return f"{self.verb} {self.resource} in {self.namespace}"


@dataclass(frozen=True, slots=True)
class ClusterFacts:
    """The facts of a cluster that the caller may read. `unread` has the reasons for the others, by subject."""

    now: float
    kubernetes: str = ""
    """Such as v1.31.2."""
    resources: Mapping[str, Manifest | None] = field(default_factory=dict)
    """The CustomResourceDefinitions by name; None: not installed."""
    operators: Sequence[Manifest] = ()
    """The operators' Deployments."""
    groups: Sequence[GroupLook] = ()
    sizes: Mapping[str, int] = field(default_factory=dict)
    """The sizes of ledgers in bytes, by the group's full name."""
    queues: Sequence[QueueView] = ()
    deleted: Sequence[tuple[str, str, Sequence[str]]] = ()
    """Objects that are being deleted: kind and full name, since when, and finalizers."""
    pods: Sequence[PodView] = ()
    own_rights: Sequence[AccountRight] = ()
    operator_rights: Sequence[AccountRight] = ()
    unread: Mapping[str, str] = field(default_factory=dict)


CRDS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"

MOST_NAMESPACES = 20
"""The most namespaces in which rights are checked."""

MOST_OPERATORS = 8
"""The most operators whose rights are checked: a tenant can create any number of Deployments that look like one."""

OWN = (
    ("list", "consumergroups.baton.dev", "no command that shows groups works"),
    ("list", "partitionedqueues.baton.dev", "`baton status GROUP` does not work"),
    ("get", "configmaps", "`baton status GROUP` does not work: it reads the ledger"),
    ("list", "events", "`baton explain` cannot show a partition's previous owner"),
    (
        "list",
        "pods",
        "`baton plan --explain --group` and `baton explain` cannot show a new plan, and `status` cannot show which pods wait",
    ),
    ("list", "leases.coordination.k8s.io", "`baton plan --explain --group`, `drain` and `explain` cannot tell who is a member"),
    ("patch", "consumergroups.baton.dev", "`baton approve`, `pause`, `resume` and `rebalance` do not work"),
)
"""The caller's rights: verb, resource, and the consequence of a missing right."""

OPERATORS = (
    ("watch", "consumergroups.baton.dev", "it sees no group"),
    ("patch", "consumergroups.baton.dev/status", "it cannot write the status of groups"),
    ("patch", "consumergroups.baton.dev", "it cannot add its finalizer"),
    ("watch", "partitionedqueues.baton.dev", "it sees no queue"),
    ("patch", "partitionedqueues.baton.dev/status", "it cannot write the status of queues"),
    ("watch", "pods", "it sees no member"),
    ("patch", "pods", "pods see assignments a minute late in mounted ledgers"),
    ("create", "configmaps", "it cannot write a ledger"),
    ("update", "configmaps", "it cannot write a ledger"),
    ("update", "consumergroups.baton.dev/ledger", "the admission policies reject its ledgers"),
    ("watch", "leases.coordination.k8s.io", "it sees no session"),
    ("create", "events.events.k8s.io", "it posts no events"),
)
"""The operator's rights, in the same form; a part of the chart's rules."""


async def read_facts(api: Api, namespace: str | None) -> ClusterFacts:
    """Read the facts of one namespace, or of all (None). Raises what `Api` raises if groups cannot be listed."""
    unread: dict[str, str] = {}
    found, seen, version = await asyncio.gather(
        api.get(groups_path(namespace)), api.get(queues_path(namespace)), api.get("/version")
    )
    definitions = await _definitions(api, unread)
    deployments = await _list(
        api, group_path("apps/v1", None, "deployments"), "operators", unread, labelSelector=OPERATOR_SELECTOR
    )
    labelled = await _list(api, core_path(namespace, "pods"), "pods", unread, labelSelector=GROUP_LABEL)
    queues = seen["items"]
    looked = [await _look(api, one, queues) for one in found["items"]]  # one by one, to have only one whole ledger in memory
    where = sorted({one["metadata"]["namespace"] for one in found["items"]} or ({namespace} if namespace else set()))
    where = where[:MOST_NAMESPACES]
    own = await _rights(api, OWN, where, None, "own rights", unread)
    others = [
        await _rights(api, OPERATORS, [one for one in where if not of or one in of], account, "operator rights", unread)
        for account, of in accounts(deployments, [one.leader for one, _ in looked if one.leader is not None])
    ]
    return ClusterFacts(
        now=time.time(),
        kubernetes=str(version.get("gitVersion") or ""),
        resources=definitions,
        operators=deployments,
        groups=[one for one, _ in looked],
        sizes={one.group.full_name: size for one, size in looked},
        queues=[queue_view(one) for one in queues],
        deleted=[
            (f"{kind} {metadata['namespace']}/{metadata['name']}", str(since), [*map(str, metadata.get("finalizers") or ())])
            for kind, those in (("group", found["items"]), ("queue", queues))
            for metadata in (one["metadata"] for one in those)
            if (since := metadata.get("deletionTimestamp"))
        ],
        pods=[pod for one in labelled if (pod := view(one)) is not None],
        own_rights=own,
        operator_rights=[right for of in others for right in of],
        unread=unread,
    )


async def _definitions(api: Api, unread: dict[str, str]) -> dict[str, Manifest | None]:
    made: dict[str, Manifest | None] = {}
    for one in crds():
        name = one["metadata"]["name"]
        try:
            made[name] = await api.find(f"{CRDS}/{name}")
        except ApiError as error:
            unread["resources"] = error.message
    return made


async def _list(api: Api, path: str, key: str, unread: dict[str, str], **query: str) -> list[Manifest]:
    try:
        return list((await api.get(path, **query))["items"])
    except ApiError as error:
        unread[key] = error.message
        return []


async def _look(api: Api, group: Manifest, queues: Sequence[Manifest]) -> tuple[GroupLook, int]:
    """The group without the ledger's partitions and members, and the bytes of its ledger."""
    namespace, name = group["metadata"]["namespace"], group["metadata"]["name"]
    ledger: Manifest | None = None
    leader: Leader | None = None
    try:
        ledger = ledger_of(await api.find(core_path(namespace, "configmaps", ledger_name(name))), name)
        leader = await leader_of(api, ledger) if ledger is not None and release_of(ledger) else None
    except ApiError:
        pass  # another check reports the missing right
    data = (ledger or {}).get("data") or {}
    here = [one for one in queues if one["metadata"]["namespace"] == namespace]
    size = sum(len(key.encode()) + len(text.encode()) for key, text in data.items())
    return replace(look(group, data, here, leader, now=time.time()), state=None, members={}), size


async def _rights(
    api: Api,
    wanted: Sequence[tuple[str, str, str]],
    namespaces: Sequence[str],
    account: str | None,
    key: str,
    unread: dict[str, str],
) -> list[AccountRight]:
    """Whether the account has the `wanted` rights in these namespaces. `account` None: the caller."""
    asked = [(namespace, *one) for namespace in namespaces for one in wanted]
    try:
        answers = await asyncio.gather(*(may(api, verb, resource, where, account=account) for where, verb, resource, _ in asked))
    except ApiError as error:
        unread[key] = error.message
        return []
    return [
        AccountRight(verb, what, where, may, why, account or "")
        for (where, verb, what, why), may in zip(asked, answers, strict=True)
    ]


def accounts(deployments: Sequence[Manifest], leaders: Sequence[Leader]) -> Sequence[tuple[str, tuple[str, ...]]]:
    """The operators' service accounts with the namespaces that each serves, at most MOST_OPERATORS. Those in whose namespace most
    groups have their leader come first, because a tenant can create a Deployment with an operator's labels."""
    of_groups = Counter(leader.lease.partition("/")[0] for leader in leaders)
    found = {(-of_groups[one["metadata"]["namespace"]], _account(one), _served(one)) for one in deployments}
    return [(account, served) for _, account, served in sorted(found)[:MOST_OPERATORS]]


def _account(deployment: Manifest) -> str:
    spec = deployment["spec"]["template"]["spec"]
    return f"system:serviceaccount:{deployment['metadata']['namespace']}:{spec.get('serviceAccountName') or 'default'}"


def _served(deployment: Manifest) -> tuple[str, ...]:
    """The namespaces that this operator serves; empty: all."""
    words = [word for one in deployment["spec"]["template"]["spec"]["containers"] for word in one.get("args") or ()]
    return tuple(sorted(str(word).removeprefix("--namespace=") for word in words if str(word).startswith("--namespace=")))


class Verdict(StrEnum):
    """The verdict of a finding. Only Failed makes the command exit with 1."""

    OK = "OK"
    UNKNOWN = "Unknown"
    WARNING = "Warning"
    FAILED = "Failed"


@dataclass(frozen=True, slots=True)
class CheckResult:
    """A finding: its verdict, subject, statement and cure."""

    verdict: Verdict
    about: str
    says: str
    cure: str = ""


OLDEST_KUBERNETES = (1, 29)
"""The same as in the chart's kubeVersion."""


def kubernetes(facts: ClusterFacts) -> Iterator[CheckResult]:
    """Kubernetes is new enough."""
    found = re.match(r"v(\d{1,3})\.(\d{1,3})", facts.kubernetes)
    oldest = ".".join(map(str, OLDEST_KUBERNETES))
    if found is None:
        yield CheckResult(Verdict.UNKNOWN, "Kubernetes", "the API server does not report its version")
    elif (int(found[1]), int(found[2])) < OLDEST_KUBERNETES:
        yield CheckResult(Verdict.FAILED, "Kubernetes", f"is {facts.kubernetes}", f"upgrade it: Baton needs {oldest} or later")
    else:
        yield CheckResult(Verdict.OK, "Kubernetes", f"is {facts.kubernetes}; Baton needs {oldest} or later")


def resources(facts: ClusterFacts) -> Iterator[CheckResult]:
    """The CRDs of this release are installed."""
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
                f"differs from release {baton.__version__}, the release of this command",
                "kubectl apply --server-side -f crds/ of the operator's release (helm upgrade does not change CRDs), or install "
                "the command of that release",
            )
        else:
            yield CheckResult(Verdict.OK, f"CRD {name}", f"is from release {baton.__version__}")


def _established(crd: Manifest) -> bool:
    conditions = (crd.get("status") or {}).get("conditions") or ()
    return any(one.get("type") == "Established" and one.get("status") == "True" for one in conditions)


def _schemas(crd: Manifest) -> Mapping[str, object]:
    return {one["name"]: one.get("schema") for one in crd["spec"]["versions"]}


def operators(facts: ClusterFacts) -> Iterator[CheckResult]:
    """An operator runs, of this command's release."""
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
            yield CheckResult(Verdict.WARNING, name, f"is release {version}, but this command is {baton.__version__}", cure)


def leaders(facts: ClusterFacts) -> Iterator[CheckResult]:
    """The operators that wrote the ledgers still lead."""
    seen = {look.leader.lease: look.leader for look in facts.groups if look.leader is not None}
    for lease, leader in sorted(seen.items()):
        namespace = lease.partition("/")[0]
        about = f"leader {lease}"
        if not leader.readable:
            yield CheckResult(Verdict.UNKNOWN, about, "you may not read this Lease", f"ask for get on leases in {namespace}")
        elif leader.gone(facts.now):
            cure = f"kubectl get pods -n {namespace} -l {OPERATOR_SELECTOR}: is one running?"
            yield CheckResult(Verdict.FAILED, about, "has no holder, or its holder does not renew it", cure)
        else:
            yield CheckResult(Verdict.OK, about, f"is held by {leader.holder}")


def own_rights(facts: ClusterFacts) -> Iterator[CheckResult]:
    """The caller's own rights."""
    missing = [right for right in facts.own_rights if not right.allowed]
    for right in missing:
        cure = f"ask for it, if you need it: kubectl auth can-i {right.verb} {right.resource} -n {right.namespace}"
        yield CheckResult(Verdict.WARNING, "your rights", f"you may not {right.text}: {right.purpose}", cure)
    if facts.own_rights and not missing:
        yield CheckResult(Verdict.OK, "your rights", "suffice for all commands")


def operator_rights(facts: ClusterFacts) -> Iterator[CheckResult]:
    """The operator's account has its rights in the namespaces with groups."""
    missing = [right for right in facts.operator_rights if not right.allowed]
    for right in missing:
        cure = "helm upgrade with the chart's roles (rbac.create), and with the namespace in watchNamespaces if that is set"
        yield CheckResult(Verdict.FAILED, "the operator's rights", f"{right.account} may not {right.text}: {right.purpose}", cure)
    if facts.operator_rights and not missing:
        yield CheckResult(Verdict.OK, "the operator's rights", "suffice in the namespaces with groups")


NEARLY_FULL = 0.8
"""The share of a ledger's limit from which there is a warning."""

STUCK_AFTER = 120.0
"""Seconds after which a deletion should be over."""

MOST_NAMED = 5


def queues(facts: ClusterFacts) -> Iterator[CheckResult]:
    """Queues can be read, are Ready, belong to a group and have no dead letters."""
    used = {(look.group.namespace, name) for look in facts.groups for name in look.queues}
    for queue in facts.queues:
        about = f"queue {queue.namespace}/{queue.name}"
        status, mistake = queue.read_status()
        if queue.problem or mistake:
            yield CheckResult(Verdict.FAILED, about, f"is invalid: {queue.problem or mistake}", "correct the field")
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
            cure = f"inspect (baton dead-letters list {queue.name} -n {queue.namespace}), then redrive or drop them"
            yield CheckResult(Verdict.WARNING, about, there, cure)
        if unused:
            yield CheckResult(
                Verdict.WARNING, about, "no group names it", "name it in spec.queues of a ConsumerGroup, or delete it"
            )
        elif not wrong and not status.dead_letters:
            yield CheckResult(Verdict.OK, about, "has no problems")


def groups(facts: ClusterFacts) -> Iterator[CheckResult]:
    """Groups are valid, have an operator and are Ready, and their queues reject former owners (Fenced)."""
    for seen in facts.groups:
        about = f"group {seen.group.full_name}"
        wrong = [
            *([f"its spec is invalid: {seen.group.problem}"] if seen.group.problem else []),
            *([f"its ledger is invalid: {seen.ledger_problem}"] if seen.ledger_problem else []),
        ]
        yield from (CheckResult(Verdict.FAILED, about, one, "correct it, or see the operator's log") for one in wrong)
        if seen.shown_state == UNKNOWN:
            cure = f"is an operator running, and does it serve namespace {seen.group.namespace}?"
            yield CheckResult(Verdict.FAILED, about, "no operator has looked at it, or its leader is gone", cure)
        for one in seen.status.conditions:
            if one.status is ConditionStatus.TRUE or one.type not in _TOLD:
                continue
            verdict = Verdict.FAILED if one.type == "Ready" else Verdict.WARNING
            yield CheckResult(verdict, about, f"{one.type} is {one.status}: {one.reason}", one.message)
        if seen.group.spec is not None and seen.group.spec.paused and (unowned := seen.status.unowned):
            cure = f"baton resume {seen.group.name} -n {seen.group.namespace}"
            says = f"is paused with {counted(unowned, 'partition')} without an owner, not read until the group is resumed"
            yield CheckResult(Verdict.WARNING, about, says, cure)
        ready = seen.condition("Ready")
        if not wrong and seen.shown_state != UNKNOWN and ready is not None and ready.status is ConditionStatus.TRUE:
            yield CheckResult(Verdict.OK, about, f"is {seen.shown_state}")


_TOLD = ("Ready", "Fenced", "SessionsBound")
"""Conditions of a group that report a lasting fault."""


def pods(facts: ClusterFacts) -> Iterator[CheckResult]:
    """The groups' pods are Ready, and their labels and annotations are valid."""
    known = {(look.group.namespace, look.group.name) for look in facts.groups}
    for pod in facts.pods:
        about = f"pod {pod.namespace}/{pod.name}"
        yield from (CheckResult(Verdict.WARNING, about, one, "correct the template of its workload") for one in pod.problems)
        if (pod.namespace, pod.group) not in known:
            cure = "correct the label in its template, or create the group"
            yield CheckResult(
                Verdict.FAILED, about, f"its label baton.dev/group names {pod.group}, but there is no such group", cure
            )
    yield from _unready(pod for pod in facts.pods if not pod.ready and not pod.ended and not pod.terminating)
    for namespace, group in sorted({(pod.namespace, pod.group) for pod in facts.pods}):
        away = drained(pod for pod in facts.pods if (pod.namespace, pod.group) == (namespace, group))
        if away:
            says = f"{first_of(away, MOST_NAMED)} {'is' if len(away) == 1 else 'are'} drained: no partitions"
            cure = f"baton drain {group} {away[0]} -n {namespace} --undo, unless that is intended"
            yield CheckResult(Verdict.WARNING, f"pods of {namespace}/{group}", says, cure)


def _unready(those: Iterable[PodView]) -> Iterator[CheckResult]:
    """A finding for each cause and group whose pods are not Ready."""
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
    """Ledgers are not nearly full."""
    for name, size in sorted(facts.sizes.items()):
        if size > NEARLY_FULL * SIZE_LIMIT:
            yield CheckResult(
                Verdict.WARNING,
                f"ledger of {name}",
                f"has {size // 1024:,} of {SIZE_LIMIT // 1024:,} KiB; plans wait when it is full",
                "fewer members or partitions, or several groups",
            )


def deletions(facts: ClusterFacts) -> Iterator[CheckResult]:
    """Deletions do not take too long."""
    for what, since, finalizers in facts.deleted:
        began = read_seconds(since, facts.now)
        if facts.now - began > STUCK_AFTER:
            cure = (
                "see the group's condition Ready for what it waits for; is its operator running? Remove a finalizer only as a "
                "last resort"
            )
            says = f"has been waiting for deletion since {since}, because of {', '.join(finalizers) or 'no finalizer'}"
            yield CheckResult(Verdict.FAILED, what, says, cure)


CHECKS: tuple[tuple[Callable[[ClusterFacts], Iterator[CheckResult]], str, str], ...] = (
    (kubernetes, "", ""),
    (resources, "resources", "CRDs"),
    (operators, "operators", "operator"),
    (leaders, "", ""),
    (own_rights, "own rights", "your rights"),
    (operator_rights, "operator rights", "the operator's rights"),
    (queues, "", ""),
    (groups, "", ""),
    (pods, "pods", "pods"),
    (ledgers, "", ""),
    (deletions, "", ""),
)
"""The checks in their order. Each with the key in `unread` of facts that the caller may be refused, and their subject."""


def findings(facts: ClusterFacts) -> list[CheckResult]:
    """The findings of all checks."""
    found: list[CheckResult] = []
    for check, needed, about in CHECKS:
        if (why := facts.unread.get(needed)) is not None:
            cure = "run this command with an account that may"
            found.append(CheckResult(Verdict.UNKNOWN, about, f"you may not read them: {why}", cure))
        else:
            found += check(facts)
    return found


@click.command()
@cluster_options
@all_namespaces_option("the groups and queues")
@output_option(wide="also passed checks", programs="a list of all findings")
def doctor(all_namespaces: bool, form: Form, target: ClusterTarget) -> None:
    """Check the installation, rights, queues, groups and pods, and show a cure for each problem.

    Changes nothing. Exits with 1 if a check failed; warnings and what you may not read do not count.
    """

    async def examine() -> list[CheckResult]:
        async with cluster(target) as (api, where):
            return findings(await read_facts(api, None if all_namespaces else where))

    found = ask(examine())
    if form.for_programs:
        say_object([asdict(one) for one in found], form)
    else:
        _tell(found, everything=form.wide)
    if any(one.verdict is Verdict.FAILED for one in found):
        sys.exit(1)


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
