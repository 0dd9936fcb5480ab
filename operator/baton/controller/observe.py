"""From what the operator knows to what the engine is shown. Pure."""

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from baton.controller.keeper import QueueFacts
from baton.controller.problems import Problem, Reason
from baton.engine.observation import GroupSpec, Observation, ObservedQueue, OnDeadline, Outcome
from baton.kube.members import Membership
from baton.kube.objects import FINALIZER, GroupView, QueueView
from baton.kube.pods import PodView
from baton.model.ids import Epoch, Partition, QueueName
from baton.resources import (
    AccessType,
    Attributes,
    ConsumerGroupSpec,
    PartitionedQueueSpec,
    SourceType,
    attributes,
    engine_spec,
)


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
    """There is somebody to carry effects out at it, be it later."""
    recorded: int | None = None
    """Its partitions according to the ledger; None: the ledger does not know it."""
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
        return self.facts.fenced and (self.spec is None or self.spec.source.type is not SourceType.EXTERNAL)

    @property
    def partitions(self) -> int | None:
        """What the engine is to believe. A queue that the group is to let go of has none; one that has never answered is believed
        to be as the ledger says, and is not there at all if the ledger does not know it: nothing may be granted before its own
        records are seen, and nothing is taken from anybody because a server is away."""
        if not self.wanted:
            return 0 if self.reachable and self.recorded is not None else None
        return self.facts.partitions if self.facts.partitions is not None else self.recorded


def observation(
    group: GroupView,
    spec: ConsumerGroupSpec,
    queues: Iterable[QueueSight],
    membership: Membership,
    drained: frozenset[tuple[Partition, Epoch]] = frozenset(),
    outcomes: frozenset[Outcome] = frozenset(),
) -> Observation:
    """Everything at one instant. A group that is being deleted lets go of all its queues, and nothing is worth waiting for."""
    queues = list(queues)
    return Observation(
        spec=GroupSpec(delay=0.0)
        if group.deleting
        else engine_spec(spec, [one.spec for one in queues if one.spec and one.wanted]),
        queues={one.name: seen for one in queues if (seen := _queue(one, spec)) is not None},
        members=membership.members,
        releases=membership.releases,
        drained=drained,
        outcomes=outcomes,
        request=group.request,
        approved=group.approved,
    )


def _queue(sight: QueueSight, group: ConsumerGroupSpec) -> ObservedQueue | None:
    partitions = sight.partitions
    if partitions is None:
        return None
    spec = sight.spec
    handoff = group.rebalance.max_handoff_seconds
    if handoff is None:
        handoff = spec.rebalance.max_handoff_seconds if spec else 3
    return ObservedQueue(
        partitions=partitions,
        exclusive=spec is not None and spec.access_type is AccessType.EXCLUSIVE,
        fenced=sight.enforced,
        max_handoff=float(handoff),
        on_deadline=_on_deadline(sight),
        zones=sight.attributes.zones,
        weights=sight.attributes.weights,
        incarnation=sight.facts.incarnation,
        owners=sight.facts.owners if sight.owners_wanted else {},
    )


def _on_deadline(sight: QueueSight) -> OnDeadline:
    """What is let go of gets no next owner here, so there is nobody whose safety would need the last one's word."""
    if not sight.wanted:
        return OnDeadline.FORCE
    external = sight.spec.source.external if sight.spec else None
    return external.on_deadline if external else OnDeadline.WAIT


def queue_problems(namespace: str, queues: Iterable[QueueSight]) -> list[Problem]:
    """What is wrong with the group's queues."""
    problems = []
    for sight in queues:
        view = sight.view
        if not sight.named:
            if sight.facts.problem is not None:
                problems.append(sight.facts.problem)
        elif view is None or view.deleting:
            gone = "does not exist" if view is None else "is being deleted"
            problems.append(
                Problem(
                    Reason.QUEUE_NOT_FOUND,
                    f"PartitionedQueue {namespace}/{sight.name}, which spec.queues names, {gone}: create it, or take it out of "
                    "spec.queues",
                )
            )
        elif view.spec is None:
            problems.append(Problem(Reason.INVALID_SPEC, f"PartitionedQueue {view.full_name}: {view.problem}"))
        elif sight.facts.problem is not None:
            problems.append(sight.facts.problem)
        elif sight.facts.refused is not None:
            problems.append(Problem(Reason.PARTITION_COUNT_REFUSED, sight.facts.refused))
        elif sight.partitions is not None:
            problems += (
                Problem(Reason.INVALID_ATTRIBUTES, f"PartitionedQueue {view.full_name}: {sentence}")
                for sentence in sight.attributes.beyond(sight.partitions)
            )
    return problems


def membership_problems(group: str, namespace: str, seen: Membership, sessions: Mapping[str, str]) -> list[Problem]:
    """Whether anybody is there, and what of the sessions cannot be read (`sessions`: Lease name -> what is wrong)."""
    problems = [Problem(Reason.PROBLEM, f"Lease {namespace}/{name}: {why}") for name, why in sorted(sessions.items())]
    if seen.members:
        return problems
    if seen.pods == 0:
        why = f"no pod in namespace {namespace} has the label baton.dev/group: {group}; add it to the pods' template"
    else:
        what = "1 pod has" if seen.pods == 1 else f"{seen.pods} pods have"
        why = (
            f"{what} the label baton.dev/group: {group}, and none takes part: they are not Ready, their session has lapsed, or "
            "(Spark executors) their driver has not registered them"
        )
    return [*problems, Problem(Reason.NO_MEMBERS, why)]


def annotation_problems(pods: Iterable[PodView]) -> list[Problem]:
    """What pods say of themselves that cannot be meant so; of each thing the first few by name."""
    by_text: dict[str, list[str]] = defaultdict(list)
    for pod in sorted(pods, key=lambda pod: pod.name):
        for text in pod.problems:
            by_text[text].append(pod.name)
    return [
        Problem(
            Reason.BAD_ANNOTATION,
            f"{', '.join(names[:3])}{f' and {len(names) - 3} more pods' if len(names) > 3 else ''}: {text}",
        )
        for text, names in by_text.items()
    ]


def deletion_problem(left: int, others: Iterable[Problem]) -> Problem:
    """What a group that is being deleted still waits for."""
    waiting = "; ".join(sorted(one.message for one in others if one.reason is Reason.QUEUE_UNREACHABLE))
    blocked = (
        f". It waits for a queue: {waiting} To give up on it, remove the finalizer {FINALIZER} from the group" if waiting else ""
    )
    return Problem(Reason.DELETING, f"the group is being deleted: {left} partitions are still to be taken back{blocked}")
