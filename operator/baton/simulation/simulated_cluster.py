"""The world outside the engine: the fleet, the queues, the group's spec."""

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from baton.engine.observation import GroupSpec, Observation, ObservedMember, ObservedQueue, Outcome, engine_spec, observed_queue
from baton.engine.results import Effect, Grant, Pause
from baton.engine.state import PodKey, moment
from baton.model.ids import Epoch, MemberId, Partition, QueueName, Uid
from baton.model.ledger import MemberEntry, flat
from baton.model.session import Release
from baton.queues.protocol import NO_OWNER, Ownership
from baton.simulation.scenario import EventPart, GroupPart, JoinPart, QueuePart, Scenario, merged

# The simulated queues, which answer at once


@dataclass(slots=True)
class FencedQueues:
    """The `Queues` of a `GroupRuntime`, with the owner records of all partitions. Fencing is checked by the caller, because a
    queue that cannot fence (External) accepts every consumer."""

    drains: bool = False
    """Nothing is ever outstanding. Otherwise only the consumers report their releases."""
    records: dict[Partition, Ownership] = field(default_factory=dict)
    drained: frozenset[tuple[Partition, Epoch]] = frozenset()
    outcomes: frozenset[Outcome] = frozenset()

    def want(self, effects: Iterable[Effect], told: frozenset[Outcome]) -> None:
        effects = list(effects)
        self.outcomes = frozenset(self._grant(effect) for effect in effects if isinstance(effect, Grant)) - told
        if self.drains:
            self.drained = frozenset((effect.partition, effect.epoch) for effect in effects if isinstance(effect, Pause))

    def _grant(self, wanted: Grant) -> Outcome:
        """Accept a grant with a higher epoch. The outcome is the owner record after that."""
        record = self.records.get(wanted.partition, NO_OWNER)
        if wanted.epoch > record.epoch:
            record = self.records[wanted.partition] = Ownership(wanted.uid, wanted.epoch)
        return Outcome(wanted.partition, record)

    def accepts(self, partition: Partition, uid: Uid, epoch: Epoch) -> bool:
        """True if the queue would accept a read, an acknowledgement or a commit."""
        return self.records.get(partition) == Ownership(uid, epoch)


# The consumers, which read their keys of the ledger, and release partitions after a fixed time, or never


@dataclass(slots=True)
class SimulatedConsumer:
    """One live process. It works on the partitions that it holds until it has released them."""

    name: MemberId
    seen: ObservedMember
    release: float | None
    """Seconds from reading a revoke to the release; None: it never releases."""
    ready: bool = True
    """False: the pod is not Ready, but still works and renews its session."""
    entry: MemberEntry | None = None
    holds: dict[Partition, Epoch] = field(default_factory=dict)
    due: dict[Partition, float] = field(default_factory=dict)
    """When partitions will be released."""
    releases: set[Release] = field(default_factory=set)

    @property
    def uid(self) -> Uid:
        return self.seen.uid

    @property
    def away(self) -> bool:
        """True if the pod takes no part, and may still work."""
        return not self.ready and not self.seen.terminating

    @property
    def idle(self) -> bool:
        """True if the consumer's key has no partitions."""
        return self.entry is None or not (self.entry.owned or self.entry.revoking)

    def read(self, entry: MemberEntry | None, now: float) -> dict[Partition, Epoch]:
        """Read a changed key of the ledger, and return the new grants. A key with another UID was written for an earlier pod."""
        self.entry = entry if entry is not None and entry.uid == self.uid else None
        owned = dict(flat(self.entry.owned)) if self.entry is not None else {}
        revoking = dict(flat(self.entry.revoking)) if self.entry is not None else {}
        new = {partition: epoch for partition, epoch in owned.items() if self.holds.get(partition) != epoch}
        for partition, epoch in owned.items():
            self.holds[partition] = epoch
            self.due.pop(partition, None)
        released = {(Partition(one.queue, one.partition), one.epoch) for one in self.releases}
        for partition, epoch in revoking.items():
            if (partition, epoch) not in released:
                self.holds[partition] = epoch  # a pod that was restarted in place works on partitions that it has not released
        for partition in self.holds:
            if partition not in owned and partition not in self.due and self.release is not None:
                self.due[partition] = moment(now + self.release)
        self.releases = {one for one in self.releases if revoking.get(Partition(one.queue, one.partition)) == one.epoch}
        return new

    def release_due(self, now: float) -> list[Partition]:
        """Release the partitions that are due, and return them."""
        done = sorted(partition for partition, at in self.due.items() if at <= now)
        for partition in done:
            del self.due[partition]
            self.releases.add(Release(self.uid, partition.queue, partition.number, self.holds.pop(partition)))
        return done


# The cluster


class PodLife(NamedTuple):
    """One pod, from its start to its end."""

    member: MemberId
    uid: Uid
    start: float
    end: float = math.inf


