"""The operator's own resources as it sees them."""

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
"""On a ConsumerGroup: it goes only when its partitions have been taken back and its queues released."""

REBALANCE_ANNOTATION = "baton.dev/rebalance"
"""On a ConsumerGroup: a new value asks for a rebalance."""

APPROVE_ANNOTATION = "baton.dev/approve"
"""On a ConsumerGroup with spec.approval Manual: the id of the proposal that is to be carried out."""

LONGEST_WORD = 64
"""Characters of an annotation that are kept as they are."""

GROUP_VERSION = f"{API_GROUP}/{API_VERSION}"


@dataclass(frozen=True, slots=True)
class ResourceView(Generic[S]):
    """What the operator and the commands use of a resource's manifest."""

    namespace: str
    name: str
    uid: str
    generation: int
    spec: S | None
    """None: it does not read as one; see `problem`."""
    problem: str | None = None
    deleted_at: str | None = None
    """As Kubernetes writes times; None: it is not being deleted."""
    status: Mapping[str, Any] = field(default_factory=dict, compare=False)
    """As it was written."""

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
    """The id of the last manual request to rebalance."""
    approved: str | None = None
    """The id of the proposal that was approved last."""
    takes_over: frozenset[str] = frozenset()
    """UIDs of groups that are gone for good, from which it takes its queues over."""
    version: str = field(default="", compare=False)

    def read_status(self) -> tuple[ConsumerGroupStatus, str | None]:
        """The status, and what of it does not read."""
        return read_what_can_be(ConsumerGroupStatus, self.status, "status")


@dataclass(frozen=True, slots=True)
class QueueView(ResourceView[PartitionedQueueSpec]):
    """The view of a PartitionedQueue."""

    def read_status(self) -> tuple[PartitionedQueueStatus, str | None]:
        """The status, and what of it does not read."""
        return read_what_can_be(PartitionedQueueStatus, self.status, "status")


def groups_path(namespace: str | None, name: str = "") -> str:
    """The path of all ConsumerGroups, or of one. `namespace` None: those of all namespaces."""
    return group_path(GROUP_VERSION, namespace, "consumergroups", name)


def queues_path(namespace: str | None, name: str = "") -> str:
    """The path of all PartitionedQueues, or of one. `namespace` None: those of all namespaces."""
    return group_path(GROUP_VERSION, namespace, "partitionedqueues", name)


def group_view(manifest: Mapping[str, Any]) -> GroupView:
    """The view of a ConsumerGroup, from its manifest."""
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
    """A PartitionedQueue's manifest."""
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
    """Of a list with commas; what is beyond any use is left out."""
    return frozenset(uid for part in text[:_LONGEST_UIDS].split(",") if (uid := part.strip()))


_LONGEST_UIDS = 4096
"""A hundred of them."""


def _word(text: str | None) -> str | None:
    """An annotation that is only compared with what it was, or with an id. It goes into the ledger and into sentences, so a long
    or strange one is known by its hash."""
    if not text or (len(text) <= LONGEST_WORD and text.isprintable()):
        return text or None
    return f"sha256:{sha256(text.encode(errors='replace')).hexdigest()[:16]}"
