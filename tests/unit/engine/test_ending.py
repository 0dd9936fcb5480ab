"""Rule 7: a pod that would be killed before the holddown ends releases while it still can."""

from dataclasses import replace

import pytest

from baton.engine import State, summary
from baton.engine.observation import GroupSpec, HeldBack
from tests.unit.engine.group import Group, pauses

HANDOFF = 3


def fleet(delay: float) -> Group:
    return Group(4, GroupSpec(delay=delay), max_handoff=HANDOFF).start("a", "b")


def test_a_holddown_longer_than_its_grace_does_not_hold_it() -> None:
    group = fleet(delay=30)
    assert group.terminate("a", ends=130).step(100).wake_at == 122, "5 s before the end, and a hand-off before that"
    assert pauses(group.step(121.9)) == []
    assert pauses(group.step(122)) == [0, 2]
    group.release("a", 0).release("a", 2).step(122.5)
    assert group.owners() == "-b-b"
    group.leave("a").settle(123)
    assert summary(group.state).hold_until == 130, "the holddown goes on, for a pod in its place"
    group.join("c").settle(124)
    assert (group.owners(), group.state.totals.moves, summary(group.state).state) == ("cbcb", 2, State.READY)


def test_without_a_pod_in_its_place_others_get_them_when_the_holddown_ends() -> None:
    group = fleet(delay=30)
    group.terminate("a", ends=130).step(100)
    group.step(122)
    group.release("a", 0).release("a", 2).step(122.5)
    group.leave("a").settle(130)
    assert (group.owners(), group.state.totals.moves, group.state.totals.lower_bound) == ("bbbb", 2, 2)


def test_a_holddown_that_ends_in_time_is_waited_for() -> None:
    group = fleet(delay=25)
    group.terminate("a", ends=130)
    assert group.step(100).wake_at == 125
    assert pauses(group.step(122)) == []
    group.step(125)
    assert {move.receiver for move in group.state.moves.values()} == {"b"}


def test_a_grace_that_is_made_shorter_counts() -> None:
    group = fleet(delay=30)
    group.terminate("a", ends=130).step(100)
    assert pauses(group.terminate("a", ends=105).step(101)) == [0, 2]


@pytest.mark.parametrize(("paused", "held_back"), [(True, HeldBack.NOTHING), (False, HeldBack.PLANS)])
def test_it_releases_where_no_plan_is_made(paused: bool, held_back: HeldBack) -> None:
    group = fleet(delay=5)
    group.spec, group.held_back = replace(group.spec, paused=paused), held_back
    group.terminate("a", ends=130).step(100)
    assert pauses(group.step(110)) == []
    assert pauses(group.step(122)) == [0, 2]


def test_where_the_ledger_has_no_room_nothing_begins_and_nothing_is_waited_for() -> None:
    group = fleet(delay=5)
    group.held_back = HeldBack.ALL
    group.terminate("a", ends=130).step(100)
    done = group.step(126)
    assert (pauses(done), done.wake_at) == ([], None)
