"""The simulation loop: events go to the simulated cluster, observations to the engine, and effects to the queues; lines come
out."""

import math
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any

from baton.controller.large_work import LargeWork
from baton.controller.runtime import GroupRuntime
from baton.engine import GroupState, load, summary
from baton.engine.results import (
    Approved,
    DeadlineMissed,
    Fenced,
    Granted,
    Proposed,
    ReleaseCause,
    Released,
    Revoked,
    StandsBy,
    State,
    StateChanged,
    StepEvent,
    Withdrawn,
)
from baton.engine.state import moment
from baton.model.ids import Epoch, MemberId, Partition, Uid
from baton.model.ledger import MemberEntry
from baton.model.names import LEDGER_GROUP_KEY
from baton.simulation.scenario import EventPart, Scenario, TooMuchWork
from baton.simulation.simulated_cluster import PodLife, SimulatedCluster
from baton.simulation.virtual_time import run

# The lines of one instant, in the order of the format: fenced pods, withdrawn and approved proposals, Rebalancing, misses and
# releases, grants, revokes, standbys, a new proposal, and the final state.


Line = dict[str, Any]
_HandOff = DeadlineMissed | Released | Granted | Revoked


def number(seconds: float) -> float | int:
    """Round to the microsecond; whole seconds become an int."""
    rounded = round(seconds, 6)
    return int(rounded) if rounded == int(rounded) else rounded


def time_text(seconds: float) -> str:
    """Format seconds for people, with at most two decimals."""
    return f"{seconds:,.2f}".rstrip("0").rstrip(".")


class Timeline:
    """Collects the lines of a run, instant by instant."""

    def __init__(self) -> None:
        self.lines: list[Line] = []
        self.reasons: list[str] = []
        """For each line, the engine's reason."""
        self._state: tuple[State, float | None] = (State.READY, None)

    def add(self, now: float, events: list[StepEvent]) -> None:
        t = number(now)
        changes = [event for event in events if isinstance(event, StateChanged)]
        for event in events:
            if isinstance(event, Fenced):
                self._add(event.why, t=t, event="fenced", member=event.member, why=event.why)
        for kind, word in ((Withdrawn, "withdrawn"), (Approved, "approved")):
            for event in events:
                if isinstance(event, kind):
                    self._add("", t=t, event=word, id=event.id)
        for change in [one for one in changes if one.state is State.REBALANCING and one.until is None][-1:]:
            self._change(t, change)
        for hand_off in _in_order(events):
            self._add(getattr(hand_off, "why", ""), **_line(t, hand_off))
        for member in sorted({event.member for event in events if isinstance(event, StandsBy)}):
            self._add("", t=t, event="standby", member=member)
        for event in events:
            if isinstance(event, Proposed):
                self._add(event.why, t=t, event="proposal", id=event.id, moves=event.moves)
        for change in changes[-1:]:
            self._change(t, change)

    def _add(self, reason: str, /, **line: object) -> None:
        self.lines.append(line)
        self.reasons.append(reason)

    def _change(self, t: float, change: StateChanged) -> None:
        if (change.state, change.until) != self._state:
            self._state = (change.state, change.until)
            until = {} if change.until is None else {"until": number(change.until)}
            self._add(change.why, t=t, event="state", state=str(change.state), **until)


def _in_order(events: list[StepEvent]) -> list[_HandOff]:
    """Return misses and releases, then grants, then revokes, each by partition. A revoke and a grant of one partition in one
    instant stay together, in that order."""
    of: defaultdict[Partition, list[_HandOff]] = defaultdict(list)
    for event in events:
        if isinstance(event, _HandOff):
            of[event.partition].append(event)
    order = {DeadlineMissed: 0, Released: 0, Granted: 1, Revoked: 2}
    keyed: list[tuple[int, Partition, int]] = []
    for partition, history in of.items():
        first = next((n for n, h in enumerate(history) if isinstance(h, Revoked)), len(history))
        keyed += [(order[type(event)] if n < first else 2, partition, n) for n, event in enumerate(history)]
    return [of[partition][n] for _, partition, n in sorted(keyed)]


