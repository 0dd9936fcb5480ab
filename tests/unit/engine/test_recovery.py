"""A lost ledger, a queue's server that came back with older records, and doubts of the same kind."""

from dataclasses import replace

from baton.engine import GroupState, State, summary
from baton.engine.observation import ObservedQueue
from baton.model.ids import Epoch, QueueName, Uid
from baton.queues.protocol import Owner
from tests.unit.engine.group import Group, grants, partition

ORDERS = QueueName("orders")


def lose_the_ledger(group: Group) -> Group:
    group.state = GroupState.new("shop/orders")
    owners = {p.number: record for p, record in group.records.items()}
    group.queues[ORDERS] = replace(group.queues[ORDERS], owners=owners)
    return group


def test_what_is_recorded_for_live_members_stays_with_them_above_the_record() -> None:
    group = lose_the_ledger(Group(4).start("a", "b"))
    done = group.step(100)
    assert grants(done) == [(0, "a", 2), (1, "b", 2), (2, "a", 2), (3, "b", 2)]
    group.settle()
    assert group.owners() == "abab"
    assert summary(group.state).state is State.READY
    assert group.state.totals.moves == 0


def test_what_is_recorded_for_others_goes_above_the_record_after_a_holddown() -> None:
    group = lose_the_ledger(Group(4).start("a", "b"))
    group.records[partition(1)] = Owner(Uid("gone"), Epoch(70))
    lose_the_ledger(group).settle(100)
    assert group.owners() == "a-ab"
    assert summary(group.state).hold_until == 105
    assert grants(group.step(105)) == [(1, "b", 71)], "above the record at the first attempt"
    group.settle()
    assert group.owners() == "abab"


def test_an_empty_ledger_of_a_new_group_adopts_nothing() -> None:
    group = Group(4).join("a")
    assert group.step().effects == ()


def test_withdrawn_partitions_keep_their_epochs() -> None:
    group = Group(2).start("a")
    group.records[partition(3)] = Owner(None, Epoch(9))
    lose_the_ledger(group).settle(100)
    group.resize(4).settle(110)
    assert group.state.records[partition(3)].epoch == 10


def test_another_run_of_the_server_has_owners_asserted_again() -> None:
    group = Group(2, incarnation="one").start("a", "b")
    group.records[partition(0)] = Owner(Uid("uid-b"), Epoch(9))
    group.queues[ORDERS] = ObservedQueue(2, incarnation="two", owners={0: group.records[partition(0)]})
    done = group.step(60)
    assert grants(done) == [(0, "a", 10), (1, "b", 2)]
    assert summary(group.state).state is State.READY, "everybody goes on working meanwhile"
    group.settle()
    assert group.records == {partition(0): ("uid-a", 10, False), partition(1): ("uid-b", 2, False)}
    assert group.state.totals.moves == 0


def test_an_unknown_incarnation_is_no_change() -> None:
    group = Group(2, incarnation="one").start("a", "b")
    group.queues[ORDERS] = ObservedQueue(2, incarnation=None)
    assert group.step(60).effects == ()
    group.queues[ORDERS] = ObservedQueue(2, incarnation="one")
    assert group.step(61).effects == ()


def test_a_stopping_pod_is_asserted_too() -> None:
    group = Group(2, incarnation="one").start("a", "b")
    group.terminate("b").settle(60)
    group.queues[ORDERS] = ObservedQueue(2, incarnation="two")
    group.settle(61)
    assert group.owners() == "ab"
    assert group.records[partition(1)] == ("uid-b", 2, False)


def test_an_orphan_goes_above_what_another_run_of_the_server_has_recorded() -> None:
    group = Group(2, incarnation="one").start("a", "b")
    group.leave("b").settle(60)
    group.records[partition(1)] = Owner(Uid("somebody"), Epoch(50))
    group.queues[ORDERS] = ObservedQueue(2, incarnation="two", owners={1: group.records[partition(1)]})
    group.settle(61)
    assert grants(group.step(65)) == [(1, "a", 51)]


def test_a_hand_off_under_way_goes_above_it_too() -> None:
    group = Group(2, incarnation="one").start("a")
    group.join("b").settle(60)
    group.settle(65)
    group.queues[ORDERS] = ObservedQueue(2, incarnation="two", owners={1: Owner(Uid("uid-b"), Epoch(50))})
    group.step(66)
    assert grants(group.release("a", 1).step(67))[-1] == (1, "b", 51)


def test_what_an_owner_let_go_of_uncalled_is_granted_to_it_again() -> None:
    group = Group(4).start("a", "b").release("a", 2)
    assert grants(group.step(60)) == [(2, "a", 2)], "only that one"
    group.settle()
    assert group.owners() == "abab"
    assert group.settle(61).effects == (), "once"
    assert group.state.totals.moves == 0


def test_it_is_granted_above_what_the_queue_has_recorded() -> None:
    group = Group(2).start("a", "b").release("a", 0)
    group.queues[ORDERS] = replace(group.queues[ORDERS], owners={0: Owner(Uid("uid-a"), Epoch(50))})
    assert grants(group.step(60)) == [(0, "a", 51)]


def test_what_is_called_back_or_left_by_a_pod_that_stops_is_not_granted_to_it_again() -> None:
    group = Group(2).start("a")
    group.join("b").settle(60)
    group.settle(65)
    group.release("a", 1).settle(66)
    assert group.owners() == "ab"
    group.terminate("a").release("a", 0).settle(67)
    assert group.records[partition(0)] == ("uid-a", 1, False)
