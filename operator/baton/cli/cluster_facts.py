"""What `baton doctor` reads of a cluster. What may not be read is said, and the rest is read all the same."""

import asyncio
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from baton.api.crd import crds
from baton.cli.group import GroupLook, Leader, leader_of, look
from baton.kube import pods
from baton.kube.api import Api, core_path, group_path
from baton.kube.errors import ApiError
from baton.kube.ledger_configmap import ledger_of
from baton.kube.objects import QueueView, groups_path, queue_view, queues_path
from baton.kube.pods import PodView
from baton.kube.releases import release_of
from baton.model.names import GROUP_LABEL, OPERATOR_SELECTOR, ledger_name

Json = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class AccountRight:
    """Something that an account may do, or not, in a namespace."""

    verb: str
    resource: str
    """resource, or resource/subresource."""
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
    """What the caller may read of a cluster. `unread` has the reasons for the rest, by subject."""

    now: float
    kubernetes: str = ""
    """Such as v1.31.2."""
    resources: Mapping[str, Json | None] = field(default_factory=dict)
    """The CustomResourceDefinitions by name; None: not installed."""
    operators: Sequence[Json] = ()
    """Deployments."""
    groups: Sequence[GroupLook] = ()
    sizes: Mapping[str, int] = field(default_factory=dict)
    """Bytes of the ledgers, by the group's full name."""
    queues: Sequence[QueueView] = ()
    deleted: Sequence[tuple[str, str, Sequence[str]]] = ()
    """Of objects that are being deleted: kind and full name, since when, and finalizers."""
    pods: Sequence[PodView] = ()
    own_rights: Sequence[AccountRight] = ()
    operator_rights: Sequence[AccountRight] = ()
    unread: Mapping[str, str] = field(default_factory=dict)


CRDS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
AUTHORIZATION = "authorization.k8s.io/v1"

MOST_NAMESPACES = 20
"""Namespaces with groups for which rights are asked."""

MOST_OPERATORS = 8
"""Operators whose rights are checked: a tenant can create any number of Deployments that look like one."""

OWN = (
    ("list", "consumergroups.baton.dev", "no command that shows groups works"),
    ("list", "partitionedqueues.baton.dev", "`baton status GROUP` does not work"),
    ("get", "configmaps", "`baton status GROUP` does not work: it reads the ledger"),
    ("list", "events", "`baton explain` cannot say who had a partition before"),
    (
        "list",
        "pods",
        "`baton plan --explain --group` and `baton explain` cannot say what a plan would do, and `status` not which pods wait",
    ),
    ("list", "leases.coordination.k8s.io", "`baton plan --explain --group`, `drain` and `explain` cannot say who takes part"),
    ("patch", "consumergroups.baton.dev", "`baton approve`, `pause`, `resume` and `rebalance` are for others"),
)
"""Verb, resource, and what is lost without it."""

OPERATORS = (
    ("watch", "consumergroups.baton.dev", "it sees no group"),
    ("patch", "consumergroups.baton.dev/status", "it cannot say how a group is"),
    ("patch", "consumergroups.baton.dev", "it cannot put its finalizer on"),
    ("watch", "partitionedqueues.baton.dev", "it sees no queue"),
    ("patch", "partitionedqueues.baton.dev/status", "it cannot say how a queue is"),
    ("watch", "pods", "it sees no member"),
    ("patch", "pods", "kubelets show assignments a minute later"),
    ("create", "configmaps", "it cannot write a ledger"),
    ("update", "configmaps", "it cannot write a ledger"),
    ("update", "consumergroups.baton.dev/ledger", "the admission policies refuse its ledgers"),
    ("watch", "leases.coordination.k8s.io", "it sees no session"),
    ("create", "events.events.k8s.io", "nothing is told as events"),
)
"""Likewise; a part of the chart's rules."""


async def read_facts(api: Api, namespace: str | None) -> ClusterFacts:
    """Of one namespace, or of all. Raises what `Api` raises where groups cannot be listed."""
    unread: dict[str, str] = {}
    found, seen, version = await asyncio.gather(
        api.get(groups_path(namespace)), api.get(queues_path(namespace)), api.get("/version")
    )
    definitions = await _definitions(api, unread)
    deployments = await _deployments(api, unread)
    labelled = await _list(api, core_path(namespace, "pods"), "pods", unread, labelSelector=GROUP_LABEL)
    queues = seen["items"]
    looked = [await _look(api, one, queues) for one in found["items"]]  # one by one: of a ledger is kept what checks look at
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
        deleted=[_deleted(kind, one) for kind, of in (("group", found["items"]), ("queue", queues)) for one in of if _going(one)],
        pods=[view for one in labelled if (view := pods.view(one)) is not None],
        own_rights=own,
        operator_rights=[right for of in others for right in of],
        unread=unread,
    )


