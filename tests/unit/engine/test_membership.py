"""Members: pods that are away, drain, end, are static, or are too many for the size."""

import json
from collections import Counter
from dataclasses import replace

import pytest

from baton.api.group import Approval, Protocol, ScaleMode
from baton.engine import State, dump, summary
from baton.engine.observation import GroupSpec, HeldBack, ObservedQueue
from baton.engine.state_machine import state_of
from baton.model.ids import Epoch, MemberId, OnDeadline, QueueName, Uid
from baton.model.session import Release
from tests.unit.engine.group import Group, grants, pauses

# Pods that take no part, and may still work: where nothing fences, only their word or their end frees what they have.


def external(spec: GroupSpec | None = None, partitions: int = 2) -> Group:
    return Group(partitions, spec, fenced=False)


def test_a_pod_back_within_the_delay_keeps_its_epoch() -> None:
    group = external().start("a", "b").join("c")
    group.settle(at=20)
    group.step_aside("a")
    assert pauses(group.settle(at=21)) == []
    assert group.owners() == "ab"
    assert state_of(group.state) is State.HOLDDOWN
    group.come_back("a").settle(at=23)
    assert (group.owners(), group.moved(), state_of(group.state)) == ("ab", [], State.READY)


def test_a_pod_with_the_same_name_is_another_pod() -> None:
    group = external().start("a", "b")
    group.step_aside("a").settle(at=20)
    group.away[MemberId("a")] = Uid("uid-2")
    group.settle(at=21)
    assert group.owners() == "-b"


def test_a_static_member_that_is_not_ready_is_not_revoked() -> None:
    group = external(GroupSpec(session_timeout=30))
    group.join("a", instance="a").join("b", instance="b").start()
    assert pauses(group.step_aside("a").settle(at=20)) == []
    assert state_of(group.state) is State.HOLDDOWN
    group.come_back("a", instance="a").settle(at=40)
    assert (group.owners(), group.moved(), state_of(group.state)) == ("ab", [], State.READY)


def test_an_expired_static_members_release_is_waited_for() -> None:
    group = external(GroupSpec(session_timeout=30))
    group.join("a", instance="a").join("b", instance="b").start()
    group.step_aside("a").settle(at=20)
    assert pauses(group.settle(at=50)) == [0]
    group.settle(at=60)
    assert group.owners() == "ab"


def test_the_older_pod_of_an_identity_is_waited_for() -> None:
    group = external(GroupSpec(session_timeout=30), partitions=1)
    group.join("a", instance="i").start()
    group.now = 20
    assert pauses(group.join("b", instance="i").settle()) == [0]
    group.settle(at=40)
    assert group.owners() == "a"
    assert grants(group.leave("a").step(at=41)) == [(0, "b", 2)]
    group.settle()
    assert group.owners() == "b"
    assert group.state.totals.moves == 0, "it is the same static member"


def test_a_hand_off_still_waits_for_a_pod_that_is_away() -> None:
    group = external(partitions=2).start("a").join("b")
    group.settle(at=20)
    assert pauses(group.settle(at=25)) == [1]
    group.step_aside("a").settle(at=30)
    group.settle(at=60)
    assert group.owners() == "aa"


def test_with_force_a_pod_that_is_away_is_waited_for_until_the_deadline() -> None:
    group = Group(2, fenced=False, on_deadline=OnDeadline.FORCE).start("a", "b").join("c")
    group.settle(at=20)
    group.step_aside("a").settle(at=21)
    group.settle(at=26)
    assert group.owners() == "ab"
    group.settle(at=29)
    assert group.owners() == "cb"


@pytest.mark.parametrize("fenced", [True, False])
def test_the_last_member_keeps_what_it_has_until_the_holddown_ends(fenced: bool) -> None:
    group = Group(2, fenced=fenced).start("a").step_aside("a")
    group.settle(at=20)
    assert group.owners() == ("--" if fenced else "aa")
    group.come_back("a").settle(at=24)
    assert group.owners() == "aa"


def test_a_missed_deadline_counts_only_for_its_move() -> None:
    """Eager: a is to have its partition again, at its deadline without its word; then it is to go to another member."""
    group = external(GroupSpec(protocol=Protocol.EAGER), partitions=4).start("a", "b").join("c")
    group.settle(at=20)
    group.settle(at=25)
    group.step(at=28)
    again = [p for p, move in group.state.moves.items() if move.receiver == move.giver == "a"]
    assert again and all(group.state.moves[p].missed for p in again)
    group.terminate("a").step(at=29)
    group.releases |= {Release(Uid("uid-b"), QueueName("orders"), n, Epoch(1)) for n in range(4)}
    group.settle(at=30)
    assert {group.state.records[p].owner for p in again} == {"a"}


