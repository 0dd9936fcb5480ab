"""The objects that the demo applies, as a user would write them in YAML."""

from collections.abc import Mapping, Sequence
from typing import Any

from baton.model.names import API_GROUP, API_VERSION, GROUP_LABEL
from demo.stage import PARTITIONS

Json = dict[str, Any]

NAMESPACE = "shop"
QUEUE = GROUP = "orders"
DELAY = 8
"""Seconds of the delay: long enough for an executor to come and go within it."""
MAX_HANDOFF = 6
"""Seconds until a hand-off's deadline: longer than a batch, so that only a stopped member misses it."""

_RBAC = "rbac.authorization.k8s.io"
_API = f"{API_GROUP}/{API_VERSION}"


def namespace() -> Json:
    return {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}}


def queue(url: str) -> list[Json]:
    """The queue, the Secret with its URL, and the operator's right to read that."""
    reader = f"{QUEUE}-redis-reader"
    rule = {"apiGroups": [""], "resources": ["secrets"], "resourceNames": [f"{QUEUE}-redis"], "verbs": ["get"]}
    source = {"type": "Redis", "redis": {"urlSecretRef": {"name": f"{QUEUE}-redis", "key": "url"}}}
    return [
        {"apiVersion": "v1", "kind": "Secret", "metadata": _named(f"{QUEUE}-redis"), "stringData": {"url": url}},
        {"apiVersion": f"{_RBAC}/v1", "kind": "Role", "metadata": _named(reader), "rules": [rule]},
        {
            "apiVersion": f"{_RBAC}/v1",
            "kind": "RoleBinding",
            "metadata": _named(reader),
            "roleRef": {"apiGroup": _RBAC, "kind": "Role", "name": reader},
            "subjects": [{"kind": "ServiceAccount", "name": "baton", "namespace": "baton-system"}],
        },
        {
            "apiVersion": _API,
            "kind": "PartitionedQueue",
            "metadata": _named(QUEUE),
            "spec": {
                "source": source,
                "partitions": PARTITIONS,
                "rebalance": {"delaySeconds": DELAY, "maxHandoffSeconds": MAX_HANDOFF},
            },
        },
    ]


def group(replicas: int) -> Json:
    spec = {"queues": [{"name": QUEUE}], "replicas": replicas, "scale": {"mode": "Spark"}}
    return {"apiVersion": _API, "kind": "ConsumerGroup", "metadata": _named(GROUP), "spec": spec}


def access() -> list[Json]:
    """The driver's rights: to run executors, read the ledger and write its Lease."""
    rules = [
        {
            "apiGroups": [""],
            "resources": ["pods"],
            "verbs": ["get", "list", "watch", "create", "delete", "deletecollection", "patch"],
        },
        {
            "apiGroups": [""],
            "resources": ["configmaps", "services", "persistentvolumeclaims"],
            "verbs": ["get", "list", "watch", "create", "delete", "deletecollection"],
        },
        {"apiGroups": ["coordination.k8s.io"], "resources": ["leases"], "verbs": ["get", "create", "update"]},
        {"apiGroups": ["baton.dev"], "resources": ["consumergroups"], "resourceNames": [GROUP], "verbs": ["join"]},
    ]
    return [
        {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": _named("driver")},
        {"apiVersion": f"{_RBAC}/v1", "kind": "Role", "metadata": _named("driver"), "rules": rules},
        {
            "apiVersion": f"{_RBAC}/v1",
            "kind": "RoleBinding",
            "metadata": _named("driver"),
            "roleRef": {"apiGroup": _RBAC, "kind": "Role", "name": "driver"},
            "subjects": [{"kind": "ServiceAccount", "name": "driver", "namespace": NAMESPACE}],
        },
    ]


def application(files: Mapping[str, str]) -> Json:
    """A ConfigMap for the driver with the application's code and the executors' template."""
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": _named("application"), "data": dict(files)}


def executor(volumes: Sequence[Json], mounts: Sequence[Json]) -> Json:
    """The executors' pod template; Baton needs only the group's label in it."""
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"labels": {GROUP_LABEL: GROUP}},
        "spec": {
            "terminationGracePeriodSeconds": 20,
            "containers": [
                {
                    "name": "spark-kubernetes-executor",
                    "imagePullPolicy": "Never",
                    "volumeMounts": list(mounts),
                }
            ],
            "volumes": list(volumes),
        },
    }


def driver(image: str, environment: Mapping[str, str], volumes: Sequence[Json], mounts: Sequence[Json]) -> Json:
    """The driver: one pod in client mode."""
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": _named("driver"),
        "spec": {
            "serviceAccountName": "driver",
            "restartPolicy": "Never",
            "terminationGracePeriodSeconds": 10,
            "containers": [
                {
                    "name": "driver",
                    "image": image,
                    "imagePullPolicy": "Never",
                    "args": ["python", "/application/app.py"],
                    # Without a request a busy machine would starve the driver, and a starved driver loses its executors.
                    "resources": {"requests": {"cpu": "400m", "memory": "512Mi"}},
                    "env": [
                        _field("POD_NAME", "metadata.name"),
                        _field("POD_NAMESPACE", "metadata.namespace"),
                        _field("POD_UID", "metadata.uid"),
                        _field("POD_IP", "status.podIP"),
                        {"name": "BATON_REDIS_URL", "valueFrom": {"secretKeyRef": {"name": f"{QUEUE}-redis", "key": "url"}}},
                        *({"name": name, "value": value} for name, value in environment.items()),
                    ],
                    "volumeMounts": [
                        {"name": "application", "mountPath": "/application", "readOnly": True},
                        {"name": "checkpoint", "mountPath": "/checkpoint"},
                        *mounts,
                    ],
                }
            ],
            "volumes": [
                {"name": "application", "configMap": {"name": "application"}},
                {"name": "checkpoint", "emptyDir": {}},
                *volumes,
            ],
        },
    }


def _named(name: str) -> Json:
    return {"name": name, "namespace": NAMESPACE}


def _field(name: str, path: str) -> Json:
    return {"name": name, "valueFrom": {"fieldRef": {"fieldPath": path}}}
