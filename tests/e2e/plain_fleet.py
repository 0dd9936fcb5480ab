"""A Deployment or StatefulSet of plain pods that consume one queue, with its group, and what can be seen of them."""

import json
from pathlib import Path
from typing import Any

import redis

from baton.model.names import GROUP_LABEL, ledger_name
from cluster import Cluster
from tests.load import sink
from tests.waiting import until

QUEUE = GROUP = "numbers"
PARTITIONS = 12


class Fleet:
    """The pods of one group, and what can be seen of them."""

    def __init__(
        self,
        node: Cluster,
        name: str,
        url: str,
        delay: int = 2,
        scale: str | None = None,
        work: float = 0.0,
        kind: str = "Deployment",
        brokers: str = "",
        hook: int = 0,
    ) -> None:
        """`url`: of the Redis that takes results, and has the queue unless `brokers` have it, in the topic QUEUE. `scale`:
        spec.scale.mode, whose target is the workload; its `kind`. `work`: seconds that a message takes. `hook`: seconds that
        the pods' preStop hook takes."""
        self._node, self.namespace, self._url, self._delay = node, name, url, delay
        self._scale, self._work, self._kind, self._brokers = scale, work, kind, brokers
        self._workload, self._hook = f"{kind.lower()}/reader", hook

    def deploy(self, replicas: int) -> None:
        queue: dict[str, Any]
        if self._brokers:
            queue = {"source": {"type": "Kafka", "kafka": {"bootstrapServers": self._brokers, "topic": QUEUE}}}
        else:
            queue = {"source": {"type": "Redis", "redis": {"url": self._url}}, "partitions": PARTITIONS}
        self._apply(*queue_and_group(queue, self._delay, self._scale, self._kind), *access(), self._described(replicas))

    def scale(self, replicas: int) -> None:
        """By the group, where that is who says how many pods there are."""
        scaled = f"consumergroup/{GROUP}" if self._scale == "Workload" else self._workload
        self._kubectl("scale", scaled, f"--replicas={replicas}")

    def roll(self) -> None:
        """A rolling restart by the workload's controller; of a Deployment, a new pod at a time before an old one goes."""
        self._kubectl("rollout", "restart", self._workload)

    def rolled(self) -> None:
        """All pods are those of the last rolling restart."""
        self._kubectl("rollout", "status", self._workload, "--timeout=600s")

    def change(self, kind: str, spec: dict[str, Any]) -> None:
        """Merge this into the spec of the group (`consumergroup`), its queue or its workload."""
        name = {"consumergroup": GROUP, "partitionedqueue": QUEUE}.get(kind, "reader")
        self._kubectl("patch", kind, name, "--type=merge", "-p", json.dumps({"spec": spec}))

    def delete(self) -> None:
        """While there is an operator that lets the group go."""
        self._kubectl("delete", f"consumergroup/{GROUP}", f"partitionedqueue/{QUEUE}", self._workload, "--timeout=300s")

    def moving(self) -> bool:
        """Whether some member is releasing partitions."""
        return any(entry["revoking"] for entry in self._entries().values())

    def settled(self, members: int) -> None:
        """Ready, with this many members, which are the pods that there are, and every partition owned by one of them."""
        until(lambda: self._is_settled(members), "the fleet has settled")

    def pods(self) -> list[str]:
        return sorted(self._uids())

    def ready(self) -> list[str]:
        """Pods that are, and are not ending."""
        pods = self._find_pods()
        conditions = {pod["metadata"]["name"]: pod["status"].get("conditions", []) for pod in pods}
        return [pod for pod, those in conditions.items() if {"Ready": "True"} in [{one["type"]: one["status"]} for one in those]]

    def restarts(self, pod: str) -> int:
        statuses = json.loads(self._kubectl("get", "pod", pod, "-o", "json"))["status"]["containerStatuses"]
        return sum(status["restartCount"] for status in statuses)

    def group(self) -> dict[str, Any]:
        found: dict[str, Any] = json.loads(self._kubectl("get", f"consumergroup/{GROUP}", "-o", "json"))
        return found

    def processings(self) -> int:
        """Of messages, so far."""
        with redis.Redis.from_url(self._url) as server:
            return sink.processings(server, f"{self.namespace}/{QUEUE}")

    def owned_by(self, pod: str) -> dict[str, str]:
        return dict(self._entries().get(pod, {}).get("owned", {}))

    def owned(self) -> dict[str, dict[str, str]]:
        """What each pod owns, with the epochs."""
        return {pod: self.owned_by(pod) for pod in self.pods()}

    def _is_settled(self, members: int) -> bool:
        status = self.group().get("status", {})
        entries = self._entries()
        held = {pod: entry["uid"] for pod, entry in entries.items() if entry["owned"]}
        moving = [entry for entry in entries.values() if entry["revoking"]]
        whole = status.get("members") == len(held) == members and held == self._uids()
        return status.get("state") == "Ready" and whole and not moving

    def _uids(self) -> dict[str, str]:
        return {pod["metadata"]["name"]: pod["metadata"]["uid"] for pod in self._find_pods()}

    def _find_pods(self) -> list[dict[str, Any]]:
        """Those that are not ending."""
        found = json.loads(self._kubectl("get", "pods", "-l", f"{GROUP_LABEL}={GROUP}", "-o", "json"))["items"]
        return [pod for pod in found if "deletionTimestamp" not in pod["metadata"]]

    def _entries(self) -> dict[str, Any]:
        text = self._kubectl("get", "configmap", ledger_name(GROUP), "--ignore-not-found", "-o", "json")
        data = json.loads(text or "{}").get("data") or {}
        return {key: json.loads(entry) for key, entry in data.items() if key != "group"}

    def _kubectl(self, *arguments: str) -> str:
        return self._node.kubectl("--namespace", self.namespace, *arguments)

    def _apply(self, *objects: dict[str, Any]) -> None:
        text = json.dumps({"apiVersion": "v1", "kind": "List", "items": objects})
        self._node.kubectl("--namespace", self.namespace, "apply", "-f", "-", text=text)

    def _described(self, replicas: int) -> dict[str, Any]:
        volumes, mounts = self._node.host_volumes()
        fields = {"POD_NAME": "metadata.name", "POD_NAMESPACE": "metadata.namespace", "POD_UID": "metadata.uid"}
        url = {"BATON_KAFKA_URL": f"kafka://{self._brokers}"} if self._brokers else {"BATON_REDIS_URL": self._url}
        environment = {"BATON_GROUP": GROUP, **url, "SINK_URL": self._url, "QUEUE": QUEUE, "WORK_SECONDS": str(self._work)}
        program = {"name": "program", "configMap": {"name": "reader"}}
        ledger = {"name": "assignments", "configMap": {"name": ledger_name(GROUP), "optional": True}}
        container = {
            "name": "reader",
            "image": self._node.load_consumer_image(),
            "imagePullPolicy": "Never",
            "args": ["/program/reader.py"],
            **({"lifecycle": {"preStop": {"exec": {"command": ["sleep", str(self._hook)]}}}} if self._hook else {}),
            "env": [{"name": name, "value": value} for name, value in environment.items()]
            + [{"name": name, "valueFrom": {"fieldRef": {"fieldPath": path}}} for name, path in fields.items()],
            "volumeMounts": [
                *mounts,
                {"name": "program", "mountPath": "/program"},
                {"name": "assignments", "mountPath": "/etc/baton/assignments"},
            ],
        }
        labels = {GROUP_LABEL: GROUP}
        pod = {"serviceAccountName": "reader", "containers": [container], "volumes": [*volumes, program, ledger]}
        return {
            "apiVersion": "apps/v1",
            "kind": self._kind,
            "metadata": {"name": "reader"},
            "spec": {
                "replicas": replicas,
                **({"serviceName": "reader", "podManagementPolicy": "Parallel"} if self._kind == "StatefulSet" else {}),
                "selector": {"matchLabels": labels},
                "template": {"metadata": {"labels": labels}, "spec": pod},
            },
        }


