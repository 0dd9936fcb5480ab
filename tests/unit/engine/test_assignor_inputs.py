"""Options, zones, weights and capacities reach the assignor, and another one is a trigger."""

from dataclasses import replace
from fractions import Fraction
from typing import Any

import pytest

from baton.engine import dump, load, summary
from baton.engine.observation import GroupSpec
from baton.model.ids import MemberId, QueueName
from tests.unit.engine.group import Group

ORDERS = QueueName("orders")
EAST, WEST = frozenset({"east"}), frozenset({"west"})
HALVES = ((0, 1, WEST), (2, 3, EAST))


def tune(group: Group, **facts: Any) -> Group:
    group.queues[ORDERS] = replace(group.queues[ORDERS], **facts)
    return group


def test_zones_decide_who_gets_what() -> None:
    group = Group(4, GroupSpec(assignors=("minimal",)), zones=HALVES).join("a", zone="east").join("b", zone="west")
    group.step(0)
    group.settle(5)
    assert group.owners() == "bbaa"


def test_weights_and_capacities_decide_who_gets_what() -> None:
    weights = ((0, 0, Fraction(3)),)
    group = Group(4, GroupSpec(assignors=("minimal",)), weights=weights).start("a", "b")
    assert sorted(group.owners().count(name) for name in "ab") == [1, 3]
    group = Group(6, GroupSpec(assignors=("minimal",))).join("a").join("b", capacity=Fraction(2))
    group.step(0)
    group.settle(5)
    assert sorted(group.owners()) == ["a", "a", "b", "b", "b", "b"]


def test_options_reach_the_assignor() -> None:
    spec = GroupSpec(assignors=("machine-room-nearby",), options={"within": "circle"})
    group = Group(4, spec, zones=((0, 3, EAST),)).join("a", "b", zone="east").join("c", zone="west")
    group.step(0)
    group.settle(5)
    assert group.owners() == "abab"


@pytest.mark.parametrize(
    ("facts", "spec"),
    [
        ({"zones": HALVES}, {}),
        ({"weights": ((0, 0, Fraction(9)),)}, {}),
        ({}, {"options": {"virtualNodes": 3}}),
        ({}, {"options": {"rooms": EAST | WEST}}),
    ],
    ids=["zones", "weights", "an option", "rooms"],
)
def test_another_one_is_a_trigger_once(facts: dict[str, Any], spec: dict[str, Any]) -> None:
    group = Group(4, GroupSpec(assignors=("minimal",))).start("a", "b")
    group.spec = replace(group.spec, **spec)
    tune(group, **facts).step(10)
    assert group.state.holddown is not None
    assert group.state.holddown.why == "the assignor's options, or zones or weights of partitions, changed"
    group.settle(15)
    assert group.step(20).state.holddown is None
    assert load(dump(group.state)) == group.state


def test_zones_of_a_queue_that_has_not_answered_yet_are_no_trigger_until_it_has() -> None:
    group = Group(4, GroupSpec(assignors=("minimal",)), zones=HALVES).start("a", "b")
    tune(group, zones=(), zones_known=False).step(10)
    assert group.state.holddown is None
    tune(group, zones=HALVES, zones_known=True).step(11)
    assert group.state.holddown is None
    tune(group, zones=((0, 3, EAST),)).step(12)
    assert group.state.holddown is not None


def test_another_capacity_is_a_trigger() -> None:
    group = Group(6, GroupSpec(assignors=("minimal",))).start("a", "b")
    group.members[MemberId("b")] = replace(group.members[MemberId("b")], capacity=Fraction(1, 2))
    group.step(10)
    assert group.state.holddown is not None and group.state.holddown.why == "b can carry 1/2 instead of 1"
    group.settle(15)
    assert len(group.state.moves) == 1
    assert load(dump(group.state)) == group.state


def test_what_says_nothing_of_them_is_not_in_the_ledger() -> None:
    group = Group(4).start("a", "b")
    assert "inputs" not in dump(group.state)["group"] and "capacities" not in dump(group.state)["group"]


def test_zones_stay_with_their_partitions_when_some_are_left_out() -> None:
    spec = GroupSpec(assignors=("minimal",), session_timeout=100)
    zones = ((0, 1, frozenset({"north"})), (2, 3, WEST), (4, 5, EAST))
    group = Group(6, spec, zones=zones).join("a", zone="north", instance="i").join("b", zone="west").join("c", zone="east")
    group.step(0)
    group.settle(5)
    assert group.owners() == "aabbcc"
    group.leave("a", "b", "c").join("d", zone="east").join("e", "f", zone="west").step(10)
    group.settle(15)
    assert group.owners() in ("--efdd", "--fedd"), "a's slot waits for it: its two are left out"


def test_what_no_room_has_waits_for_nobody() -> None:
    spec = GroupSpec(assignors=("machine-room",), options={"rooms": EAST})
    group = Group(4, spec, zones=HALVES).start("a", "b")
    assert group.owners() == "--ab"
    assert group.step(6).state.holddown is None
    assert summary(group.state).balanced
    tune(group, zones=((0, 3, EAST),)).step(10)
    group.settle(15)
    assert "-" not in group.owners()


def test_a_group_by_weights_is_balanced_when_its_assignor_has_had_its_way() -> None:
    group = Group(4, GroupSpec(assignors=("minimal",)), weights=((0, 0, Fraction(3)),)).start("a", "b")
    assert sorted(group.owners().count(name) for name in "ab") == [1, 3]
    assert summary(group.state).balanced
    group.leave("b").step(10)
    assert not summary(group.state).balanced
    group.join("b", uid="another").settle(11)
    assert summary(group.state).balanced
    group.request = "now"
    group.step(20)
    assert not summary(group.state).balanced, "a plan is due"
