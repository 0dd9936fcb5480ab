"""Queues that come, go and change, owners that are recovered, and those that may still work."""

import tracemalloc
from dataclasses import replace

import pytest

from baton.engine import GroupState, State, partitions, summary
from baton.engine.observation import GroupSpec, ObservedQueue
from baton.engine.state_machine import state_of
from baton.model.ids import Epoch, MemberId, OnDeadline, QueueName, Uid
from baton.model.session import Release
from baton.queues.protocol import Ownership
from tests.unit.engine.group import Group, grants, partition

# Rules 1, 2 and 8: queues that grow, shrink, come, go, and change their access type.


PAY = QueueName("pay")


def test_a_deleted_queue_comes_back_above_its_highest_epoch() -> None:
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


def test_renamed_queues_leave_one_epoch_each() -> None:
    group = Group(4).start("a", "b")
    for month in range(12):
        group.queues = {QueueName(f"orders-{month}"): ObservedQueue(200)}
        group.settle(60.0 + 20 * month)
        group.settle(70.0 + 20 * month)
    assert len(group.state.records) == 200
    assert len(group.state.epoch_tombstones) == 0
    assert len(group.state.queue_tombstones) == 12


def test_shrinking_queues_leave_a_bounded_ledger(monkeypatch: pytest.MonkeyPatch) -> None:
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


def test_a_withdrawal_that_is_undone_leaves_the_partition_with_its_giver() -> None:
    group = Group(4).start("a", "b")
    group.resize(2).step(60)
    group.resize(4).step(61)
    group.settle(63)
    assert group.owners() == "abab"
    assert group.state.totals.moves == 0


def test_totals_are_balanced_first_then_each_queue() -> None:
    group = Group(3)
    group.queues[PAY] = ObservedQueue(3)
    group.start("a", "b")
    assert sorted(group.owners() + group.owners("pay")) == list("aaabbb")
    assert {group.owners().count("a"), group.owners("pay").count("a")} == {1, 2}


def test_a_partition_that_comes_back_has_no_origin() -> None:
    group = Group(4, GroupSpec(session_timeout=4)).start("a", "b")
    group.leave("b").settle(60)
    group.resize(1).settle(61)
    group.resize(4).settle(62)  # 1 and 3 had no owner and are new; a has not released 2 yet
    group.release("a", 2).settle(63)
    assert group.owners() == "aaaa"
    assert group.state.totals.moves == group.state.totals.lower_bound == 0


def test_a_memberless_external_queue_keeps_nothing_per_partition() -> None:
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


def test_an_external_queue_is_added_with_the_first_member() -> None:
    group = Group(4, fenced=False)
    group.settle(0)
    group.join("a").settle(10)
    assert summary(group.state).hold_until == 15
    group.settle(15)
    assert group.owners() == "aaaa"


def test_an_external_queue_added_without_members_waits_for_one() -> None:
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


def test_a_queue_with_records_is_added_without_members() -> None:
    """It is the group's from then on, and is to be released in the end: so the ledger has to name it."""
    group = Group(4)
    group.step(0)
    assert group.state.queues.keys() == {"orders"}
    assert len(group.state.records) == 4


# A lost ledger, a queue's server that came back with older records, and doubts of the same kind.


ORDERS = QueueName("orders")


def lose_the_ledger(group: Group) -> Group:
    group.state = GroupState("shop/orders")
    owners = {p.number: record for p, record in group.records.items()}
    group.queues[ORDERS] = replace(group.queues[ORDERS], owners=owners)
    return group


def test_recorded_live_owners_keep_their_partitions_above_the_record() -> None:
    group = lose_the_ledger(Group(4).start("a", "b"))
    done = group.step(100)
    assert grants(done) == [(0, "a", 2), (1, "b", 2), (2, "a", 2), (3, "b", 2)]
    group.settle()
    assert group.owners() == "abab"
    assert summary(group.state).state is State.READY
    assert group.state.totals.moves == 0


def test_partitions_of_recorded_strangers_move_above_the_record() -> None:
    group = lose_the_ledger(Group(4).start("a", "b"))
    group.records[partition(1)] = Ownership(Uid("gone"), Epoch(70))
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
    group.records[partition(3)] = Ownership(None, Epoch(9))
    lose_the_ledger(group).settle(100)
    group.resize(4).settle(110)
    assert group.state.records[partition(3)].epoch == 10


def test_another_run_of_the_server_has_owners_asserted_again() -> None:
    group = Group(2, incarnation="one").start("a", "b")
    group.records[partition(0)] = Ownership(Uid("uid-b"), Epoch(9))
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


