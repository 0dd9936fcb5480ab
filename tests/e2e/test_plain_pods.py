"""A fleet of plain pods under load: killed, restarted, stopped and woken up, scaled. Nothing is lost, nothing out of order."""

import json
import signal
import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import redis
from demo.audit import audit
from demo.records import Evidence, Processed

from baton.model.names import GROUP_LABEL, ledger_name
from baton.queues.redis import RedisProducer
from tests.cluster import Cluster
from tests.e2e.installing import eventually, installed_by_helm, namespace
from tests.redis_server import RedisServer

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(300)]

QUEUE = GROUP = "numbers"
PARTITIONS = 12
KEYS = 60


def test_a_fleet_of_plain_pods_loses_nothing_whatever_happens_to_it(node: Cluster, tmp_path: Path) -> None:
    with installed_by_helm(node, tmp_path), RedisServer(bind=node.address) as server, namespace(node, "plain") as name:
        fleet = Fleet(node, name, server.url)
        fleet.deploy(replicas=3)
        fleet.settled(members=3)
        with load(server.url, f"{name}/{QUEUE}") as produced:
            first, second, third = fleet.pods()

            seen = fleet.processed(server)
            node.signal_container(first, signal.SIGKILL, name)  # the container starts again in place, in the same pod
            eventually(lambda: fleet.restarts(first) == 1)
            fleet.settled(members=3)

            node.kubectl("-n", name, "delete", "pod", second, "--grace-period=0", "--force")
            eventually(lambda: second not in fleet.pods())
            fleet.settled(members=3)

            owned = fleet.owned_by(third)
            assert owned
            node.signal_container(third, signal.SIGSTOP, name)
            eventually(lambda: not fleet.owned_by(third))  # its Lease lapses, and its partitions go on elsewhere
            node.signal_container(third, signal.SIGCONT, name)
            fleet.settled(members=3)

            fleet.scale(5)
            fleet.settled(members=5)
            fleet.scale(2)
            fleet.settled(members=2)
            eventually(lambda: fleet.processed(server) > seen)
        eventually(lambda: fleet.processed_messages(server) >= sum(produced.values()))

        verdict = audit(Evidence(produced, fleet.rows(server)))
        status = fleet.group()["status"]
        node.kubectl(
            "-n", name, "delete", f"consumergroup/{GROUP}", f"partitionedqueue/{QUEUE}", "deployment/reader", "--timeout=60s"
        )
    assert verdict.clean, verdict
    assert verdict.produced == verdict.processed > 0
    assert status["moves"] >= status["lowerBound"]


