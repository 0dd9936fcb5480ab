"""The operator's own resources as it sees them."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from hashlib import sha256
from typing import Any

from baton.api import ConsumerGroupSpec, ConsumerGroupStatus, PartitionedQueueSpec, PartitionedQueueStatus
from baton.api.reading import read_what_can_be, read_whole
from baton.kube.api import group_path
from baton.model.names import API_GROUP, API_VERSION, TAKE_OVER_ANNOTATION

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
class GroupView:
    """What the operator uses of a ConsumerGroup's manifest."""

    namespace: str
    name: str
    uid: str
    generation: int
    spec: ConsumerGroupSpec | None
    """None: it does not read as one; see `problem`."""
    problem: str | None = None
    deleted_at: str | None = None
    """As Kubernetes writes times; None: it is not being deleted."""
    finalizers: tuple[str, ...] = ()
    request: str | None = None
    """The id of the last manual request to rebalance."""
    approved: str | None = None
    """The id of the proposal that was approved last."""
    takes_over: frozenset[str] = frozenset()
    """UIDs of groups that are gone for good, from which it takes its queues over."""
    status: Mapping[str, Any] = field(default_factory=dict, compare=False)
    """As it was written."""
    version: str = field(default="", compare=False)

    @property
    def group(self) -> str:
        return self.name

    @property
    def full_name(self) -> str:
        return f"{self.namespace}/{self.name}"

    @property
    def deleting(self) -> bool:
        return self.deleted_at is not None

    def read_status(self) -> tuple[ConsumerGroupStatus, str | None]:
        """The status, and what of it does not read."""
        return read_what_can_be(ConsumerGroupStatus, self.status, "status")


@dataclass(frozen=True, slots=True)
class QueueView:
    """What the operator uses of a PartitionedQueue's manifest."""

    namespace: str
    name: str
    uid: str
    generation: int
    spec: PartitionedQueueSpec | None
    problem: str | None = None
    deleting: bool = False
    status: Mapping[str, Any] = field(default_factory=dict, compare=False)
    """As it was written."""

    @property
    def group(self) -> str:
        return self.name

    @property
    def full_name(self) -> str:
        return f"{self.namespace}/{self.name}"

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
    spec, problem = read_whole(ConsumerGroupSpec, manifest.get("spec"), "spec")
    return GroupView(
        namespace=metadata["namespace"],
        name=metadata["name"],
        uid=metadata["uid"],
        generation=int(metadata.get("generation") or 0),
        spec=spec,
        problem=problem,
        deleted_at=metadata.get("deletionTimestamp"),
        finalizers=tuple(metadata.get("finalizers") or ()),
        request=_word((metadata.get("annotations") or {}).get(REBALANCE_ANNOTATION)),
        approved=_word((metadata.get("annotations") or {}).get(APPROVE_ANNOTATION)),
        takes_over=_uids((metadata.get("annotations") or {}).get(TAKE_OVER_ANNOTATION) or ""),
        status=manifest.get("status") or {},
        version=metadata["resourceVersion"],
    )


def queue_view(manifest: Mapping[str, Any]) -> QueueView:
    """The view of a PartitionedQueue, from its manifest."""
    metadata = manifest["metadata"]
    spec, problem = read_whole(PartitionedQueueSpec, manifest.get("spec"), "spec")
    return QueueView(
        namespace=metadata["namespace"],
        name=metadata["name"],
        uid=metadata["uid"],
        generation=int(metadata.get("generation") or 0),
        spec=spec,
        problem=problem,
        deleting="deletionTimestamp" in metadata,
        status=manifest.get("status") or {},
    )


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
