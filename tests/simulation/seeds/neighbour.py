"""A tenant that changes its objects in any way that the API server allows: by mistake, by a broken tool, or on purpose."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from baton.kube.api import core_path
from baton.kube.leases import leases_path
from baton.kube.ledger_configmap import WRITER_ANNOTATION
from baton.kube.objects import APPROVE_ANNOTATION, REBALANCE_ANNOTATION, groups_path, queues_path
from baton.model.names import (
    ASSIGNORS_ANNOTATION,
    CAPACITY_ANNOTATION,
    EXECUTORS_ANNOTATION,
    GROUP_LABEL,
    LEDGER_KEY_ANNOTATION,
    RELEASES_ANNOTATION,
    SPARK_APP_ANNOTATION,
    SUBSCRIBED_ANNOTATION,
    ledger_name,
)
from tests.simulation.api_server.refusals import Refused

if TYPE_CHECKING:
    from tests.simulation.seeds.tenant import Tenant

TEXTS: tuple[str, ...] = (
    "",
    " ",
    ",",
    "null",
    "[]",
    "{}",
    "0",
    "-1",
    "1e999",
    "NaN",
    "9" * 400,
    "[" * 1_000,
    '{"a":' * 3_000,
    '{"u":1}',
    '{"u":{"orders":"0-3@99999999999999999999"}}',
    '{"u":{"orders":"0-1000000@1"}}',
    '{"u":{"orders":"0-1000000@1","pay":"0-1000000@2","a":"0-1000000@3"}}',
    '{"u":{"orders":["0@1"]}}',
    '{"u":{"orders":null},"":{"":""}}',
    "\x00\x01\x1b[2J\x7f",
    "\u202e\u200b\ufeff",
    "a," * 5_000,
    "💥" * 20_000,
    "x" * 250_000,
    '{"group":"shop/orders","member":"a","uid":"a","generation":1,"active":true,"owned":{"orders":"0-8@999"},"revoking":{}}',
)
LABELS = ("", "orders", "nothing", "x" * 63, "a.b-c_d", "0", "group")
NUMBERS = (1, 2, 3600, 2**31 - 1)
ON_PODS = (SUBSCRIBED_ANNOTATION, ASSIGNORS_ANNOTATION, CAPACITY_ANNOTATION, LEDGER_KEY_ANNOTATION, "other")
ON_LEASES = (RELEASES_ANNOTATION, EXECUTORS_ANNOTATION, SPARK_APP_ANNOTATION)
ON_GROUPS = (REBALANCE_ANNOTATION, APPROVE_ANNOTATION, "other")


class Neighbour:
    """The neighbour. Its actions follow from a number, so that they can be repeated."""

    def __init__(self, tenant: Tenant) -> None:
        self.tenant = tenant
        self._environment = tenant.environment
        self._made: list[str] = []
        """Paths of the objects that it has created."""
        self._repents = False

    def act(self, number: int) -> None:
        """Do one harmful thing."""
        rng = random.Random(number)
        rng.choice(_ACTS)(self, rng)

    def go_on(self) -> None:
        """Do another harmful thing now and then, until `repent`."""
        if not self._repents and not self.tenant.deleted:
            self.act(self._environment.rng.getrandbits(32))
            self._environment.later(1.0 + 4 * self._environment.rng.random(), self.go_on)

    def repent(self) -> None:
        """Correct everything, as an administrator would."""
        self._repents = True
        for path in self._made:
            self._ask("delete", path)
        tenant = self.tenant
        for pod in tenant.pods.values():
            self._ask("patch", core_path(tenant.namespace, "pods", pod.name), {"metadata": {
                "labels": {GROUP_LABEL: tenant.group}, "annotations": dict.fromkeys(ON_PODS),
            }})  # fmt: skip
            tenant.subscribe(pod, pod.subscribed)
            if pod.session is not None:
                self._ask("delete", pod.session.path)
        annotations = dict.fromkeys(ON_GROUPS)
        self._ask("patch", groups_path(tenant.namespace, tenant.group), {"metadata": {"annotations": annotations}})
        tenant.restore_specs()
        found = self._ask("get", self._ledger)
        if not isinstance(found, Refused) and (found.get("immutable") or self._foreign(found)):
            self._ask("delete", self._ledger)

    # -- harmful things

    def _pod(self, rng: random.Random) -> None:
        pods = sorted(self.tenant.pods)
        if pods:
            path = core_path(self.tenant.namespace, "pods", rng.choice(pods))
            labels = {GROUP_LABEL: rng.choice(LABELS)} if rng.random() < 0.3 else {}
            self._patch(path, labels=labels, annotations={rng.choice(ON_PODS): rng.choice(TEXTS)})

    def _stray_pod(self, rng: random.Random) -> None:
        name = rng.choice(("group", "nginx", "a.b", "z" * 200, f"p{rng.randrange(20)}"))
        labels = {GROUP_LABEL: rng.choice((self.tenant.group, *LABELS))}
        body = {"metadata": {"name": name, "labels": labels, "annotations": {rng.choice(ON_PODS): rng.choice(TEXTS)}}}
        if self._make(core_path(self.tenant.namespace, "pods"), body) and rng.random() < 0.7:
            when = rng.choice(("2027-01-15T08:00:00Z", "1970-01-01T00:00:00Z", "9999-12-31T23:59:59Z", None))
            condition = {"type": "Ready", "status": "True", "lastTransitionTime": when}
            status = {"status": {"phase": "Running", "conditions": [condition]}}
            self._ask("patch", core_path(self.tenant.namespace, "pods", name) + "/status", status)

    def _lease(self, rng: random.Random) -> None:
        pods = sorted(self.tenant.pods)
        name = rng.choice((*(f"baton-{pod}" for pod in pods), f"{self.tenant.group}-driver", "other"))
        uids = [pod.uid for pod in self.tenant.pods.values()]
        spec: dict[str, Any] = {"holderIdentity": rng.choice((*uids, None, "", rng.choice(TEXTS[:9])))}
        spec["leaseDurationSeconds"] = rng.choice(NUMBERS)
        annotations = {one: rng.choice(TEXTS) for one in rng.sample(ON_LEASES, 2)}
        body = {
            "metadata": {
                "name": name,
                "labels": {GROUP_LABEL: rng.choice((self.tenant.group, *LABELS))},
                "annotations": annotations,
            },
            "spec": spec,
        }
        if not self._make(leases_path(self.tenant.namespace), body):
            self._ask("patch", leases_path(self.tenant.namespace, name), body)

    def _spoil_ledger(self, rng: random.Random) -> None:
        keys = ("group", *sorted(self.tenant.pods), "other")
        data = {key: rng.choice((None, *TEXTS)) for key in rng.sample(keys, rng.randint(1, len(keys)))}
        self._ask("patch", self._ledger, {"metadata": {}, "data": data})

    def _disown_ledger(self, rng: random.Random) -> None:
        self._ask("patch", self._ledger, {"metadata": rng.choice((
            {"labels": None}, {"labels": {GROUP_LABEL: rng.choice(LABELS)}}, {"ownerReferences": None},
            {"annotations": {WRITER_ANNOTATION: rng.choice(TEXTS)}}, {"annotations": {WRITER_ANNOTATION: "9" * 30}},
        ))})  # fmt: skip

    def _freeze_ledger(self, rng: random.Random) -> None:
        self._ask("patch", self._ledger, {"metadata": {}, "immutable": True})

    def _foreign_config_map(self, rng: random.Random) -> None:
        """Create another ConfigMap with the name of the ledger."""
        self._ask("delete", self._ledger)
        body = {"metadata": {"name": ledger_name(self.tenant.group)}, "data": {"somebody": rng.choice(TEXTS)}}
        self._ask("create", core_path(self.tenant.namespace, "configmaps"), body)

    def _delete_ledger(self, rng: random.Random) -> None:
        self._ask("delete", self._ledger)

    def _group(self, rng: random.Random) -> None:
        path = groups_path(self.tenant.namespace, self.tenant.group)
        self._patch(path, annotations={rng.choice(ON_GROUPS): rng.choice(TEXTS)})

    def _group_spec(self, rng: random.Random) -> None:
        """Write specs, some of which today's schema would reject."""
        self._ask("patch", groups_path(self.tenant.namespace, self.tenant.group), {"metadata": {}, "spec": rng.choice((
            {"queues": [{"name": f"q{n}"} for n in range(64)]}, {"queues": None}, {"queues": "orders"}, {"assignors": [1]},
            {"assignors": ["nobody/has"]}, {"rebalance": {"delaySeconds": 8}}, {"rebalance": {"resyncSeconds": 0}},
            {"rebalance": {"maxHandoffSeconds": -1}}, {"rebalance": None}, {"protocol": "None"}, {"paused": True},
            {"paused": "yes"}, {"rebalance": {"delaySeconds": "5"}},
            {"membership": {"identityLabel": GROUP_LABEL, "sessionTimeoutSeconds": 8}}, {"replicas": 100_000},
            {"scale": {"mode": "Workload", "targetRef": {"kind": "Deployment", "name": "nothing"}}, "replicas": 3},
        ))})  # fmt: skip

    def _queue_spec(self, rng: random.Random) -> None:
        name = rng.choice(sorted(self.tenant.queue_specs))
        self._ask("patch", queues_path(self.tenant.namespace, name), {"metadata": {}, "spec": rng.choice((
            {"partitions": None}, {"partitions": -1}, {"partitions": "7"}, {"partitions": 200}, {"source": {"type": "Kafka"}},
            {"source": None}, {"accessType": "Exclusive"}, {"partitionAttributes": [{"partitions": "0-5", "zones": ["z"]}]},
            {"rebalance": {"maxHandoffSeconds": 8}},
        ))})  # fmt: skip

    def _another_group(self, rng: random.Random) -> None:
        """Create another group with the same queues."""
        name = rng.choice(("other", "x" * 63, "orders-assignments", f"g{rng.randrange(4)}"))
        queues = [{"name": queue} for queue in sorted(self.tenant.queue_specs)]
        self._make(groups_path(self.tenant.namespace), {"metadata": {"name": name}, "spec": {"queues": queues}})

    def _status(self, rng: random.Random) -> None:
        path = groups_path(self.tenant.namespace, self.tenant.group) + "/status"
        self._ask("patch", path, {"metadata": {}, "status": rng.choice((
            {"state": "Ready"}, {"conditions": [{"type": "Ready", "status": "True"}]}, {"conditions": []}, {"members": -5},
            {"holdUntil": "2999-01-01T00:00:00Z"},
        ))})  # fmt: skip

    # -- requests

    @property
    def _ledger(self) -> str:
        return core_path(self.tenant.namespace, "configmaps", ledger_name(self.tenant.group))

    def _foreign(self, found: Any) -> bool:
        """Such a one the operator leaves alone: what to do about it stands in the group's status."""
        labels = found["metadata"].get("labels") or {}
        marked = labels.get(GROUP_LABEL) == self.tenant.group and labels.get("app.kubernetes.io/managed-by") == "baton"
        return not marked or not found["metadata"].get("ownerReferences")

    def _patch(self, path: str, labels: dict[str, str] | None = None, annotations: dict[str, str] | None = None) -> None:
        self._ask("patch", path, {"metadata": {"labels": labels or {}, "annotations": annotations or {}}})

    def _make(self, path: str, body: Any) -> bool:
        made = self._ask("create", path, body)
        if isinstance(made, Refused):
            return False
        self._made.append(f"{path}/{body['metadata']['name']}")
        return True

    def _ask(self, verb: str, path: str, body: Any = None) -> Any:
        answer = self._environment.ask(verb, path, body)
        if self._environment.trace is not None:
            short = str(body)
            short = short if len(short) < 300 else f"{short[:300]}… ({len(short)})"
            self._environment.say(f"the neighbour: {verb} {path} {short}: {'refused' if isinstance(answer, Refused) else 'done'}")
        return answer


_ACTS: tuple[Callable[[Neighbour, random.Random], None], ...] = (
    Neighbour._pod,
    Neighbour._pod,
    Neighbour._stray_pod,
    Neighbour._lease,
    Neighbour._lease,
    Neighbour._lease,
    Neighbour._spoil_ledger,
    Neighbour._spoil_ledger,
    Neighbour._disown_ledger,
    Neighbour._freeze_ledger,
    Neighbour._foreign_config_map,
    Neighbour._delete_ledger,
    Neighbour._group,
    Neighbour._group_spec,
    Neighbour._queue_spec,
    Neighbour._another_group,
    Neighbour._status,
)
