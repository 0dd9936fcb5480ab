"""The modules, the registry, the CRD, the documentation and the comparison with the originals name the same assignors."""

import ast
import re
from collections import deque
from collections.abc import Mapping
from dataclasses import fields
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from baton.assignors import BUILT_IN, DEFAULT, Answer, AssignorError, Member, Request, Traits, traits_of
from baton.assignors.building_blocks import PartitionList, in_rounds
from baton.assignors.registry import DECLARED
from baton.assignors.request import checked, whatever_the_order
from baton.assignors.rocketmq import NEARBY
from baton.model import MemberId, Partition, QueueName
from tests.ids import a_partition, a_request, by_member, reading

ROOT = Path(__file__).parents[3]
ROOM = ROOT / "operator" / "baton" / "assignors"
PAGE = (ROOT / "docs" / "concepts" / "assignors.md").read_text()
CRD = yaml.safe_load((ROOT / "crds" / "baton.dev_consumergroups.yaml").read_text())
SPEC: dict[str, Any] = CRD["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"]["properties"]
OPTIONS: dict[str, Any] = SPEC["assignorOptions"]["properties"]
INSIDE = [name for name in BUILT_IN if name != "machine-room-nearby"]


def the_names_of_a_rule(schema: dict[str, Any]) -> list[str]:
    (rule,) = schema["x-kubernetes-validations"]
    found = re.search(r"self in (\[.*?\])", rule["rule"])
    assert found is not None
    names: list[str] = ast.literal_eval(found[1])
    return names


def test_the_registry_lists_every_assignor_that_a_module_declares() -> None:
    modules = [path.read_text() for path in sorted(ROOM.rglob("*.py"))]
    declared = [name for text in modules for name in re.findall(r'\bDeclaration\(\s*name=("[a-z-]+"|NEARBY)', text)]
    assert sorted(ast.literal_eval(name) if name != "NEARBY" else NEARBY for name in declared) == list(BUILT_IN)


def test_the_crd_knows_the_same_assignors() -> None:
    assert the_names_of_a_rule(SPEC["assignors"]["items"]) == list(BUILT_IN)
    assert the_names_of_a_rule(OPTIONS["within"]) == [*INSIDE]
    assert SPEC["assignors"]["default"] == [DEFAULT]


def test_the_crd_has_every_option() -> None:
    inside = [DECLARED["machine-room-nearby"].options({"within": name}) for name in INSIDE]
    assert {option for options in inside for option in options} == {*OPTIONS}


def test_the_documentation_has_a_row_for_each() -> None:
    assert re.findall(r"^\| `([a-z-]+)`", PAGE, re.MULTILINE)[: len(BUILT_IN)] == [*DECLARED]


def test_the_documentation_has_a_row_for_each_trait() -> None:
    rows = re.findall(r"^\| `([a-z_]+)` \|.*\|.*\| (\S.*) \|$", PAGE, re.MULTILINE)
    assert {name for name, _ in rows} >= {field.name for field in fields(Traits)}


def test_each_of_kafkas_and_rocketmqs_is_compared_with_the_original() -> None:
    compared = {*re.findall(r'case "([a-z-]+)"', (ROOT / "tests" / "peers" / "Peers.java").read_text())}
    assert compared - {*BUILT_IN} == {"uniform"}, "that is Kafka's server-side assignor, which minimal is compared with"
    assert {name for name, one in DECLARED.items() if one.source.startswith(("Kafka", "RocketMQ"))} == compared - {"uniform"}


@pytest.mark.parametrize("path", sorted((ROOM.parent / "engine").glob("*.py")), ids=lambda path: path.name)
def test_the_engine_names_no_assignor_and_no_option(path: Path) -> None:
    words = {*re.findall(r"[\"'`]([A-Za-z-]+)[\"'`]", path.read_text())}
    assert words & {*BUILT_IN, *OPTIONS} == set()


def test_an_installed_assignor_has_no_traits() -> None:
    assert traits_of("example.com/by-load") == Traits()


