"""One group's objects in the cluster cache (the group, pods, sessions) and its queues, and the engine's observation of them."""

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace

from baton.api import Attributes, ConsumerGroupSpec, PartitionedQueueSpec, attributes, sessions_required
from baton.api.group import ScaleSteps
from baton.controller.backlog import Backlog
from baton.controller.cluster_cache import ClusterCache, GroupKey
from baton.controller.problems import Problem
from baton.engine.ledger import MOST_PARTITIONS
from baton.engine.observation import GroupSpec, Observation, ObservedQueue, engine_spec, even_size, observed_queue
from baton.engine.state import KnownQueue
from baton.kube.leases import LeaseView
from baton.kube.members import GroupMembers, LeftOut, membership
from baton.kube.objects import GroupView, QueueView
from baton.kube.pods import PodView
from baton.model.ids import MemberId, QueueName
from baton.model.ranges import Spans
from baton.model.wording import counted
from baton.queues.protocol import Ownership, QueueCheck, Resizing


@dataclass(frozen=True, slots=True)
class QueueFacts:
    """What one group knows of a queue."""

    partitions: int | None = None
    """Partitions that the queue serves; None: not yet known in this run of the operator."""
    fenced: bool = True
    owners: Mapping[int, Ownership] = field(default_factory=dict)
    """Owner records by partition, as of the last look that found a difference."""
    problem: Problem | None = None
    resizing: Resizing | None = None
    """Set while the number of partitions changes."""
    check: QueueCheck = field(default_factory=QueueCheck)
    """The last look, without owner records, lag and progress. Empty: there was no look yet."""
    warnings: tuple[str, ...] | None = None
    """Warnings of the last look, and partitions that cannot be granted. None: there was no look yet."""

    @property
    def telling(self) -> tuple[object, ...]:
        """The facts whose changes affect the group."""
        server = (self.partitions, self.fenced, self.check.incarnation, self.problem, self.resizing, self.warnings)
        return (*server, self.check.zones, self.check.letters)


@dataclass(frozen=True, slots=True)
class QueueSight:
    """A queue that spec.queues names, or that still has partitions in the ledger."""

    name: QueueName
    named: bool
    """Whether spec.queues names it. The group gives up any other queue."""
    view: QueueView | None
    """None: the PartitionedQueue does not exist."""
    facts: QueueFacts
    reachable: bool = False
    """Whether a worker can carry out effects at the queue, now or later."""
    known: KnownQueue | None = None
    """The queue in the ledger; None: the ledger does not have it."""
    last_spec: PartitionedQueueSpec | None = None
    """The last valid spec that this operator has seen, which counts while the present one is invalid."""
    without_room: bool = False
    """The operator has no capacity for its growth, so it keeps its number of partitions in the ledger."""
    backlog: Backlog = field(default_factory=Backlog)
    """Backlog by its last looks; updated by later looks, too."""
    owners_wanted: bool = False
    """The engine needs its owner records, because the ledger does not have the queue or its server restarted."""

    @property
    def spec(self) -> PartitionedQueueSpec | None:
        """The queue's spec; None: the resource does not exist, or this operator has seen no valid spec of it."""
        return None if self.view is None else self.view.spec or self.last_spec

    @property
    def recorded(self) -> int | None:
        """Number of its partitions in the ledger; None: the ledger does not have the queue."""
        return None if self.known is None else self.known.partitions

    @property
    def unanswered(self) -> bool:
        """Whether the queue was asked and has not answered yet."""
        asked = self.wanted and self.reachable and self.spec is not None
        return asked and self.facts.partitions is None and self.facts.problem is None

    @property
    def attributes(self) -> Attributes:
        return attributes(self.spec.partition_attributes) if self.spec is not None else Attributes()

    @property
    def wanted(self) -> bool:
        """Whether the group should own the queue's partitions."""
        return self.named and self.view is not None and not self.view.deleting

    @property
    def enforced(self) -> bool:
        """Whether the queue rejects previous owners (fencing). Without a spec and an answer, the ledger tells."""
        if self.spec is None and self.facts.partitions is None and self.known is not None:
            return self.known.refuses
        return self.facts.fenced and (self.spec is None or self.spec.source.kind.fenced)

    @property
    def tells_zones(self) -> bool:
        """Whether the queue may report the zones of its partitions."""
        return self.spec is not None and self.spec.source.kind.tells_zones

    @property
    def partitions(self) -> int | None:
        """The number of partitions that the engine observes; None: it does not observe the queue.

        A queue that the group gives up has 0. A queue that has not answered yet has its number in the ledger, because members
        must not lose partitions to an absent server. If the ledger does not have it either, nothing may be granted before its
        owner records are read.
        """
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
) -> Observation:
    """The observation of a group, without its queues' answers. A group that is being deleted gives up all its queues without a
    holddown."""
    queues = list(queues)
    return Observation(
        spec=GroupSpec(delay=0.0)
        if group.deleting
        else engine_spec(spec, [one.spec for one in queues if one.spec and one.wanted]),
        queues=_queues(queues, spec),
        members=membership.members,
        away=membership.away,
        releases=membership.releases,
        request=group.request,
        approved=group.approved,
    )


