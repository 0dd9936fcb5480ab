"""Rule 1: slots, who comes back to them, and who takes over a vacant one."""

from dataclasses import replace

from baton.engine import State, summary
from baton.engine.observation import ObservedQueue
from baton.model.ids import MemberId, QueueName
from tests.unit.engine.group import Group


def ready(group: Group) -> bool:
    return summary(group.state).state is State.READY


def test_who_was_left_with_none_stands_by_too() -> None:
    group = Group(3).start("a", "b", "c")
    group.resize(2).settle(60)
    group.release("c", 2).settle(60)
    group.leave("a").settle(70)
    assert group.owners() == "cb"


def test_a_stopping_pod_keeps_its_partitions_until_a_receiver_is_there() -> None:
    group = Group(2).start("a", "b")
    group.terminate("b").settle(60)
    assert group.owners() == "ab"
    assert group.moved() == []
    group.join("c").settle(62)
    assert group.moved() == ["revoke 1 b"]
    group.release("b", 1).settle(62.5)
    assert group.owners() == "ac"


def test_a_stopping_pod_hands_off_when_the_holddown_ends() -> None:
    group = Group(2).start("a", "b")
    group.terminate("b").settle(60)
    group.settle(65)
    assert group.moved() == ["revoke 1 b"]
    group.release("b", 1).settle(66)
    assert group.owners() == "aa"
    assert "b" not in group.state.known, "it may go"


def test_members_make_room_for_each_other_where_subscriptions_differ() -> None:
    group = Group(1)
    group.queues[QueueName("pay")] = ObservedQueue(1)
    group.start("a")
    group.join("b", subscribed=frozenset({QueueName("orders")})).settle(60)
    group.settle(65)
    group.settle(68)
    assert (group.owners(), group.owners("pay")) == ("b", "a")
    group.join("c", subscribed=frozenset({QueueName("pay")})).settle(70)
    assert summary(group.state).numbers.standbys == 1


def test_who_reads_an_empty_queue_keeps_nobody_out() -> None:
    group = Group(1)
    group.queues[QueueName("pay")] = ObservedQueue(0)
    group.join("a", subscribed=frozenset({QueueName("pay")})).settle(0)
    group.join("b").settle(10)
    group.settle(15)
    assert group.owners() == "b"


def test_what_nobody_has_goes_to_who_had_it_last() -> None:
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
