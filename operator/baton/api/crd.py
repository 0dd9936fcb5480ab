"""The CustomResourceDefinitions: names, columns, subresources and schemas."""

from typing import Any

from pydantic import BaseModel

from baton.api.group import ConsumerGroup
from baton.api.queue import PartitionedQueue
from baton.model.names import API_GROUP, API_VERSION
from baton.schema.structural import structural

Document = dict[str, Any]


def crds() -> list[Document]:
    """All CRDs of Baton."""
    return [_consumer_groups(), _partitioned_queues()]


def _consumer_groups() -> Document:
    return _crd(
        ConsumerGroup,
        plural="consumergroups",
        short="cg",
        columns=[
            _column("State", ".status.state", "A summary of the conditions"),
            _column("Ready", '.status.conditions[?(@.type=="Ready")].status', "Whether everything in the spec can be done"),
            _column("Partitions", ".status.partitions", "Partitions of the group's queues; empty: not known", kind="integer"),
            _column("Unowned", ".status.unowned", "Partitions without an owner; empty: not known", kind="integer"),
            _column("Members", ".status.members", "Pods that take part", kind="integer"),
            _column("Desired", ".status.desiredReplicas", "The desired number of pods", kind="integer"),
            _column("Moving", ".status.moving", "Partitions that are changing hands", kind="integer"),
            _column("Hold-until", ".status.holdUntil", "When the holddown ends"),
            _column("Changed", ".status.lastChangeTime", "When the status last changed", kind="date"),
            _column("Standbys", ".status.standbys", "Members that own no partition", kind="integer", wide=True),
            _column("Moves", ".status.moves", "Moves since the group was created", kind="integer", wide=True),
            _column("Proposed", ".status.proposal.moves", "Moves that wait for approval", kind="integer", wide=True),
            _column(
                "Settled",
                '.status.conditions[?(@.type=="Settled")].status',
                "Whether the group is ready, balanced and at rest",
                wide=True,
            ),
            _column("Assignor", ".status.assignor", "The assignor in use", wide=True),
            _column("Reason", '.status.conditions[?(@.type=="Ready")].reason', "Why the group is ready or not", wide=True),
            _column("Age", ".metadata.creationTimestamp", "When the group was created", kind="date"),
        ],
        scale={
            "specReplicasPath": ".spec.replicas",
            "statusReplicasPath": ".status.replicas",
            "labelSelectorPath": ".status.selector",
        },
    )


def _partitioned_queues() -> Document:
    return _crd(
        PartitionedQueue,
        plural="partitionedqueues",
        short="pq",
        columns=[
            _column("Source", ".spec.source.type", "The kind of queue"),
            _column("Partitions", ".status.partitions", "Partitions in operation", kind="integer"),
            _column("Access", ".spec.accessType", "NonExclusive or Exclusive"),
            _column("Scaling", ".status.partitionScaleStatus", "Whether the number of partitions is the one asked for"),
            _column("Ready", '.status.conditions[?(@.type=="Ready")].status', "Whether the queue can be used"),
            _column("Reason", '.status.conditions[?(@.type=="Ready")].reason', "Why the queue is ready or not", wide=True),
            _column(
                "Durable",
                '.status.conditions[?(@.type=="Durable")].status',
                "Whether the queue's server keeps its entries",
                wide=True,
            ),
            _column("Age", ".metadata.creationTimestamp", "When the queue was created", kind="date"),
        ],
        scale=None,
    )


def _crd(model: type[BaseModel], *, plural: str, short: str, columns: list[Document], scale: Document | None) -> Document:
    kind = model.__name__
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{plural}.{API_GROUP}", "labels": {"app.kubernetes.io/part-of": "baton"}},
        "spec": {
            "group": API_GROUP,
            "scope": "Namespaced",
            "names": {
                "kind": kind,
                "listKind": f"{kind}List",
                "plural": plural,
                "singular": kind.lower(),
                "shortNames": [short],
                "categories": ["baton"],
            },
            "versions": [
                {
                    "name": API_VERSION,
                    "served": True,
                    "storage": True,
                    "additionalPrinterColumns": columns,
                    "subresources": {"status": {}} | ({"scale": scale} if scale else {}),
                    "schema": {"openAPIV3Schema": _root(model)},
                }
            ],
        },
    }


def _root(model: type[BaseModel]) -> Document:
    schema = structural(model)
    fields = schema["properties"]
    fields["status"].pop("default", None)
    schema["properties"] = {
        "apiVersion": {"type": "string"},
        "kind": {"type": "string"},
        "metadata": {"type": "object", "properties": {"name": {"type": "string"}}},  # needed by a rule that reports the name
        "spec": fields["spec"],
        "status": fields["status"],
    }
    return schema


def _column(name: str, path: str, about: str, *, kind: str = "string", wide: bool = False) -> Document:
    column: Document = {"name": name, "type": kind, "jsonPath": path, "description": about}
    if wide:
        column["priority"] = 1
    return column