def test_a_hand_off_of_a_removed_queue_waits_while_paused() -> None:
    """Paused, the hand-off in flight is finished before the queue is released: its receiver is to wait for the giver's word."""
    group = external().start("a").join("b")
    group.settle(at=20)
    group.settle(at=25)
    group.queues = {name: replace(queue, partitions=0, given_up=True) for name, queue in group.queues.items()}
    group.spec = replace(group.spec, paused=True)
    group.settle(at=40)
    assert group.owners() == "aa"
    group.spec = replace(group.spec, paused=False)
    group.settle(at=41)
    group.settle(at=45)
    assert group.state.records == {}


def test_a_pod_that_is_away_and_owns_nothing_has_no_key() -> None:
    """Its slot keeps what it had of a queue that fences. The same observation twice changes nothing (rule 10)."""
    group = Group(2)
    pay = QueueName("pay")
    group.queues[pay] = ObservedQueue(1, fenced=False)
    group.start("a")
    group.queues[pay] = ObservedQueue(0, fenced=False, given_up=True)
    group.step(at=20)
    group.queues[pay] = ObservedQueue(1, fenced=False)
    group.step(at=21)
    group.release("a", 0, "pay").step_aside("a").step(at=22)
    once = group.state
    assert (group.owners("pay"), set(once.known)) == ("-", set())
    assert {one.number for slot in once.member_slots for one in slot.vacated or ()} == {0, 1}
    group.step(at=22)
    assert group.state == once


def test_a_plan_knows_a_static_member_under_another_name() -> None:
    """d takes the place of a, which still has to release its partitions. A plan of that moment moves no more than if d
    had all of a's."""
    group = external(GroupSpec(session_timeout=30), partitions=6)
    group.join("a", instance="i").join("b", instance="j").start()
    group.now = 22
    group.join("d", instance="i").settle()
    group.now = 24
    group.join("c").settle()
    group.settle(at=29)
    group.releases = {
        Release(Uid(f"uid-{name}"), QueueName("orders"), number, Epoch(1)) for name in ("a", "b") for number in range(6)
    }
    group.settle(at=30)
    assert Counter(group.owners()) == {"b": 2, "c": 2, "d": 2}
    assert (group.state.totals.moves, group.state.totals.lower_bound) == (2, 2)


# Rule 7: a member that drains gives its partitions away, goes on, and may come back.


DELAY = 2


def draining_fleet(session_timeout: float = 0.0) -> Group:
    group = Group(4, GroupSpec(delay=DELAY, session_timeout=session_timeout), max_handoff=3)
    return group.join("a", instance="i0").join("b", instance="i1").start()


def drained(group: Group) -> Group:
    """The holddown, and the hand-offs to their deadlines."""
    group.drain("a").settle(60)
    group.settle(60 + DELAY)
    group.settle(60 + DELAY + 3)
    return group


@pytest.mark.parametrize("session_timeout", [0.0, 600.0])
def test_a_draining_member_gives_its_partitions_away_after_the_delay(session_timeout: float) -> None:
    group = draining_fleet(session_timeout)
    assert group.owners() == "abab"
    group.drain("a").settle(60)
    assert (group.owners(), summary(group.state).hold_until) == ("abab", 60 + DELAY)
    assert drained(draining_fleet(session_timeout)).owners() == "bbbb"


def test_a_draining_member_gets_nothing_until_it_is_undrained() -> None:
    group = drained(draining_fleet())
    group.join("c").settle(100)
    group.settle(105)
    group.settle(110)
    assert set(group.owners()) == {"b", "c"}
    group.drain("a", draining=False).settle(120)
    group.settle(125)
    group.settle(130)
    assert set(group.owners()) == {"a", "b", "c"}


def test_a_drain_taken_back_within_the_delay_moves_nothing() -> None:
    group = draining_fleet()
    group.drain("a").settle(60)
    group.drain("a", draining=False).settle(61)
    group.settle(90)
    assert (group.owners(), group.state.totals.moves) == ("abab", 0)


def executors(group: Group, replicas: int, at: float) -> list[str]:
    """The victims once the driver's fleet is to have this size."""
    group.spec = replace(group.spec, replicas=replicas)
    group.settle(at)
    group.settle(at + DELAY)
    group.settle(at + DELAY + 3)
    return [name for name, _ in group.state.victims]


