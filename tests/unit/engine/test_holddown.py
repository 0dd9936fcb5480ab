"""Rule 1: the holddown, from the first trigger to the plan."""

import pytest

from baton.api.group import GroupRebalance
from baton.engine import State, summary
from baton.engine.observation import GroupSpec
from baton.engine.results import Granted, Revoked
from tests.unit.engine.group import Group


def state(group: Group) -> tuple[State, float | None]:
    now = summary(group.state)
    return now.state, now.hold_until


def test_the_next_step_is_due_when_the_holddown_ends() -> None:
    group = Group().start("a", "b")
    assert group.join("c").step(60).wake_at == 65


@pytest.mark.parametrize("at", [60.0, 60.0000004, 60.0000006], ids=["whole", "rounded down", "rounded up"])
def test_a_delay_of_zero_acts_in_the_same_step(at: float) -> None:
    group = Group(spec=GroupSpec(delay=0))
    assert len(group.join("a").step(at).effects) == 4
    group.settle(at)
    assert group.owners() == "aaaa"


def whys(group: Group) -> dict[str, set[str]]:
    """What was told of moves, by who got the partition, or was to."""
    found: dict[str, set[str]] = {}
    for event in group.events:
        if isinstance(event, Granted | Revoked):
            found.setdefault(str(event.receiver if isinstance(event, Revoked) else event.member), set()).add(event.why)
    return found


def test_a_move_has_the_reason_of_its_own_pods() -> None:
    group = Group(12).join("a")
    group.step(0)
    group.join("b").settle(1)
    group.settle(5)
    assert whys(group) == {"a": {"a joined"}, "b": {"b joined"}}
    group.events.clear()
    group.join("c").step(60)
    group.join("d").step(61)
    group.settle(65)
    assert whys(group) == {"c": {"c joined"}, "d": {"d joined"}}
    for moving in sorted(group.state.moves):
        group.release(str(group.state.records[moving].owner), moving.number)
    group.settle(66)
    assert group.state.moves == {}
    group.events.clear()
    group.terminate("a").step(100)
    group.terminate("b").step(101)
    group.settle(105)
    given = {event.member: event.why for event in group.events if isinstance(event, Revoked)}
    assert given == {"a": "a is stopping", "b": "b is stopping"}


def test_a_later_move_has_the_first_reason_and_counts_the_others() -> None:
    group = Group(12, GroupSpec(rebalance=GroupRebalance(max_concurrent_handoffs=1))).start("a", "b")
    for at, name in ((60, "c"), (61, "d"), (62, "e")):
        group.join(name).step(at)
    group.settle(65)
    assert group.state.rebalance is not None
    assert group.state.rebalance.why == "c and 2 others joined"


def test_a_manual_request_is_a_trigger_once() -> None:
    group = Group().start("a", "b")
    group.request = "monday"
    group.step(60)
    assert state(group) == (State.HOLDDOWN, 65)
    group.settle(65)
    assert state(group) == (State.READY, None)
    group.step(70)
    assert state(group) == (State.READY, None)


def test_a_holddown_from_a_fast_clock_is_bounded_by_its_length() -> None:
    group = Group().start("a", "b")
    group.join("c").step(1000)
    group.step(500)  # the next operator's clock is behind
    assert state(group) == (State.HOLDDOWN, 505)


def test_an_unknown_assignor_is_a_problem_until_it_is_replaced() -> None:
    group = Group(spec=GroupSpec(assignors=("solice",)))
    group.join("a").step(0)
    group.step(5)
    problem = summary(group.state).problem
    assert problem is not None and problem.reason == "UnknownAssignor"
    assert "there is no assignor 'solice'; choose one of" in problem.message
    assert group.step(6).wake_at is None, "nothing to wake up for"
    group.spec = GroupSpec(assignors=("solace",))
    group.settle(7)
    assert group.owners() == "aaaa"


def test_an_assignor_that_a_member_does_not_support_is_not_used() -> None:
    group = Group(spec=GroupSpec(assignors=("range", "solace"))).join("a").join("b", assignors=("solace",))
    group.step(0)
    group.settle(5)
    assert summary(group.state).assignor == "solace"
    group.spec = GroupSpec(assignors=("range",))
    group.step(10)
    problem = summary(group.state).problem
    assert problem is not None and "b announces solace in its annotation baton.dev/assignors" in problem.message
    assert group.owners() == "abab", "what stands stays"
    assert "add solace, which all support, to spec.assignors, or let the pods" in problem.message


def test_a_custom_assignor_that_is_not_installed_is_named() -> None:
    group = Group().join("a").join("b", assignors=("example.com/by-laod",))
    group.step(0)
    group.step(5)
    problem = summary(group.state).problem
    assert problem is not None
    assert "b announces example.com/by-laod in its annotation baton.dev/assignors (there is no assignor" in problem.message
    assert "spec.assignors" not in problem.message