def _line(t: float, event: _HandOff) -> Line:
    queue, partition = event.partition
    line: Line = {"t": t, "event": "", "queue": queue, "partition": partition, "member": event.member}
    match event:
        case DeadlineMissed():
            return line | {"event": "miss", "taken": event.taken}
        case Released():
            return line | {"event": "release", "how": str(event.how)}
        case Granted():
            return line | {"event": "grant", "epoch": event.epoch}
        case Revoked():
            return line | {"event": "revoke", "epoch": event.epoch, "deadline": number(event.deadline)}


# The costs of a scenario: moves, pauses, time without an owner; and whether a queue ever accepted two consumers of a partition.


class ScenarioCosts:
    """The costs of a scenario, counted from events and consumers, independently of the engine's counts."""

    def __init__(self, cluster: SimulatedCluster) -> None:
        self._cluster = cluster
        self._now = 0.0
        self._unowned: set[Partition] = set()
        self._fresh: set[Partition] = set()
        """The unowned partitions that were never granted."""
        self._known: frozenset[Partition] = frozenset()
        self.existence: dict[Partition, list[tuple[float, float]]] = {}
        """The periods in which each partition exists; the end of the last one may be infinite."""
        self._paused: dict[Partition, float] = {}
        self._last: dict[Partition, str] = {}
        self._dual: set[Partition] = set()
        self._highest: dict[Partition, tuple[Epoch, Uid]] = {}
        self.moves = 0
        self.pause_seconds = 0.0
        self.unowned_seconds = 0.0
        self.unowned_at_first = 0.0
        """The part of `unowned_seconds` before the first grants of partitions."""
        self.most_paused = 0
        self.dual_ownership = 0
        self.epoch_regressions = 0

    def pass_time(self, now: float) -> None:
        """Count the time since the last instant, in which nothing changed."""
        if self._unowned:
            readers = self._cluster.readers()
            waiting = [partition for partition in self._unowned if partition.queue in readers]
            self.unowned_seconds += (now - self._now) * len(waiting)
            self.unowned_at_first += (now - self._now) * sum(partition in self._fresh for partition in waiting)
        self._now = now

    def queues_changed(self) -> None:
        """Take in partitions that were added (without an owner) or removed."""
        partitions = self._cluster.partitions
        if partitions is self._known:
            return
        for partition in partitions - self._known:
            self.existence.setdefault(partition, []).append((number(self._now), math.inf))
        for partition in self._known - partitions:
            self.existence[partition][-1] = (self.existence[partition][-1][0], number(self._now))
        self._unowned |= partitions - self._known
        self._fresh |= partitions - self._known
        self._unowned &= partitions
        self._known = partitions

    def happened(self, events: list[StepEvent]) -> None:
        for event in events:
            match event:
                case Revoked(partition=partition):
                    self._paused.setdefault(partition, self._now)
                    self.most_paused = max(self.most_paused, len(self._paused))
                case Released(partition=partition) | DeadlineMissed(partition=partition, taken=True):
                    if partition in self._known:
                        self._unowned.add(partition)
                    else:
                        self._paused.pop(partition, None)
                case Granted(partition=partition):
                    self._unowned.discard(partition)
                    self._fresh.discard(partition)
                    self.moves += event.previous not in (None, event.member)
                    if (since := self._paused.pop(partition, None)) is not None:
                        self.pause_seconds += self._now - since

    def granted(self, uid: Uid, new: dict[Partition, Epoch]) -> None:
        """Take in grants that a consumer has read. An epoch that another pod had, or a lower one, counts as a regression."""
        for partition, epoch in new.items():
            highest, holder = self._highest.get(partition, (0, None))
            if epoch < highest or (epoch == highest and uid != holder):
                self.epoch_regressions += 1
            else:
                self._highest[partition] = (epoch, uid)

    def count_dual_ownership(self) -> None:
        """Count partitions that newly accept two consumers, if all consumers use all partitions that they hold."""
        held = [consumer.holds for consumer in self._cluster.fleet.values()]
        dual: set[Partition] = set()
        if len(set().union(*held)) == sum(map(len, held)):
            self._dual = dual
            return
        holders = Counter(chain.from_iterable(held))
        for partition in [partition for partition, count in holders.items() if count > 1]:
            queue = self._cluster.queues.get(partition.queue)
            accepted = sum(
                partition in consumer.holds
                and queue is not None
                and (not queue.fenced or self._cluster.records.accepts(partition, consumer.uid, consumer.holds[partition]))
                for consumer in self._cluster.fleet.values()
            )
            if accepted > 1:
                dual.add(partition)
        self.dual_ownership += len(dual - self._dual)
        self._dual = dual