def in_steps(spec: ConsumerGroupSpec, queues: Iterable[QueueSight]) -> ConsumerGroupSpec:
    """The spec with the number of replicas that spec.scale.steps allows for the known partitions."""
    if spec.replicas is None or spec.scale is None or spec.scale.steps is not ScaleSteps.EVEN_SHARES:
        return spec
    return spec.model_copy(update={"replicas": even_size(spec.replicas, _wanted_partitions(queues))})


def held_back(spec: ConsumerGroupSpec, queues: Iterable[QueueSight]) -> str:
    """Why spec.scale.steps allows fewer pods than spec.replicas; empty: it allows all."""
    queues = list(queues)
    size = in_steps(spec, queues).replicas
    if size == spec.replicas:
        return ""
    divided = f"which divides {counted(_wanted_partitions(queues), 'partition')} evenly"
    return f"spec.replicas asks for {spec.replicas}, and spec.scale.steps holds the fleet at {size}, {divided}"


def without_room(queues: Iterable[QueueSight]) -> frozenset[QueueName]:
    """The queues that keep their number of partitions in the ledger, because with their growth the group would have too many."""
    sights = sorted(queues, key=lambda one: one.name)
    left, without = MOST_PARTITIONS - sum(one.recorded or 0 for one in sights), set()
    for sight in sights:
        more = (sight.partitions or 0) - (sight.recorded or 0)
        if more > max(0, left):
            without.add(sight.name)
        else:
            left -= max(0, more)
    return frozenset(without)


def _wanted_partitions(queues: Iterable[QueueSight]) -> int:
    return sum(one.partitions or 0 for one in queues if one.wanted)


def _queues(sights: list[QueueSight], group: ConsumerGroupSpec) -> dict[QueueName, ObservedQueue]:
    without = without_room(sights)
    counts = {one.name: one.recorded if one.name in without else one.partitions for one in sights}
    return {one.name: _queue(one, count, group) for one in sights if (count := counts[one.name]) is not None}


def _zones(seen: Mapping[int, str]) -> Spans[frozenset[str]]:
    """Zones as reported by a queue, as ranges of partitions."""
    made: list[tuple[int, int, frozenset[str]]] = []
    for number, zone in sorted(seen.items()):
        if made and made[-1][1:] == (number - 1, frozenset({zone})):
            made[-1] = (made[-1][0], number, made[-1][2])
        else:
            made.append((number, number, frozenset({zone})))
    return tuple(made)


def _queue(sight: QueueSight, partitions: int, group: ConsumerGroupSpec) -> ObservedQueue:
    by_spec = observed_queue(sight.spec, group, partitions)
    by_ledger = sight.known is not None and sight.known.exclusive
    return replace(
        by_spec,
        exclusive=by_ledger if sight.wanted and sight.spec is None else by_spec.exclusive,
        zones=by_spec.zones or _zones(sight.facts.check.zones),
        zones_known=bool(by_spec.zones) or not sight.tells_zones or sight.facts.partitions is not None,
        fenced=sight.enforced,
        given_up=not sight.wanted,
        incarnation=sight.facts.check.incarnation,
        owners=sight.facts.owners if sight.owners_wanted else {},
    )


SESSION_WITHIN = 15.0
"""Seconds for which a pod may be Ready without a session before this is reported: consumers that start, or whose Lease was
deleted, write one soon."""