@pytest.fixture
def spark() -> Group:
    return Group(6, GroupSpec(delay=DELAY, scale_mode=ScaleMode.SPARK, replicas=3), max_handoff=3).start("a", "b", "c")


def test_a_smaller_spark_fleet_loses_its_drained_executor_and_moves_nothing(spark: Group) -> None:
    drained(spark)
    moves = spark.state.totals.moves
    assert executors(spark, 2, at=100) == ["a"]
    assert (set(spark.owners()), spark.state.totals.moves) == ({"b", "c"}, moves)
    spark.leave("a").settle(110)
    assert executors(spark, 2, at=120) == []


def test_a_victim_that_drains_stays_one_and_is_spared_last(spark: Group) -> None:
    assert executors(spark, 2, at=60) == ["c"]
    assert executors(spark.drain("c"), 2, at=70) == ["c"]
    assert executors(spark.drain("c", draining=False), 1, at=80) == ["c", "b"]
    assert executors(spark.drain("b"), 2, at=90) == ["b"]


def test_a_draining_victim_goes_before_earlier_victims(spark: Group) -> None:
    assert executors(spark, 2, at=60) == ["c"]
    spark.drain("b").spec = replace(spark.spec, replicas=1)
    spark.settle(80)
    assert [name for name, _ in spark.state.victims] == ["b", "c"], "or the next step would write the ledger for that alone"


def test_a_spark_fleet_of_its_size_loses_no_draining_executor(spark: Group) -> None:
    assert executors(drained(spark), 3, at=100) == []


def test_the_older_of_an_identity_stays_fenced_off_while_the_newer_drains() -> None:
    group = draining_fleet(session_timeout=600)
    group.now = 50
    group.join("c", instance="i0").settle(50)
    assert group.owners() == "cbcb"
    group.drain("c").settle(60)
    group.settle(60 + DELAY)
    group.settle(60 + DELAY + 3)
    assert (group.owners(), [name for name, _ in group.state.fenced]) == ("bbbb", ["a"])
    group.leave("c").settle(80)
    group.settle(80 + DELAY)
    group.settle(80 + DELAY + 3)
    assert sorted(group.owners()) == ["a", "a", "b", "b"], "it is the last pod of its identity"


def test_a_drain_needs_no_approval_but_its_undoing_does() -> None:
    group = draining_fleet()
    group.spec = replace(group.spec, approval=Approval.MANUAL)
    assert (drained(group).owners(), group.state.proposal) == ("bbbb", None)
    group.drain("a", draining=False).settle(100)
    group.settle(100 + DELAY)
    assert group.owners() == "bbbb" and group.state.proposal is not None


def test_a_draining_executor_goes_before_the_youngest(spark: Group) -> None:
    spark.drain("a")
    spark.spec = replace(spark.spec, replicas=2)
    spark.settle(60)
    assert [name for name, _ in spark.state.victims] == ["a"]


HANDOFF = 3


def ending_fleet(delay: float) -> Group:
    return Group(4, GroupSpec(delay=delay), max_handoff=HANDOFF).start("a", "b")


def test_a_stopping_pod_releases_before_its_grace_period_ends() -> None:
    group = ending_fleet(delay=30)
    assert group.terminate("a", ends=130).step(100).wake_at == 122, "5 s before the end, and a hand-off before that"
    assert pauses(group.step(121.9)) == []
    assert pauses(group.step(122)) == [0, 2]
    group.release("a", 0).release("a", 2).step(122.5)
    assert group.owners() == "-b-b"
    group.leave("a").settle(123)
    assert summary(group.state).hold_until == 130, "the holddown goes on, for a pod in its place"
    group.join("c").settle(124)
    assert (group.owners(), group.state.totals.moves, summary(group.state).state) == ("cbcb", 2, State.READY)


def test_released_partitions_are_shared_out_when_the_holddown_ends() -> None:
    group = ending_fleet(delay=30)
    group.terminate("a", ends=130).step(100)
    group.step(122)
    group.release("a", 0).release("a", 2).step(122.5)
    group.leave("a").settle(130)
    assert (group.owners(), group.state.totals.moves, group.state.totals.lower_bound) == ("bbbb", 2, 2)


def test_a_stopping_pod_waits_for_a_holddown_that_ends_in_time() -> None:
    group = ending_fleet(delay=25)
    group.terminate("a", ends=130)
    assert group.step(100).wake_at == 125
    assert pauses(group.step(122)) == []
    group.step(125)
    assert {move.receiver for move in group.state.moves.values()} == {"b"}


def test_a_shortened_grace_period_counts() -> None:
    group = ending_fleet(delay=30)
    group.terminate("a", ends=130).step(100)
    assert pauses(group.terminate("a", ends=105).step(101)) == [0, 2]