def queue_and_group(
    queue: dict[str, Any], delay: int, scale: str | None = None, kind: str = "Deployment"
) -> list[dict[str, Any]]:
    """`queue`: what its spec says of its source."""
    scaled = {"scale": {"mode": scale, "targetRef": {"kind": kind, "name": "reader"}}} if scale else {}
    rebalance = {"delaySeconds": delay, "maxHandoffSeconds": 3}
    return [
        {
            "apiVersion": "baton.dev/v1alpha1",
            "kind": "PartitionedQueue",
            "metadata": {"name": QUEUE},
            "spec": {**queue, "rebalance": rebalance},
        },
        {
            "apiVersion": "baton.dev/v1alpha1",
            "kind": "ConsumerGroup",
            "metadata": {"name": GROUP},
            "spec": {"queues": [{"name": QUEUE}], **scaled},
        },
    ]


def access() -> list[dict[str, Any]]:
    """The program, and a service account that may keep its Lease."""
    rules = [{"apiGroups": ["coordination.k8s.io"], "resources": ["leases"], "verbs": ["get", "create", "update", "patch"]}]
    role = {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "reader"}
    program = Path(__file__).with_name("reader.py").read_text()
    return [
        {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "reader"}, "data": {"reader.py": program}},
        {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "reader"}},
        {"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "Role", "metadata": {"name": "reader"}, "rules": rules},
        {
            "apiVersion": "rbac.authorization.k8s.io/v1",
            "kind": "RoleBinding",
            "metadata": {"name": "reader"},
            "roleRef": role,
            "subjects": [{"kind": "ServiceAccount", "name": "reader"}],
        },
    ]