@pytest.mark.parametrize(
    ("within", "left_out"), [("machine-room", True), ("average", False), (None, False), ("example.com/by-load", False)]
)
def test_machine_room_nearby_leaves_out_what_its_inner_assignor_does(within: str | None, left_out: bool) -> None:
    leaves_out = traits_of("machine-room-nearby").leaves_out
    options: dict[str, object] = {"rooms": frozenset({"east"}), **({"within": within} if within else {})}
    assert leaves_out is not None
    assert leaves_out(options, frozenset({"west"})) is left_out
    assert leaves_out(options, frozenset({"east", "west"})) is False


# -- What an assignor of the user's own is held to.


BOTH = reading("orders", "returns")
REQUEST = a_request(
    {"orders": 3, "returns": 1, "unread": 2}, {"a": Member(BOTH), "b": Member(reading("orders")), "c": Member(frozenset())}
)
O0, O1, O2, R0 = a_partition("orders", 0), a_partition("orders", 1), a_partition("orders", 2), a_partition("returns", 0)


def answering(assignment: object, withheld: object = None, request: Request = REQUEST) -> Answer:
    return checked("example.com/mine", lambda _: Answer(assignment, {} if withheld is None else withheld))(request)  # type: ignore[arg-type]


def test_a_valid_answer_is_sorted_and_has_every_member() -> None:
    answer = answering({"a": [R0, O2], "b": {("orders", 0)}}, {"b": [O1]})
    assert answer == Answer(by_member({"a": (O2, R0), "b": (O0,), "c": ()}), by_member({"b": (O1,)}))


@pytest.mark.parametrize(
    ("assignment", "withheld", "said"),
    [
        ({"a": [O0, O1, O2, R0], "z": []}, {}, "gave something to 'z', which is not a member"),
        ({"a": [O0, O1, O2, R0, ("gone", 0)]}, {}, "gave a partition 0 of gone, and there is no queue gone"),
        ({"a": [O0, O1, O2, R0, ("orders", 3)]}, {}, "gave a partition 3 of orders, which has 3, numbered from 0"),
        ({"a": [O0, O1, O2, R0, ("orders", -1)]}, {}, "gave a partition -1 of orders, which has 3"),
        ({"a": [O0, O1, O2], "b": [R0]}, {}, "gave b partition 0 of returns, which that member does not read"),
        ({"a": [O0, O1, O2, R0], "b": [O1]}, {}, "gave partition 1 of orders to a and to b"),
        ({"a": [O0, O1, O2, R0]}, {"b": [O1]}, "gave partition 1 of orders to a and to b"),
        ({"a": [O0, O1, O2, R0, R0]}, {}, "gave partition 0 of returns to a twice"),
        ({"a": [O0, R0]}, {}, "gave orders 1-2 no owner, though there are members that read it"),
        ({"a": [O0, O1, O2, R0, ("unread", 0)]}, {}, "gave a partition 0 of unread, which that member does not read"),
        ({"a": [0]}, {}, "gave a 0, which is not a Partition(queue, number)"),
        ({"a": [("orders", True)]}, {}, "gave a ('orders', True), which is not a Partition"),
        ({"a": 3}, {}, "gave a int instead of partitions"),
        ([O0], {}, "answered with a assignment that is list, no mapping of members to partitions"),
    ],
)
def test_an_invalid_answer_is_reported_in_one_line(assignment: object, withheld: object, said: str) -> None:
    with pytest.raises(AssignorError) as refused:
        answering(assignment, withheld)
    assert str(refused.value).startswith(f"the assignor example.com/mine {said}")
    assert "\n" not in str(refused.value)


def test_many_missing_partitions_are_counted() -> None:
    with pytest.raises(AssignorError, match="gave orders 0-19 and 80 more no owner"):
        answering({}, request=a_request({"orders": 100}, {"a": Member(BOTH)}))


def test_another_answer_than_an_answer_is_refused() -> None:
    with pytest.raises(AssignorError, match=r"answered with dict instead of baton\.assignors\.Answer"):
        checked("example.com/mine", lambda _: {"a": []})(REQUEST)  # type: ignore[arg-type,return-value]


