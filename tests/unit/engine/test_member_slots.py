"""Rule 1: slots, who comes back to them, and who takes over a vacant one."""

from dataclasses import replace

from baton.engine import summary
from baton.engine.observation import ObservedQueue
from baton.model.ids import MemberId, QueueName
from tests.unit.engine.group import Group


def test_members_with_different_subscriptions_make_room() -> None:
    group = Group(1)
    group.queues[QueueName("pay")] = ObservedQueue(1)
    group.start("a")
    group.join("b", subscribed=frozenset({QueueName("orders")})).settle(60)
    group.settle(65)
    group.settle(68)
    assert (group.owners(), group.owners("pay")) == ("b", "a")
    group.join("c", subscribed=frozenset({QueueName("pay")})).settle(70)
    assert summary(group.state).numbers.standbys == 1


def test_a_reader_of_an_empty_queue_blocks_no_other() -> None:
    group = Group(1)
    group.queues[QueueName("pay")] = ObservedQueue(0)
    group.join("a", subscribed=frozenset({QueueName("pay")})).settle(0)
    group.join("b").settle(10)
    group.settle(15)
    assert group.owners() == "b"


def test_unowned_partitions_return_to_their_last_owner() -> None:
    group = Group(4).start("a", "b")
    before = group.owners()
    group.leave("a", "b").settle(10)
    group.settle(15)  # the slots have lapsed
    group.now = 20
    group.join("b").settle(20)
    group.now = 21
    group.join("a").settle(21)
    group.settle(25)
    assert group.owners() == before
    assert group.state.totals.moves == group.state.totals.lower_bound == 0


def test_reading_one_queue_more_is_a_trigger() -> None:
    group = Group(2)
    group.queues[QueueName("pay")] = ObservedQueue(2)
    group.join("a").join("b", subscribed=frozenset({QueueName("orders")}))
    group.start()
    group.members[MemberId("b")] = replace(group.members[MemberId("b")], subscribed=None)
    group.settle(60)
    assert summary(group.state).hold_until == 65
