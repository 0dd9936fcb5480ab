"""Invariants of one group at every instant: of its ledger, of what its consumers read, and of what its queues accept."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING

from baton.engine import Grant, GroupState, PartitionState, Pause, State, Step, dump, load, partition_states, step, summary
from baton.engine.observation import Observation
from baton.engine.results import Granted
from baton.engine.state_machine import state_of
from baton.engine.step import SIZE_LIMIT, Fitted, fitting_step
from baton.model.ids import OnDeadline, Partition
from tests.simulation.order import backwards
from tests.simulation.seeds.invariant import InvariantError

if TYPE_CHECKING:
    from tests.simulation.seeds.consumers import Consumer, Key
    from tests.simulation.seeds.operators import Operator
    from tests.simulation.seeds.queues import Queue
    from tests.simulation.seeds.tenant import Tenant


# Invariants of every step of the engine, also of steps whose ledger is never written


class StepChecks:
    """Checks the steps of one group."""

    def __init__(self, sample: int = 6) -> None:
        """`sample`: one step in so many is repeated, to check that repetition and order change nothing."""
        self.steps = 0
        self._sample = sample

    def stepped(self, before: GroupState, shown: Observation, made: Step, now: float, limit: int = SIZE_LIMIT) -> bool:
        """Check a step of `fitting_step`. Returns whether the group is settled. Raises InvariantError."""
        self.steps += 1
        state = made.state
        assert state.view is not None
        seen = state.view.observation  # with the decisions that are held back, and the grants that the ledger alone makes
        if made.wake_at is not None and made.wake_at <= now:
            raise InvariantError(f"it wants to be woken at {made.wake_at}, which is over")
        _nothing_waits_without_a_deadline(state, seen, made)
        settled = summary(state).settled
        if settled:
            _settled_is_settled(state)
        if self.steps % self._sample == 0:
            if load(dump(state)) != state:
                raise InvariantError("the ledger does not read back as it was written")
            other = fitting_step(replace(before, view=None), _repeated(shown), now, limit).step
            if (other.state, other.effects, other.events) != (state, made.effects, made.events):
                raise InvariantError("the order of the facts matters")
            again = step(replace(state, view=None), seen, now)
            if again.state != state or again.events or again.effects != made.effects:
                raise InvariantError(f"the same observation twice changed something: {again.events}")
        return settled


def _nothing_waits_without_a_deadline(state: GroupState, seen: Observation, made: Step) -> None:
    ends = []
    for partition, move in state.moves.items():
        queue = seen.queues.get(partition.queue)
        if move.giver is None or move.quiet or move.released is not None or queue is None:
            continue
        unfenced = not queue.fenced and queue.on_deadline is OnDeadline.WAIT
        unfenced &= not queue.given_up or partition.number < state.queues[partition.queue].partitions
        if not move.missed:
            ends.append(move.deadline)
        elif not unfenced:
            raise InvariantError(f"{partition} waits for {move.giver} beyond its deadline")
    problem = state.view is not None and state.view.problem is not None
    if state.holddown is not None and not state.holddown.rest and not seen.spec.paused and not seen.held_back and not problem:
        ends.append(state.holddown.until)
    if ends and (made.wake_at is None or made.wake_at > min(ends)):
        raise InvariantError(f"no step is due at {min(ends)} but at {made.wake_at}")


def _settled_is_settled(state: GroupState) -> None:
    states = partition_states(state)
    if state_of(state) is not State.READY or any(one is not PartitionState.READY for one in states.values()):
        raise InvariantError(f"it is settled and {state_of(state)}: {states}")
    active = Counter(
        queue for queue, _ in {(p.queue, record.owner) for p, record in state.records.items()} if state.queues[queue].exclusive
    )
    if any(count > 1 for count in active.values()):
        raise InvariantError(f"it is settled, and exclusive queues have several active members: {active}")


def _repeated(seen: Observation) -> Observation:
    """Return the same facts in another order."""
    return replace(seen, members=backwards(seen.members), away=backwards(seen.away), queues=backwards(seen.queues))


# The moves of a rebalance against the lower bound


class Moves:
    """Counts the moves of one group."""

    def __init__(self, tenant: Tenant) -> None:
        self._tenant = tenant
        self._last: dict[Partition, str] = {}
        self._instances: dict[str, str | None] = {}
        self._origins: dict[Partition, str | None] | None = None
        self._aims: Mapping[Partition, str | None] = {}
        self._facts: object = None
        self._planned = False
        """The rebalance includes a plan, and does not only fill slots or place partitions."""
        self._lower = self._here = self._spent = self._grants = 0
        self.fewest = tenant.spec["assignors"] == ["solace"]
        self.least = self.most = 0
        """Moves without and with those between two names of one identity, which the engine knows only while it keeps the slot."""
        self.lost = False

    def joined(self, name: str, instance: str | None) -> None:
        self._instances[name] = instance

    def ledger_lost(self) -> None:
        self._origins, self._aims = None, {}
        self._lower = self._here = self._spent = self._grants = 0
        self.lost = True

    def written(self, made: Step) -> None:
        """Count the moves of a step that was written. Raises InvariantError for too many in a rebalance."""
        rebalance = made.state.rebalance
        running, planned = (None, False) if rebalance is None else (rebalance.origins, rebalance.full)
        reads = {member: known.subscribed for member, known in made.state.known.items()}
        facts = (made.state.queues, reads, {(slot.member, slot.uid, slot.vacated is None) for slot in made.state.member_slots})
        changed = self._facts is not None and facts != self._facts and (self._origins, running) != (None, None)
        over = self._origins is not None and (running is None or self._another(self._origins, running))
        if changed or (planned and not self._planned and self._origins is not None and not over):
            self._spent = self._grants + len(self._aims)  # also if the change, such as a deleted queue, ends the rebalance
        self._facts, self._planned = facts, planned
        for event in made.events:
            if isinstance(event, Granted):
                self._grants += 1
                before, owner = self._last.get(event.partition), event.member
                if event.previous is not None and before is not None and before != owner:
                    self.most += 1
                    if not self._related(before, owner):
                        self.least += 1
                        self._here += 1
                self._last[event.partition] = owner
        lower = made.state.totals.lower_bound
        if over:
            least = lower - self._lower
            if self._here > least + 2 * self._spent and self.fewest and not self.lost:
                raise InvariantError(
                    f"{self._here} moves, {self._spent} begun before the last change; the least possible is {least}"
                )
            self._lower, self._here, self._spent, self._grants, self._aims = lower, 0, 0, 0, {}
        self._origins = None if running is None else dict(running)
        for partition in self._last.keys() - made.state.records.keys():
            del self._last[partition]  # withdrawn: the first grant after it comes back is no move
        for partition, record in made.state.records.items():
            if record.last is not None:
                self._last.setdefault(partition, record.last)  # a queue that was created again may have owner records
        aims = {partition: move.receiver for partition, move in made.state.moves.items() if not move.quiet}
        aims |= made.state.waiting
        self._aims = aims

    def total(self, counted: int) -> None:
        """Compare the count with that of the ledger. Raises InvariantError."""
        if not self.lost and not self._tenant.session_timeout and not self.least <= counted <= self.most:
            raise InvariantError(f"{self.least} moves were seen, and {counted} counted")

    def _another(self, before: Mapping[Partition, str | None], now: Mapping[Partition, str | None]) -> bool:
        """True if these are the origins of two rebalances. Within one, partitions may be withdrawn and members change names."""
        both = [(before[partition], now[partition]) for partition in before.keys() & now.keys()]
        return not both or any(one != other and not (one and other and self._related(one, other)) for one, other in both)

    def _related(self, one: str, other: str) -> bool:
        instance = self._instances.get(one)
        return self._tenant.session_timeout > 0 and instance is not None and instance == self._instances.get(other)


Turn = tuple[str, str | None, str | None]
"""A transition that was seen: "partition" or "group", before, after. None: the partition does not exist."""


class Checks:
    """Checks the invariants of one group. Methods raise InvariantError."""

    def __init__(self, tenant: Tenant) -> None:
        self._tenant = tenant
        self._steps = StepChecks()
        self.moves = Moves(tenant)
        self._pending: dict[Operator, tuple[Step, Mapping[str, str]]] = {}
        """The last step of every operator, and its ledger."""
        self._believed: Mapping[str, str] = {}
        """The ledger that an operator wrote last."""
        self._issued: dict[tuple[Partition, int], str | None] = {}
        self._highest: dict[Partition, int] = {}
        self._paused: dict[Partition, tuple[float, str]] = {}
        self._changed_at = 0.0
        self.state: GroupState | None = None
        self.settled = False
        """Whether the last step of any operator says that the group is settled."""
        self.lost = False
        self.turns: set[Turn] = set()
        self._partitions: Mapping[Partition, PartitionState] = {}

    # -- the engine, step by step

    def stepped(self, operator: Operator, before: GroupState, shown: Observation, now: float, limit: int, fitted: Fitted) -> None:
        """Check a step of an operator."""
        made, texts = fitted.step, fitted.texts
        if not self._tenant.strict:
            self.settled = summary(made.state).settled
            return
        self.settled = self._steps.stepped(before, shown, made, now, limit)
        if texts is not None:
            self._pending[operator] = (made, texts)

    # -- the ledger

    def written(self, data: Mapping[str, str]) -> None:
        """Check a change of the ledger."""
        if not self._tenant.strict:
            return
        if data == self._believed:
            return  # restored after an edit by another client
        made = next((made for made, texts in reversed(self._pending.values()) if texts == data), None)
        if made is None:
            if not data and self._believed:
                self._ledger_lost()
            return
        self._believed = data
        self._written(made)

    def _written(self, made: Step) -> None:
        state = made.state
        self._turn(state)
        now = self._tenant.environment.now
        for partition, record in state.records.items():
            move = state.moves.get(partition)
            if record.owner is not None:
                self._epoch(partition, record.epoch, state.known[record.owner].uid)
            self._pausing(partition, record.owner, move is not None and not move.quiet, now)
        for effect in made.effects:
            if isinstance(effect, Grant):
                self._epoch(effect.partition, effect.epoch, effect.uid)
            elif isinstance(effect, Pause) and effect.then is not None:
                self._epoch(effect.partition, effect.then.epoch, effect.then.uid)
        self.moves.written(made)
        self.state = state
        if self._tenant.environment.trace is not None:
            for event in made.events:
                self._tenant.environment.say(f"{self._tenant}: {event}")

    def _turn(self, state: GroupState) -> None:
        before, now = self._partitions, partition_states(state)
        for partition in before.keys() | now.keys():
            one, other = before.get(partition), now.get(partition)
            if one is not other:
                self.turns.add(("partition", one, other))
        if self.state is not None and state_of(self.state) is not state_of(state):
            self.turns.add(("group", state_of(self.state), state_of(state)))
        self._partitions = now

    def _epoch(self, partition: Partition, epoch: int, uid: str | None) -> None:
        if self._issued.setdefault((partition, epoch), uid) != uid:
            raise InvariantError(f"epoch {epoch} of {partition} is meant for {uid} and for {self._issued[partition, epoch]}")

    def _pausing(self, partition: Partition, owner: str | None, moving: bool, now: float) -> None:
        """Check that no owner is paused and gets its partition back without any change meanwhile."""
        if moving and owner is not None:
            self._paused.setdefault(partition, (now, owner))
        elif partition in self._paused:
            since, giver = self._paused.pop(partition)
            tenant = self._tenant
            eager = tenant.spec["protocol"] != "Cooperative"
            unchanged = self._changed_at < since - tenant.rebalance["resyncSeconds"] - 5
            if owner == giver and not eager and unchanged and not tenant.environment.stormy:
                raise InvariantError(f"{partition} of {giver} was paused at {since} for nothing")

    def changed(self) -> None:
        """Record that a fact of the group has changed."""
        self._changed_at = self._tenant.environment.now

    def _ledger_lost(self) -> None:
        """Forget grants that no queue has accepted; the queues have the others."""
        self._tenant.environment.say(f"{self._tenant}: the ledger is lost")
        self._issued = {}
        self._believed = {}
        self._partitions, self.state = {}, None
        self.moves.ledger_lost()
        self.lost = True

    # -- the consumers and the queues

    def told(self, pod: Consumer, key: Key, epoch: int) -> None:
        """Check that a consumer reads a grant with a higher epoch than all before."""
        if not self._tenant.strict:
            return
        partition = Partition(*key)  # type: ignore[arg-type]
        queue = self._tenant.servers[key[0]]
        forgotten = self.lost and (not queue.fenced or queue.restarts)  # both the ledger and the queue lost the epoch
        if epoch < self._highest.get(partition, 0) and not forgotten:
            raise InvariantError(f"{pod.name} reads a grant of {partition}@{epoch} after {self._highest[partition]}")
        self._highest[partition] = max(epoch, self._highest.get(partition, 0))

    def handed_over(self, key: Key, uid: str, epoch: int) -> None:
        """Check that an owner hands a partition over only as the ledger says."""
        if self._tenant.strict and not self.lost and self._issued.get((Partition(*key), epoch)) != uid:  # type: ignore[arg-type]
            raise InvariantError(f"{key[0]}/{key[1]} is handed to {uid}@{epoch}, which no operator has written")

    def accepted(self, pod: Consumer, queue: Queue, number: int, epoch: int, what: str) -> None:
        """Check that no other consumer may use a partition that has just been used."""
        if not self._tenant.strict:
            return
        log = queue.log(number)
        if queue.fenced and log.forgot:
            return  # the server has lost the owner record, and the operator has not restored it yet
        for other in self._tenant.pods.values():
            if other is pod or not other.alive:
                continue
            held = other.owned.get((queue.name, number))
            if held is None or not queue.lets_in(number, other.uid, held) or not other.may_act((queue.name, number)):
                continue
            if queue.fenced or (not queue.force and not self.lost):
                raise InvariantError(
                    f"{what} of {queue.name}/{number} by {pod.name}@{epoch}, and {other.name}@{held} may act too"
                )
