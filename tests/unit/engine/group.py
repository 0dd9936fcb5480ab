"""A group for tests of the engine: facts in, steps out, with consumers and queues that do what a test asks."""

from dataclasses import replace
from typing import Any, Self

from baton.engine import Grant, GroupState, Pause, Step, dump, load, step
from baton.engine.observation import GroupSpec, HeldBack, Observation, ObservedMember, ObservedQueue, Outcome
from baton.engine.results import DeadlineMissed, Granted, Released, Revoked, StepEvent
from baton.model.ids import Epoch, MemberId, Partition, QueueName, Uid
from baton.model.session import Release
from baton.queues.protocol import Ownership


def partition(number: int, queue: str = "orders") -> Partition:
    return Partition(QueueName(queue), number)


class Group:
    """A group that steps on demand. `settle` carries out grants; nothing is released unless a test asks for it."""

    def __init__(self, partitions: int = 4, spec: GroupSpec | None = None, **queue: Any) -> None:
        self.spec = spec if spec is not None else GroupSpec()
        self.queues = {QueueName("orders"): ObservedQueue(partitions, **queue)}
        self.members: dict[MemberId, ObservedMember] = {}
        self.away: dict[MemberId, Uid] = {}
        self.state = GroupState("shop/orders")
        self.records: dict[Partition, Ownership] = {}
        self.releases: set[Release] = set()
        self.drained: set[tuple[Partition, Epoch]] = set()
        self.request: str | None = None
        self.approved: str | None = None
        self.held_back = HeldBack.NOTHING
        self.now = 0.0
        self.events: list[StepEvent] = []

    def join(self, *names: str, uid: str | None = None, **facts: Any) -> "Group":
        for name in names:
            self.members[MemberId(name)] = ObservedMember(
                Uid(uid if uid is not None else f"uid-{name}"), joined=self.now, **facts
            )
        return self

    def leave(self, *names: str) -> "Group":
        for name in names:
            del self.members[MemberId(name)]
        return self

    def terminate(self, name: str, ends: float | None = None) -> "Group":
        self.members[MemberId(name)] = replace(self.members[MemberId(name)], terminating=True, ends=ends)
        return self

    def drain(self, name: str, draining: bool = True) -> "Group":
        self.members[MemberId(name)] = replace(self.members[MemberId(name)], draining=draining)
        return self

    def step_aside(self, name: str) -> "Group":
        """Make a pod take no part, while it may still work."""
        self.away[MemberId(name)] = self.members.pop(MemberId(name)).uid
        return self

    def come_back(self, name: str, **facts: Any) -> "Group":
        del self.away[MemberId(name)]
        return self.join(name, **facts)

    def resize(self, partitions: int, queue: str = "orders") -> "Group":
        self.queues[QueueName(queue)] = replace(self.queues[QueueName(queue)], partitions=partitions)
        return self

    def release(self, name: str, number: int, queue: str = "orders") -> "Group":
        """Have a consumer's session report the release of the partitions that it holds."""
        record = self.state.records[partition(number, queue)]
        self.releases.add(Release(self.members[MemberId(name)].uid, QueueName(queue), number, record.epoch))
        return self

    def release_all(self) -> Self:
        """Have every live giver release what it is to give."""
        for of, move in self.state.moves.items():
            if move.giver in self.members and self.state.records[of].owner == move.giver:
                self.release(str(move.giver), of.number, of.queue)
        return self

    def observe(self, outcomes: frozenset[Outcome] = frozenset()) -> Observation:
        return Observation(
            spec=self.spec,
            queues=dict(self.queues),
            members=dict(self.members),
            away=dict(self.away),
            releases=frozenset(self.releases),
            drained=frozenset(self.drained),
            outcomes=outcomes,
            request=self.request,
            approved=self.approved,
            held_back=self.held_back,
        )

    def step(self, at: float | None = None, outcomes: frozenset[Outcome] = frozenset()) -> Step:
        """Step once as after a restart of the operator: from the ledger alone."""
        self.now = self.now if at is None else at
        done = step(load(dump(self.state)) if self.state.facts else self.state, self.observe(outcomes), self.now)
        self.state = done.state
        self.events += done.events
        return done

    def settle(self, at: float | None = None) -> Step:
        """Step and carry out all grants, until no grant is left."""
        done = self.step(at)
        while grants := [effect for effect in done.effects if isinstance(effect, Grant)]:
            done = self.step(outcomes=frozenset(self.carry_out(grant) for grant in grants))
        return done

    def carry_out(self, grant: Grant) -> Outcome:
        record = self.records.get(grant.partition, Ownership(None, Epoch(0)))
        if grant.epoch > record.epoch:
            record = self.records[grant.partition] = Ownership(grant.uid, grant.epoch)
        return Outcome(grant.partition, record)

    def start(self, *names: str) -> "Group":
        """Run the first rebalance to its end, and clear its events."""
        self.join(*names).settle()
        self.settle(self.now + self.spec.delay)
        self.events.clear()
        return self

    def owners(self, queue: str = "orders") -> str:
        """Return the owners of partitions 0, 1, 2, …: "abab"; "-" is no owner."""
        records = sorted((p, record) for p, record in self.state.records.items() if p.queue == queue)
        return "".join(record.owner or "-" for _, record in records)

    def moved(self) -> list[str]:
        """Return the events about partitions: "revoke 3 a", "release 3 a consumer", "miss 3 a", "grant 3 c 2"."""
        words = []
        for event in self.events:
            match event:
                case Revoked(partition=of, member=member):
                    words.append(f"revoke {of.number} {member}")
                case Released(partition=of, member=member, how=how):
                    words.append(f"release {of.number} {member} {how}")
                case DeadlineMissed(partition=of, member=member):
                    words.append(f"miss {of.number} {member}")
                case Granted(partition=of, member=member, epoch=epoch):
                    words.append(f"grant {of.number} {member} {epoch}")
        self.events.clear()
        return words


def pauses(done: Step) -> list[int]:
    return [effect.partition.number for effect in done.effects if isinstance(effect, Pause)]


def grants(done: Step) -> list[tuple[int, str | None, int]]:
    return [(e.partition.number, e.member, e.epoch) for e in done.effects if isinstance(e, Grant)]
