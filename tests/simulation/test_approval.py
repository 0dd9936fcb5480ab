"""Fleets whose plans a person approves, sometimes: nobody who works is asked to let go of anything that was not approved."""

import random
from dataclasses import dataclass, field, replace

import pytest

from baton.api.group import Approval, GroupRebalance, Protocol
from baton.engine import Step
from baton.engine.observation import GroupSpec, Observation, ObservedQueue
from baton.engine.results import Approved, Revoked
from baton.model.ids import MemberId, Partition, QueueName
from tests.simulation.fleet import Fleet


@dataclass
class Approving(Fleet):
    """A fleet with somebody who looks."""

    approved: str | None = None
    request: str | None = None
    agreed: set[Partition] = field(default_factory=set)
    """What was approved to move, and has not begun to."""
    proposals: set[str] = field(default_factory=set)
    automatic: bool = False

    def observation(self) -> Observation:
        return replace(super().observation(), approved=self.approved, request=self.request)

    def write(self, done: Step) -> None:
        before = self.operator
        assert before is not None
        for event in done.events:
            if isinstance(event, Approved):
                assert before.proposal is not None and before.proposal.id == event.id
                self.agreed |= set(before.proposal.receivers)
        for event in done.events:
            if isinstance(event, Revoked) and self._works(event) and not self.automatic:
                assert event.partition in self.agreed, f"{event} was not approved"
                self.agreed.discard(event.partition)
        if done.state.proposal is not None:
            self.proposals.add(done.state.proposal.id)
        super().write(done)

    def _works(self, revoked: Revoked) -> bool:
        member = self.members.get(revoked.member)
        queue = self.queues[revoked.partition.queue]
        return member is not None and not member.terminating and revoked.partition.number < queue.partitions


def live_through(seed: int) -> Approving:
    chance = random.Random(seed)
    fleet = Approving(
        spec=GroupSpec(
            approval=Approval.MANUAL, delay=2.0, rebalance=GroupRebalance(max_concurrent_handoffs=chance.choice((0, 2)))
        ),
        queues={QueueName("orders"): ObservedQueue(chance.randint(1, 9)), QueueName("mail"): ObservedQueue(3)},
    )
    names = [f"m{number}" for number in range(6)]
    fleet.join("m0")
    fleet.work()
    for _ in range(40):
        name = chance.choice(names)
        match chance.randrange(9):
            case 0 | 1:
                if MemberId(name) not in fleet.members:
                    fleet.join(name)
            case 2:
                fleet.leave(name)
            case 3:
                fleet.terminate(name)
            case 4:
                fleet.scale("orders", chance.randint(1, 9))
            case 5:
                fleet.operator, fleet.outcomes = None, set()  # it dies, and restarts from its ledger
            case 6:
                fleet.approved = chance.choice([None, *sorted(fleet.proposals)])  # most of them obsolete
            case 7:
                proposal = fleet.operator.proposal if fleet.operator is not None else None
                fleet.approved = proposal.id if proposal is not None else "none"
            case 8:
                fleet.request = f"{seed} {chance.random()}"
        fleet.work()
        fleet.pass_time(chance.choice((0.1, 1.0, 2.5)))
        if chance.random() < 0.6:
            fleet.let_go()
        fleet.work()
        fleet.bury()
    return fleet


@pytest.mark.parametrize("seed", [*range(30), 118])
def test_no_partition_leaves_a_working_pod_without_an_approval(seed: int) -> None:
    fleet = live_through(seed)
    fleet.spec = GroupSpec(delay=2.0)  # what still waits is carried out, and the fleet comes to rest
    fleet.automatic = True
    fleet.calm_down()


def test_some_proposals_are_made_and_approved() -> None:
    fleets = [live_through(seed) for seed in range(10)]
    assert sum(len(fleet.proposals) for fleet in fleets) > 10
    assert sum(fleet.moves for fleet in fleets) > 10


def test_eager_pauses_no_partition_without_an_approval() -> None:
    fleet = Approving(spec=GroupSpec(approval=Approval.MANUAL, protocol=Protocol.EAGER, delay=2.0))
    for name in ("a", "b"):
        fleet.join(name)
    fleet.calm_down()
    fleet.join("c")
    fleet.work()
    fleet.pass_time(2.0)
    fleet.work()
    assert fleet.operator is not None and fleet.operator.proposal is not None
    assert not fleet.operator.moves
