"""A fleet around the engine: the written ledger, owner records, and what consumers have read. Checked after every step."""

from collections.abc import Iterable
from dataclasses import dataclass, field, replace

from baton.engine import Effect, Grant, GroupState, Pause, State, Step, dump, load, step, summary
from baton.engine.observation import GroupSpec, Observation, ObservedMember, ObservedQueue, Outcome
from baton.engine.results import Granted
from baton.engine.state import moment
from baton.model.ids import Epoch, MemberId, Partition, QueueName, Uid
from baton.model.ledger import MemberEntry
from baton.model.names import LEDGER_GROUP_KEY
from baton.model.session import Release
from baton.queues.protocol import Ownership
from tests.simulation.order import backwards

GROUP = "shop/orders"


@dataclass
class Fleet:
    """Facts, the written ledger and the queues; `operator` is None while it is dead."""

    spec: GroupSpec = field(default_factory=GroupSpec)
    queues: dict[QueueName, ObservedQueue] = field(default_factory=lambda: {QueueName("orders"): ObservedQueue(8)})
    members: dict[MemberId, ObservedMember] = field(default_factory=dict)
    now: float = 0.0
    ledger: dict[str, str] = field(default_factory=dict)
    operator: GroupState | None = field(default_factory=lambda: GroupState(GROUP))
    records: dict[Partition, Ownership] = field(default_factory=dict)
    words: set[Release] = field(default_factory=set)
    outcomes: set[Outcome] = field(default_factory=set)
    uids: int = 0
    moves: int = 0
    issued: dict[tuple[Partition, Epoch], Uid | None] = field(default_factory=dict)
    highest: dict[Partition, Epoch] = field(default_factory=dict)
    check_repeats: bool = True
    last: Step | None = None

    # -- the world

    def join(self, name: str, **facts: object) -> None:
        self.uids += 1
        uid = Uid(f"u{self.uids}")
        self.members[MemberId(name)] = replace(ObservedMember(uid, joined=self.now), **facts)  # type: ignore[arg-type]

    def leave(self, name: str) -> None:
        self.members.pop(MemberId(name), None)

    def terminate(self, name: str) -> None:
        if MemberId(name) in self.members:
            self.members[MemberId(name)] = replace(self.members[MemberId(name)], terminating=True)

    def scale(self, queue: str, partitions: int) -> None:
        name = QueueName(queue)
        self.queues[name] = replace(self.queues[name], partitions=partitions)

    def let_go(self, members: Iterable[MemberId] | None = None) -> None:
        """Let consumers read the ledger and release revoked partitions."""
        for name in members if members is not None else list(self.members):
            entry = self.entry(name)
            if entry is not None:
                for queue, grants in entry.revoking.items():
                    self.words |= {Release(entry.uid, queue, number, epoch) for number, epoch in grants.items()}

    def bury(self) -> None:
        """Remove stopping pods that own no partitions."""
        for name, member in list(self.members.items()):
            entry = self.entry(name)
            if member.terminating and (entry is None or not (entry.owned or entry.revoking)):
                del self.members[name]

    def entry(self, name: MemberId) -> MemberEntry | None:
        """Return a pod's key, if it was written for this pod."""
        text = self.ledger.get(name)
        member = self.members.get(name)
        entry = None if text is None else MemberEntry.from_json(text)
        return entry if entry is not None and member is not None and entry.uid == member.uid else None

    # -- the operator

    def observation(self) -> Observation:
        return Observation(
            spec=self.spec,
            queues=dict(self.queues),
            members=dict(self.members),
            releases=frozenset(self.words),
            outcomes=frozenset(self.outcomes),
        )

    def think(self) -> Step | None:
        """Observe and step, and check the invariants of every step."""
        if self.operator is None:
            return None
        seen = self.observation()
        done = step(self.operator, seen, self.now)
        assert load(dump(done.state)) == done.state
        if self.check_repeats:
            turned = replace(
                seen,
                members=backwards(seen.members),
                queues=backwards(seen.queues),
            )
            other = step(replace(self.operator, view=None), turned, self.now)
            assert (other.state, other.effects, other.events) == (done.state, done.effects, done.events)
            again = step(replace(done.state, view=None), seen, self.now)
            assert again.state == done.state, "the same observation twice changed something"
            assert again.events == ()
            assert again.effects == done.effects
        assert done.wake_at is None or done.wake_at > self.now
        self.last = done
        return done

    def write(self, done: Step) -> None:
        """Write the ledger. Effects may be carried out only after that."""
        self.operator = done.state
        self.outcomes = set()
        self.moves += sum(isinstance(h, Granted) and h.previous not in (None, h.member) for h in done.events)
        self.ledger = dump(done.state)
        self._check_ledger()
        for wanted in done.effects:
            if isinstance(wanted, Grant):
                key = (wanted.partition, wanted.epoch)
                assert self.issued.setdefault(key, wanted.uid) == wanted.uid, f"{key} was meant for two"

    def carry_out(self, effects: Iterable[Effect]) -> None:
        for wanted in effects:
            if isinstance(wanted, Pause):
                continue
            record = self.records.get(wanted.partition, Ownership(None, Epoch(0)))
            if wanted.epoch > record.epoch:
                record = self.records[wanted.partition] = Ownership(wanted.uid, wanted.epoch)
            self.outcomes.add(Outcome(wanted.partition, record))

    def restart(self) -> None:
        if self.operator is None:
            self.operator = load(self.ledger) if self.ledger else GroupState(GROUP)

    def work(self) -> None:
        """Step and carry out all effects, until nothing changes."""
        self.restart()
        for _ in range(200):
            done = self.think()
            assert done is not None
            same = done.state == self.operator and not self.outcomes
            self.write(done)
            grants = [wanted for wanted in done.effects if isinstance(wanted, Grant)]
            if same and not grants:
                return
            self.carry_out(grants)
        raise AssertionError("the engine does not come to rest")

    def pass_time(self, seconds: float) -> None:
        self.now = moment(self.now + seconds)

    def calm_down(self) -> None:
        """Run without faults: consumers release, time passes, and the operator works."""
        self.work()
        for _ in range(200):
            self.let_go()
            self.work()
            self.bury()
            self.work()
            assert self.last is not None
            stopping = any(member.terminating for member in self.members.values())
            if self.last.wake_at is None and not self.last.state.moves and not stopping:
                break
            if self.last.wake_at is not None:
                self.now = self.last.wake_at
            self.work()
        else:
            raise AssertionError("something waits for ever")
        self.check_peace()

    # -- what must hold

    def _check_ledger(self) -> None:
        owned: dict[Partition, str] = {}
        revoking: dict[Partition, str] = {}
        epochs: dict[Partition, Epoch] = {}
        for key, text in self.ledger.items():
            if key == LEDGER_GROUP_KEY:
                continue
            entry = MemberEntry.from_json(text)
            for where, grants in ((owned, entry.owned), (revoking, entry.revoking)):
                for queue, numbers in grants.items():
                    for number, epoch in numbers.items():
                        partition = Partition(queue, number)
                        assert partition not in owned and partition not in revoking, f"{partition} has two owners"
                        where[partition] = key
                        epochs[partition] = epoch
        assert self.operator is not None
        for partition in revoking:
            move = self.operator.moves[partition]
            assert move.deadline <= self.now + move.length + 1e-6, "a revoke without a deadline"
        for partition, move in self.operator.moves.items():
            epochs[partition] = move.epoch
        for partition, epoch in self.operator.epoch_tombstones.items():
            epochs[partition] = max(epochs.get(partition, epoch), epoch)
        for partition, epoch in epochs.items():
            assert epoch >= self.highest.get(partition, 0), f"the epoch of {partition} went back"
            self.highest[partition] = epoch

    def check_peace(self) -> None:
        """Check that the group is balanced, all partitions are owned, and the queues agree."""
        assert self.operator is not None
        now = summary(self.operator)
        assert now.state in (State.READY, State.PAUSED), now
        if now.state is State.PAUSED or now.problem is not None:
            return
        if self.spec.replicas is not None and len(self.members) > self.spec.replicas:
            return
        fenced = {name for name, _ in self.operator.fenced}
        live = {name: member for name, member in self.members.items() if not member.terminating and name not in fenced}
        loads = dict.fromkeys(live, 0)
        for partition, record in self.operator.records.items():
            readers = [n for n, m in live.items() if m.subscribed is None or partition.queue in m.subscribed]
            if not readers:
                continue
            assert record.owner in readers, f"{partition} is with {record.owner}"
            assert self.records[partition] == Ownership(live[record.owner].uid, record.epoch)
            loads[record.owner] += 1
        uniform = all(member.subscribed is None for member in live.values())
        plain = not any(queue.exclusive for queue in self.queues.values())
        whole = self.spec.replicas is None
        if loads and uniform and plain and whole and self.spec.assignors == ("solace",):
            assert max(loads.values()) - min(loads.values()) <= 1, loads
