"""Scaling in by the driver (mode Spark): who goes, and what the ledger says of it."""

import json
from dataclasses import replace

from baton.api.group import ScaleMode
from baton.engine import State, dump, summary
from baton.engine.observation import GroupSpec
from tests.unit.engine.group import Group


def fleet(partitions: int, *names: str) -> Group:
    return Group(partitions, GroupSpec(replicas=len(names), scale_mode=ScaleMode.SPARK)).start(*names)


def shrink(group: Group, replicas: int) -> Group:
    group.spec = replace(group.spec, replicas=replicas)
    return group


def victims(group: Group) -> list[str]:
    return [name for name, _ in group.state.victims]


def test_the_ledger_tells_the_driver_size_and_victims() -> None:
    group = shrink(fleet(4, "a", "b", "c"), 2)
    group.step(60)
    assert json.loads(dump(group.state)["group"])["scale"] == {"replicas": 2, "victims": ["c"]}


def test_standbys_go_first_then_who_has_fewest_then_the_youngest() -> None:
    group = fleet(5, "a", "b", "c")
    group.now = 30
    group.spec = replace(group.spec, replicas=4)
    group.join("d").settle(30)
    group.settle(35)
    group.settle(38)
    shrink(group, 3).settle(60)
    assert victims(group) == ["d"], "of those with one partition the youngest"
    shrink(group, 2).settle(61)
    assert victims(group) == ["d", "c"]


def test_a_standby_costs_nothing() -> None:
    group = fleet(2, "a", "b", "z")
    shrink(group, 2).settle(60)
    assert victims(group) == ["z"]
    assert summary(group.state).state is State.READY


def test_victims_are_kept_until_the_size_says_otherwise_and_the_last_chosen_is_spared_first() -> None:
    group = fleet(6, "a", "b", "c", "d")
    shrink(group, 3).settle(60)
    assert victims(group) == ["d"]
    shrink(group, 2).settle(61)
    assert victims(group) == ["d", "c"]
    shrink(group, 3).settle(62)
    assert victims(group) == ["d"]


def test_a_victim_that_is_spared_within_the_delay_has_handed_off_nothing() -> None:
    group = fleet(4, "a", "b")
    shrink(group, 1).settle(60)
    assert summary(group.state).hold_until == 65
    shrink(group, 2).settle(63)
    assert summary(group.state).state is State.READY
    assert group.moved() == []


def test_victims_hand_off_after_the_holddown_and_keep_nothing() -> None:
    group = fleet(4, "a", "b")
    shrink(group, 1).settle(60)
    group.settle(65)
    assert group.moved() == ["revoke 1 b", "revoke 3 b"]
    group.release("b", 1).release("b", 3).settle(66)
    assert group.owners() == "aaaa"
    assert "b" not in dump(group.state), "the driver may remove it"
    assert victims(group) == ["b"]
    group.leave("b").settle(67)
    assert victims(group) == []


def test_without_the_driver_nobody_is_chosen() -> None:
    group = Group(4, GroupSpec(replicas=1, scale_mode=ScaleMode.WORKLOAD))
    group.join("a", "b").settle(0)
    group.settle(5)
    assert victims(group) == []
    assert json.loads(dump(group.state)["group"]).get("scale") is None
