"""Small objects of the kinds that the operator works with."""

from typing import Any

from tests.simulation.api_server.kinds import (
    CONFIG_MAPS,
    DEPLOYMENTS,
    EVENTS,
    GROUPS,
    LEASES,
    NAMESPACES,
    PODS,
    QUEUES,
    QUOTAS,
    Kind,
)

Json = dict[str, Any]
FINALIZER = "example.com/waits"

_CONTENT: dict[Kind, Json] = {
    CONFIG_MAPS: {"data": {"a": "1"}},
    PODS: {"spec": {"containers": [{"name": "c", "image": "none"}]}},
    LEASES: {"spec": {"holderIdentity": "one", "leaseDurationSeconds": 8}},
    GROUPS: {"spec": {"queues": [{"name": "orders"}]}},
    QUEUES: {"spec": {"source": {"type": "External"}, "partitions": 4}},
    QUOTAS: {"spec": {"hard": {"count/configmaps": "2"}}},
    NAMESPACES: {},
    DEPLOYMENTS: {
        "spec": {
            "replicas": 0,
            "selector": {"matchLabels": {"app": "a"}},
            "template": {"metadata": {"labels": {"app": "a"}}, "spec": {"containers": [{"name": "c", "image": "none"}]}},
        }
    },
    EVENTS: {
        "eventTime": "2026-01-01T00:00:00.000000Z",
        "reportingController": "baton.dev/operator",
        "reportingInstance": "one",
        "action": "Rebalance",
        "reason": "Moved",
        "type": "Normal",
        "note": "A partition moved.",
    },
}

NAMESPACED = tuple(kind for kind in _CONTENT if kind.namespaced)


def path(kind: Kind, namespace: str | None, name: str = "", subresource: str = "") -> str:
    within = f"/namespaces/{namespace}" if namespace is not None and kind.namespaced else ""
    return kind.root + within + "".join(f"/{word}" for word in (kind.plural, name, subresource) if word)


def body(kind: Kind, name: str, *, namespace: str = "", metadata: Json | None = None, **content: Any) -> Json:
    """A manifest; `content` replaces what stands there otherwise."""
    made = {
        "apiVersion": kind.group_version,
        "kind": kind.name,
        "metadata": {"name": name, **(metadata or {})},
        **_CONTENT[kind],
        **content,
    }
    if kind is EVENTS and "regarding" not in content:
        made["regarding"] = {"apiVersion": "v1", "kind": "Pod", "name": "a", "namespace": namespace}
    return made


def owned_by(owner: Json, **more: Any) -> Json:
    """An ownerReference."""
    named = {"name": owner["metadata"]["name"], "uid": owner["metadata"]["uid"]}
    return {"apiVersion": owner["apiVersion"], "kind": owner["kind"], **named, **more}