def test_an_exception_becomes_one_line_with_its_place() -> None:
    def fails(_: Request) -> Answer:
        raise KeyError("no\nsuch\nthing")

    with pytest.raises(AssignorError, match=r"^the assignor example.com/mine failed at test_registry.py:\d+ with KeyError: .*$"):
        checked("example.com/mine", fails)(REQUEST)


def test_a_request_cannot_be_written_to() -> None:
    def meddles(request: Request) -> Answer:
        request.queues["orders"] = 0  # type: ignore[index]
        return Answer({})

    with pytest.raises(AssignorError, match=r"failed at .* with TypeError"):
        checked("example.com/mine", meddles)(REQUEST)
    assert REQUEST.queues[QueueName("orders")] == 3


def first_listed(request: Request) -> Answer:
    return all_to(next(name for name in request.members if request.members[name].subscribed == BOTH), request.queues)


def first_by_name(request: Request) -> Answer:
    return all_to(min(name for name in request.members if request.members[name].subscribed == BOTH), request.queues)


def all_to(member: MemberId, queues: Mapping[QueueName, int]) -> Answer:
    return Answer({member: [Partition(queue, n) for queue in BOTH for n in range(queues[queue])]})


def test_an_answer_that_depends_on_the_order_of_listing_is_found_out() -> None:
    twins = a_request({"orders": 2, "returns": 1}, {"a": Member(BOTH), "b": Member(BOTH)})
    assert whatever_the_order("x/y", checked("x/y", first_by_name))(twins).assignment[MemberId("a")]
    with pytest.raises(AssignorError, match="x/y answers otherwise when the same members or queues are listed in another order"):
        whatever_the_order("x/y", checked("x/y", first_listed))(twins)


# -- What assignors are built of.


partitions = st.lists(st.builds(a_partition, st.sampled_from(["orders", "payments"]), st.integers(0, 9)))


@given(partitions)
def test_a_partition_list_is_a_sorted_tuple(listed: list[Partition]) -> None:
    hand, expected = PartitionList.of(listed), tuple(sorted(set(listed)))
    assert hand == expected and tuple(hand) == expected and len(hand) == len(expected) and hash(hand) == hash(expected)
    assert all(isinstance(partition, Partition) for partition in hand)
    assert [hand[place] for place in range(len(hand))] == list(expected)


@given(partitions, st.slices(12))
def test_a_slice_of_a_partition_list_is_that_of_the_tuple(listed: list[Partition], part: slice) -> None:
    assert tuple(PartitionList.of(listed)[part]) == tuple(PartitionList.of(listed))[part]


@given(partitions, st.sets(st.integers(0, 19)))
def test_partitions_at_some_places_are_a_partition_list(listed: list[Partition], places: set[int]) -> None:
    hand = PartitionList.of(listed)
    there = sorted(place for place in places if place < len(hand))
    assert hand.at(there) == tuple(hand[place] for place in there)


@given(partitions, partitions)
def test_disjoint_partition_lists_are_joined_in_order(some: list[Partition], others: list[Partition]) -> None:
    rest = PartitionList.of(set(others) - set(some))
    assert PartitionList.joined([PartitionList.of(some), rest]) == tuple(sorted({*some, *others}))


@given(st.dictionaries(st.sampled_from("abcdef"), st.integers(1, 8)))
def test_dealing_in_rounds_is_passing_cards_one_by_one(wants: dict[str, int]) -> None:
    cards = list(range(sum(wants.values())))
    dealt: dict[str, list[int]] = {name: [] for name in wants}
    for name, share in in_rounds(wants):
        dealt[name] += cards[share]
    one_by_one: dict[str, list[int]] = {name: [] for name in wants}
    turn = deque(wants)
    for card in cards:
        name = turn.popleft()
        one_by_one[name].append(card)
        if len(one_by_one[name]) < wants[name]:
            turn.append(name)
    assert dealt == one_by_one
