"""One partition: who owns it, what it waits for, and what comes next, in sentences. Pure."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from baton.api import Handoff
from baton.cli.group_problems import ago
from baton.cli.group_screen import problems
from baton.cli.group_view import GroupLook
from baton.cli.move_text import handoff
from baton.cli.partition_history import PartitionHistory
from baton.engine import GroupState
from baton.engine.partition_state import PartitionState, partition_state
from baton.engine.state import PartitionRecord
from baton.model.ids import Epoch, MemberId, Partition
from baton.model.times import to_text
from baton.model.wording import counted


class NoSuchPartitionError(ValueError):
    """The group has no such partition. The message is one line."""


@dataclass(frozen=True, slots=True)
class NextPlan:
    """What a plan that is made now would do with it."""

    owner: MemberId | None = None
    problem: str | None = None
    """Why that is not known."""


@dataclass(frozen=True, slots=True)
class PartitionLook:
    """A partition of a group that was looked at."""

    group: GroupLook
    partition: Partition
    record: PartitionRecord
    doing: PartitionState
    handoff: Handoff | None
    """The one under way."""
    history: PartitionHistory = field(default_factory=PartitionHistory)
    next_plan: NextPlan = field(default_factory=NextPlan)
    lag: int | None = None
    lag_problem: str | None = None
    unfinished: tuple[str, int] | None = None
    """The oldest entry that is not finished with, and how often it was handed out, where that is more than once."""
    events_problem: str | None = None

    @property
    def title(self) -> str:
        return f"{self.group.group.full_name}, partition {self.partition.number} of {self.partition.queue}: {self.doing}"

    def sentences(self) -> Iterator[str]:
        """For people, without the title and the events."""
        yield self._owned()
        waits = list(self.waits())
        yield from waits or ["Nothing is waited for."]
        yield self._planned()
        yield from (line.plain for line in problems(self.group))
        if self.lag is not None:
            yield f"Lag: {counted(self.lag, 'entry', 'entries')} not acknowledged or committed yet."
        else:
            yield f"Lag: not known{f': {self.lag_problem}' if self.lag_problem else ''}."
        if self.unfinished is not None:
            offset, times = self.unfinished
            yield f"Entry {offset} was handed out {times} times and never acknowledged."

    def waits(self) -> Iterator[str]:
        """What holds it up, or is about to change it."""
        state, look, partition = self.group.state, self.group, self.partition
        if state is None:
            yield "It waits for an operator to write the group's ledger."
            return
        move = state.moves.get(partition)
        if self.handoff is not None:
            yield handoff(self.handoff, look.now)
        if move is not None and not move.quiet and move.giver is None:
            yield f"It waits for {partition.queue} to take the grant to {move.receiver or 'nobody'} at epoch {move.epoch}."
        if move is not None and move.quiet:
            yield f"{partition.queue} is to record its owner again, at epoch {move.epoch}; the owner works on it meanwhile."
        if partition in state.waiting:
            running = counted(len(state.moves), "hand-off runs", "hand-offs run")
            turn = f"{running} (spec.rebalance.maxConcurrentHandoffs), and {counted(len(state.waiting), 'waits', 'wait')}"
            yield f"It goes to {state.waiting[partition]} in its turn: {turn}."
        if state.proposal is not None and partition in state.proposal.receivers:
            name = f"{look.group.name} -n {look.group.namespace}"
            to = f"It would go to {state.proposal.receivers[partition]} by proposal {state.proposal.id}"
            yield f"{to}, which waits for approval: baton approve {name}"
        yield from self._slot(state)
        if look.group.spec is not None and look.group.spec.paused:
            yield f"The group is paused, so that no hand-off begins: baton resume {look.group.name} -n {look.group.namespace}"
        elif state.holddown is not None:
            left = max(0.0, state.holddown.until - look.now)
            yield f"A plan follows in {left:.0f} s, at {to_text(state.holddown.until)}: {state.holddown.why}"
        if self.doing is PartitionState.UNASSIGNED and not state.known:
            yield "No pod takes part in the group."

    def _slot(self, state: GroupState) -> Iterator[str]:
        for slot in state.member_slots:
            if slot.vacated and self.partition in slot.vacated:
                kept = "whoever takes it" if slot.expires is None else f"its return until {to_text(slot.expires)}"
                yield f"It is in the slot of {slot.member}, which waits for {kept}."

    def _owned(self) -> str:
        record, history = self.record, self.history
        if record.owner is None:
            last = record.last or history.before
            epoch = f", at epoch {record.granted_at}" if record.last and record.granted_at else ""
            return "Nobody owns it." + (f" {last} had it last{epoch}." if last else " Nobody ever had it.")
        since = "since before its first event that is still kept"
        if history.since is not None:
            since = f"since {to_text(history.since)} ({ago(history.since, self.group.now)} ago)"
        before = f" Before that {history.before} had it." if history.before and history.before != record.owner else ""
        why = f" Why: {history.why}." if history.why else ""
        return f"{record.owner} owns it at epoch {record.epoch}, {since}.{before}{why}"

    def _planned(self) -> str:
        plan, owner = self.next_plan, self.record.owner
        if plan.problem is not None:
            return f"What a plan would do with it is not known: {plan.problem}"
        if plan.owner is None:
            return f"A plan made now would give it to nobody: no member reads {self.partition.queue}."
        if plan.owner == owner:
            return f"A plan made now would leave it with {owner}."
        return f"A plan made now would {'move it from ' + owner if owner else 'give it'} to {plan.owner}."

    def to_json(self) -> dict[str, Any]:
        """For programs."""
        look, move, history = self.group, self.handoff, self.history
        return {
            "namespace": look.group.namespace,
            "group": look.group.name,
            "queue": self.partition.queue,
            "partition": self.partition.number,
            "state": self.doing.value,
            "owner": self.record.owner,
            "epoch": self.record.epoch,
            "since": None if history.since is None else to_text(history.since),
            "why": history.why,
            "before": history.before or (self.record.last if self.record.owner is None else None),
            "handoff": None if move is None else move.model_dump(mode="json", by_alias=True),
            "waits": list(self.waits()),
            "nextOwner": self.next_plan.owner,
            "nextProblem": self.next_plan.problem,
            "lag": self.lag,
            "lagProblem": self.lag_problem,
            "unfinished": self.unfinished and {"offset": self.unfinished[0], "handedOut": self.unfinished[1]},
            "problems": [line.plain for line in problems(look)],
            "events": [dict(one.to_json()) for one in history.events],
            "eventsProblem": self.events_problem,
        }


def find(look: GroupLook, partition: Partition) -> tuple[PartitionRecord, PartitionState, Handoff | None]:
    """What the ledger has of it, and the hand-off under way. Raises NoSuchPartitionError."""
    queue = look.queues.get(partition.queue)
    full = look.group.full_name
    if queue is None:
        raise NoSuchPartitionError(f"{full} has no queue {partition.queue}: it has {', '.join(look.queues) or 'none'}")
    if look.state is None or partition not in look.state.records:
        if queue.partitions is None or partition.number >= queue.partitions:
            there = f"it has 0 to {queue.partitions - 1}" if queue.partitions else "none of it is known yet"
            raise NoSuchPartitionError(f"{full} has no partition {partition.number} of {partition.queue}: {there}")
        if not queue.states:
            raise NoSuchPartitionError(
                f"{full} does not know whose {partition.queue}/{partition.number} is: its queue has to answer first"
            )
        return PartitionRecord(Epoch(0)), PartitionState.UNASSIGNED, None
    return look.state.records[partition], partition_state(look.state, partition), _handoff(look, look.state, partition)


def _handoff(look: GroupLook, state: GroupState, partition: Partition) -> Handoff | None:
    """By the ledger, which has all of them; what is unacknowledged only the status says, and only of the first."""
    move = state.moves.get(partition)
    if move is None or move.quiet or move.giver is None:
        return None
    told = [one for one in look.status.handoffs if (one.queue, one.partition) == partition and one.epoch == move.epoch]
    return Handoff.model_validate(
        {
            "queue": partition.queue,
            "partition": partition.number,
            "from": move.giver,
            "to": move.receiver,
            "epoch": move.epoch,
            "deadline": to_text(move.deadline),
            "unacknowledged": told[0].unacknowledged if told else None,
            "reason": move.why[:256],
        }
    )