class SimulatedCluster:
    """The fleet, the queues and the group's spec. The engine knows only its observations of them."""

    def __init__(self, scenario: Scenario) -> None:
        self._consumers = scenario.consumers
        self._group: dict[str, object] = dict(scenario.group)
        self._queues: dict[str, object] = {name: queue.as_written() for name, queue in scenario.queues.items()}
        self._request: str | None = None
        self.approved: str | None = None
        """The id of the proposal that was approved last."""
        self.fleet: dict[MemberId, SimulatedConsumer] = {}
        self.lives: list[PodLife] = []
        """All pods that ever joined, in the order of joining."""
        self._open: dict[MemberId, int] = {}
        self.records = FencedQueues()
        self.victims: tuple[PodKey, ...] = ()
        """The pods that the driver has to remove (mode Spark)."""
        self.spec = GroupSpec()
        self.queues: dict[QueueName, ObservedQueue] = {}
        self.partitions: frozenset[Partition] = frozenset()
        self._members: Mapping[MemberId, ObservedMember] | None = None
        self._read()

    def happen(self, event: EventPart, now: float) -> None:
        """Apply an event's changes: pods that leave, stop and join, then the queues and the spec."""
        for name in event.leave:
            self._remove(MemberId(name), now)
        for name in event.terminate:
            if (consumer := self.fleet.get(MemberId(name))) is not None:
                consumer.seen = replace(consumer.seen, terminating=True)
        for name in event.unready:
            if (consumer := self.fleet.get(MemberId(name))) is not None:
                consumer.ready = False
        for name in event.ready:
            if (consumer := self.fleet.get(MemberId(name))) is not None and not consumer.ready:
                consumer.ready = True
                consumer.seen = replace(consumer.seen, joined=now)
        for member in event.join:
            self._join(member, now)
        self._members = None
        if event.scale:
            self._queues = merged(self._queues, {name: {"partitions": count} for name, count in event.scale.items()})
        self._queues = merged(self._queues, event.queues)
        self._group = merged(self._group, event.group)
        self._request = event.request or self._request
        if event.scale or event.queues or event.group:
            self._read()

    def _remove(self, member: MemberId, now: float) -> None:
        if self.fleet.pop(member, None) is not None:
            self._ends(member, now)
        self._members = None

    def _ends(self, member: MemberId, now: float) -> None:
        place = self._open.pop(member)
        self.lives[place] = self.lives[place]._replace(end=now)

    def leave_when_idle(self, now: float) -> bool:
        """Remove stopping pods and victims that own no partitions. Returns True if there were any."""
        wanted = [c.name for c in self.fleet.values() if c.idle and (c.seen.terminating or (c.name, c.uid) in self.victims)]
        for member in wanted:
            self._remove(member, now)
        return bool(wanted)

    def observe(self) -> Observation:
        """Return an observation of everything except the queues' answers."""
        if self._members is None:
            self._members = {name: consumer.seen for name, consumer in self.fleet.items() if not consumer.away}
        return Observation(
            spec=self.spec,
            queues=self.queues,
            members=self._members,
            away={name: consumer.uid for name, consumer in self.fleet.items() if consumer.away},
            releases=frozenset(release for consumer in self.fleet.values() for release in consumer.releases),
            request=self._request,
            approved=self.approved,
        )

    def readers(self) -> set[QueueName]:
        """Return the queues that a member reads."""
        members = [c.seen for c in self.fleet.values() if not c.seen.terminating and not c.away]
        return {name for name in self.queues if any(m.subscribed is None or name in m.subscribed for m in members)}

    def _join(self, member: JoinPart, now: float) -> None:
        name = MemberId(member.id)
        old = self.fleet.get(name)
        uid = _uid(member, old)
        same = old is not None and old.uid == uid
        seen = ObservedMember(
            uid=uid,
            joined=old.seen.joined if old is not None and same else now,
            subscribed=None if member.queues is None else frozenset(QueueName(queue) for queue in member.queues),
            assignors=member.assignors,
            instance=member.instance,
            zone=member.zone,
        )
        if old is not None and same:
            old.seen, old.ready = seen, True
        else:
            if old is not None:
                self._ends(name, now)
            self._open[name] = len(self.lives)
            self.lives.append(PodLife(name, uid, now))
            self.fleet[name] = SimulatedConsumer(name, seen, self._consumers.release_of(member.id))

    def _read(self) -> None:
        group = GroupPart.model_validate(self._group)
        named = None if group.queues is None else {queue.name for queue in group.queues}
        parts = {name: QueuePart.model_validate(raw) for name, raw in self._queues.items() if named is None or name in named}
        self.spec = engine_spec(group, parts.values())
        sizes = {name: queue.partitions for name, queue in self.queues.items()}
        self.queues = {QueueName(name): observed_queue(part, group, part.partitions) for name, part in parts.items()}
        if sizes != {name: queue.partitions for name, queue in self.queues.items()}:
            self.partitions = frozenset(
                Partition(name, n) for name, queue in self.queues.items() for n in range(queue.partitions)
            )


def _uid(member: JoinPart, old: SimulatedConsumer | None) -> Uid:
    """Return the UID of a pod that joins: if the scenario gives none, that of the present pod of that name, unless it is
    stopping."""
    if member.uid is not None:
        return Uid(member.uid)
    if old is None:
        return Uid(member.id)
    return Uid(f"{old.uid}'") if old.seen.terminating else old.uid
