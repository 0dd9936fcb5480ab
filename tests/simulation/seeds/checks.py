"""What must hold at every instant of every seed."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING

from tests.simulation.seeds.clock import InvariantError
from tests.simulation.seeds.operators import Operator, repeated

from baton.engine import Grant, GroupState, PartitionState, State, Step, dump, load, partition_states, step, summary
from baton.engine.group_state import state_of
from baton.engine.happenings import Granted
from baton.engine.observation import Observation, OnDeadline
from baton.model.ids import Partition

if TYPE_CHECKING:
    from tests.simulation.seeds.consumers import Consumer, Key
    from tests.simulation.seeds.queues import Queue
    from tests.simulation.seeds.world import World

Turn = tuple[str, str | None, str | None]
"""A transition that was seen: "partition" or "group", before, after. None: it does not exist."""

SAMPLE = 6
"""One step in so many is taken again, to see that repetition and order change nothing."""


class Checks:
    def __init__(self, world: World) -> None:
        self._world = world
        self.texts: dict[str, str | None] = {}
        """What every pod's key said when it was last to be refreshed."""
        self._issued: dict[tuple[Partition, int], str | None] = {}
        self._highest: dict[Partition, int] = {}
        self._last: dict[Partition, str] = {}
        self._instances: dict[str, str | None] = {}
        self._paused: dict[Partition, tuple[float, str]] = {}
        self._origins: dict[Partition, str | None] | None = None
        self._aims: dict[Partition, str | None] = {}
        self._facts: object = None
        self._lower = self._here = self._spent = self._grants = 0
        self.fewest = world.spec.assignors == ("solace",)
        self._changed_at = 0.0
        self.moves = self.most_moves = 0
        """Without and with those between two names of one identity; which they are is known for as long as its seat is kept."""
        self.state: GroupState | None = None
        self.lost = False
        self.steps = 0
        self.turns: set[Turn] = set()
        self._partitions: Mapping[Partition, PartitionState] = {}

    # -- the engine, step by step

    def stepped(self, operator: Operator, before: GroupState, seen: Observation, made: Step) -> None:
        now = self._world.clock.now
        self.steps += 1
        state = made.state
        if made.wake_at is not None and made.wake_at <= now:
            raise InvariantError(f"it wants to be woken at {made.wake_at}, which is over")
        self._nothing_waits_without_a_deadline(state, seen, made)
        self._settled_is_settled(state)
        if self.steps % SAMPLE == 0:
            if load(dump(state)) != state:
                raise InvariantError("the ledger does not read back as it was written")
            other = step(replace(before, view=None), repeated(seen), now)
            if (other.state, other.effects, other.happenings) != (state, made.effects, made.happenings):
                raise InvariantError("the order in which things were learnt matters")
            again = step(replace(state, view=None), seen, now)
            if again.state != state or again.happenings or again.effects != made.effects:
                raise InvariantError(f"the same observation twice changed something: {again.happenings}")

    def _nothing_waits_without_a_deadline(self, state: GroupState, seen: Observation, made: Step) -> None:
        ends = []
        for partition, move in state.moves.items():
            queue = seen.queues.get(partition.queue)
            if move.giver is None or move.quiet or move.released is not None or queue is None:
                continue
            unfenced = not queue.fenced and queue.on_deadline is OnDeadline.WAIT
            if not move.missed:
                ends.append(move.deadline)
            elif not unfenced:
                raise InvariantError(f"{partition} waits for {move.giver} beyond its deadline")
        problem = state.view is not None and state.view.problem is not None
        if state.holddown is not None and not seen.spec.paused and not problem:
            ends.append(state.holddown.until)
        if ends and (made.wake_at is None or made.wake_at > min(ends)):
            raise InvariantError(f"nobody is woken at {min(ends)} but at {made.wake_at}")

    def _settled_is_settled(self, state: GroupState) -> None:
        if not summary(state).settled:
            return
        states = partition_states(state)
        if state_of(state) is not State.READY or any(one is not PartitionState.READY for one in states.values()):
            raise InvariantError(f"it is settled and {state_of(state)}: {states}")
        active = Counter(
            queue for queue, _ in {(p.queue, slot.owner) for p, slot in state.slots.items()} if state.queues[queue].exclusive
        )
        if any(count > 1 for count in active.values()):
            raise InvariantError(f"it is settled, and exclusive queues have several active members: {active}")

    # -- the ledger

    def written(self, made: Step) -> None:
        state = made.state
        self._turn(state)
        now = self._world.clock.now
        for partition, slot in state.slots.items():
            move = state.moves.get(partition)
            if slot.owner is not None:
                self._epoch(partition, slot.epoch, state.known[slot.owner].uid)
            self._pausing(partition, slot.owner, move is not None and not move.quiet, now)
        for effect in made.effects:
            if isinstance(effect, Grant):
                self._epoch(effect.partition, effect.epoch, effect.uid)
        self._instances.update((pod.name, pod.instance) for pod in self._world.pods.values())
        self._count(made)
        self.state = state

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

    def _count(self, made: Step) -> None:
        """Moves; and within each rebalance what was under way or done when the facts changed.

        A plan takes the fewest moves from who owns what when it is made. If in mid-rebalance members come or go, or a queue
        changes, what was granted or is under way by then may have been in vain and have to be undone: after g such grants, 2 g
        moves may be too many. A rebalance during which nothing changes takes the fewest.
        """
        for happening in made.happenings:
            if isinstance(happening, Granted):
                self._grants += 1
                before, owner = self._last.get(happening.partition), happening.member
                if happening.previous is not None and before is not None and before != owner:
                    self.most_moves += 1
                    if not self._kin(before, owner):
                        self.moves += 1
                        self._here += 1
                self._last[happening.partition] = owner
        running = None if made.state.rebalance is None else made.state.rebalance.origins
        lower = made.state.totals.lower_bound
        if self._origins is not None and (running is None or _another(self._origins, running)):
            least = lower - self._lower
            if self._here > least + 2 * self._spent and self.fewest and not self.lost:
                raise InvariantError(
                    f"{self._here} moves, {self._spent} begun before the last change; the least possible is {least}"
                )
            self._lower, self._here, self._spent, self._grants, self._aims = lower, 0, 0, 0, {}
        self._origins = None if running is None else dict(running)
        for partition in self._last.keys() - made.state.slots.keys():
            del self._last[partition]  # it was withdrawn; who gets it when it comes back takes it from nobody
        aims = {partition: move.receiver for partition, move in made.state.moves.items() if not move.quiet}
        aims |= made.state.waiting
        reads = {member: known.subscribed for member, known in made.state.known.items()}
        facts = (made.state.queues, reads, {(seat.member, seat.uid, seat.left is None) for seat in made.state.seats})
        if self._facts is not None and facts != self._facts and running is not None:
            self._spent = self._grants + len(self._aims)
        self._facts = facts
        self._aims = aims

    def _kin(self, one: str, other: str) -> bool:
        instance = self._instances.get(one)
        return self._world.spec.session_timeout > 0 and instance is not None and instance == self._instances.get(other)

    def _pausing(self, partition: Partition, owner: str | None, moving: bool, now: float) -> None:
        """Who is paused and gets the partition back without anything having changed meanwhile was paused for nothing."""
        if moving and owner is not None:
            self._paused.setdefault(partition, (now, owner))
        elif partition in self._paused:
            since, giver = self._paused.pop(partition)
            eager = self._world.spec.protocol != "Cooperative"
            if (
                owner == giver
                and not eager
                and self._changed_at < since - self._world.spec.resync - 5
                and not self._world.operators[1:]
            ):
                raise InvariantError(f"{partition} of {giver} was paused at {since} for nothing")

    def changed(self) -> None:
        self._changed_at = self._world.clock.now

    def ledger_lost(self) -> None:
        """What was not yet granted is forgotten; what was, the queues know."""
        self._issued = {}
        self._partitions, self.state = {}, None
        self._origins, self._aims = None, {}
        self._lower = self._here = self._spent = self._grants = 0
        self.lost = True

    # -- the consumers and the queues

    def granted(self, queue: Queue, grant: Grant) -> None:
        if queue.fenced:
            log = queue.log(grant.partition.number)
            if log.epoch > log.forgot:
                log.forgot = 0

    def told(self, pod: Consumer, key: Key, epoch: int) -> None:
        partition = Partition(*key)  # type: ignore[arg-type]
        queue = self._world.queues[key[0]]
        forgotten = self.lost and (not queue.fenced or queue.restarts)  # ledger and queue: then nobody knows
        if epoch < self._highest.get(partition, 0) and not forgotten:
            raise InvariantError(f"{pod.name} is told of {partition}@{epoch} after {self._highest[partition]}")
        self._highest[partition] = max(epoch, self._highest.get(partition, 0))

    def accepted(self, pod: Consumer, queue: Queue, number: int, epoch: int, what: str) -> None:
        """Somebody was let in: then nobody else may believe the partition to be its own."""
        log = queue.log(number)
        if queue.fenced and log.forgot:
            return  # the server has lost its record, and the operator has not put it right yet
        for other in self._world.pods.values():
            if other is pod or other.dead or other.stopped:
                continue
            held = other.owned.get((queue.name, number))
            if held is None or not queue.lets_in(number, other.uid, held):
                continue
            doubles = pod.instance is not None and pod.instance == other.instance  # the older learns of it by the ledger only
            if queue.fenced or (not queue.force and not self.lost and not doubles):
                raise InvariantError(
                    f"{what} of {queue.name}/{number} by {pod.name}@{epoch}, and {other.name}@{held} may act too"
                )

    # -- the end

    def balanced(self) -> str | None:
        """From the consumers' side: is everybody served, once, and evenly? None, or what is wrong."""
        world = self._world
        operator = world.operator
        assert operator is not None
        state = operator.state
        live = self._members()
        if state_of(state) is not State.READY:
            return (
                f"the state is {state_of(state)}: {[(p, m) for p, m in state.moves.items()][:3]} {state.holddown} {state.seats}"
            )
        loads: Counter[str] = Counter()
        for name, queue in world.queues.items():
            readers = [pod for pod in live if pod.subscribed is None or name in pod.subscribed]
            if not queue.named:
                continue
            for number in range(queue.partitions if readers else 0):
                holders = [
                    pod
                    for pod in world.pods.values()
                    if (epoch := pod.owned.get((name, number))) is not None and queue.lets_in(number, pod.uid, epoch)
                ]
                if len(holders) != 1 or holders[0] not in readers:
                    return f"{name}/{number} is served by {[pod.name for pod in holders]} ({queue.log(number)})"
                loads[holders[0].name] += 0 if queue.exclusive else 1
        uniform = all(pod.subscribed is None for pod in live)
        shared = sum(queue.partitions for queue in world.queues.values() if queue.named and not queue.exclusive)
        size = len(live) if world.spec.replicas is None else min(len(live), world.spec.replicas)
        if uniform and shared and live and world.spec.assignors[0] == "solace":
            active = [loads[pod.name] for pod in live if loads[pod.name]]
            if len(active) < min(size, shared) or max(active) - min(active) > 1:
                return f"not balanced: {dict(loads)}"
        states = partition_states(state)
        if live and uniform and any(one is not PartitionState.READY for one in states.values()):
            return f"not ready: {states}"
        if live and uniform and state.queues and not summary(state).settled:
            return "the group is not settled"
        return None

    def _members(self) -> list[Consumer]:
        assert self.state is not None
        without = {name for name, _ in self.state.fenced} | {name for name, _ in self.state.victims}
        return [pod for pod in self._world.pods.values() if not pod.terminating and pod.name not in without]

    def served(self) -> str | None:
        """Every message that was produced has been processed."""
        world = self._world
        for name, queue in world.queues.items():
            readers = [pod for pod in self._members() if pod.subscribed is None or name in pod.subscribed]
            for number in range(queue.partitions if queue.named and readers else 0):
                log = queue.log(number)
                if log.committed != queue.appended(log):
                    return f"{name}/{number}: {log.committed} of {queue.appended(log)} messages were processed: {log}"
        return None

    def bounds(self) -> None:
        assert self.state is not None
        totals = self.state.totals
        if not self.lost and not self._world.spec.session_timeout and not self.moves <= totals.moves <= self.most_moves:
            raise InvariantError(f"{self.moves} moves were seen, and {totals.moves} counted")


def _another(before: Mapping[Partition, str | None], now: Mapping[Partition, str | None]) -> bool:
    """A rebalance has its origins from its start; only partitions that are withdrawn leave it."""
    both = before.keys() & now.keys()
    return not both or any(before[partition] != now[partition] for partition in both)
