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

# The simulated queues: they answer at once; their records say who would be let in.


@dataclass(slots=True)
class FencedQueues:
    """`Queues` of a `GroupRuntime`, with the owner records of all partitions. A queue that cannot fence (External) lets everybody
    in who believes to be the owner."""

    drains: bool = False
    """Nothing is ever outstanding. Otherwise only the consumers say when they have let go."""
    records: dict[Partition, Ownership] = field(default_factory=dict)
    drained: frozenset[tuple[Partition, Epoch]] = frozenset()
    outcomes: frozenset[Outcome] = frozenset()

    def want(self, effects: Iterable[Effect], told: frozenset[Outcome]) -> None:
        effects = list(effects)
        self.outcomes = frozenset(self._grant(effect) for effect in effects if isinstance(effect, Grant)) - told
        if self.drains:
            self.drained = frozenset((effect.partition, effect.epoch) for effect in effects if isinstance(effect, Pause))

    def _grant(self, wanted: Grant) -> Outcome:
        """Taken with a higher epoch, or with an equal one of the same owner; the answer is the record that then stands there."""
        record = self.records.get(wanted.partition, NO_OWNER)
        if wanted.epoch > record.epoch:
            record = self.records[wanted.partition] = Ownership(wanted.uid, wanted.epoch)
        return Outcome(wanted.partition, record)

    def accepts(self, partition: Partition, uid: Uid, epoch: Epoch) -> bool:
        """What a fenced read, acknowledgement or commit would be answered."""
        return self.records.get(partition) == Ownership(uid, epoch)


# The consumers' side: processes that read their own key of the ledger, and let go as fast as they can, or never.


@dataclass(slots=True)
class SimulatedConsumer:
    """One live process. It acts on what it holds until it has let go, whatever the ledger says meanwhile."""

    name: MemberId
    seen: ObservedMember
    release: float | None
    """Seconds from being told to having let go; None: never."""
    ready: bool = True
    """It works on all the same, and its session is renewed."""
    entry: MemberEntry | None = None
    holds: dict[Partition, Epoch] = field(default_factory=dict)
    due: dict[Partition, float] = field(default_factory=dict)
    """When it will have let go."""
    words: set[Release] = field(default_factory=set)

    @property
    def uid(self) -> Uid:
        return self.seen.uid

    @property
    def away(self) -> bool:
        """It takes no part, and may still work."""
        return not self.ready and not self.seen.terminating

    @property
    def idle(self) -> bool:
        """Its key owns and revokes nothing."""
        return self.entry is None or not (self.entry.owned or self.entry.revoking)

    def told(self, entry: MemberEntry | None, now: float) -> dict[Partition, Epoch]:
        """Its key of the ledger changed. A key with another UID was written for an earlier pod. Returns its new grants."""
        self.entry = entry if entry is not None and entry.uid == self.uid else None
        owned = dict(flat(self.entry.owned)) if self.entry is not None else {}
        revoking = dict(flat(self.entry.revoking)) if self.entry is not None else {}
        new = {partition: epoch for partition, epoch in owned.items() if self.holds.get(partition) != epoch}
        for partition, epoch in owned.items():
            self.holds[partition] = epoch
            self.due.pop(partition, None)
        spoken = {(Partition(word.queue, word.partition), word.epoch) for word in self.words}
        for partition, epoch in revoking.items():
            if (partition, epoch) not in spoken:
                self.holds[partition] = epoch  # one that was restarted in place first works on what it has not let go of
        for partition in self.holds:
            if partition not in owned and partition not in self.due and self.release is not None:
                self.due[partition] = moment(now + self.release)
        self.words = {w for w in self.words if revoking.get(Partition(w.queue, w.partition)) == w.epoch}
        return new

    def let_go(self, now: float) -> list[Partition]:
        """Carries out the releases that are due, and says so."""
        done = sorted(partition for partition, at in self.due.items() if at <= now)
        for partition in done:
            del self.due[partition]
            self.words.add(Release(self.uid, partition.queue, partition.number, self.holds.pop(partition)))
        return done


# The world


class PodLife(NamedTuple):
    """One pod, from when it joined to when it was gone."""

    member: MemberId
    uid: Uid
    start: float
    end: float = math.inf


class SimulatedCluster:
    """Facts only. What the engine knows of them is what it is shown."""

    def __init__(self, scenario: Scenario) -> None:
        self._consumers = scenario.consumers
        self._group: dict[str, object] = dict(scenario.group)
        self._queues: dict[str, object] = {name: queue.as_written() for name, queue in scenario.queues.items()}
        self._request: str | None = None
        self.approved: str | None = None
        """The proposal that was approved last."""
        self.fleet: dict[MemberId, SimulatedConsumer] = {}
        self.lives: list[PodLife] = []
        """Of everybody who ever joined, in the order of joining."""
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
        """Apply an event's changes: who goes, who is asked to, who comes, then the queues and the spec."""
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
        """Pods that were asked to stop go when they own nothing; the driver removes its victims likewise. True if any went."""
        wanted = [c.name for c in self.fleet.values() if c.idle and (c.seen.terminating or (c.name, c.uid) in self.victims)]
        for member in wanted:
            self._remove(member, now)
        return bool(wanted)

    def observe(self) -> Observation:
        """Everything there is to know now, but for the queues' answers."""
        if self._members is None:
            self._members = {name: consumer.seen for name, consumer in self.fleet.items() if not consumer.away}
        return Observation(
            spec=self.spec,
            queues=self.queues,
            members=self._members,
            away={name: consumer.uid for name, consumer in self.fleet.items() if consumer.away},
            releases=frozenset(word for consumer in self.fleet.values() for word in consumer.words),
            request=self._request,
            approved=self.approved,
        )

    def readers(self) -> set[QueueName]:
        """The queues for which there is a member to take a partition."""
        there = [c.seen for c in self.fleet.values() if not c.seen.terminating and not c.away]
        return {name for name in self.queues if any(m.subscribed is None or name in m.subscribed for m in there)}

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
    """Without a UID of its own a name is the same pod again; but one that was asked to stop does not come back as that pod."""
    if member.uid is not None:
        return Uid(member.uid)
    if old is None:
        return Uid(member.id)
    return Uid(f"{old.uid}'") if old.seen.terminating else old.uid
