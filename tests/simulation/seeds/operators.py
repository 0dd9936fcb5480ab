"""An operator process: what it was told of the world, the engine's state, and the effects that are on their way.

It follows controller/: a cycle observes, steps, writes the ledger with compare-and-swap, and only then lets the keepers of the
queues carry out what is wanted. It can die at every boundary between these.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from tests.simulation.seeds.clock import InvariantError

from baton.engine import Effect, Grant, GroupState, Pause, dump, load, step
from baton.engine.observation import GroupSpec, Observation, ObservedMember, ObservedQueue, OnDeadline, Outcome, OwnerRecord
from baton.model.ids import Epoch, MemberId, Partition, QueueName, Uid
from baton.model.session import Release

if TYPE_CHECKING:
    from tests.simulation.seeds.world import World

GROUP = "shop/orders"
NEVER = "never"


@dataclass(slots=True)
class Facts:
    """What the keeper of a queue knows of it; `partitions` None: it has not answered yet."""

    partitions: int | None = None
    incarnation: str | None = None
    owners: dict[int, OwnerRecord] = field(default_factory=dict)


@dataclass(eq=False)
class Operator:
    world: World
    term: int
    dead: bool = False
    state: GroupState = field(default_factory=lambda: GroupState.new(GROUP))
    version: int = -1
    spec: GroupSpec = field(default_factory=GroupSpec)
    named: frozenset[str] = frozenset()
    members: dict[MemberId, ObservedMember] = field(default_factory=dict)
    words: dict[str, frozenset[Release]] = field(default_factory=dict)
    facts: dict[str, Facts] = field(default_factory=dict)
    settled: dict[str, str | None] = field(default_factory=dict)
    wanted: dict[Effect, bool] = field(default_factory=dict)
    """True: it has been carried out."""
    under_way: set[Effect] = field(default_factory=set)
    drained: set[tuple[Partition, Epoch]] = field(default_factory=set)
    outcomes: set[Outcome] = field(default_factory=set)
    wake_at: float | None = None
    cycling: bool = False
    news: bool = False
    last: Observation | None = None

    # -- its life

    def start(self) -> None:
        """Lists everything, claims the ledger, and begins."""
        store = self.world.store
        if store.data is None:
            store.data = {}
        store.claim(self.term)
        self.version = store.version
        self.state = load(store.data) if store.data else GroupState.new(GROUP)
        self.relist()
        self._look_at_queues()
        self._resync()
        self.wake()

    def die(self) -> None:
        self.dead = True

    def relist(self) -> None:
        self.spec, self.named, self.members = self.world.spec, self.world.named(), self.world.members()
        self.words = {name: self.world.words_of(name) for name in self.world.pods}

    def wake(self) -> None:
        self.news = True
        if not self.cycling and not self.dead:
            self.cycling = True
            self.world.clock.later(self.world.latency(0.02), self._cycle)

    def _resync(self) -> None:
        if self.dead:
            return
        self.relist()
        self.wake()
        self.world.clock.later(self.spec.resync, self._resync)

    # -- a cycle

    def _cycle(self) -> None:
        self.cycling = False
        if self.dead or not self.news:
            return
        self.news = False
        self.cycling = True
        seen = self._observation()
        self.last = seen
        made = step(self.state, seen, self.world.clock.now)
        self.world.stepped(self, self.state, seen, made)
        if self.world.crashes():
            return self.die()
        if made.state == self.state:
            return self._written(made.state, made.effects, made.wake_at, seen)
        data = dump(made.state)

        def land() -> None:
            """The request reaches the API server, whatever has become of the sender."""
            if self.world.conflicts():
                self.world.store.touch()  # somebody annotated it
            taken = self.world.store.replace(data, self.version)
            if taken:
                self.world.written(self, made)
            if self.dead or self.world.crashes():
                return self.die()
            if taken:
                self.version = self.world.store.version
                self._written(made.state, made.effects, made.wake_at, seen)
            elif self.world.store.term > self.term:
                self.die()  # deposed; what it has sent to the queues by now still arrives
            else:
                self.version = self.world.store.version
                self.world.clock.later(self.world.latency(0.02), land)

        self.world.clock.later(self.world.latency(0.02), land)

    def _written(self, state: GroupState, effects: tuple[Effect, ...], wake_at: float | None, seen: Observation) -> None:
        """It stands in the ledger: now it may be done."""
        self.state, self.wake_at = state, wake_at
        for name, facts in self.facts.items():
            if facts.partitions is not None and name in seen.queues:
                self.settled[name] = seen.queues[QueueName(name)].incarnation
        told = seen.outcomes
        self.outcomes -= told
        wanted = {effect: self.wanted.get(effect, False) for effect in effects}
        for effect in wanted:
            if isinstance(effect, Grant) and any(outcome.partition == effect.partition for outcome in told):
                wanted[effect] = False
        pauses = {(effect.partition, effect.epoch) for effect in effects if isinstance(effect, Pause)}
        self.drained &= pauses
        self.wanted = wanted
        for effect in effects:
            if not wanted[effect] and effect not in self.under_way:
                self._send(effect)
        self.cycling = False
        if self.news:
            self.news = False
            self.wake()
        if wake_at is not None:
            self.world.clock.at(max(wake_at, self.world.clock.now + 1e-6), self._alarm)

    def _alarm(self) -> None:
        if not self.dead and self.wake_at is not None and self.world.clock.now >= self.wake_at:
            self.wake()

    # -- at the queues

    def _send(self, effect: Effect) -> None:
        self.under_way.add(effect)
        self.world.clock.later(self.world.latency(0.02), lambda: self._arrive(effect))

    def _arrive(self, effect: Effect) -> None:
        """At the queue. A request that was sent arrives also when its sender is dead by then."""
        self.under_way.discard(effect)
        queue = self.world.queues[effect.partition.queue]
        if self.dead and self.world.rng.random() < 0.5:
            return
        if not queue.reachable:
            if not self.dead:
                self.world.clock.later(1.0, lambda: effect in self.wanted and not self.dead and self._send(effect))
            return
        if isinstance(effect, Grant):
            uid, epoch = (
                queue.grant(effect.partition.number, effect.uid, effect.epoch) if queue.fenced else (effect.uid, effect.epoch)
            )
            self.world.granted(queue, effect)
            if self.dead or self.world.crashes():
                return self.die()
            if effect in self.wanted:
                self.wanted[effect] = True
                self.outcomes.add(Outcome(effect.partition, OwnerRecord(None if uid is None else Uid(uid), Epoch(epoch))))
                self.wake()
            return
        if not queue.fenced:
            return  # nobody knows
        left = queue.pause(effect.partition.number, effect.epoch)
        if self.dead or self.world.crashes():
            return self.die()
        if effect in self.wanted:
            if left == 0:
                self.drained.add((effect.partition, effect.epoch))
                self.wake()
            else:
                self.world.clock.later(0.25, lambda: effect in self.wanted and not self.dead and self._send(effect))

    def _look_at_queues(self) -> None:
        """The keepers' checks: is it there, how many partitions, has its server been restarted?"""
        if self.dead:
            return
        for name, queue in self.world.queues.items():
            if not queue.reachable or (name not in self.named and name not in self.state.queues):
                continue
            facts = self.facts.setdefault(name, Facts())
            incarnation = str(queue.restarts) if queue.fenced else None
            if facts.partitions is None or facts.incarnation != incarnation:
                facts.owners = {
                    number: OwnerRecord(None if log.uid is None else Uid(log.uid), Epoch(log.epoch))
                    for number, log in queue.logs.items()
                    if log.epoch and queue.fenced
                }
            if (facts.partitions, facts.incarnation) != (queue.partitions, incarnation):
                facts.partitions, facts.incarnation = queue.partitions, incarnation
                self.wake()
        self.world.clock.later(1.0 + self.world.latency(0.5), self._look_at_queues)

    # -- what it sees

    def _observation(self) -> Observation:
        return Observation(
            spec=self.spec,
            queues={QueueName(name): seen for name in self.world.queues if (seen := self._queue(name)) is not None},
            members=dict(self.members),
            releases=frozenset(word for words in self.words.values() for word in words),
            drained=frozenset(self.drained),
            outcomes=frozenset(self.outcomes),
            request=self.world.request,
        )

    def _queue(self, name: str) -> ObservedQueue | None:
        queue, facts = self.world.queues[name], self.facts.get(name, Facts())
        recorded = self.state.queues.get(QueueName(name))
        named = name in self.named
        if not named:
            if recorded is None or not any(partition.queue == name for partition in self.state.slots):
                self.settled.pop(name, None)
                self.facts.pop(name, None)
                return None
            partitions = 0
        else:
            if facts.partitions is None and recorded is None:
                return None
            partitions = facts.partitions if facts.partitions is not None else recorded.partitions  # type: ignore[union-attr]
        settled = NEVER if recorded is None else self.settled.get(name, recorded.incarnation or facts.incarnation)
        return ObservedQueue(
            partitions=partitions,
            exclusive=queue.exclusive,
            fenced=queue.fenced,
            max_handoff=queue.max_handoff,
            on_deadline=OnDeadline.FORCE if queue.force or not named else OnDeadline.WAIT,
            incarnation=facts.incarnation,
            owners=dict(facts.owners) if facts.partitions is not None and settled != facts.incarnation else {},
        )


def repeated(seen: Observation) -> Observation:
    """The same facts, learnt in another order."""
    return replace(seen, members=dict(reversed(seen.members.items())), queues=dict(reversed(seen.queues.items())))


__all__ = ["GROUP", "InvariantError", "Operator", "repeated"]
