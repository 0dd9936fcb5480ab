"""What must hold of one group at every instant: of its ledger, of what its consumers are told, and of who is let in."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from baton.engine import Grant, GroupState, PartitionState, Pause, Step, partition_states, summary
from baton.engine.state_machine import state_of
from baton.model.ids import Partition
from tests.simulation.seeds.invariant import InvariantError
from tests.simulation.seeds.moves import Moves
from tests.simulation.seeds.steps import StepChecks

if TYPE_CHECKING:
    from tests.simulation.seeds.consumers import Consumer, Key
    from tests.simulation.seeds.operators import Operator
    from tests.simulation.seeds.queues import Queue
    from tests.simulation.seeds.tenant import Tenant

Turn = tuple[str, str | None, str | None]
"""A transition that was seen: "partition" or "group", before, after. None: it does not exist."""


class Checks:
    """See above. Methods raise InvariantError."""

    def __init__(self, tenant: Tenant) -> None:
        self._tenant = tenant
        self._steps = StepChecks()
        self.moves = Moves(tenant)
        self._pending: dict[Operator, tuple[Step, Mapping[str, str]]] = {}
        """The last step of every operator, and the ledger that it makes."""
        self._believed: Mapping[str, str] = {}
        """The ledger as an operator last wrote it."""
        self._issued: dict[tuple[Partition, int], str | None] = {}
        self._highest: dict[Partition, int] = {}
        self._paused: dict[Partition, tuple[float, str]] = {}
        self._changed_at = 0.0
        self.state: GroupState | None = None
        self.settled = False
        """By the last step of any operator."""
        self.lost = False
        self.turns: set[Turn] = set()
        self._partitions: Mapping[Partition, PartitionState] = {}

    # -- the engine, step by step

    def stepped(self, operator: Operator, before: GroupState, now: float, made: Step, texts: Mapping[str, str] | None) -> None:
        """An operator took a step; if it comes to be written, `texts` will stand in the ledger."""
        if not self._tenant.strict:
            self.settled = summary(made.state).settled
            return
        assert made.state.view is not None
        self.settled = self._steps.stepped(before, made.state.view.observation, made, now)
        if texts is not None:
            self._pending[operator] = (made, texts)

    # -- the ledger

    def written(self, data: Mapping[str, str]) -> None:
        """The ledger reads so now."""
        if not self._tenant.strict:
            return
        if data == self._believed:
            return  # put right after somebody else's edit
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
        """Who is paused and gets the partition back without anything having changed meanwhile was paused for nothing."""
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
        """A fact of the group is another."""
        self._changed_at = self._tenant.environment.now

    def _ledger_lost(self) -> None:
        """What was not yet granted is forgotten; what was, the queues know."""
        self._tenant.environment.say(f"{self._tenant}: the ledger is lost")
        self._issued = {}
        self._believed = {}
        self._partitions, self.state = {}, None
        self.moves.ledger_lost()
        self.lost = True

    # -- the consumers and the queues

    def told(self, pod: Consumer, key: Key, epoch: int) -> None:
        """A consumer learns that a partition is its own."""
        if not self._tenant.strict:
            return
        partition = Partition(*key)  # type: ignore[arg-type]
        queue = self._tenant.servers[key[0]]
        forgotten = self.lost and (not queue.fenced or queue.restarts)  # ledger and queue: then nobody knows
        if epoch < self._highest.get(partition, 0) and not forgotten:
            raise InvariantError(f"{pod.name} is told of {partition}@{epoch} after {self._highest[partition]}")
        self._highest[partition] = max(epoch, self._highest.get(partition, 0))

    def handed_over(self, key: Key, uid: str, epoch: int) -> None:
        """An owner has made the next one the owner: only as an operator has decided and written down."""
        if self._tenant.strict and not self.lost and self._issued.get((Partition(*key), epoch)) != uid:  # type: ignore[arg-type]
            raise InvariantError(f"{key[0]}/{key[1]} is handed to {uid}@{epoch}, which no operator has written")

    def accepted(self, pod: Consumer, queue: Queue, number: int, epoch: int, what: str) -> None:
        """Somebody was let in: then nobody else may take the partition for its own."""
        if not self._tenant.strict:
            return
        log = queue.log(number)
        if queue.fenced and log.forgot:
            return  # the server has lost its record, and the operator has not put it right yet
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
