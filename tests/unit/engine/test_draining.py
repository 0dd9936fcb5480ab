"""Rule 7: a member that drains gives its partitions away, goes on, and may come back."""

import pytest

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