STARTS_WITHIN = 30.0
"""Seconds for which a group may have no member before this is reported: pods may be starting, or about to be created."""


class GroupObjects:
    """One group's objects in the cluster cache. Times are seconds of the monotonic clock."""

    def __init__(self, key: GroupKey, uid: str, cache: ClusterCache) -> None:
        self.key = key
        self._uid = uid
        self._cache = cache
        self._silent_since: dict[MemberId, float] = {}
        """Pods that are not members because they have no session, and since when."""
        self._empty_since: float | None = None
        """Since when the group has had no member, although some are asked for."""

    @property
    def group(self) -> GroupView | None:
        """The group; None: it is gone, or was replaced by another of its name."""
        group = self._cache.group(self.key)
        return group if group is not None and group.uid == self._uid else None

    @property
    def pods(self) -> Collection[PodView]:
        """All pods with the group's label."""
        return self._cache.pods.bucket(*self.key).values()

    @property
    def _leases(self) -> Collection[LeaseView]:
        return self._cache.leases.bucket(*self.key).values()

    def facts(self) -> tuple[object, ...]:
        """The group, its pods and its sessions. Equal facts make no difference to the group."""
        return self.group, dict(self._cache.pods.bucket(*self.key)), dict(self._cache.leases.bucket(*self.key))

    def in_doubt_since(self, now: float) -> float | None:
        """From when on a list of Leases would show whether overdue sessions have lapsed; None: none is in doubt."""
        sessions = self._cache.sessions
        doubtful = (one for one in self._leases if sessions.overdue(one, now) and not sessions.lapsed(one, now))
        return max(map(sessions.lapses_at, doubtful), default=None)

    def membership(self, spec: ConsumerGroupSpec, queues: Iterable[QueueSight], now: float) -> GroupMembers:
        sessions, queues = self._cache.sessions, list(queues)
        # A queue that this operator knows only by the ledger: consumers of all kinds that fence keep sessions.
        unread = [one for one in queues if one.wanted and one.spec is None and one.known is not None and one.enforced]
        by_spec = sessions_required(spec, [one.spec for one in queues if one.spec is not None])
        seen = membership(
            self.key[1],
            self.pods,
            self._leases,
            lambda lease: sessions.lapsed(lease, now),
            spec.membership.identity_label,
            sessions_required=by_spec or (spec.membership.session is None and bool(unread)),
        )
        silent = [name for name, why in seen.left_out.items() if why is LeftOut.NO_SESSION]
        self._silent_since = {name: self._silent_since.get(name, now) for name in silent}
        # A deleted Lease counts as lapsed after a while; otherwise a pod that hangs would be waited for.
        ended = set(self.silent(now))
        return replace(seen, away={name: uid for name, uid in seen.away.items() if name not in ended}) if ended else seen

    def silent(self, now: float) -> list[MemberId]:
        """Pods that have been Ready without a session for SESSION_WITHIN."""
        return [name for name, since in self._silent_since.items() if now >= since + SESSION_WITHIN]

    def starts(self, seen: GroupMembers, asked_for: int | None, now: float) -> bool:
        """Whether the group has no member, but for less than STARTS_WITHIN, so that pods may be starting."""
        if seen.staying or asked_for == 0:
            self._empty_since = None
            return False
        self._empty_since = now if self._empty_since is None else self._empty_since
        return now < self._empty_since + STARTS_WITHIN

    def due_after(self, now: float) -> Iterator[float]:
        """Times (monotonic seconds) at which sessions lapse unless renewed, and at which to report pods without a session or a
        group without members."""
        yield from (end for lease in self._leases if lease.holder and (end := self._cache.sessions.lapses_at(lease)) > now)
        yield from (due for since in self._silent_since.values() if (due := since + SESSION_WITHIN) > now)
        if self._empty_since is not None and (due := self._empty_since + STARTS_WITHIN) > now:
            yield due

    def newly_eligible(self, seen: GroupMembers) -> Iterator[tuple[MemberId, float]]:
        """Members that are new since the last call, each with the time since when it had been eligible."""
        uids = {member.uid for member in seen.members.values()}
        for pod in self.pods:
            if pod.uid in uids and (since := self._cache.take_eligible_since(pod)) is not None:
                yield pod.name, since
