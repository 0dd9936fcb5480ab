"""Rule 7: a member that drains gives its partitions away, goes on, and may come back."""

from dataclasses import replace

import pytest

from baton.api.group import Approval, ScaleMode
from baton.engine import dump, load, summary
from baton.engine.observation import GroupSpec
from tests.unit.engine.group import Group

DELAY = 2


def fleet(session_timeout: float = 0.0) -> Group:
    group = Group(4, GroupSpec(delay=DELAY, session_timeout=session_timeout), max_handoff=3)
    return group.join("a", instance="i0").join("b", instance="i1").start()


def drained(group: Group) -> Group:
    """The holddown, and the hand-offs to their deadlines."""
    group.drain("a").settle(60)
    group.settle(60 + DELAY)
    group.settle(60 + DELAY + 3)
    return group


@pytest.mark.parametrize("session_timeout", [0.0, 600.0])
def test_others_get_what_it_has_after_the_delay_static_or_not(session_timeout: float) -> None:
    group = fleet(session_timeout)
    assert group.owners() == "abab"
    group.drain("a").settle(60)
    assert (group.owners(), summary(group.state).hold_until) == ("abab", 60 + DELAY)
    assert drained(fleet(session_timeout)).owners() == "bbbb"


def test_it_gets_nothing_until_that_is_taken_back() -> None:
    group = drained(fleet())
    group.join("c").settle(100)
    group.settle(105)
    group.settle(110)
    assert set(group.owners()) == {"b", "c"}
    group.drain("a", draining=False).settle(120)
    group.settle(125)
    group.settle(130)
    assert set(group.owners()) == {"a", "b", "c"}


def test_taken_back_within_the_delay_it_costs_no_move() -> None:
    group = fleet()
    group.drain("a").settle(60)
    group.drain("a", draining=False).settle(61)
    group.settle(90)
    assert (group.owners(), group.state.totals.moves) == ("abab", 0)


def test_a_restart_of_the_operator_changes_nothing() -> None:
    group = drained(fleet())
    group.state = load(dump(group.state))
    group.settle(100)
    group.settle(110)
    assert group.owners() == "bbbb"
    group.drain("a", draining=False).settle(120)
    group.settle(125)
    group.settle(130)
    assert sorted(group.owners()) == ["a", "a", "b", "b"]


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


def test_a_victim_that_drains_stands_at_once_before_those_that_were_chosen_earlier(spark: Group) -> None:
    assert executors(spark, 2, at=60) == ["c"]
    spark.drain("b").spec = replace(spark.spec, replicas=1)
    spark.settle(80)
    assert [name for name, _ in spark.state.victims] == ["b", "c"], "or the next step would write the ledger for that alone"


def test_a_spark_fleet_of_its_size_loses_nobody_who_drains(spark: Group) -> None:
    assert executors(drained(spark), 3, at=100) == []


def test_the_older_of_an_identity_stays_fenced_off_while_the_newer_drains() -> None:
    group = fleet(session_timeout=600)
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
    assert sorted(group.owners()) == ["a", "a", "b", "b"], "nobody of its identity is left but itself"


def test_a_drain_waits_for_no_approval_and_what_moves_back_does() -> None:
    group = fleet()
    group.spec = replace(group.spec, approval=Approval.MANUAL)
    assert (drained(group).owners(), group.state.proposal) == ("bbbb", None)
    group.drain("a", draining=False).settle(100)
    group.settle(100 + DELAY)
    assert group.owners() == "bbbb" and group.state.proposal is not None


def test_who_drains_goes_before_the_youngest_though_it_still_has_its_partitions(spark: Group) -> None:
    spark.drain("a")
    spark.spec = replace(spark.spec, replicas=2)
    spark.settle(60)
    assert [name for name, _ in spark.state.victims] == ["a"]