def test_an_orphan_is_granted_above_a_restarted_servers_record() -> None:
    group = Group(2, incarnation="one").start("a", "b")
    group.leave("b").settle(60)
    group.records[partition(1)] = Ownership(Uid("stranger"), Epoch(50))
    group.queues[ORDERS] = ObservedQueue(2, incarnation="two", owners={1: group.records[partition(1)]})
    group.settle(61)
    assert grants(group.step(65)) == [(1, "a", 51)]


def test_a_hand_off_is_granted_above_a_restarted_servers_record() -> None:
    group = Group(2, incarnation="one").start("a")
    group.join("b").settle(60)
    group.settle(65)
    group.queues[ORDERS] = ObservedQueue(2, incarnation="two", owners={1: Ownership(Uid("uid-b"), Epoch(50))})
    group.step(66)
    assert grants(group.release("a", 1).step(67))[-1] == (1, "b", 51)


def test_an_unasked_release_is_granted_again() -> None:
    group = Group(4).start("a", "b").release("a", 2)
    assert grants(group.step(60)) == [(2, "a", 2)], "only that one"
    group.settle()
    assert group.owners() == "abab"
    assert group.settle(61).effects == (), "once"
    assert group.state.totals.moves == 0


def test_an_unasked_release_is_granted_above_the_record() -> None:
    group = Group(2).start("a", "b").release("a", 0)
    group.queues[ORDERS] = replace(group.queues[ORDERS], owners={0: Ownership(Uid("uid-a"), Epoch(50))})
    assert grants(group.step(60)) == [(0, "a", 51)]


def test_a_revoked_or_stopping_pods_release_is_not_granted_again() -> None:
    group = Group(2).start("a")
    group.join("b").settle(60)
    group.settle(65)
    group.release("a", 1).settle(66)
    assert group.owners() == "ab"
    group.terminate("a").release("a", 0).settle(67)
    assert group.records[partition(0)] == ("uid-a", 1, False)


# A queue that goes and comes back while its owners work on: where nothing fences, they are waited for.


def external(partitions: int = 2, spec: GroupSpec | None = None, **queue: object) -> Group:
    return Group(partitions, spec, fenced=False, **queue)


def give_up(group: Group, at: float) -> None:
    """The PartitionedQueue is deleted, or not named any more, and the deadline passes without a word."""
    queue = group.queues[ORDERS]
    group.queues[ORDERS] = replace(queue, partitions=0, given_up=True)
    group.settle(at)
    group.settle(at + queue.max_handoff)
    assert group.state.records == {}


def gone(group: Group, at: float) -> None:
    """No operator saw that the PartitionedQueue was deleted."""
    del group.queues[ORDERS]
    group.settle(at)
    assert group.state.records == {}


def words(group: Group, name: str, *numbers: int, epoch: int = 1) -> None:
    group.releases |= {Release(Uid(f"uid-{name}"), ORDERS, number, Epoch(epoch)) for number in numbers}


@pytest.mark.parametrize("goes", [give_up, gone])
def test_an_unreleased_owner_is_waited_for_when_its_queue_comes_back(goes: object) -> None:
    group = external().start("a", "b").terminate("a")
    goes(group, 10)  # type: ignore[operator]
    group.queues[ORDERS] = ObservedQueue(2, fenced=False)
    group.settle(at=20)
    group.settle(at=100)
    assert group.owners() == "ab"
    assert group.state.moves[partition(0)].receiver == "b"
    words(group, "a", 0)
    group.settle(at=101)
    assert group.owners() == "bb"


@pytest.mark.parametrize("goes", [give_up, gone])
def test_members_get_a_returning_queues_partitions_back(goes: object) -> None:
    group = external(4).start("a", "b")
    before = group.owners()
    goes(group, 10)  # type: ignore[operator]
    group.queues[ORDERS] = ObservedQueue(4, fenced=False)
    group.settle(at=20)
    assert len(group.state.moves) == 4
    assert all(move.receiver == move.giver for move in group.state.moves.values())
    group.settle(at=23)
    assert (group.owners(), group.state.totals.moves, state_of(group.state)) == (before, 0, State.READY)
    assert min(record.epoch for record in group.state.records.values()) > 1


