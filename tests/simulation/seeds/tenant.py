"""One namespace with a group, its queues and its pods, and their resources at the API server."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from baton.kube.api import core_path, group_path
from baton.kube.ledger_configmap import WRITER_ANNOTATION
from baton.kube.objects import APPROVE_ANNOTATION, REBALANCE_ANNOTATION, groups_path, queues_path
from baton.model.names import DRAIN_ANNOTATION, LEDGER_KEY_ANNOTATION, SUBSCRIBED_ANNOTATION, TAKE_OVER_ANNOTATION, ledger_name
from tests.simulation.api_server.refusals import Refused
from tests.simulation.seeds import manifests
from tests.simulation.seeds.checks import Checks
from tests.simulation.seeds.consumers import MOUNT_LAG, Consumer, Key
from tests.simulation.seeds.invariant import InvariantError
from tests.simulation.seeds.neighbour import Neighbour
from tests.simulation.seeds.operators import EPOCH
from tests.simulation.seeds.queues import UP, Queue
from tests.simulation.seeds.readiness_check import says_ready

if TYPE_CHECKING:
    from tests.simulation.seeds.environment import Environment


class Tenant:
    """One namespace with a group. `spec` and `queue_specs` are the specs at the API server."""

    def __init__(
        self,
        environment: Environment,
        namespace: str,
        group: str,
        spec: Mapping[str, Any],
        queues: Mapping[str, Any],
        strict: bool = True,
    ) -> None:
        """`strict`: check invariants at every instant; otherwise only at the end, because the tenant harms itself."""
        self.environment = environment
        self.strict = strict
        self.namespace = namespace
        self.group = group
        self.spec = dict(spec)
        self.queue_specs = {name: dict(one) for name, one in queues.items()}
        self.servers = {name: _server(environment, name, one) for name, one in queues.items()}
        self.pods: dict[str, Consumer] = {}
        self.ledger: Mapping[str, str] = {}
        """The ledger at the API server."""
        self.deleted = False
        """The tenant was deleted with its namespace."""
        self.uids: set[str] = set()
        """The UIDs of existing pods."""
        self.says_ready = False
        """The group's condition Ready at the API server."""
        self._marks: dict[str, str | None] = {}
        """By pod UID: the annotation that makes the kubelet refresh the volume early."""
        self._term = 0
        """The term of the leader that wrote the ledger last."""
        self._texts: dict[str, str | None] = {}
        """By pod UID: the pod's key when its volume was last to be refreshed."""
        self.checks = Checks(self)
        self.neighbour = Neighbour(self)

    def __str__(self) -> str:
        return f"{self.namespace}/{self.group}"

    def begin(self) -> None:
        """Create the namespace and its resources."""
        self.environment.ask("create", "/api/v1/namespaces", manifests.namespace(self.namespace))
        for name in self.queue_specs:
            self.make_queue(name)
        self.environment.ask("create", groups_path(self.namespace), manifests.group(self.group, self.spec))
        if "targetRef" in (self.spec.get("scale") or {}):
            path = group_path("apps/v1", self.namespace, "deployments")
            self.environment.ask("create", path, manifests.deployment(self.spec["scale"]["targetRef"]["name"]))

    def make_queue(self, name: str) -> None:
        self.environment.ask("create", queues_path(self.namespace), manifests.queue(name, self.queue_specs[name]))
        self.checks.changed()

    def delete_queue(self, name: str) -> None:
        self.environment.say(f"{self.namespace}: the queue {name} is deleted")
        self.environment.ask("delete", queues_path(self.namespace, name))
        self.checks.changed()

    def make_rival(self) -> None:
        """Create another group with the same queues and no pods."""
        self.environment.say(f"{self.namespace}: another group wants its queues")
        spec = {"queues": [{"name": name} for name in sorted(self.queue_specs)]}
        self.environment.ask("create", groups_path(self.namespace), manifests.group("rival", spec))

    def drop_rival(self) -> None:
        """Delete the other group, if it exists. It may have claimed the queues first."""
        self.environment.ask("delete", groups_path(self.namespace, "rival"))

    def approve(self) -> None:
        """Approve the current proposal, if there is one."""
        path = groups_path(self.namespace, self.group)
        found = self.environment.ask("get", path)
        proposal = None if isinstance(found, Refused) else (found.get("status") or {}).get("proposal")
        if proposal is not None:
            patch = {"metadata": {"annotations": {APPROVE_ANNOTATION: proposal["id"]}}}
            self.environment.ask("patch", path, patch)

    def take_over(self) -> None:
        """Take queues over from deleted groups, as an administrator does on seeing the condition."""
        recorded = {queue.group for queue in self.servers.values() if queue.group is not None}
        uids = sorted(uid for group, uid in recorded if self._gone(group, uid))
        if uids:
            self.environment.say(f"{self} takes over from {uids}")
            annotations = {TAKE_OVER_ANNOTATION: ",".join(uids)}
            self.environment.ask("patch", groups_path(self.namespace, self.group), {"metadata": {"annotations": annotations}})

    def _gone(self, group: str, uid: str) -> bool:
        found = self.environment.ask("get", groups_path(*group.split("/")))
        return isinstance(found, Refused) or found["metadata"]["uid"] != uid

    def delete_namespace(self) -> None:
        self.environment.say(f"the namespace {self.namespace} is deleted")
        self.environment.ask("delete", f"/api/v1/namespaces/{self.namespace}")
        self.deleted = True

    # -- facts

    def server(self, queue: str) -> Queue:
        return self.servers[queue]

    @property
    def named(self) -> frozenset[str]:
        return frozenset(one["name"] for one in self.spec["queues"])

    def exclusive(self, queue: str) -> bool:
        return self.queue_specs[queue].get("accessType") == "Exclusive"

    def partitions(self, queue: str) -> int:
        return int(self.queue_specs[queue]["partitions"])

    def max_handoff(self) -> float:
        return float(max(spec["rebalance"]["maxHandoffSeconds"] for spec in self.queue_specs.values()))

    @property
    def rebalance(self) -> Mapping[str, Any]:
        return self.spec["rebalance"]  # type: ignore[no-any-return]

    @property
    def session_timeout(self) -> float:
        return float((self.spec.get("membership") or {}).get("sessionTimeoutSeconds") or 0)

    @property
    def sessions_required(self) -> bool:
        return self.spec["membership"]["session"] == "Required"  # type: ignore[no-any-return]

    # -- pods

    def join(self, name: str, **facts: Any) -> None:
        if name in self.pods:
            return
        body = manifests.pod(name, self.group, facts.get("instance"), facts.get("subscribed"), 30)
        made = self.environment.ask("create", core_path(self.namespace, "pods"), body)
        if isinstance(made, Refused):
            return
        pod = Consumer(self, name, made["metadata"]["uid"], **facts)
        self.pods[name] = pod
        self.checks.moves.joined(name, pod.instance)
        self.environment.say(f"{self.namespace}: {name} ({pod.uid[:4]}) joins {facts}")
        self.ready(pod, True)
        pod.start()
        self._refresh_soon(pod, self.environment.latency(0.4))

    def ready(self, pod: Consumer, ready: bool) -> None:
        if not pod.dead:
            status = manifests.pod_status(ready, EPOCH + self.environment.now)
            self.environment.ask("patch", core_path(self.namespace, "pods", pod.name) + "/status", status)
            self.checks.changed()

    def remove(self, pod: Consumer) -> None:
        """End the process and delete the pod."""
        if pod.dead:
            return
        pod.dead = True
        self.environment.say(f"{self.namespace}: {pod.name} ({pod.uid[:4]}) is gone")
        if self.pods.get(pod.name) is pod:
            del self.pods[pod.name]
        options = {"gracePeriodSeconds": 0, "preconditions": {"uid": pod.uid}}
        self.environment.ask("delete", core_path(self.namespace, "pods", pod.name), {"metadata": {}, **options})
        self.checks.changed()

    def terminate(self, pod: Consumer, grace: int) -> None:
        if pod.dead or pod.terminating:
            return
        pod.terminating = True
        self.environment.say(f"{self.namespace}: {pod.name} is asked to stop within {grace} s")
        self.environment.ask("delete", core_path(self.namespace, "pods", pod.name), {"metadata": {}, "gracePeriodSeconds": grace})
        self.checks.changed()
        self.environment.later(grace, self.remove, pod)
        self._leave_when_idle(pod)

    def _leave_when_idle(self, pod: Consumer) -> None:
        if pod.dead:
            return
        key = self.ledger.get(pod.name)
        if not pod.stopped and pod.idle and not pod.busy and (key is None or '"owned":{},"revoking":{}' in key):
            self.remove(pod)
        else:
            self.environment.later(0.5, self._leave_when_idle, pod)

    def stop(self, pod: Consumer, seconds: float) -> None:
        """Send SIGSTOP, and SIGCONT some seconds later."""
        if pod.dead or pod.stopped:
            return
        pod.stop()
        self.environment.say(f"{self.namespace}: {pod.name} is stopped for {seconds} s")

        def wake() -> None:
            if not pod.dead:
                self.environment.say(f"{self.namespace}: {pod.name} goes on")
                pod.wake()
                self._refresh_soon(pod, self.environment.latency(0.4))

        self.environment.later(seconds, wake)

    def subscribe(self, pod: Consumer, queues: frozenset[str] | None) -> None:
        pod.subscribed = queues
        value = None if queues is None else ",".join(sorted(queues))
        patch = {"metadata": {"annotations": {SUBSCRIBED_ANNOTATION: value}}}
        self.environment.ask("patch", core_path(self.namespace, "pods", pod.name), patch)
        self.checks.changed()

    def identify(self, pod: Consumer, instance: str | None) -> None:
        self.environment.say(f"{self.namespace}: {pod.name} has the identity {instance}")
        pod.instance = instance
        self.checks.moves.joined(pod.name, instance)
        patch = {"metadata": {"labels": {manifests.IDENTITY_LABEL: instance}}}
        self.environment.ask("patch", core_path(self.namespace, "pods", pod.name), patch)
        self.checks.changed()

    def drain(self, pod: Consumer, draining: bool) -> None:
        self.environment.say(f"{self.namespace}: {pod.name} is {'' if draining else 'not '}to be drained")
        pod.draining = draining
        patch = {"metadata": {"annotations": {DRAIN_ANNOTATION: "true" if draining else None}}}
        self.environment.ask("patch", core_path(self.namespace, "pods", pod.name), patch)
        self.checks.changed()

    # -- resources

    def change(self, **spec: Any) -> None:
        self.environment.say(f"{self.namespace}: spec {spec}")
        self.spec = _merged(self.spec, spec)
        self.environment.ask("patch", groups_path(self.namespace, self.group), {"metadata": {}, "spec": spec})
        self.checks.changed()

    def queue_changed(self, name: str, **spec: Any) -> None:
        self.environment.say(f"{self.namespace}: queue {name} {spec}")
        self.queue_specs[name] = _merged(self.queue_specs[name], spec)
        self.environment.ask("patch", queues_path(self.namespace, name), {"metadata": {}, "spec": spec})
        self.checks.changed()

    def name_queues(self, names: frozenset[str]) -> None:
        if names:
            self.change(queues=[{"name": name} for name in sorted(names)])

    def restore_specs(self) -> None:
        """Whatever became of them."""
        paths = [(groups_path(self.namespace, self.group), self.spec)]
        paths += [(queues_path(self.namespace, name), spec) for name, spec in self.queue_specs.items()]
        for path, spec in paths:
            self.environment.ask("update", path, {**self.environment.ask("get", path), "spec": spec})

    def limit_config_maps(self) -> None:
        body = {"metadata": {"name": "none"}, "spec": {"hard": {"count/configmaps": "0"}}}
        self.environment.ask("create", core_path(self.namespace, "resourcequotas"), body)

    def lift_the_limit(self) -> None:
        self.environment.ask("delete", core_path(self.namespace, "resourcequotas", "none"))

    def request(self, word: str) -> None:
        patch = {"metadata": {"annotations": {REBALANCE_ANNOTATION: word}}}
        self.environment.ask("patch", groups_path(self.namespace, self.group), patch)
        self.checks.changed()

    def delete_ledger(self) -> None:
        self.environment.say(f"{self.namespace}: the ledger is deleted")
        self.environment.ask("delete", core_path(self.namespace, "configmaps", ledger_name(self.group)))

    def touch_ledger(self, word: str) -> None:
        """A foreign annotation changes only its resourceVersion."""
        path = core_path(self.namespace, "configmaps", ledger_name(self.group))
        self.environment.ask("patch", path, {"metadata": {"annotations": {"somebody": word}}})

    # -- what the kubelets do

    def ledger_changed(self, kind: str, manifest: Mapping[str, Any]) -> None:
        """At the API server."""
        if manifest["metadata"]["name"] != ledger_name(self.group):
            return
        self._no_deposed_leader_writes(kind, manifest)
        before, self.ledger = self.ledger, {} if kind == "DELETED" else manifest.get("data") or {}
        if kind != "DELETED" and (self.ledger != before or kind == "ADDED"):
            self.checks.written(self.ledger)
        for pod in self.pods.values():
            text = self.ledger.get(pod.name)
            if text != self._texts.get(pod.uid):
                self._texts[pod.uid] = text
                self._refresh_soon(pod, self.environment.rng.uniform(MOUNT_LAG / 3, MOUNT_LAG - 2))
                if any(queue.fenced for queue in self.servers.values()):  # it hears of it by the queue
                    self._refresh_soon(pod, self.environment.latency(0.4))

    def _no_deposed_leader_writes(self, kind: str, manifest: Mapping[str, Any]) -> None:
        term = (manifest["metadata"].get("annotations") or {}).get(WRITER_ANNOTATION, "0")
        if self.strict and kind != "DELETED" and int(term) < self._term:
            raise InvariantError(f"a leader of term {term} wrote after one of term {self._term}")
        self._term = int(term) if self.strict else 0

    def pod_changed(self, kind: str, manifest: Mapping[str, Any]) -> None:
        """At the API server. A change of an annotation makes the kubelet refresh its pod's map at once."""
        metadata = manifest["metadata"]
        uid = metadata["uid"]
        if kind == "DELETED":
            self.uids.discard(uid)
            return
        self.uids.add(uid)
        pod = self.pods.get(metadata["name"])
        if pod is None or pod.uid != uid:
            return
        mark = (metadata.get("annotations") or {}).get(LEDGER_KEY_ANNOTATION)
        if self._marks.get(uid) != mark:
            self._marks[uid] = mark
            self._refresh_soon(pod, self.environment.latency(0.4))
        if "deletionTimestamp" in metadata and not pod.terminating:
            self.environment.later(self.environment.latency(1.0), self.remove, pod)  # with its namespace

    def mark(self, pod: Consumer) -> str | None:
        """The annotation by which its kubelet was told last, at the API server."""
        return self._marks.get(pod.uid)

    def group_changed(self, kind: str, manifest: Mapping[str, Any]) -> None:
        """At the API server."""
        if manifest["metadata"]["name"] == self.group:
            self.says_ready = kind != "DELETED" and says_ready(manifest)

    def _refresh_soon(self, pod: Consumer, seconds: float) -> None:
        self.environment.later(seconds, self._refresh, pod)

    def _refresh(self, pod: Consumer) -> None:
        pod.told(self.ledger.get(pod.name))

    # -- what consumers do at the queues

    def read(self, pod: Consumer, key: Key, epoch: int, last: int | None) -> tuple[int, int] | str | None:
        queue = self.servers[key[0]]
        if queue.state not in READABLE:
            return None
        answer = queue.read(key[1], pod.uid, epoch, last)
        if isinstance(answer, tuple):
            self.checks.accepted(pod, queue, key[1], epoch, "read")
        return answer

    def acknowledge(self, pod: Consumer, key: Key, epoch: int, start: int, end: int) -> bool | None:
        queue = self.servers[key[0]]
        if queue.state not in READABLE:
            return None
        taken = queue.acknowledge(key[1], pod.uid, epoch, start, end)
        if taken:
            self.checks.accepted(pod, queue, key[1], epoch, "acknowledgement")
        return taken

    def release_partition(self, pod: Consumer, key: Key, epoch: int) -> None:
        """Report that nothing of the partition is in hand at this epoch, until that is read."""
        queue = self.servers[key[0]]
        if pod.dead:
            return
        if pod.stopped or queue.state not in READABLE:
            self.environment.later(1.0, self.release_partition, pod, key, epoch)
            return
        receiver = queue.release_partition(key[1], pod.uid, epoch)
        if receiver is not None:
            self.environment.say(f"{self.namespace}: {pod.name} hands {key[0]}/{key[1]} to {receiver[0][:4]}@{receiver[1]}")
            self.checks.handed_over(key, *receiver)
            self.environment.later(self.environment.latency(0.2), self._handed_over, key, *receiver)

    def _handed_over(self, key: Key, uid: str, epoch: int) -> None:
        pod = next((pod for pod in self.pods.values() if pod.uid == uid), None)
        queue = self.servers[key[0]]
        if pod is not None and queue.state in READABLE and queue.lets_in(key[1], uid, epoch):
            pod.handed_over(key, epoch)

    def told(self, pod: Consumer, key: Key, epoch: int) -> None:
        self.checks.told(pod, key, epoch)


READABLE = (UP, "full")


def _server(environment: Environment, name: str, spec: Mapping[str, Any]) -> Queue:
    external, fenced = spec["source"].get("external"), spec["source"]["type"] == "Redis"
    return Queue(
        name,
        lambda: environment.now,
        fenced=fenced,
        direct=fenced and environment.seed % 2 == 1,
        force=external is not None and external["onDeadline"] == "Force",
    )


def _merged(target: Mapping[str, Any], patch: Mapping[str, Any]) -> dict[str, Any]:
    made = dict(target)
    for key, value in patch.items():
        made[key] = _merged(made.get(key) or {}, value) if isinstance(value, Mapping) else value
        if value is None:
            del made[key]
    return made
