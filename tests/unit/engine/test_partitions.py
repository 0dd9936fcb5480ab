"""Rules 1, 2 and 8: queues that grow, shrink, come, go, and change their access type."""

import tracemalloc
from dataclasses import replace

import pytest

from baton.engine import State, partitions, summary
from baton.engine.observation import GroupSpec, ObservedQueue
from baton.model.ids import QueueName
from tests.unit.engine.group import Group, grants, partition, pauses

PAY = QueueName("pay")


def test_new_partitions_are_placed_at_once_with_those_who_have_fewest() -> None:
    group = Group(3).start("a", "b")
    group.resize(6).settle(60)
    assert group.owners() == "ababab"
    assert summary(group.state).state is State.READY
    assert group.state.totals.moves == group.state.totals.lower_bound == 0


@pytest.mark.parametrize("assignor", ["solace", "range", "sticky"])
def test_what_is_there_stays_whatever_the_assignor(assignor: str) -> None:
    group = Group(4, GroupSpec(assignors=(assignor,))).start("a", "b")
    before = group.owners()
    group.resize(6).settle(60)
    assert group.owners()[:4] == before
    assert "-" not in group.owners()


def test_newcomers_get_none_of_the_new_partitions_before_their_holddown_ends() -> None:
    group = Group(4).start("a", "b")
    group.join("c").step(60)
    group.resize(6).settle(61)
    assert group.owners() == "ababab"


def test_a_running_holddown_goes_on_to_its_end() -> None:
    group = Group(4).start("a", "b")
    group.join("c").settle(60)
    group.resize(5).settle(62)
    assert summary(group.state).hold_until == 65
    group.leave("c").settle(63)
    assert summary(group.state).hold_until == 65
    group.settle(65)
    assert summary(group.state).state is State.READY


def test_deleted_partitions_are_handed_off_to_nobody() -> None:
    group = Group(4).start("a", "b")
    done = group.resize(2).step(60)
    assert pauses(done) == [2, 3]
    group.release("a", 2).release("b", 3)
    done = group.step(60.5)
    assert grants(done) == [(2, None, 2), (3, None, 2)]
    group.settle()
    assert group.owners() == "ab"
    assert group.state.totals.moves == 0


def test_a_partition_that_comes_back_goes_on_above_its_old_epoch() -> None:
    group = Group(4).start("a", "b")
    group.resize(2).settle(60)
    group.settle(63)
    group.resize(4).settle(70)
    assert group.owners() == "abab"
    assert [record.epoch for record in group.state.records.values()] == [1, 1, 3, 3]


def test_of_a_queue_that_is_gone_one_epoch_is_kept_and_it_comes_back_above_that() -> None:
    group = Group(4).start("a", "b")
    group.queues[PAY] = ObservedQueue(4)
    group.settle(60)
    group.settle(70)
    group.resize(2, "pay").settle(80)
    group.settle(150)
    assert set(group.state.epoch_tombstones) == {partition(2, "pay"), partition(3, "pay")}
    highest = max(group.state.epoch_tombstones.values())
    del group.queues[PAY]
    group.settle(160)
    assert (dict(group.state.epoch_tombstones), group.state.queue_tombstones) == ({}, {PAY: highest})
    group.queues[PAY] = ObservedQueue(2)
    group.settle(170)
    group.resize(4, "pay").settle(180)
    group.settle(190)
    assert "-" not in group.owners("pay")
    assert min(record.epoch for one, record in group.state.records.items() if one.queue == PAY) > highest


def test_a_group_whose_queues_change_their_names_forever_keeps_little() -> None:
    group = Group(4).start("a", "b")
    for month in range(12):
        group.queues = {QueueName(f"orders-{month}"): ObservedQueue(200)}
        group.settle(60.0 + 20 * month)
        group.settle(70.0 + 20 * month)
    assert len(group.state.records) == 200
    assert len(group.state.epoch_tombstones) == 0
    assert len(group.state.queue_tombstones) == 12


