"""From what the operator knows to what the engine is shown. Pure."""

from collections.abc import Iterable
from dataclasses import dataclass, replace

from baton.api import Attributes, ConsumerGroupSpec, PartitionedQueueSpec, attributes
from baton.controller.queue_state import QueueFacts
from baton.engine.ledger_bounds import MOST_PARTITIONS
from baton.engine.observation import GroupSpec, Observation, ObservedQueue, Outcome
from baton.engine.specs import engine_spec, observed_queue
from baton.kube.members import GroupMembers
from baton.kube.objects import GroupView, QueueView
from baton.model.ids import Epoch, Partition, QueueName


@dataclass(frozen=True, slots=True)
class QueueSight:
    """One queue that the group has to do with."""

    name: QueueName
    named: bool
    """It stands in spec.queues. One that does not (any more) is let go of."""
    view: QueueView | None
    """None: there is no such PartitionedQueue."""
    facts: QueueFacts
    reachable: bool = False
    """There is somebody to carry effects out at it, now or later."""
    recorded: int | None = None
    """Its partitions according to the ledger; None: the ledger does not know it."""
    without_room: bool = False
    """The operator has no room for it: it stays as the ledger has it."""
    owners_wanted: bool = False
    """The ledger knows nothing of it, or its server was restarted: what it has recorded counts."""

    @property
    def spec(self) -> PartitionedQueueSpec | None:
        """None where it does not exist or does not read as a queue."""
        return None if self.view is None else self.view.spec

    @property
    def attributes(self) -> Attributes:
        return attributes(self.spec.partition_attributes) if self.spec is not None else Attributes()

    @property
    def wanted(self) -> bool:
        """The group is to have its partitions."""
        return self.named and self.view is not None and not self.view.deleting

    @property
    def enforced(self) -> bool:
        """The queue itself refuses stale owners."""
        return self.facts.fenced and (self.spec is None or self.spec.source.kind.fenced)

    @property
    def partitions(self) -> int | None:
        """What the engine is to believe. A queue that the group is to let go of has none; one that has never answered is believed
        to be as the ledger says, and is not there at all if the ledger does not know it: nothing may be granted before its own
        records are seen, and nothing is taken from anybody because a server is away."""
        if not self.wanted:
            return 0 if self.reachable and self.recorded is not None else None
        if self.without_room:
            return self.recorded
        return self.facts.partitions if self.facts.partitions is not None else self.recorded


def observation(
    group: GroupView,
    spec: ConsumerGroupSpec,
    queues: Iterable[QueueSight],
    membership: GroupMembers,
    drained: frozenset[tuple[Partition, Epoch]] = frozenset(),
    outcomes: frozenset[Outcome] = frozenset(),
) -> Observation:
    """Everything at one instant. A group that is being deleted lets go of all its queues, and nothing is worth waiting for."""
    queues = list(queues)
    return Observation(
        spec=GroupSpec(delay=0.0)
        if group.deleting
        else engine_spec(spec, [one.spec for one in queues if one.spec and one.wanted]),
        queues=_queues(queues, spec),
        members=membership.members,
        away=membership.away,
        releases=membership.releases,
        drained=drained,
        outcomes=outcomes,
        request=group.request,
        approved=group.approved,
    )


def without_room(queues: Iterable[QueueSight]) -> frozenset[QueueName]:
    """Queues that are left as the ledger has them, for the group would have more partitions than a group can have."""
    sights = sorted(queues, key=lambda one: one.name)
    left, without = MOST_PARTITIONS - sum(one.recorded or 0 for one in sights), set()
    for sight in sights:
        more = (sight.partitions or 0) - (sight.recorded or 0)
        if more > max(0, left):
            without.add(sight.name)
        else:
            left -= max(0, more)
    return frozenset(without)


def _queues(sights: list[QueueSight], group: ConsumerGroupSpec) -> dict[QueueName, ObservedQueue]:
    without = without_room(sights)
    counts = {one.name: one.recorded if one.name in without else one.partitions for one in sights}
    return {one.name: _queue(one, count, group) for one in sights if (count := counts[one.name]) is not None}


def _queue(sight: QueueSight, partitions: int, group: ConsumerGroupSpec) -> ObservedQueue:
    return replace(
        observed_queue(sight.spec, group, partitions),
        fenced=sight.enforced,
        let_go=not sight.wanted,
        incarnation=sight.facts.incarnation,
        owners=sight.facts.owners if sight.owners_wanted else {},
    )
