"""The custom resources: pydantic models, from which the CRDs in `crds/` are generated."""

from baton.api.attributes import Attributes, attributes
from baton.api.condition import Condition, ConditionStatus
from baton.api.group import ConsumerGroup, ConsumerGroupSpec, SessionRule, sessions_required
from baton.api.group_status import ConsumerGroupStatus, Handoff, ProposalStatus, ProposedChange, ProposedMove, ShownState
from baton.api.queue import (
    AccessType,
    PartitionedQueue,
    PartitionedQueueSpec,
    PartitionedQueueStatus,
    PartitionScaleStatus,
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
