"""Rule 6: members with an identity keep their slot while they are away."""

import pytest

from baton.engine import State, summary
from baton.engine.observation import GroupSpec
from baton.engine.results import Fenced
from tests.unit.engine.group import Group

STATIC = GroupSpec(delay=2, session_timeout=10)


def fleet(*, exclusive: bool = False, partitions: int = 4) -> Group:
    group = Group(partitions, STATIC, exclusive=exclusive)
    group.join("a", instance="i0").join("b", instance="i1")
    return group.start()


def test_a_slot_is_kept_for_the_session_timeout() -> None:
    group = fleet().leave("a")
    assert group.settle(60).wake_at == 70
    now = summary(group.state)
    assert (now.state, now.hold_until) == (State.HOLDDOWN, 70)
    assert group.owners() == "-b-b"


@pytest.mark.parametrize("name", ["a", "a-under-another-name"])
def test_the_same_identity_gets_its_partitions_back_at_new_epochs(name: str) -> None:
    group = fleet().leave("a")
    group.settle(60)
    group.join(name, uid="new", instance="i0").settle(69)
    assert {record.owner for record in group.state.records.values()} == {name, "b"}
    assert group.state.totals.moves == group.state.totals.lower_bound == 0
    assert group.moved() == ["release 0 a gone", "release 2 a gone", f"grant 0 {name} 2", f"grant 2 {name} 2"]
    assert summary(group.state).state is State.READY


def test_a_member_that_got_its_identity_later_keeps_its_slot_too() -> None:
    """The group has static members from now on, or the label came after the pod."""
    group = Group(4, STATIC).join("a", "b").start()
    group.join("a", instance="i0").settle(50)
    assert summary(group.state).state is State.READY, "no trigger"
    group.leave("a").settle(60)
    assert group.owners() == "-b-b"
    group.join("c", instance="i0").settle(65)
    assert group.owners() == "cbcb"
    assert group.state.totals.moves == 0


def test_without_a_session_timeout_an_identity_is_nobodys_slot() -> None:
    group = Group(4, GroupSpec(delay=5))
    group.join("a", instance="i0").join("b", instance="i1")
    group.start().leave("a").leave("b")
    group.settle(60)
    group.join("c", instance="i1").settle(61)
    assert group.owners() == "c-c-", "the first that is vacant"


def test_expiry_rebalances_at_once() -> None:
    group = fleet().leave("a")
    group.settle(60)
    group.settle(70)
    assert group.owners() == "bbbb"


def test_a_waiting_slot_wins_over_standbys() -> None:
    group = fleet(partitions=2)
    group.join("c").settle(50)
    group.leave("a").settle(60)
    assert group.owners() == "-b"
    group.settle(70)
    assert group.owners() == "cb", "when it expires the standby takes over"


def test_but_not_on_exclusive_queues() -> None:
    group = fleet(exclusive=True).leave("a")
    group.settle(60)
    assert group.owners() == "bbbb"


def test_a_newcomer_leaves_the_waiting_slot_alone() -> None:
    group = fleet().leave("a")
    group.settle(60)
    group.join("c").settle(61)
    group.settle(63)
    group.settle(66)
    assert group.owners() == "-b-c"
    group.join("a", uid="new", instance="i0").settle(67)
    assert group.owners() == "abac"


def test_who_has_no_identity_has_no_term() -> None:
    group = Group(2, STATIC).start("a", "b")
    group.leave("a").settle(60)
    assert summary(group.state).hold_until == 62


def test_a_static_member_that_stops_releases_at_once() -> None:
    group = fleet().terminate("a")
    group.settle(60)
    assert group.moved() == ["revoke 0 a", "revoke 2 a"]
    group.release("a", 0).release("a", 2).settle(61)
    group.leave("a").settle(62)
    assert summary(group.state).hold_until == 72, "its term counts from when it vanished"
    group.join("a", uid="new", instance="i0").settle(65)
    assert group.owners() == "abab"


def test_the_newer_of_two_pods_with_one_identity_wins_at_once() -> None:
    group = fleet()
    group.now = 60
    group.join("c", instance="i0").settle(60)
    assert group.owners() == "cbcb"
    assert [h.member for h in group.events if isinstance(h, Fenced)] == ["a"]
    group.events.clear()
    group.settle(61)
    assert not group.events, "reported once"


def test_when_the_newer_goes_the_older_may_have_the_slot_back() -> None:
    group = fleet()
    group.now = 60
    group.join("c", instance="i0").settle(60)
    group.leave("c").settle(61)
    assert group.owners() == "abab"
    assert group.state.records[next(iter(group.state.records))].epoch == 3


def test_a_term_from_a_clock_that_is_ahead_is_no_longer_than_it_was_meant_to_be() -> None:
    group = fleet().leave("a")
    group.settle(100)
    group.step(50)  # the next operator's clock is behind
    assert group.state.hold_until == 50 + STATIC.session_timeout
