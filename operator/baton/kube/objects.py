"""Views of ConsumerGroups and PartitionedQueues."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from hashlib import sha256
from typing import Any, Generic, TypeVar

from pydantic import BaseModel

from baton.api import ConsumerGroupSpec, ConsumerGroupStatus, PartitionedQueueSpec, PartitionedQueueStatus
from baton.api.reading import read_what_can_be, read_whole
from baton.kube.api import group_path
from baton.model.names import API_GROUP, API_VERSION, TAKE_OVER_ANNOTATION

S = TypeVar("S", bound=BaseModel)

FINALIZER = "baton.dev/release"
"""Finalizer of a ConsumerGroup: keeps it until its partitions are taken back and its queues released."""

REBALANCE_ANNOTATION = "baton.dev/rebalance"
"""Annotation of a ConsumerGroup: a new value requests a rebalance."""

APPROVE_ANNOTATION = "baton.dev/approve"
"""Annotation of a ConsumerGroup with spec.approval Manual: id of the approved proposal."""

LONGEST_WORD = 64
"""Most characters of an annotation that is kept as it is."""

GROUP_VERSION = f"{API_GROUP}/{API_VERSION}"


@dataclass(frozen=True, slots=True)
class ResourceView(Generic[S]):
    """The parts of a resource's manifest that the operator and the commands use."""

    namespace: str
    name: str
    uid: str
    generation: int
    spec: S | None
    """None: the spec is invalid; see `problem`."""
    problem: str | None = None
    deleted_at: str | None = None
    """Time in Kubernetes' format; None: the resource is not being deleted."""
    status: Mapping[str, Any] = field(default_factory=dict, compare=False)
    """The raw status."""

    @property
    def group(self) -> str:
        return self.name

    @property
    def full_name(self) -> str:
        return f"{self.namespace}/{self.name}"

    @property
    def deleting(self) -> bool:
        return self.deleted_at is not None


@dataclass(frozen=True, slots=True)
class GroupView(ResourceView[ConsumerGroupSpec]):
    """The view of a ConsumerGroup."""

    finalizers: tuple[str, ...] = ()
    request: str | None = None
    """Id of the last manual request for a rebalance."""
    approved: str | None = None
    """Id of the proposal approved last."""
    takes_over: frozenset[str] = frozenset()
    """UIDs of deleted groups whose queues this group takes over."""
    version: str = field(default="", compare=False)

    def read_status(self) -> tuple[ConsumerGroupStatus, str | None]:
        """The status, and a description of its unreadable parts."""
        return read_what_can_be(ConsumerGroupStatus, self.status, "status")


@dataclass(frozen=True, slots=True)
class QueueView(ResourceView[PartitionedQueueSpec]):
    """The view of a PartitionedQueue."""

    def read_status(self) -> tuple[PartitionedQueueStatus, str | None]:
        """The status, and a description of its unreadable parts."""
        return read_what_can_be(PartitionedQueueStatus, self.status, "status")


def groups_path(namespace: str | None, name: str = "") -> str:
    """Path of all ConsumerGroups, or of one. `namespace` None: all namespaces."""
    return group_path(GROUP_VERSION, namespace, "consumergroups", name)


def queues_path(namespace: str | None, name: str = "") -> str:
    """Path of all PartitionedQueues, or of one. `namespace` None: all namespaces."""
    return group_path(GROUP_VERSION, namespace, "partitionedqueues", name)


def group_view(manifest: Mapping[str, Any]) -> GroupView:
    """Read a ConsumerGroup's manifest."""
    metadata = manifest["metadata"]
    annotations = metadata.get("annotations") or {}
    return GroupView(
        **_of_both(ConsumerGroupSpec, manifest),
        finalizers=tuple(metadata.get("finalizers") or ()),
        request=_word(annotations.get(REBALANCE_ANNOTATION)),
        approved=_word(annotations.get(APPROVE_ANNOTATION)),
        takes_over=_uids(annotations.get(TAKE_OVER_ANNOTATION) or ""),
        version=metadata["resourceVersion"],
    )


def queue_view(manifest: Mapping[str, Any]) -> QueueView:
    """Read a PartitionedQueue's manifest."""
    return QueueView(**_of_both(PartitionedQueueSpec, manifest))


def _of_both(model: type[BaseModel], manifest: Mapping[str, Any]) -> dict[str, Any]:
    metadata = manifest["metadata"]
    spec, problem = read_whole(model, manifest.get("spec"), "spec")
    return {
        **{name: metadata[name] for name in ("namespace", "name", "uid")},
        "generation": int(metadata.get("generation") or 0),
        "spec": spec,
        "problem": problem,
        "deleted_at": metadata.get("deletionTimestamp"),
        "status": manifest.get("status") or {},
    }


def _uids(text: str) -> frozenset[str]:
    """UIDs of a comma-separated list, cut to _LONGEST_UIDS characters."""
    return frozenset(uid for part in text[:_LONGEST_UIDS].split(",") if (uid := part.strip()))


_LONGEST_UIDS = 4096
"""Most characters of the list: about a hundred UIDs."""


def _word(text: str | None) -> str | None:
    """An annotation's value for comparisons. It goes into the ledger and into messages, so a long or unprintable one is replaced
    by its hash."""
    if not text or (len(text) <= LONGEST_WORD and text.isprintable()):
        return text or None
    return f"sha256:{sha256(text.encode(errors='replace')).hexdigest()[:16]}"
