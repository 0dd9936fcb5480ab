"""The state of a group during one step, and what the rules ask of it."""

from collections import defaultdict
from math import inf

from baton.engine.observation import Observation, ObservedMember, ObservedQueue
from baton.engine.state import GroupState, PlanProblem
from baton.engine.step_events import StepEvent
from baton.model.ids import MemberId, Partition, QueueName, Uid


class WorkingState:
    """A mutable copy of a GroupState for the length of one step. Its methods only answer questions. Those of `Draft` change what
    changes together; the rules change the rest themselves."""

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
        self.unreleased = dict(state.unreleased)
        self.known = dict(state.known)
        self.member_slots = list(state.member_slots)
        self.standbys = list(state.standbys)
        self.moves = dict(state.moves)
        self.waiting = dict(state.waiting)
        self.proposal = state.proposal
        self.holddown = state.holddown
        running = state.rebalance
        self.origins: dict[Partition, MemberId | None] | None = None if running is None else dict(running.origins)
        """Who owned each partition that the running rebalance moves, before it. None: no rebalance runs."""
        self.full = running is not None and running.full
        self.eager = running is not None and running.eager
        self.why = "" if running is None else running.why
        self.facts = state.facts
        self.fenced = state.fenced
        self.victims = state.victims
        self.totals = state.totals
        self.events: list[StepEvent] = []
        self.eligible: dict[MemberId, ObservedMember] = {}
        """The members: pods that are Ready, neither stop nor drain, are not fenced off and not chosen as victims."""
        self.problem: PlanProblem | None = None
        self.unsettled = False
        """Something deviated from the plan, so the rules have to check the balance."""
        self.opened: dict[Partition, str] = {}
        """New partitions of a queue that grew, each with the reason."""
        self.plan_now: str | None = None
        """Why a plan is due without a holddown; None: none is."""
        self.changed_members: set[MemberId] = set()
        self._with_new_epoch: set[Partition] = set()
        """Partitions with an epoch that this step raised: the ledger does not have it yet, so another receiver may use it too."""
        self.owned: defaultdict[MemberId, set[Partition]] = defaultdict(set)
        for partition, record in self.records.items():
            if record.owner is not None:
                self.owned[record.owner].add(partition)

    def present(self, member: MemberId, uid: Uid) -> bool:
        """The pod with this UID takes part in the group; it may be terminating."""
        seen = self.observation.members.get(member)
        return seen is not None and seen.uid == uid and (member, uid) not in self.fenced

    def draining(self, member: MemberId, uid: Uid) -> bool:
        """The pod with this UID is to give its partitions away, and goes on."""
        return self.present(member, uid) and self.observation.members[member].draining

    def may_still_work(self, member: MemberId, uid: Uid) -> bool:
        """The pod with this UID takes no part in the group, but its process may still run."""
        return self.observation.away.get(member) == uid or (member, uid) in self.fenced

    def subscribed(self, member: MemberId) -> frozenset[QueueName]:
        """The group's queues that an observed member reads."""
        wanted = self.observation.members[member].subscribed
        queues = frozenset(self.queues)
        return queues if wanted is None else wanted & queues

    def may_own(self, member: MemberId | None, queue: QueueName) -> bool:
        """The member is eligible and reads the queue."""
        return member in self.eligible and queue in self.subscribed(member)

    def planned_owner(self, partition: Partition) -> MemberId | None:
        """The owner of a partition once its running hand-off is done; a planned one that has not begun does not count."""
        move = self.moves.get(partition)
        return self.records[partition].owner if move is None else move.receiver

    def loads(self) -> dict[MemberId, set[Partition]]:
        """The partitions of each member once all hand-offs are done, those that are planned and not begun included."""
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
        """No hand-off of the partition runs."""
        move = self.moves.get(partition)
        return move is None or move.quiet

    def may_begin(self) -> float:
        """How many more hand-offs may begin in this step."""
        part = self.observation.part
        return inf if part is None else max(0, part - len(self.moves.keys() - self.before.moves.keys()))

    def stays_put(self, partition: Partition) -> bool:
        """No hand-off of the partition runs or is planned."""
        receiver = self.waiting.get(partition)
        return self.at_rest(partition) and (receiver is None or not self.may_own(receiver, partition.queue))

    def withdrawn(self, partition: Partition) -> bool:
        """The queue has no such partition any more."""
        return partition.number >= self.queues[partition.queue].partitions

    def vacated(self) -> set[Partition]:
        """The partitions of all vacant slots."""
        return {partition for slot in self.member_slots if slot.vacated for partition in slot.vacated}

    def unassigned(self) -> list[Partition]:
        """Partitions without an owner and without a receiver, sorted."""
        return sorted(
            p for p, record in self.records.items() if record.owner is None and p not in self.moves and p not in self.waiting
        )

    def same_member(self, one: MemberId | None, other: MemberId | None) -> bool:
        """Both names belong to one member: they are equal, or two names of one static member."""
        if one is None or other is None or one == other:
            return one == other
        if self.spec.session_timeout <= 0:
            return False
        return self.identity(one) is not None and self.identity(one) == self.identity(other)

    def identity(self, member: MemberId) -> str | None:
        """The identity of a static member; None for any other."""
        one = self.known.get(member) or self.observation.members.get(member)
        return None if one is None else one.instance

    def queue(self, partition: Partition) -> ObservedQueue:
        """The observation of the partition's queue."""
        return self.observation.queues[partition.queue]
