"""The custom resources: pydantic models, from which the CRDs in `crds/` are generated."""

from baton.resources.attributes import Attributes, attributes
from baton.resources.condition import Condition, ConditionStatus
from baton.resources.group import ConsumerGroup, ConsumerGroupSpec, SessionRule, engine_spec, observed_queue, sessions_required
from baton.resources.group_status import ConsumerGroupStatus, Handoff, Proposal, ProposedChange, ProposedMove, ShownState
from baton.resources.queue import (
    AccessType,
    PartitionedQueue,
    PartitionedQueueSpec,
    PartitionedQueueStatus,
    PartitionScaleStatus,
    SourceType,
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
    "Proposal",
    "ProposedChange",
    "ProposedMove",
    "SessionRule",
    "ShownState",
    "SourceType",
    "attributes",
    "engine_spec",
    "observed_queue",
    "sessions_required",
]
