"""The specs of the resources as the engine sees them, with their defaults filled in."""

from collections.abc import Iterable

from baton.api import AccessType, ConsumerGroupSpec, PartitionedQueueSpec, attributes
from baton.api.queue import QueueRebalance
from baton.engine.observation import GroupSpec, ObservedQueue


def engine_spec(spec: ConsumerGroupSpec, queues: Iterable[PartitionedQueueSpec]) -> GroupSpec:
    """The group's spec with defaults. Without a delay of its own it has the longest of its queues' delays."""
    delay = spec.rebalance.delay_seconds
    if delay is None:
        delay = max((queue.rebalance.delay_seconds for queue in queues), default=5)
    return GroupSpec(
        assignors=tuple(spec.assignors),
        protocol=spec.protocol,
        delay=float(delay),
        resync=float(spec.rebalance.resync_seconds),
        max_concurrent_handoffs=spec.rebalance.max_concurrent_handoffs,
        session_timeout=float(spec.membership.session_timeout_seconds) if spec.membership.identity_label else 0.0,
        paused=spec.paused,
        approval=spec.approval,
        replicas=spec.replicas,
        scale_mode=spec.scale.mode if spec.scale else None,
        options=spec.assignor_options.as_arguments() if spec.assignor_options else {},
    )


def observed_queue(spec: PartitionedQueueSpec | None, group: ConsumerGroupSpec, partitions: int) -> ObservedQueue:
    """A queue as its spec describes it. `partitions`: those in operation; `spec` None: the resource is gone or unreadable."""
    handoff = group.rebalance.max_handoff_seconds
    if spec is None:
        return ObservedQueue(partitions, max_handoff=float(QueueRebalance().max_handoff_seconds if handoff is None else handoff))
    told = attributes(spec.partition_attributes)
    return ObservedQueue(
        partitions,
        exclusive=spec.access_type is AccessType.EXCLUSIVE,
        fenced=spec.source.kind.fenced,
        max_handoff=float(spec.rebalance.max_handoff_seconds if handoff is None else handoff),
        on_deadline=spec.source.on_deadline,
        zones=told.zones,
        weights=told.weights,
    )