def test_a_returning_queue_continues_above_its_epochs() -> None:
    group = external().start("a", "b").terminate("a")
    give_up(group, 10)
    highest = max(group.state.epoch_tombstones.values())
    group.queues[ORDERS] = ObservedQueue(2, fenced=False)
    group.settle(at=20)
    assert len(group.state.moves) == 2
    assert all(move.epoch > highest for move in group.state.moves.values())
    assert {record.epoch for record in group.state.records.values()} == {1}, "as its owner knows it, and names it in its release"


@pytest.mark.parametrize("how", ["released", "ended", "lapsed", "another pod of its name"])
def test_an_unreleased_owner_that_ended_is_forgotten(how: str) -> None:
    group = external().start("a", "b").step_aside("a")
    group.settle(at=10)
    give_up(group, 11)
    assert {last.member for last in group.state.unreleased.values()} == {"a", "b"}
    match how:
        case "released":
            words(group, "a", 0)
        case "another pod of its name":
            del group.away[MemberId("a")]
            group.join("a", uid="uid-2")
        case _:
            del group.away[MemberId("a")]
    group.settle(at=20)
    assert {last.member for last in group.state.unreleased.values()} == {"b"}


def test_an_unreleased_owner_that_ends_then_is_not_waited_for() -> None:
    group = external().start("a", "b").terminate("a")
    give_up(group, 10)
    group.leave("a").queues[ORDERS] = ObservedQueue(2, fenced=False)
    group.settle(at=20)
    assert group.owners() == "bb"
    assert group.state.unreleased == {}


def test_an_unreleased_owner_that_is_away_is_waited_for() -> None:
    group = external().start("a", "b").step_aside("a")
    group.settle(at=10)
    gone(group, 11)
    group.queues[ORDERS] = ObservedQueue(2, fenced=False)
    group.settle(at=20)
    group.settle(at=100)
    assert group.owners() == "ab"
    del group.away[MemberId("a")]
    group.settle(at=101)
    assert group.owners() == "bb"


def test_an_unreleased_owner_that_dropped_the_queue_is_waited_for() -> None:
    group = external().start("a", "b")
    gone(group, 10)
    group.members[MemberId("a")] = replace(group.members[MemberId("a")], subscribed=frozenset({QueueName("pay")}))
    group.queues[ORDERS] = ObservedQueue(2, fenced=False)
    group.settle(at=20)
    group.settle(at=60)
    assert group.owners() == "ab"
    words(group, "a", 0)
    group.settle(at=61)
    group.settle(at=70)
    assert group.owners() == "bb"


def test_with_force_a_returning_queue_waits_for_no_owner() -> None:
    group = external().start("a", "b").terminate("a")
    give_up(group, 10)
    group.queues[ORDERS] = ObservedQueue(2, fenced=False, on_deadline=OnDeadline.FORCE)
    group.settle(at=20)
    group.settle(at=23)
    assert group.owners() == "bb"


def test_with_force_no_unreleased_owner_is_kept() -> None:
    group = external(4, on_deadline=OnDeadline.FORCE).start("a", "b")
    group.resize(2).settle(10)
    group.settle(13)
    assert (len(group.state.records), group.state.unreleased) == (2, {})


def test_a_fenced_queue_keeps_no_unreleased_owner() -> None:
    for goes in (give_up, gone):
        group = Group(2, incarnation="run-1").start("a", "b")
        goes(group, 10)
        assert group.state.unreleased == {}


def test_a_queue_that_has_become_fenced_waits_for_no_owner() -> None:
    group = external().start("a", "b").terminate("a")
    give_up(group, 10)
    group.queues[ORDERS] = ObservedQueue(2, incarnation="run-1")
    group.settle(at=20)
    assert group.owners() == "bb"
    assert group.state.unreleased == {}


def test_a_paused_group_gives_up_no_queue() -> None:
    """A static member that stops has to release partitions without a receiver. While the group is paused, its queue is not
    given up either."""
    group = external(spec=GroupSpec(session_timeout=300))
    group.join("a", instance="i").join("b", instance="j").start()
    group.terminate("a").settle(at=10)
    group.spec = replace(group.spec, paused=True)
    queue = group.queues[ORDERS]
    group.queues[ORDERS] = replace(queue, partitions=0, given_up=True)
    group.settle(at=20)
    group.settle(at=30)
    assert group.owners() == "ab"


def test_unreleased_owners_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(partitions, "MOST_WITHDRAWN", 5)
    group = external(4).start("a", "b")
    group.queues[QueueName("pay")] = ObservedQueue(3, fenced=False)
    group.settle(at=20)
    group.settle(at=30)
    group.queues = {}
    group.settle(at=40)
    assert {one.queue for one in group.state.unreleased} == {"pay"}