class Fleet:
    """The pods of one group, and what can be seen of them."""

    def __init__(self, node: Cluster, name: str, url: str) -> None:
        self._node, self._name, self._url = node, name, url

    def deploy(self, replicas: int) -> None:
        self._apply(*queue_and_group(self._url), *access(), self._deployment(replicas))

    def scale(self, replicas: int) -> None:
        self._kubectl("scale", "deployment/reader", f"--replicas={replicas}")

    def settled(self, members: int) -> None:
        """Ready, with this many members, and every partition owned by one of them."""
        eventually(lambda: self._is_settled(members), 90)

    def pods(self) -> list[str]:
        found = json.loads(self._kubectl("get", "pods", "-l", f"{GROUP_LABEL}={GROUP}", "-o", "json"))["items"]
        return sorted(pod["metadata"]["name"] for pod in found if "deletionTimestamp" not in pod["metadata"])

    def restarts(self, pod: str) -> int:
        statuses = json.loads(self._kubectl("get", "pod", pod, "-o", "json"))["status"]["containerStatuses"]
        return sum(status["restartCount"] for status in statuses)

    def group(self) -> dict[str, Any]:
        found: dict[str, Any] = json.loads(self._kubectl("get", f"consumergroup/{GROUP}", "-o", "json"))
        return found

    def owned_by(self, pod: str) -> dict[str, str]:
        return dict(self._entries().get(pod, {}).get("owned", {}))

    def processed(self, server: RedisServer) -> int:
        return sum(server.client().llen(key) for key in self._lists())

    def processed_messages(self, server: RedisServer) -> int:
        """Distinct messages whose processing was taken."""
        return len({(row.key, row.sequence) for row in self.rows(server) if not row.late})

    def rows(self, server: RedisServer) -> list[Processed]:
        client: redis.Redis = server.client()
        return [
            Processed(*json.loads(text[1:]))._replace(late=text[:1] == b"1")
            for key in self._lists()
            for text in client.lrange(key, 0, -1)
        ]

    def _lists(self) -> Iterator[str]:
        return (f"processed:{{{self._name}/{QUEUE}:{number}}}" for number in range(PARTITIONS))

    def _is_settled(self, members: int) -> bool:
        status = self.group().get("status", {})
        held = [entry for entry in self._entries().values() if entry["owned"]]
        moving = [entry for entry in self._entries().values() if entry["revoking"]]
        return status.get("state") == "Ready" and status.get("members") == members and len(held) == members and not moving

    def _entries(self) -> dict[str, Any]:
        text = self._kubectl("get", "configmap", ledger_name(GROUP), "--ignore-not-found", "-o", "json")
        data = json.loads(text or "{}").get("data") or {}
        return {key: json.loads(entry) for key, entry in data.items() if key != "group"}

    def _kubectl(self, *arguments: str) -> str:
        return self._node.kubectl("--namespace", self._name, *arguments)

    def _apply(self, *objects: dict[str, Any]) -> None:
        text = json.dumps({"apiVersion": "v1", "kind": "List", "items": objects})
        self._node.kubectl("--namespace", self._name, "apply", "-f", "-", text=text)

    def _deployment(self, replicas: int) -> dict[str, Any]:
        volumes, mounts = self._node.host_volumes()
        fields = {"POD_NAME": "metadata.name", "POD_NAMESPACE": "metadata.namespace", "POD_UID": "metadata.uid"}
        environment = {"BATON_GROUP": GROUP, "BATON_REDIS_URL": self._url, "QUEUE": QUEUE}
        program = {"name": "program", "configMap": {"name": "reader"}}
        ledger = {"name": "assignments", "configMap": {"name": ledger_name(GROUP), "optional": True}}
        container = {
            "name": "reader",
            "image": self._node.load_consumer_image(),
            "imagePullPolicy": "Never",
            "args": ["/program/reader.py"],
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
            "kind": "Deployment",
            "metadata": {"name": "reader"},
            "spec": {
                "replicas": replicas,
                "selector": {"matchLabels": labels},
                "template": {"metadata": {"labels": labels}, "spec": pod},
            },
        }


def queue_and_group(url: str) -> list[dict[str, Any]]:
    source = {"type": "Redis", "redis": {"url": url}}
    rebalance = {"delaySeconds": 2, "maxHandoffSeconds": 3}
    return [
        {
            "apiVersion": "baton.dev/v1alpha1",
            "kind": "PartitionedQueue",
            "metadata": {"name": QUEUE},
            "spec": {"source": source, "partitions": PARTITIONS, "rebalance": rebalance},
        },
        {
            "apiVersion": "baton.dev/v1alpha1",
            "kind": "ConsumerGroup",
            "metadata": {"name": GROUP},
            "spec": {"queues": [{"name": QUEUE}]},
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


@contextmanager
def load(url: str, queue: str) -> Iterator[dict[str, int]]:
    """Some 500 keyed, numbered messages a second until the end of the block; then key -> its last sequence."""
    sent: Counter[str] = Counter()
    stop = threading.Event()

    def produce() -> None:
        producer = RedisProducer(url, queue)
        total = 0
        while not stop.wait(0.1):
            batch = []
            for number in range(50):
                key = f"key-{(total + number) % KEYS}"
                sent[key] += 1
                batch.append((key, str(sent[key])))
            total += len(batch)
            producer.send_many(batch)
        producer.close()

    thread = threading.Thread(target=produce, name="load")
    thread.start()
    try:
        yield sent
    finally:
        stop.set()
        thread.join()
