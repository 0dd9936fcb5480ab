"""Pods, groups and queues as their owners write them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from baton.kube.objects import GROUP_VERSION
from baton.model.names import GROUP_LABEL, SUBSCRIBED_ANNOTATION
from baton.model.times import to_text

IDENTITY_LABEL = "identity"
Json = dict[str, Any]


def namespace(name: str) -> Json:
    return {"metadata": {"name": name}}


def group(name: str, spec: Mapping[str, Any]) -> Json:
    return {"apiVersion": GROUP_VERSION, "kind": "ConsumerGroup", "metadata": {"name": name}, "spec": dict(spec)}


def queue(name: str, spec: Mapping[str, Any]) -> Json:
    return {"apiVersion": GROUP_VERSION, "kind": "PartitionedQueue", "metadata": {"name": name}, "spec": dict(spec)}


def deployment(name: str) -> Json:
    return {"metadata": {"name": name}, "spec": {"replicas": 1}}


def pod(name: str, group: str, instance: str | None, subscribed: frozenset[str] | None, grace: int) -> Json:
    labels = {GROUP_LABEL: group} | ({} if instance is None else {IDENTITY_LABEL: instance})
    annotations = {} if subscribed is None else {SUBSCRIBED_ANNOTATION: ",".join(sorted(subscribed))}
    return {
        "metadata": {"name": name, "labels": labels, "annotations": annotations},
        "spec": {"nodeName": "node", "terminationGracePeriodSeconds": grace, "containers": [{"name": "c", "image": "i"}]},
    }


def pod_status(ready: bool, since: float) -> Json:
    """`since`: unix seconds of the last transition."""
    condition = {"type": "Ready", "status": "True" if ready else "False", "lastTransitionTime": to_text(since)}
    return {"status": {"phase": "Running", "conditions": [condition]}}
