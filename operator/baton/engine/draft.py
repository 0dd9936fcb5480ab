"""One step in the making: the state as it changes, and what is to be told of it.

One class, for these change together: who owns a partition (`records`) and that by member (`owned`), what is on its way (`moves`),
whose assignment is another one now (`touched`), and what is counted.
"""

from collections import defaultdict
from dataclasses import replace

from baton.engine.observation import Observation, ObservedMember, ObservedQueue, OwnerRecord
from baton.engine.state import (
    GroupState,
    Holddown,
    KnownMember,
    MemberSlot,
    Move,
    PartitionRecord,
    PlanProblem,
    Rebalance,
    moment,
)
from baton.engine.step_events import Granted, How, Redirected, Released, Revoked, StepEvent
from baton.model.ids import Epoch, MemberId, Partition, QueueName, Uid
from baton.model.on_deadline import OnDeadline


class Draft:
    """A mutable copy of a state for the length of one step. The rules are in the modules that work on it."""

    def __init__(self, state: GroupState, observation: Observation, now: float) -> None:
        self.before = state
        self.observation = observation
        self.spec = observation.spec
        self.now = now
        self.generation = state.generation
        self.queues = dict(state.queues)
        self.records = dict(state.records)
        self.epoch_tombstones = dict(state.epoch_tombstones)
        self.queue_tombstones = dict(state.queue_tombstones)
        self.known = dict(state.known)
        self.member_slots = list(state.member_slots)
        self.standbys = list(state.standbys)
        self.moves = dict(state.moves)
        self.waiting = dict(state.waiting)
        self.proposal = state.proposal
        self.holddown = state.holddown
        running = state.rebalance
        self.origins: dict[Partition, MemberId | None] | None = None if running is None else dict(running.origins)
        """Of the rebalance under way; None: there is none."""
        self.full = running is not None and running.full
        self.eager = running is not None and running.eager
        self.why = "" if running is None else running.why
        self.facts = state.facts
        self.fenced = state.fenced
        self.victims = state.victims
        self.totals = state.totals
        self.events: list[StepEvent] = []
        self.eligible: dict[MemberId, ObservedMember] = {}
        """The members: Ready, not terminating, not fenced off, not to be scaled away."""
        self.problem: PlanProblem | None = None
        self.unsettled = False
        """Something went another way than planned: whether members are still within one has to be seen."""
        self.opened: dict[Partition, str] = {}
        """New partitions of a queue that grew, and why they are there."""
        self.plan_now: str | None = None
        """Why a plan is due without delay."""
        self.changed_members: set[MemberId] = set()
        self._with_new_epoch: set[Partition] = set()
        """Those with a new epoch that nothing was told of yet: it serves for another receiver too."""
        self.owned: defaultdict[MemberId, set[Partition]] = defaultdict(set)
        for partition, record in self.records.items():
            if record.owner is not None:
                self.owned[record.owner].add(partition)

    # -- looking

    def present(self, member: MemberId, uid: Uid) -> bool:
        """This very pod takes part, be it terminating."""
        seen = self.observation.members.get(member)
        return seen is not None and seen.uid == uid and (member, uid) not in self.fenced

    def may_still_work(self, member: MemberId, uid: Uid) -> bool:
        """This very pod takes no part, but its process is there."""
        return self.observation.away.get(member) == uid or (member, uid) in self.fenced

    def subscribed(self, member: MemberId) -> frozenset[QueueName]:
        """The group's queues that an observed member reads."""
        wanted = self.observation.members[member].subscribed
        queues = frozenset(self.queues)
        return queues if wanted is None else wanted & queues

    def may_own(self, member: MemberId | None, queue: QueueName) -> bool:
        return member in self.eligible and queue in self.subscribed(member)

    def planned_owner(self, partition: Partition) -> MemberId | None:
        """Whose the partition is, or will be when its hand-off is done."""
        move = self.moves.get(partition)
        return self.records[partition].owner if move is None else move.receiver

    def loads(self) -> dict[MemberId, set[Partition]]:
        """What every member has, or will have when all hand-offs are done that have begun or are planned."""
        loads = {member: set(partitions) for member, partitions in self.owned.items() if partitions}
        for partition, move in self.moves.items():
            owner = self.records[partition].owner
            if owner is not None and owner != move.receiver:
                loads[owner].discard(partition)
            if move.receiver is not None:
                loads.setdefault(move.receiver, set()).add(partition)
        for partition, receiver in self.waiting.items():
            owner = self.records[partition].owner
            if owner is not None:
                loads[owner].discard(partition)
            loads.setdefault(receiver, set()).add(partition)
        return loads

    def at_rest(self, partition: Partition) -> bool:
        """It is not changing hands."""
        move = self.moves.get(partition)
        return move is None or move.quiet

    def stays_put(self, partition: Partition) -> bool:
        """It is not changing hands, nor to do so when its turn comes."""
        receiver = self.waiting.get(partition)
        return self.at_rest(partition) and (receiver is None or not self.may_own(receiver, partition.queue))

    def withdrawn(self, partition: Partition) -> bool:
        """It does not exist any more."""
        return partition.number >= self.queues[partition.queue].partitions

    def unassigned(self) -> list[Partition]:
        """Partitions that nobody has or will have, sorted."""
        return sorted(
            p for p, record in self.records.items() if record.owner is None and p not in self.moves and p not in self.waiting
        )

    def same_member(self, one: MemberId | None, other: MemberId | None) -> bool:
        """Two names of one static member."""
        if one is None or other is None or one == other:
            return one == other
        if self.spec.session_timeout <= 0:
            return False
        return self.identity(one) is not None and self.identity(one) == self.identity(other)

    def identity(self, member: MemberId) -> str | None:
        """Of a static member."""
        if member in self.known:
            return self.known[member].instance
        seen = self.observation.members.get(member)
        return None if seen is None else seen.instance

    def queue(self, partition: Partition) -> ObservedQueue:
        """How the partition's queue was observed."""
        return self.observation.queues[partition.queue]

    # -- doing

    def hand_over(self, partition: Partition, receiver: MemberId | None, why: str) -> None:
        """Begin to hand a partition over, or turn a hand-off that is under way to another receiver, at a new epoch."""
        record = self.records[partition]
        move = self.moves.get(partition)
        rests = receiver is None and not self.withdrawn(partition)  # nobody is granted anything, so no epoch is used up
        epoch = Epoch(max(record.epoch, move.epoch if move else 0) + (not rests and partition not in self._with_new_epoch))
        if not rests:
            self._with_new_epoch.add(partition)
        uid = None if receiver is None else self.observation.members[receiver].uid
        self.note_origin(partition)
        if move is not None and not move.quiet:
            if receiver != move.receiver:
                self.events.append(Redirected(partition, record.owner, receiver, move.receiver, why))
            move = replace(move, receiver=receiver, uid=uid, epoch=epoch, why=why)
        elif record.owner is None:
            move = Move(receiver, uid, epoch, why=why)
        else:
            length = self.queue(partition).max_handoff
            deadline = moment(self.now + length)
            move = Move(receiver, uid, epoch, record.owner, deadline, length, self.now, why)
            self.events.append(Revoked(partition, record.owner, record.epoch, deadline, why, receiver))
        self.record_move(partition, move)
        self.waiting.pop(partition, None)
        self.changed_members.update(m for m in (record.owner, receiver) if m is not None)

    def record_move(self, partition: Partition, move: Move) -> None:
        """Keep a move. Without a giver nothing but its epoch counts any more."""
        self.moves[partition] = move
        record = self.records[partition]
        if record.owner is None:
            self.records[partition] = PartitionRecord(move.epoch, None, record.last)

    def assert_owner(self, partition: Partition, owner: MemberId, above: Epoch) -> None:
        """Grant a partition again to who has it, at an epoch above one that the queue may have."""
        record = self.records[partition]
        move = self.moves.get(partition)
        epoch = Epoch(max(record.epoch, above, move.epoch if move else 0) + 1)
        uid = self.observation.members[owner].uid
        giver = record.owner
        self.record_move(partition, Move(owner, uid, epoch, giver, quiet=True, why="the queue's records were in doubt"))
        self.changed_members.add(owner)

    def raise_epoch(self, partition: Partition, above: Epoch) -> None:
        """The grant of a move that is under way gets a new epoch, above one that the queue may have."""
        move = self.moves[partition]
        self.record_move(partition, replace(move, epoch=Epoch(max(move.epoch, above) + 1)))

    def note_origin(self, partition: Partition) -> None:
        """A rebalance moves this partition; the first such starts it."""
        if self.origins is None:
            self.origins = {}
        self.origins.setdefault(partition, self.records[partition].last)

    def _rename_origin(self, partition: Partition, before: MemberId | None, now: MemberId | None) -> None:
        """The same static member under another name: the partition was at home all the time."""
        if self.origins is not None and self.origins.get(partition) == before:
            self.origins[partition] = now

    @property
    def rebalance(self) -> Rebalance | None:
        return None if self.origins is None else Rebalance(self.origins, self.full, self.eager, self.why)

    def new_generation(self) -> None:
        """The assignment changes; several changes of one step are one."""
        self.generation = self.before.generation + 1

    def owner_is_gone(self, partition: Partition) -> None:
        """Its owner is no more; what was to follow its release follows."""
        record = self.records[partition]
        owner = record.owner
        assert owner is not None
        move = self.moves.get(partition)
        if move is None or move.released is None:
            self.events.append(Released(partition, owner, How.GONE))
        self._no_longer_owned(partition, owner)
        last = owner
        if move is not None and move.receiver is not None and self.same_member(owner, move.receiver):
            last = move.receiver
            self._rename_origin(partition, owner, last)
        if move is not None and move.quiet:
            del self.moves[partition]
            self.records[partition] = PartitionRecord(move.epoch, None, last)
            return
        self.records[partition] = PartitionRecord(record.epoch, None, last)
        if move is not None:
            self.record_move(partition, replace(move, giver=None, released=How.GONE))

    def leave_unowned(self, partition: Partition) -> None:
        """The move ends with nobody: the partition is an orphan that was released."""
        move = self.moves.pop(partition)
        record = self.records[partition]
        self._no_longer_owned(partition, record.owner)
        self.records[partition] = PartitionRecord(move.epoch, None, record.last)

    def _no_longer_owned(self, partition: Partition, owner: MemberId | None) -> None:
        if owner is not None:
            self.owned[owner].discard(partition)
            self.changed_members.add(owner)

    def record_grant(self, partition: Partition, at_queue: OwnerRecord) -> None:
        """The queue has taken the grant."""
        move = self.moves.pop(partition)
        record = self.records[partition]
        self._no_longer_owned(partition, record.owner)
        if move.receiver is None:
            self.withdraw(partition, at_queue.epoch)
            return
        self.records[partition] = PartitionRecord(move.epoch, move.receiver, move.receiver)
        self.owned[move.receiver].add(partition)
        self.changed_members.add(move.receiver)
        previous = record.last
        if self.same_member(previous, move.receiver):
            previous = move.receiver
            self._rename_origin(partition, record.last, previous)
        if previous is not None and previous != move.receiver:
            self.totals = self.totals._replace(moves=self.totals.moves + 1)
        paused_for = None if move.since is None or move.quiet else moment(self.now - move.since)
        self.events.append(Granted(partition, move.receiver, move.epoch, previous, paused_for, move.why))

    def withdraw(self, partition: Partition, epoch: Epoch) -> None:
        """Forget a partition, but not its epoch."""
        record = self.records.pop(partition)
        move = self.moves.pop(partition, None)
        self._no_longer_owned(partition, record.owner)
        highest = max(epoch, record.epoch, move.epoch if move else 0)
        if highest:
            self.epoch_tombstones[partition] = Epoch(highest)
        self.waiting.pop(partition, None)
        if self.origins is not None:
            self.origins.pop(partition, None)  # when it comes back it is new, and its first grant is no move

    def merge_tombstones(self, queue: QueueName) -> None:
        """Of what was withdrawn of this queue keep one epoch for all."""
        withdrawn = [partition for partition in self.epoch_tombstones if partition.queue == queue]
        highest = max((self.epoch_tombstones.pop(partition) for partition in withdrawn), default=0)
        if highest > self.queue_tombstones.get(queue, 0):
            self.queue_tombstones[queue] = Epoch(highest)

    def record_missed_deadline(self, partition: Partition, move: Move) -> Move:
        """A deadline passed. Counted once per hand-off, in the same write that records it."""
        if move.missed:
            return move
        self.totals = self.totals._replace(deadline_misses=self.totals.deadline_misses + 1)
        move = replace(move, missed=True)
        self.moves[partition] = move
        return move

    def goes_on_at_deadline(self, partition: Partition, move: Move) -> bool:
        """Whether a hand-off goes on without the giver's word: the queue fences, or it is the giver's again, or Force, or nobody
        is to follow on a queue that is let go of."""
        queue = self.queue(partition)
        if queue.fenced or queue.on_deadline is OnDeadline.FORCE or move.receiver == move.giver:
            return True
        return queue.let_go and move.receiver is None

    def record_answer(self, approval: str) -> None:
        """An approval was carried out or refused, and needs no other answer."""
        assert self.facts is not None
        self.facts = replace(self.facts, answered=approval)

    def trigger(self, why: str, *, pinned: bool = True) -> None:
        """Start the holddown; a running one goes on unchanged (rule 1)."""
        if self.holddown is None:
            self.holddown = Holddown(moment(self.now + self.spec.delay), self.spec.delay, why, pinned)
        elif pinned and not self.holddown.pinned:
            self.holddown = replace(self.holddown, pinned=True)

    def add_member(self, member: MemberId) -> None:
        """A member gets a key in the ledger."""
        seen = self.observation.members[member]
        old = self.known.get(member)
        if old is None or old.uid != seen.uid:
            self.known[member] = KnownMember(seen.uid, instance=seen.instance, subscribed=seen.subscribed, capacity=seen.capacity)
            self.changed_members.add(member)

    def new_slot(self, member: MemberId) -> MemberSlot:
        """A taken slot for an eligible member."""
        self.add_member(member)
        seen = self.eligible[member]
        return MemberSlot(member, seen.uid, self.known[member].instance)
