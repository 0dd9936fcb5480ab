"""The assignor in use: its inputs, its traits, and its failures. Sizes of a fleet with equal shares."""

from collections.abc import Callable, Iterator
from dataclasses import replace
from fractions import Fraction
from typing import Any

import pytest

from baton.assignors import Answer, Request, get, install
from baton.engine import GroupState, dump, load, summary
from baton.engine.observation import GroupSpec, ObservedQueue, even_size
from baton.model.ids import Epoch, MemberId, QueueName, Uid
from baton.queues.protocol import Ownership
from tests.unit.engine.group import Group, partition, pauses

# Options, zones, weights and capacities reach the assignor, and another one is a trigger.


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
def test_changed_inputs_of_the_assignor_are_a_trigger_once(facts: dict[str, Any], spec: dict[str, Any]) -> None:
    group = Group(4, GroupSpec(assignors=("minimal",))).start("a", "b")
    group.spec = replace(group.spec, **spec)
    tune(group, **facts).step(10)
    assert group.state.holddown is not None
    assert group.state.holddown.why == "the assignor's options, or zones or weights of partitions, changed"
    group.settle(15)
    assert group.step(20).state.holddown is None
    assert load(dump(group.state)) == group.state


def test_unknown_zones_are_no_trigger() -> None:
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
    assert group.state.holddown is not None and group.state.holddown.why == "b has capacity 1/2 instead of 1"
    group.settle(15)
    assert len(group.state.moves) == 1
    assert load(dump(group.state)) == group.state


def test_default_inputs_are_not_in_the_ledger() -> None:
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


def test_partitions_outside_every_room_stay_unowned() -> None:
    spec = GroupSpec(assignors=("machine-room",), options={"rooms": EAST})
    group = Group(4, spec, zones=HALVES).start("a", "b")
    assert group.owners() == "--ab"
    assert group.step(6).state.holddown is None
    assert summary(group.state).balanced
    tune(group, zones=((0, 3, EAST),)).step(10)
    group.settle(15)
    assert "-" not in group.owners()


def test_a_weighted_group_is_balanced_after_its_plan() -> None:
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


# What the engine does with the traits that an assignor declares.


PAYMENTS = QueueName("payments")


def test_hand_offs_under_way_go_on_under_another_assignor() -> None:
    group = Group(4, GroupSpec(assignors=("circle",)), max_handoff=100).start("a").join("b")
    group.step(10)
    assert pauses(group.settle(15)) == [1, 3]
    group.spec = replace(group.spec, assignors=("solace",))
    group.step(16)
    group.settle(21)
    assert sorted(p.number for p, move in group.state.moves.items() if move.receiver == "b") == [1, 3], "and not 2, 3"


def each_queue_with_another_member(assignor: str) -> Group:
    """The ledger is lost, and one member is on record for all of a queue: totals are even, and no queue is."""
    group = Group(2, GroupSpec(assignors=(assignor,)))
    group.queues[PAYMENTS] = ObservedQueue(2)
    group.start("a", "b")
    group.state = GroupState("shop/orders")
    for queue, uid in ((ORDERS, Uid("uid-a")), (PAYMENTS, Uid("uid-b"))):
        owners = {number: Ownership(uid, Epoch(7)) for number in range(2)}
        group.records |= {partition(number, queue): record for number, record in owners.items()}
        group.queues[queue] = replace(group.queues[queue], owners=owners)
    group.settle(10)
    assert group.owners() + group.owners("payments") == "aabb"
    return group


@pytest.mark.parametrize(("assignor", "moves"), [("solace", True), ("sticky", False), ("minimal", False)])
def test_queues_must_be_even_only_under_a_balancing_assignor(assignor: str, moves: bool) -> None:
    assert (each_queue_with_another_member(assignor).state.holddown is not None) is moves


# An assignor of the user's own that fails, or breaks its contract: owners keep their partitions.


MINE = "example.com/mine"


class Moody:
    """Answers as `solace`, unless told otherwise."""

    def __init__(self) -> None:
        self.does: Callable[[Request], Answer] = get("solace")

    def __call__(self, request: Request) -> Answer:
        return self.does(request)