def test_queues_that_shrink_leave_a_ledger_that_can_be_read(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(partitions, "MOST_WITHDRAWN", 100)
    group = Group(4).start("a", "b")
    group.queues |= {PAY: ObservedQueue(80)}
    group.settle(60)
    group.settle(70)
    group.resize(60)
    group.settle(75)
    group.resize(1, "pay").resize(1).settle(80)
    group.settle(90)
    assert len(group.state.epoch_tombstones) == 59
    assert group.state.queue_tombstones == {PAY: 2}
    group.resize(80, "pay").settle(100)
    group.settle(110)
    assert min(record.epoch for one, record in group.state.records.items() if one.number and one.queue == PAY) > 2


def test_a_queue_that_grows_again_in_mid_withdrawal_leaves_the_partition_with_its_giver() -> None:
    group = Group(4).start("a", "b")
    group.resize(2).step(60)
    group.resize(4).step(61)
    group.settle(63)
    assert group.owners() == "abab"
    assert group.state.totals.moves == 0


def test_members_that_are_then_not_within_one_are_a_trigger() -> None:
    group = Group(6, GroupSpec(assignors=("range",))).start("a", "b")
    group.spec = GroupSpec()
    group.settle(60)
    group.settle(65)
    assert group.owners() == "aaabbb"
    group.resize(3).settle(70)
    group.settle(73)
    assert summary(group.state).hold_until == 75
    group.settle(75)
    group.settle(78)
    assert sorted(group.owners()) == ["a", "a", "b"]


def test_an_added_queue_is_a_trigger_and_a_removed_one_ends_at_once() -> None:
    group = Group(2).start("a", "b")
    group.queues[PAY] = ObservedQueue(2)
    group.settle(60)
    assert group.state.holddown is not None
    assert (group.state.holddown.until, group.state.holddown.why) == (65, "the queue pay was added")
    group.settle(65)
    assert group.owners("pay") == "ab"
    del group.queues[PAY]
    group.settle(70)
    assert group.owners("pay") == ""
    group.settle(75)
    group.queues[PAY] = ObservedQueue(2)
    group.settle(80)
    group.settle(85)
    assert [record.epoch for p, record in sorted(group.state.records.items()) if p.queue == "pay"] == [2, 2]


def test_totals_are_balanced_first_then_each_queue() -> None:
    group = Group(3)
    group.queues[PAY] = ObservedQueue(3)
    group.start("a", "b")
    assert sorted(group.owners() + group.owners("pay")) == list("aaabbb")
    assert {group.owners().count("a"), group.owners("pay").count("a")} == {1, 2}


def test_an_exclusive_queue_has_one_active_member() -> None:
    group = Group(3, exclusive=True).start("a", "b", "c")
    assert group.owners() == "aaa"
    assert summary(group.state).numbers.standbys == 2
    group.leave("a").settle(60)
    assert group.owners() == "bbb"


def test_a_queue_that_becomes_non_exclusive_is_shared_after_a_holddown() -> None:
    group = Group(3, exclusive=True).start("a", "b", "c")
    orders = QueueName("orders")
    group.queues[orders] = replace(group.queues[orders], exclusive=False)
    group.settle(60)
    group.settle(65)
    group.settle(68)
    assert sorted(group.owners()) == ["a", "b", "c"]
    group.queues[orders] = replace(group.queues[orders], exclusive=True)
    group.settle(70)
    group.settle(75)
    group.settle(78)
    assert len(set(group.owners())) == 1
    assert group.state.totals.moves == group.state.totals.lower_bound == 4


def test_a_rebalance_that_a_shrinking_queue_overtakes_has_no_bound_above_what_it_moved() -> None:
    group = Group(4).start("a", "b")
    group.join("c").settle(60)
    group.settle(65)
    group.resize(3).settle(66)  # what was on its way to c does not exist any more
    group.release("b", 3).settle(66.5)
    assert (group.state.totals.moves, group.state.totals.lower_bound) == (0, 0)
    group.settle(71)
    group.release("a", 2).settle(71.5)
    assert group.owners() == "abc"
    assert group.state.totals.moves == group.state.totals.lower_bound == 1


def test_a_partition_that_comes_back_while_others_are_let_go_has_no_origin() -> None:
    group = Group(4, GroupSpec(session_timeout=4)).start("a", "b")
    group.leave("b").settle(60)
    group.resize(1).settle(61)
    group.resize(4).settle(62)  # 1 and 3 had nobody and are new; a has not let go of 2 yet
    group.release("a", 2).settle(63)
    assert group.owners() == "aaaa"
    assert group.state.totals.moves == group.state.totals.lower_bound == 0


def test_who_takes_a_slot_while_a_queue_grows_gets_its_part_of_the_new_partitions() -> None:
    group = Group(2).start("a", "b")
    group.leave("b").join("c").resize(4).settle(60)  # all of it noticed at once, as after an outage of the operator
    assert group.owners() == "acac"
    assert summary(group.state).state is State.READY
    assert group.state.totals.moves == group.state.totals.lower_bound == 1


def test_nothing_is_kept_for_each_partition_of_a_queue_without_records_before_there_is_a_member() -> None:
    group = Group(100_000, fenced=False)
    tracemalloc.start()
    try:
        group.step(0)
        kept, most = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert most < 100_000, f"{kept} bytes are kept, and there were {most}"
    whole = summary(group.state)
    assert (whole.numbers.partitions, whole.numbers.unowned, whole.balanced) == (100_000, 100_000, False)
    assert group.state.records == {}


def test_a_queue_without_records_is_taken_in_with_the_first_member() -> None:
    group = Group(4, fenced=False)
    group.settle(0)
    group.join("a").settle(10)
    assert summary(group.state).hold_until == 15
    group.settle(15)
    assert group.owners() == "aaaa"


def test_a_queue_that_is_added_while_nobody_is_there_is_taken_in_with_who_comes_back() -> None:
    group = Group(2, fenced=False).start("a")
    group.leave("a").settle(60)
    group.settle(70)
    group.queues[PAY] = ObservedQueue(2, fenced=False)
    group.settle(80)
    assert {one.queue for one in group.state.records} == {"orders"}
    group.join("b").settle(90)
    group.settle(95)
    assert group.owners() == "bb"
    assert {record.owner for one, record in group.state.records.items() if one.queue == PAY} == {"b"}


def test_a_queue_with_records_is_taken_in_before_there_is_a_member() -> None:
    """It is the group's from then on, and is to be released in the end: so the ledger has to name it."""
    group = Group(4)
    group.step(0)
    assert group.state.queues.keys() == {"orders"}
    assert len(group.state.records) == 4
