"""The state of a group during one step, with the queries and changes that the rules share."""

from collections import defaultdict
from dataclasses import fields, replace
from math import inf

from baton.api.group import ScaleMode
from baton.engine.observation import Observation, ObservedMember, ObservedQueue
from baton.engine.results import DeadlineMissed, Granted, Redirected, ReleaseCause, Released, Revoked, StepEvent
from baton.engine.state import (
    GroupState,
    Holddown,
    KnownMember,
    MemberSlot,
    Move,
    PartitionRecord,
    PlanProblem,
    Rebalance,
    Unreleased,
    View,
    moment,
)
from baton.model.ids import Epoch, MemberId, OnDeadline, Partition, QueueName, Uid
from baton.queues.protocol import Ownership

_FIELDS = tuple(one.name for one in fields(GroupState))


class Draft(GroupState):
    """A copy of a state, which the rules of one step change.

    The first methods are queries. The others keep consistent what changes together: a partition's record and move, the partitions
    by owner, the members whose assignment changed, and the counts. The rules change the other fields themselves.
    """

    def __init__(self, before: GroupState, observation: Observation, now: float) -> None:
        for name in _FIELDS:
            value = getattr(before, name)
            setattr(self, name, value.copy() if isinstance(value, dict | list) else value)
        if before.rebalance is not None:
            self.rebalance = replace(before.rebalance, origins=before.rebalance.origins.copy())
        self.before = before
        self.observation = observation
        self.spec = observation.spec
        self.now = now
        self.replicas = self.spec.replicas if self.spec.scale_mode is ScaleMode.SPARK else None
        self.events: list[StepEvent] = []
        self.eligible: dict[MemberId, ObservedMember] = {}
        """The members: pods that are Ready, not stopping, not draining, not fenced off, and no victims."""
        self.problem: PlanProblem | None = None
        self.unsettled = False
        """Partitions are not where the plan put them, so the rules have to check the balance."""
        self.opened: dict[Partition, str] = {}
        """New partitions of a queue that grew, each with the reason."""
        self.plan_now: str | None = None
        """Why a plan is due without a holddown; None: no plan is."""
        self.reasons: dict[Partition | MemberId, str] = {}
        """Why the plan of this step takes partitions from vacant slots, and gives partitions to newcomers."""
        self.changed_members: set[MemberId] = set()
        self._with_new_epoch: set[Partition] = set()
        """Partitions whose epoch this step raised. The ledger does not have the epoch yet, so another receiver may use it."""
        self.owned: defaultdict[MemberId, set[Partition]] = defaultdict(set)
        for partition, record in self.records.items():
            if record.owner is not None:
                self.owned[record.owner].add(partition)

    def present(self, member: MemberId, uid: Uid) -> bool:
        """True if the pod with this UID takes part in the group; it may be terminating."""
        seen = self.observation.members.get(member)
        return seen is not None and seen.uid == uid and (member, uid) not in self.fenced

    def draining(self, member: MemberId, uid: Uid) -> bool:
        """True if the pod with this UID has to hand its partitions over, and keeps running."""
        return self.present(member, uid) and self.observation.members[member].draining

    def may_still_work(self, member: MemberId, uid: Uid) -> bool:
        """True if the pod with this UID takes no part in the group, but its process may still run."""
        return self.observation.away.get(member) == uid or (member, uid) in self.fenced

    def subscribed(self, member: MemberId) -> frozenset[QueueName]:
        """Return the group's queues that an observed member reads."""
        subscribed = self.observation.members[member].subscribed
        queues = frozenset(self.queues)
        return queues if subscribed is None else subscribed & queues

    def may_own(self, member: MemberId | None, queue: QueueName) -> bool:
        """True if the member is eligible and reads the queue."""
        return member in self.eligible and queue in self.subscribed(member)

    def planned_owner(self, partition: Partition) -> MemberId | None:
        """Return the owner of a partition once its running hand-off is done. A hand-off that has not begun does not count."""
        move = self.moves.get(partition)
        return self.records[partition].owner if move is None else move.receiver

    def loads(self) -> dict[MemberId, set[Partition]]:
        """Return the partitions of each member once all hand-offs are done, including planned ones."""
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
        """True if no hand-off of the partition runs."""
        move = self.moves.get(partition)
        return move is None or move.quiet

    def may_begin(self) -> float:
        """Return how many more hand-offs may begin in this step."""
        part = self.observation.part
        return inf if part is None else max(0, part - len(self.moves.keys() - self.before.moves.keys()))

    def stays_put(self, partition: Partition) -> bool:
        """True if no hand-off of the partition runs or is planned."""
        receiver = self.waiting.get(partition)
        return self.at_rest(partition) and (receiver is None or not self.may_own(receiver, partition.queue))

    def withdrawn(self, partition: Partition) -> bool:
        """True if the queue no longer has this partition."""
        return partition.number >= self.queues[partition.queue].partitions

    def vacated(self) -> set[Partition]:
        """Return the partitions of all vacant slots."""
        return {partition for slot in self.member_slots if slot.vacated for partition in slot.vacated}

    def unassigned(self) -> list[Partition]:
        """Return the partitions without an owner and without a receiver, sorted."""
        return sorted(
            p for p, record in self.records.items() if record.owner is None and p not in self.moves and p not in self.waiting
        )

    def same_member(self, one: MemberId | None, other: MemberId | None) -> bool:
        """True if both names belong to one member: they are equal, or two names of one static member."""
        if one is None or other is None or one == other:
            return one == other
        if self.spec.session_timeout <= 0:
            return False
        return self.identity(one) is not None and self.identity(one) == self.identity(other)

    def identity(self, member: MemberId) -> str | None:
        """Return the identity of a static member; None for any other."""
        found = self.known.get(member) or self.observation.members.get(member)
        return None if found is None else found.instance

    def queue(self, partition: Partition) -> ObservedQueue:
        """Return the observation of the partition's queue."""
        return self.observation.queues[partition.queue]

    def hand_off(self, partition: Partition, receiver: MemberId | None, why: str) -> None:
        """Begin the hand-off of a partition at a new epoch, or redirect the running one to another receiver.

        `receiver` None: the partition is withdrawn, or waits without an owner. A partition that waits gets no new epoch.
        """
        record = self.records[partition]
        move = self.moves.get(partition)
        rests = receiver is None and not self.withdrawn(partition)
        if rests or partition in self._with_new_epoch:
            epoch = Epoch(max(record.epoch, move.epoch if move else 0))
        else:
            epoch = self._new_epoch(partition)
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
        """Store a move. A partition without an owner takes the epoch of its move."""
        self.moves[partition] = move
        record = self.records[partition]
        if record.owner is None:
            self.records[partition] = record._replace(epoch=move.epoch)

    def assert_owner(self, partition: Partition, owner: MemberId, above: Epoch) -> None:
        """Grant a partition to its owner again, at an epoch above `above`, which the queue may have recorded."""
        record = self.records[partition]
        epoch = self._new_epoch(partition, above)
        uid = self.observation.members[owner].uid
        giver = record.owner
        self.record_move(partition, Move(owner, uid, epoch, giver, quiet=True, why="the queue's records were in doubt"))
        self.changed_members.add(owner)

    def raise_epoch(self, partition: Partition, above: Epoch) -> None:
        """Raise the epoch of a running move above `above`, which the queue may have recorded."""
        self.record_move(partition, replace(self.moves[partition], epoch=self._new_epoch(partition, above)))

    def _new_epoch(self, partition: Partition, above: int = 0) -> Epoch:
        """Return an epoch above all that the ledger ever had for the partition."""
        move, overtaken = self.moves.get(partition), self.epoch_tombstones.pop(partition, 0)
        return Epoch(max(self.records[partition].epoch, move.epoch if move else 0, overtaken, above) + 1)

    def running_rebalance(self) -> Rebalance:
        """Return the rebalance under way, or start one."""
        if self.rebalance is None:
            self.rebalance = Rebalance()
        return self.rebalance

    def note_origin(self, partition: Partition) -> None:
        """Count the partition as one that the rebalance under way moves."""
        self.running_rebalance().origins.setdefault(partition, self.records[partition].last)

    def _rename_origin(self, partition: Partition, before: MemberId | None, now: MemberId | None) -> None:
        """Record that a static member returned under another name, so the partition has not moved."""
        if self.rebalance is not None and self.rebalance.origins.get(partition) == before:
            self.rebalance.origins[partition] = now

    def new_generation(self) -> None:
        """Begin a new generation of the assignment. All changes of one step share it."""
        self.generation = self.before.generation + 1

    def owner_is_gone(self, partition: Partition) -> None:
        """Record that the owner vanished, which counts as a release."""
        record = self.records[partition]
        owner = record.owner
        assert owner is not None
        move = self.moves.get(partition)
        if move is None or move.released is None:
            self.events.append(Released(partition, owner, ReleaseCause.GONE))
        self._no_longer_owned(partition, owner)
        last = owner
        if move is not None and move.receiver is not None and self.same_member(owner, move.receiver):
            last = move.receiver
            self._rename_origin(partition, owner, last)
        if move is not None and move.quiet:
            del self.moves[partition]
            self.records[partition] = PartitionRecord(move.epoch, None, last, record.epoch)
            return
        self.records[partition] = PartitionRecord(record.epoch, None, last, record.epoch)
        if move is not None:
            self.record_move(partition, replace(move, giver=None, released=ReleaseCause.GONE))

    def leave_unowned(self, partition: Partition) -> None:
        """End a move that has no receiver: the partition was released and now has no owner."""
        move = self.moves.pop(partition)
        record = self.records[partition]
        self._no_longer_owned(partition, record.owner)
        self.records[partition] = PartitionRecord(move.epoch, None, record.last, record.granted_at)

    def _no_longer_owned(self, partition: Partition, owner: MemberId | None) -> None:
        if owner is not None:
            self.owned[owner].discard(partition)
            self.changed_members.add(owner)

    def record_grant(self, partition: Partition, at_queue: Ownership) -> None:
        """Record that the queue accepted the grant of the running move."""
        move = self.moves.pop(partition)
        if move.receiver is None:
            queue = self.queue(partition)
            if not queue.fenced and queue.on_deadline is OnDeadline.WAIT:
                self.keep_unreleased(partition)
            self._no_longer_owned(partition, self.records[partition].owner)
            self.withdraw(partition, at_queue.epoch)
            return
        paused_for = None if move.since is None or move.quiet else moment(self.now - move.since)
        self._now_owned(partition, move.receiver, move.epoch, paused_for, move.why)

    def record_overtaken_grant(self, partition: Partition, owner: MemberId, epoch: Epoch) -> None:
        """Record that the queue accepted an earlier grant of the running move, or of a move that ended without a receiver.

        A running move continues with this owner as its giver. It ends instead if it has no receiver, or if this owner is the
        receiver, because the move was redirected and back: a grant at a higher epoch would fence off the owner at this one.
        """
        move, giver = self.moves.pop(partition, None), self.records[partition].owner
        highest = max(self.records[partition].epoch, move.epoch if move else 0, self.epoch_tombstones.get(partition, 0))
        why = "its queue had granted it before the hand-off was redirected"
        self.add_member(owner)
        self.note_origin(partition)
        if giver is not None and move is not None and move.released is None:
            self.events.append(Released(partition, giver, ReleaseCause.CONSUMER))
        self._now_owned(partition, owner, epoch, None, why)
        if move is None or move.receiver == owner or (move.receiver is None and not self.withdrawn(partition)):
            if highest > epoch:
                self.epoch_tombstones[partition] = Epoch(highest)
            return
        length = self.queue(partition).max_handoff
        deadline = moment(self.now + length)
        changed = replace(move, giver=owner, deadline=deadline, length=length, since=self.now, released=None, missed=False)
        self.record_move(partition, changed)
        self.events.append(Revoked(partition, owner, epoch, deadline, move.why, move.receiver))

    def _now_owned(self, partition: Partition, owner: MemberId, epoch: Epoch, paused_for: float | None, why: str) -> None:
        record = self.records[partition]
        self._no_longer_owned(partition, record.owner)
        self.records[partition] = PartitionRecord(epoch, owner, owner)
        self.owned[owner].add(partition)
        self.changed_members.add(owner)
        previous = record.last
        if self.same_member(previous, owner):
            previous = owner
            self._rename_origin(partition, record.last, previous)
        if previous is not None and previous != owner:
            self.totals = self.totals._replace(moves=self.totals.moves + 1)
        self.events.append(Granted(partition, owner, epoch, previous, paused_for, why))

    def keep_unreleased(self, partition: Partition) -> None:
        """Remember the owner of a partition that is removed, in case the partition comes back."""
        record = self.records[partition]
        if record.owner is not None:
            self.unreleased[partition] = Unreleased(record.owner, self.known[record.owner].uid, record.epoch)

    def withdraw(self, partition: Partition, epoch: Epoch) -> None:
        """Forget a partition and keep its epoch as a tombstone."""
        record = self.records.pop(partition)
        move = self.moves.pop(partition, None)
        self._no_longer_owned(partition, record.owner)
        highest = max(epoch, record.epoch, move.epoch if move else 0, self.epoch_tombstones.get(partition, 0))
        if highest:
            self.epoch_tombstones[partition] = Epoch(highest)
        self.waiting.pop(partition, None)
        if self.rebalance is not None:
            self.rebalance.origins.pop(partition, None)  # a partition that comes back is new: its first grant is no move

    def merge_tombstones(self, queue: QueueName) -> None:
        """Replace the tombstones of a queue's partitions by one for the queue: their highest epoch."""
        withdrawn = [partition for partition in self.epoch_tombstones if partition.queue == queue]
        highest = max((self.epoch_tombstones.pop(partition) for partition in withdrawn), default=0)
        if highest > self.queue_tombstones.get(queue, 0):
            self.queue_tombstones[queue] = Epoch(highest)

    def record_missed_deadline(self, partition: Partition, move: Move) -> Move:
        """Record that the deadline of a move passed. It counts once per hand-off, in the ledger write that records it."""
        if move.missed:
            return move
        self.totals = self.totals._replace(deadline_misses=self.totals.deadline_misses + 1)
        move = replace(move, missed=True)
        self.moves[partition] = move
        assert move.giver is not None
        again = move.receiver == move.giver
        taken = not again and self.goes_on_at_deadline(partition, move)
        self.events.append(DeadlineMissed(partition, move.giver, taken, again))
        return move

    def goes_on_at_deadline(self, partition: Partition, move: Move) -> bool:
        """True if the hand-off goes on after its deadline without the giver's release (rule 3).

        That holds if the queue fences, if `onDeadline` is Force, if the giver is also the receiver, or if the group gives up
        the queue and with it the partition. In the last case `keep_unreleased` remembers that the giver may still work.
        """
        queue = self.queue(partition)
        if queue.fenced or queue.on_deadline is OnDeadline.FORCE or move.receiver == move.giver:
            return True
        return queue.given_up and self.withdrawn(partition)

    def record_answer(self, approval: str) -> None:
        """Remember the approval that was carried out or refused, so that it is answered only once."""
        assert self.facts is not None
        self.facts = replace(self.facts, answered=approval)

    def trigger(self, why: str, *, pinned: bool = True) -> None:
        """Start the holddown; a running one keeps its end (rule 1). `pinned`: the holddown runs to its end in any case."""
        if self.holddown is None:
            self.holddown = Holddown(moment(self.now + self.spec.delay), self.spec.delay, why, pinned)
        elif pinned and not self.holddown.pinned:
            self.holddown = replace(self.holddown, pinned=True)

    def add_member(self, member: MemberId) -> None:
        """Give a member its key in the ledger."""
        seen = self.observation.members[member]
        old = self.known.get(member)
        if old is None or old.uid != seen.uid:
            self.known[member] = KnownMember(seen.uid, seen.subscribed, seen.instance, seen.capacity)
            self.changed_members.add(member)

    def new_slot(self, member: MemberId) -> MemberSlot:
        """Return a slot held by an eligible member, and give the member its key in the ledger."""
        self.add_member(member)
        seen = self.eligible[member]
        return MemberSlot(member, seen.uid, self.known[member].instance)

    def finished(self, view: View) -> GroupState:
        """Return the state after the step."""
        self.view = view
        return GroupState(**{name: getattr(self, name) for name in _FIELDS})