@pytest.mark.parametrize(("paused", "held_back"), [(True, HeldBack.NOTHING), (False, HeldBack.PLANS)])
def test_a_stopping_pod_releases_though_no_plan_is_made(paused: bool, held_back: HeldBack) -> None:
    group = ending_fleet(delay=5)
    group.spec, group.held_back = replace(group.spec, paused=paused), held_back
    group.terminate("a", ends=130).step(100)
    assert pauses(group.step(110)) == []
    assert pauses(group.step(122)) == [0, 2]


def test_a_stopping_pod_releases_nothing_if_the_ledger_is_full() -> None:
    group = ending_fleet(delay=5)
    group.held_back = HeldBack.ALL
    group.terminate("a", ends=130).step(100)
    done = group.step(126)
    assert (pauses(done), done.wake_at) == ([], None)


STATIC = GroupSpec(delay=2, session_timeout=10)


def static_fleet(*, exclusive: bool = False, partitions: int = 4) -> Group:
    group = Group(partitions, STATIC, exclusive=exclusive)
    group.join("a", instance="i0").join("b", instance="i1")
    return group.start()


def test_an_identity_that_is_set_later_reserves_the_slot() -> None:
    """The group has static members from now on, or the label came after the pod."""
    group = Group(4, STATIC).join("a", "b").start()
    group.join("a", instance="i0").settle(50)
    assert summary(group.state).state is State.READY, "no trigger"
    group.leave("a").settle(60)
    assert group.owners() == "-b-b"
    group.join("c", instance="i0").settle(65)
    assert group.owners() == "cbcb"
    assert group.state.totals.moves == 0


def test_a_static_term_from_a_fast_clock_is_bounded_by_its_length() -> None:
    group = static_fleet().leave("a")
    group.settle(100)
    group.step(50)  # the next operator's clock is behind
    assert group.state.hold_until == 50 + STATIC.session_timeout


def scaled_fleet(partitions: int, *names: str) -> Group:
    return Group(partitions, GroupSpec(replicas=len(names), scale_mode=ScaleMode.SPARK)).start(*names)


def shrink(group: Group, replicas: int) -> Group:
    group.spec = replace(group.spec, replicas=replicas)
    return group


def victims(group: Group) -> list[str]:
    return [name for name, _ in group.state.victims]


def test_the_ledger_has_size_and_victims_for_the_driver() -> None:
    group = shrink(scaled_fleet(4, "a", "b", "c"), 2)
    group.step(60)
    assert json.loads(dump(group.state)["group"])["scale"] == {"replicas": 2, "victims": ["c"]}


def test_victims_are_the_members_with_fewest_partitions_then_the_youngest() -> None:
    group = scaled_fleet(5, "a", "b", "c")
    group.now = 30
    group.spec = replace(group.spec, replicas=4)
    group.join("d").settle(30)
    group.settle(35)
    group.settle(38)
    shrink(group, 3).settle(60)
    assert victims(group) == ["d"], "of those with one partition the youngest"
    shrink(group, 2).settle(61)
    assert victims(group) == ["d", "c"]


def test_a_standby_is_the_first_victim() -> None:
    group = scaled_fleet(2, "a", "b", "z")
    shrink(group, 2).settle(60)
    assert victims(group) == ["z"]
    assert summary(group.state).state is State.READY


def test_the_last_victim_is_spared_first() -> None:
    group = scaled_fleet(6, "a", "b", "c", "d")
    shrink(group, 3).settle(60)
    assert victims(group) == ["d"]
    shrink(group, 2).settle(61)
    assert victims(group) == ["d", "c"]
    shrink(group, 3).settle(62)
    assert victims(group) == ["d"]


def test_victims_hand_off_after_the_holddown_and_keep_nothing() -> None:
    group = scaled_fleet(4, "a", "b")
    shrink(group, 1).settle(60)
    group.settle(65)
    assert group.moved() == ["revoke 1 b", "revoke 3 b"]
    group.release("b", 1).release("b", 3).settle(66)
    assert group.owners() == "aaaa"
    assert "b" not in dump(group.state), "the driver may remove it"
    assert victims(group) == ["b"]
    group.leave("b").settle(67)
    assert victims(group) == []


def test_a_workload_has_no_victims() -> None:
    group = Group(4, GroupSpec(replicas=1, scale_mode=ScaleMode.WORKLOAD))
    group.join("a", "b").settle(0)
    group.settle(5)
    assert victims(group) == []
    assert json.loads(dump(group.state)["group"]).get("scale") is None