async def _definitions(api: Api, unread: dict[str, str]) -> dict[str, Json | None]:
    made: dict[str, Json | None] = {}
    for one in crds():
        name = one["metadata"]["name"]
        try:
            made[name] = await api.find(f"{CRDS}/{name}")
        except ApiError as error:
            unread["resources"] = error.message
    return made


async def _deployments(api: Api, unread: dict[str, str]) -> list[Json]:
    return await _list(api, group_path("apps/v1", None, "deployments"), "operators", unread, labelSelector=OPERATOR_SELECTOR)


async def _list(api: Api, path: str, key: str, unread: dict[str, str], **query: str) -> list[Json]:
    try:
        return list((await api.get(path, **query))["items"])
    except ApiError as error:
        unread[key] = error.message
        return []


async def _look(api: Api, group: Json, queues: Sequence[Json]) -> tuple[GroupLook, int]:
    """And the bytes of its ledger; without what the ledger says of each partition and member."""
    namespace, name = group["metadata"]["namespace"], group["metadata"]["name"]
    ledger: Json | None = None
    leader: Leader | None = None
    try:
        ledger = ledger_of(await api.find(core_path(namespace, "configmaps", ledger_name(name))), name)
        leader = await leader_of(api, ledger) if ledger is not None and release_of(ledger) else None
    except ApiError:
        pass  # the right to read it is asked for by itself
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
    """`account` None: the caller."""
    asked = [(namespace, *one) for namespace in namespaces for one in wanted]
    try:
        answers = await asyncio.gather(*(_may(api, verb, resource, where, account) for where, verb, resource, _ in asked))
    except ApiError as error:
        unread[key] = error.message
        return []
    return [
        AccountRight(verb, what, where, may, why, account or "")
        for (where, verb, what, why), may in zip(asked, answers, strict=True)
    ]


async def _may(api: Api, verb: str, what: str, namespace: str, account: str | None) -> bool:
    name, _, sub = what.partition("/")
    resource, _, group = name.partition(".")
    kind = "SelfSubjectAccessReview" if account is None else "SubjectAccessReview"
    attributes = {"namespace": namespace, "verb": verb, "group": group, "resource": resource, "subresource": sub}
    spec = {"resourceAttributes": attributes, **({} if account is None else {"user": account})}
    path = f"/apis/{AUTHORIZATION}/{kind.lower()}s"
    made = await api.create(path, {"apiVersion": AUTHORIZATION, "kind": kind, "spec": spec})
    return bool((made.get("status") or {}).get("allowed"))


def accounts(deployments: Sequence[Json], leaders: Sequence[Leader]) -> Sequence[tuple[str, tuple[str, ...]]]:
    """Service accounts of operators, with the namespaces that each serves: those first in whose namespace most groups have their
    leader. A tenant can create a Deployment with an operator's labels."""
    of_groups = Counter(leader.lease.partition("/")[0] for leader in leaders)
    found = {(-of_groups[one["metadata"]["namespace"]], _account(one), _served(one)) for one in deployments}
    return [(account, served) for _, account, served in sorted(found)[:MOST_OPERATORS]]


def _account(deployment: Json) -> str:
    spec = deployment["spec"]["template"]["spec"]
    return f"system:serviceaccount:{deployment['metadata']['namespace']}:{spec.get('serviceAccountName') or 'default'}"


def _served(deployment: Json) -> tuple[str, ...]:
    """The namespaces in which this operator works; none: in all."""
    words = [word for one in deployment["spec"]["template"]["spec"]["containers"] for word in one.get("args") or ()]
    return tuple(sorted(str(word).removeprefix("--namespace=") for word in words if str(word).startswith("--namespace=")))


def _going(one: Json) -> bool:
    return bool(one["metadata"].get("deletionTimestamp"))


def _deleted(kind: str, one: Json) -> tuple[str, str, Sequence[str]]:
    metadata = one["metadata"]
    full = f"{kind} {metadata['namespace']}/{metadata['name']}"
    return full, str(metadata["deletionTimestamp"]), [str(name) for name in metadata.get("finalizers") or ()]
