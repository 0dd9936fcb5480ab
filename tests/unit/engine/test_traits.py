"""What the engine does with the traits that an assignor declares."""

from dataclasses import replace

import pytest

from baton.engine import GroupState
from baton.engine.observation import GroupSpec, ObservedQueue
from baton.model.ids import Epoch, QueueName, Uid
from baton.queues.protocol import Owner
from tests.unit.engine.group import Group, partition, pauses

ORDERS, PAYMENTS = QueueName("orders"), QueueName("payments")


def test_what_already_changes_hands_goes_on_where_members_give_up_their_highest_numbers() -> None:
    group = Group(4, GroupSpec(assignors=("circle",)), max_handoff=100).start("a").join("b")
    group.step(10)
    assert pauses(group.settle(15)) == [1, 3]
    group.spec = replace(group.spec, assignors=("solace",))
    group.step(16)
    group.settle(21)
    assert sorted(p.number for p, move in group.state.moves.items() if move.receiver == "b") == [1, 3], "and not 2, 3"


def each_queue_with_another_member(assignor: str) -> Group:
    """The ledger is lost, and one member is on record for all of a queue: totals are even, and no queue is."""
    group = Group(2, GroupSpec(assignors=(assignor,)))
    group.queues[PAYMENTS] = ObservedQueue(2)
    group.start("a", "b")
    group.state = GroupState.new("shop/orders")
    for queue, uid in ((ORDERS, Uid("uid-a")), (PAYMENTS, Uid("uid-b"))):
        owners = {number: Owner(uid, Epoch(7)) for number in range(2)}
        group.records |= {partition(number, queue): record for number, record in owners.items()}
        group.queues[queue] = replace(group.queues[queue], owners=owners)
    group.settle(10)
    assert group.owners() + group.owners("payments") == "aabb"
    return group


@pytest.mark.parametrize(("assignor", "moves"), [("solace", True), ("sticky", False), ("minimal", False)])
def test_each_queue_is_to_be_even_only_where_the_assignor_makes_balances(assignor: str, moves: bool) -> None:
    assert (each_queue_with_another_member(assignor).state.holddown is not None) is moves