@pytest.fixture
def mine() -> Iterator[Moody]:
    assignor = Moody()
    install(lambda: {MINE: lambda: assignor})
    yield assignor
    install(dict)


def fails(_: Request) -> Answer:
    raise RuntimeError("out of ideas")


def test_a_failing_assignor_moves_nothing_until_it_works(mine: Moody) -> None:
    group = Group(4, GroupSpec(assignors=(MINE,))).start("a", "b")
    assert group.owners() == "abab"
    mine.does = fails
    group.join("c").step(10)
    group.settle(15)
    done = group.settle(20)
    assert (group.owners(), done.effects) == ("abab", ())
    assert summary(group.state).problem == (
        "InvalidAssignment",
        f"the assignor {MINE} failed at test_placement.py:{fails.__code__.co_firstlineno + 1} with RuntimeError: out of ideas",
    )
    mine.does = get("solace")
    group.request = "again"
    group.settle(21)
    assert summary(group.state).problem is None
    assert len(group.state.moves) == 1


def test_an_answer_without_an_owner_is_rejected(mine: Moody) -> None:
    group = Group(4, GroupSpec(assignors=(MINE,))).start("a", "b")
    mine.does = lambda request: Answer({})
    group.join("c").step(10)
    group.settle(15)
    problem = summary(group.state).problem
    assert problem is not None and (problem.reason, "gave orders 0-3 no owner" in problem.message) == ("InvalidAssignment", True)
    assert group.owners() == "abab"


def test_a_partition_whose_receiver_vanished_does_not_wait_for_it(mine: Moody) -> None:
    group = Group(6, GroupSpec(assignors=(MINE,))).start("a", "b", "c")
    group.terminate("a").join("d").step(10)
    (first, second) = (partition for partition, move in group.state.moves.items() if move.receiver == "d")
    group.leave("a", "d")
    mine.does = fails
    group.settle(11)
    assert {group.state.records[first].owner, group.state.records[second].owner} == {"b", "c"}
    group.settle(16)
    problem = summary(group.state).problem
    assert problem is not None and problem.reason == "InvalidAssignment"
    mine.does = get("solace")
    group.join("e").settle(17)
    assert summary(group.state).problem is None


def test_an_uninstalled_assignor_is_unknown(mine: Moody) -> None:
    group = Group(4, GroupSpec(assignors=(MINE,))).start("a", "b")
    install(dict)
    group.join("c").step(10)
    group.settle(15)
    problem = summary(group.state).problem
    assert problem is not None and problem.reason == "UnknownAssignor" and MINE in problem.message
    assert group.owners() == "abab"


def test_an_assignor_named_only_by_a_pod_is_not_loaded() -> None:
    loaded: list[str] = []

    def load() -> Callable[[Request], Answer]:
        loaded.append(MINE)
        return get("solace")

    install(lambda: {MINE: load})
    try:
        group = Group().join("a").join("b", assignors=(MINE,))
        group.step(0)
        group.step(5)
        problem = summary(group.state).problem
        assert problem is not None and f"add {MINE}, which all support, to spec.assignors" in problem.message
        assert loaded == []
    finally:
        install(dict)


# Sizes at which every pod has equally many partitions.


@pytest.mark.parametrize(
    ("partitions", "sizes"),
    [
        (64, [0, 1, 2, 2, 4, 4, 4, 4, 8, 8]),
        (12, [0, 1, 2, 3, 4, 4, 6, 6, 6, 6]),
        (13, [0, 1, 1, 1, 1, 1, 1, 1, 1, 1]),
        (4, [0, 1, 2, 2, 4, 4, 4, 4, 4, 4]),
    ],
)
def test_the_next_smaller_size_that_divides_the_partitions(partitions: int, sizes: list[int]) -> None:
    assert [even_size(replicas, partitions) for replicas in range(10)] == sizes


def test_without_partitions_any_size_is_even() -> None:
    assert even_size(5, 0) == 5