# The loop


GROUP = "simulation/group"

MOST_WORK = 100_000_000
"""Most partitions and members in all steps together. A million take one to two seconds."""


@dataclass(frozen=True, slots=True)
class Result:
    """The result of a scenario."""

    lines: tuple[Line, ...]
    """The timeline; the summary comes last."""
    reasons: tuple[str, ...]
    """The reason of each line of the timeline, for people."""
    until: float
    """When the scenario ended."""
    most_paused: int
    unowned_at_first: float
    """The part of `unowned_seconds` before the first grants of partitions: the fleet's start, and new partitions."""
    lives: tuple[PodLife, ...]
    """The lives of all pods that ever joined."""
    existence: Mapping[Partition, Sequence[tuple[float, float]]]
    """The periods in which each partition exists; the end of the last one may be infinite."""

    @property
    def summary(self) -> Line:
        return self.lines[-1]


def simulate(scenario: Scenario, most_work: int = MOST_WORK) -> Result:
    """Run a scenario to its end. Raises TooMuchWork."""
    return run(_Run(scenario, most_work).to_the_end())


class _Run:
    def __init__(self, scenario: Scenario, most_work: int) -> None:
        self._most_work = most_work
        self._until = moment(scenario.until)
        self._batches: defaultdict[float, list[EventPart]] = defaultdict(list)
        for event in scenario.events:
            self._batches[moment(event.at)].append(event)
        self._cluster = SimulatedCluster(scenario)
        self._tally = ScenarioCosts(self._cluster)
        self._tally.queues_changed()
        self._timeline = Timeline()
        self._ledger: Mapping[str, str] = {}
        self._runtime: GroupRuntime | None = self._begin()
        """None: the operator is down."""
        self._lose_next = False
        self._behind = False
        """An observation was lost, so a resync will find changes."""
        self._now = 0.0
        self._work = 0

    def now(self) -> float:
        """Return the time, as the runtime's clock."""
        return self._now

    async def write(self, ledger: Mapping[str, str]) -> None:
        """Write the ledger, for the runtime. Consumers read changes of their keys at once."""
        before, self._ledger = self._ledger, ledger
        for name, consumer in sorted(self._cluster.fleet.items()):
            text = ledger.get(name)
            if text != before.get(name):
                entry = None if text is None else MemberEntry.from_json(text)
                self._tally.granted(consumer.uid, consumer.read(entry, self._now))

    def _begin(self) -> GroupRuntime:
        state = load(self._ledger) if self._ledger else GroupState(GROUP)
        return GroupRuntime(state, self, self, self._cluster.records, LargeWork().of(""))

    async def to_the_end(self) -> Result:
        times = sorted(self._batches, reverse=True)
        now = 0.0
        while now <= self._until:
            self._now = now
            self._tally.pass_time(now)
            await self._instant(self._batches.get(now, []))
            while times and times[-1] <= now:
                times.pop()
            now = self._next(times[-1] if times else math.inf)
        self._tally.pass_time(self._until)
        lines = (*self._timeline.lines, self._summary())
        return Result(
            lines=lines,
            reasons=tuple(self._timeline.reasons),
            until=number(self._until),
            most_paused=self._tally.most_paused,
            unowned_at_first=number(self._tally.unowned_at_first),
            lives=tuple(self._cluster.lives),
            existence=self._tally.existence,
        )

    def _next(self, event: float) -> float:
        """Return the next instant at which anything can happen."""
        times = [event]
        if self._runtime is not None and self._behind:
            resync = self._cluster.spec.rebalance.resync_seconds
            times.append(moment((math.floor(self._now / resync + 1e-9) + 1) * resync))
        if self._wake is not None and self._wake > self._now:
            times.append(self._wake)
        times += [at for consumer in self._cluster.fleet.values() for at in consumer.due.values()]
        return min(times)

    @property
    def _wake(self) -> float | None:
        return None if self._runtime is None else self._runtime.wake_at

    async def _instant(self, batch: list[EventPart]) -> None:
        lost = bool(batch) and self._lose_next
        if batch:
            self._lose_next = any(event.lose for event in batch)
        noticed = self._occur(batch) and not lost
        noticed |= self._release()
        self._behind |= lost
        if self._runtime is None:
            return
        resync = self._cluster.spec.rebalance.resync_seconds
        noticed |= abs(self._now / resync - round(self._now / resync)) < 1e-9
        noticed |= self._wake is not None and self._now >= self._wake
        if noticed:
            self._behind = False
            events = await self._settle(self._runtime)
            self._timeline.add(self._now, events)
        self._tally.count_dual_ownership()

    def _count_work(self) -> None:
        """Count a pass over all partitions and members. Raises TooMuchWork."""
        self._work += len(self._cluster.partitions) + len(self._cluster.fleet)
        if self._work > self._most_work:
            raise TooMuchWork(
                f"this is more than a simulation can do: it came to {time_text(self._now)} of {time_text(self._until)} s; "
                "give fewer partitions, members or events, or a larger maxConcurrentHandoffs"
            )

    def _occur(self, batch: list[EventPart]) -> bool:
        for event in batch:
            self._count_work()
            self._cluster.happen(event, self._now)
            if event.approve and (proposal := self._written().proposal) is not None:
                self._cluster.approved = proposal.id
            if event.operator == "stop":
                self._runtime = None
            elif event.operator == "start" and self._runtime is None:
                self._runtime = self._begin()
        self._read_keys()
        self._cluster.leave_when_idle(self._now)
        self._tally.queues_changed()
        return bool(batch)

    def _release(self) -> bool:
        done = [partition for consumer in self._cluster.fleet.values() for partition in consumer.release_due(self._now)]
        return bool(done)

    async def _settle(self, runtime: GroupRuntime) -> list[StepEvent]:
        """Step until nothing changes any more."""
        events: list[StepEvent] = []
        for _ in range(1000):
            self._count_work()
            before = runtime.state
            made = await runtime.advance(self._cluster.observe())
            changed = made.state is not before and made.state != before
            events += made.events
            self._tally.happened(list(made.events))
            self._cluster.victims = made.state.victims
            moved = self._release() | self._cluster.leave_when_idle(self._now)
            if not changed and not moved and not self._cluster.records.outcomes:
                return events
        raise AssertionError(f"the engine does not come to rest at {self._now}")

    def _read_keys(self) -> None:
        """Let consumers that have just started read their keys, if they have any."""
        for name, consumer in sorted(self._cluster.fleet.items()):
            if consumer.entry is None and (text := self._ledger.get(name)) is not None:
                self._tally.granted(consumer.uid, consumer.read(MemberEntry.from_json(text), self._now))

    def _written(self) -> GroupState:
        """Return the state in the ledger, also while the operator is down."""
        return self._runtime.state if self._runtime is not None else self._begin().state

    def _summary(self) -> Line:
        state = self._written()
        counts = summary(state)
        released = {partition: move for partition, move in state.moves.items() if move.released is not None}
        freed = {p for p, move in released.items() if move.released is not ReleaseCause.DEADLINE or move.receiver != move.giver}
        owned: dict[MemberId, dict[str, list[int]]] = {}
        for partition, record in sorted(state.records.items()):
            if record.owner is not None and partition not in freed:
                owned.setdefault(record.owner, {}).setdefault(partition.queue, []).append(partition.number)
        return {
            "event": "summary",
            "moves": self._tally.moves,
            "lower_bound": counts.numbers.lower_bound,
            "deadline_misses": counts.numbers.deadline_misses,
            "dual_ownership": self._tally.dual_ownership,
            "epoch_regressions": self._tally.epoch_regressions,
            "pause_seconds": number(self._tally.pause_seconds),
            "unowned_seconds": number(self._tally.unowned_seconds),
            "state": str(counts.state),
            "generation": counts.generation,
            "assignment": {member: owned[member] for member in sorted(owned) if member != LEDGER_GROUP_KEY},
        }
