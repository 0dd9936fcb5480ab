"""Groups whose plans a person approves, sometimes: no working pod is asked to release anything that was not approved."""

import random
from dataclasses import replace

import pytest

from baton.api.group import Approval, GroupRebalance
from baton.engine import State, Step, summary
from baton.engine.observation import GroupSpec, ObservedQueue, Outcome
from baton.engine.results import Approved, Revoked
from baton.model.ids import MemberId, Partition, QueueName
from tests.simulation.every_step import CheckedGroup


class Approving(CheckedGroup):
    """A group with a person who looks."""

    def __init__(self, partitions: int, spec: GroupSpec) -> None:
        super().__init__(partitions, spec)
        self.queues[QueueName("mail")] = ObservedQueue(3)
        self.agreed: set[Partition] = set()
        """What was approved to move, and has not begun to."""
        self.proposals: set[str] = set()

    def step(self, at: float | None = None, outcomes: frozenset[Outcome] = frozenset()) -> Step:
        before = self.state
        done = super().step(at, outcomes)
        for event in done.events:
            if isinstance(event, Approved):
                assert before.proposal is not None and before.proposal.id == event.id
                self.agreed |= set(before.proposal.receivers)
        for event in done.events:
            if isinstance(event, Revoked) and self._works(event) and self.spec.approval is Approval.MANUAL:
                assert event.partition in self.agreed, f"{event} was not approved"
                self.agreed.discard(event.partition)
        if done.state.proposal is not None:
            self.proposals.add(done.state.proposal.id)
        return done

    def _works(self, revoked: Revoked) -> bool:
        member = self.members.get(revoked.member)
        queue = self.queues[revoked.partition.queue]
        return member is not None and not member.terminating and revoked.partition.number < queue.partitions

    def work(self) -> Step:
        """Settle. Stopping pods that own nothing end."""
        self.settle()
        owners = {record.owner for record in self.state.records.values()}
        for name in [name for name, member in self.members.items() if member.terminating and name not in owners]:
            self.leave(name)
        return self.settle()

    def come_to_rest(self) -> None:
        for _ in range(200):
            done = self.release_all().work()
            if done.wake_at is None and not self.state.moves and not any(one.terminating for one in self.members.values()):
                return
            self.now = done.wake_at or self.now
        raise AssertionError("something waits for ever")


def live_through(seed: int) -> Approving:
    chance = random.Random(seed)
    rebalance = GroupRebalance(max_concurrent_handoffs=chance.choice((0, 2)))
    group = Approving(chance.randint(1, 9), GroupSpec(approval=Approval.MANUAL, delay=2.0, rebalance=rebalance))
    names = [f"m{number}" for number in range(6)]
    group.join("m0").settle()
    for turn in range(40):
        name = chance.choice(names)
        there = MemberId(name) in group.members
        match chance.randrange(8):
            case 0 | 1 if not there:
                group.join(name, uid=f"{name}-{turn}")
            case 2 if there:
                group.leave(name)
            case 3 if there:
                group.terminate(name)
            case 4:
                group.resize(chance.randint(1, 9))
            case 5:
                group.approved = chance.choice([None, *sorted(group.proposals)])  # most of them obsolete
            case 6:
                group.approved = group.state.proposal.id if group.state.proposal is not None else "none"
            case 7:
                group.request = f"{seed} {turn}"
        group.work()
        group.now += chance.choice((0.1, 1.0, 2.5))
        if chance.random() < 0.6:
            group.release_all()
        group.work()
    return group


@pytest.mark.parametrize("seed", range(40))
def test_no_partition_leaves_a_working_pod_without_an_approval(seed: int) -> None:
    group = live_through(seed)
    group.spec = replace(group.spec, approval=Approval.AUTOMATIC)  # what still waits is carried out
    group.come_to_rest()
    assert summary(group.state).state is State.READY
    group.check_rest()


def test_some_proposals_are_made_and_approved() -> None:
    groups = [live_through(seed) for seed in range(10)]
    assert sum(len(group.proposals) for group in groups) > 10
    assert sum(group.state.totals.moves for group in groups) > 10
