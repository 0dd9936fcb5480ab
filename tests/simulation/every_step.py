"""Invariants of every step of a group whose ledger and queues lose nothing, and of such a group at rest."""

from collections.abc import Mapping
from typing import Any

import pytest

from baton.controller.runtime import GroupRuntime
from baton.engine import GroupState, Pause, Step, dump, step
from baton.engine.observation import Observation, Outcome
from baton.engine.results import Granted
from baton.engine.step import SIZE_LIMIT
from baton.model.ids import Epoch, Partition, Uid
from baton.model.ledger import MemberEntry, flat
from baton.model.names import LEDGER_GROUP_KEY
from baton.queues.protocol import Ownership
from baton.simulation import Result, Scenario, simulate
from baton.simulation import run as simulation
from baton.simulation.simulated_cluster import FencedQueues
from tests.simulation.seeds.checks import StepChecks
from tests.unit.engine.group import Group


class EveryStep:
    """Checks every step of one group, and counts its moves."""

    def __init__(self) -> None:
        self.moves = 0
        self._steps = StepChecks(sample=1)
        self._issued: dict[tuple[Partition, Epoch], Uid | None] = {}
        self._highest: dict[Partition, Epoch] = {}

    def stepped(self, before: GroupState, made: Step, now: float, records: Mapping[Partition, Ownership]) -> None:
        """Check a step. `records`: those of the queues."""
        assert made.state.view is not None
        seen = made.state.view.observation
        self.moves += sum(isinstance(event, Granted) and event.previous not in (None, event.member) for event in made.events)
        self._check_ledger(made.state, now)
        for effect in made.effects:
            grant = effect.then if isinstance(effect, Pause) else effect
            if grant is not None:
                key = (grant.partition, grant.epoch)
                assert self._issued.setdefault(key, grant.uid) == grant.uid, f"{key} is meant for two pods"
        if self._steps.stepped(before, seen, made, now):
            check_rest(made.state, records)

    def _check_ledger(self, state: GroupState, now: float) -> None:
        entries = [MemberEntry.from_json(text) for key, text in dump(state).items() if key != LEDGER_GROUP_KEY]
        grants = [grant for entry in entries for grant in (*flat(entry.owned), *flat(entry.revoking))]
        epochs = dict(grants)
        assert len(epochs) == len(grants), "a partition has two owners"
        for partition, _ in (grant for entry in entries for grant in flat(entry.revoking)):
            move = state.moves[partition]
            assert move.deadline <= now + move.length + 1e-6, f"{partition} is revoked without a deadline"
        epochs |= {partition: move.epoch for partition, move in state.moves.items()}
        for partition, epoch in state.epoch_tombstones.items():
            epochs[partition] = max(epochs.get(partition, epoch), epoch)
        for partition, epoch in epochs.items():
            assert epoch >= self._highest.get(partition, 0), f"the epoch of {partition} went back"
            self._highest[partition] = epoch


def check_rest(state: GroupState, records: Mapping[Partition, Ownership]) -> None:
    """Check a group at rest: owners are live readers with even shares, and the queues' records equal the ledger."""
    assert state.view is not None
    seen = state.view.observation
    fenced = {name for name, _ in state.fenced}
    live = {name: member for name, member in seen.members.items() if not member.terminating and name not in fenced}
    shares = dict.fromkeys(live, 0)
    for partition, record in state.records.items():
        readers = [name for name, member in live.items() if member.subscribed is None or partition.queue in member.subscribed]
        if not readers:
            continue
        assert record.owner in readers, f"{partition} is owned by {record.owner}"
        assert records[partition] == Ownership(live[record.owner].uid, record.epoch), f"the queue disagrees on {partition}"
        shares[record.owner] += 1
    alike = all(member.subscribed is None for member in live.values()) and not any(one.exclusive for one in seen.queues.values())
    if shares and alike and seen.spec.assignors == ("solace",):
        assert max(shares.values()) - min(shares.values()) <= 1, shares


class CheckedGroup(Group):
    """A group whose every step is checked, also against the step of an operator that was not restarted."""

    def __init__(self, *partitions_and_spec: Any, **queue: Any) -> None:
        super().__init__(*partitions_and_spec, **queue)
        self.checks = EveryStep()

    def step(self, at: float | None = None, outcomes: frozenset[Outcome] = frozenset()) -> Step:
        before, seen = self.state, self.observe(outcomes)
        restarted = super().step(at, outcomes)
        made = step(before, seen, self.now)
        assert (made.state, made.effects, made.events) == (restarted.state, restarted.effects, restarted.events)
        self.checks.stepped(before, made, self.now, self.records)
        return restarted

    def check_rest(self) -> None:
        check_rest(self.state, self.records)


def simulate_checked(scenario: Scenario) -> tuple[Result, EveryStep]:
    """Simulate a scenario in which the operator is never down, and check its every step and its end, which has to be at rest."""
    checks = EveryStep()

    class CheckedRuntime(GroupRuntime):
        async def advance(self, facts: Observation, limit: int = SIZE_LIMIT) -> Step:
            before = self.state
            made = await super().advance(facts, limit)
            checks.stepped(before, made, self._clock.now(), self.records)
            return made

        @property
        def records(self) -> Mapping[Partition, Ownership]:
            assert isinstance(self._queues, FencedQueues)
            return self._queues.records

    runtimes: list[CheckedRuntime] = []

    def begin(*arguments: Any) -> CheckedRuntime:
        runtimes.append(CheckedRuntime(*arguments))
        return runtimes[-1]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(simulation, "GroupRuntime", begin)
        result = simulate(scenario)
    (runtime,) = runtimes
    check_rest(runtime.state, runtime.records)
    return result, checks
