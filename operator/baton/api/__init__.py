"""The custom resources: pydantic models, from which the CRDs in `crds/` are generated."""

from baton.api.group import (
    ConsumerGroup,
    ConsumerGroupSpec,
    ConsumerGroupStatus,
    Handoff,
    ProposalStatus,
    ProposedChange,
    ProposedMove,
    SessionRule,
    ShownState,
    sessions_required,
)
from baton.api.queue import (
    AccessType,
    Attributes,
    Condition,
    ConditionStatus,
    PartitionedQueue,
    PartitionedQueueSpec,
    PartitionedQueueStatus,
    PartitionScaleStatus,
    attributes,
)

__all__ = [
    "AccessType",
    "Attributes",
    "Condition",
    "ConditionStatus",
    "ConsumerGroup",
    "ConsumerGroupSpec",
    "ConsumerGroupStatus",
    "Handoff",
    "PartitionScaleStatus",
    "PartitionedQueue",
    "PartitionedQueueSpec",
    "PartitionedQueueStatus",
    "ProposalStatus",
    "ProposedChange",
    "ProposedMove",
    "SessionRule",
    "ShownState",
    "attributes",
    "sessions_required",
]
