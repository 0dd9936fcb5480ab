"""The groups of Kafka's own assignor tests, and what its classes answer to them.

`kafka_clients.jsonl`: who owns what in the end (`owners`), and which part of it a cooperative assignor withholds. The owners are
those of Kafka's classes, except where these follow the order of a HashMap. `kafka_server.jsonl`: `theirs` is the answer of the
assignors at the server (KIP-848). Its range is ours to the letter; beside its uniform assignor ours is as even and moves no more.
"""

import json
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import NotRequired, TypedDict

import pytest

from baton.cli.plan import AnswerObject, NumbersByQueue, answer_line


class MemberObject(TypedDict):
    subscribed: list[str]
    owned: NotRequired[list[tuple[str, int]]]


class RequestObject(TypedDict):
    queues: dict[str, int]
    members: dict[str, MemberObject]
    zones: NotRequired[dict[str, list[list[str]]]]


class Case(TypedDict):
    """One line of a file. Only the clients' have `owners` to `lower_bound`, only the server's `theirs`."""

    shows: str
    assignors: list[str]
    request: RequestObject
    owners: dict[str, NumbersByQueue]
    withheld: dict[str, NumbersByQueue]
    moves: int
    lower_bound: int
    theirs: dict[str, NumbersByQueue]


def _cases(file: str) -> list[object]:
    lines = Path(__file__).with_name(file).read_text().splitlines()
    return [
        pytest.param(case, assignor, id=f"{assignor}: {case['shows']}")
        for case in map(json.loads, lines)
        for assignor in case["assignors"]
    ]


CLIENTS = _cases("kafka_clients.jsonl")
SERVER = _cases("kafka_server.jsonl")


def answer(assignor: str, request: RequestObject) -> AnswerObject:
    return answer_line(json.dumps({"assignor": assignor, **request}))


@pytest.mark.parametrize(("case", "assignor"), CLIENTS)
def test_the_owners_are_those_of_kafkas_assignor(case: Case, assignor: str) -> None:
    answered = answer(assignor, case["request"])
    assert answered["withheld"] == (case["withheld"] if assignor == "cooperative-sticky" else {})
    assert _owners(answered["assignment"], answered["withheld"]) == _owners(case["owners"])
    assert (answered["moves"], answered["lower_bound"]) == (case["moves"], case["lower_bound"])


@pytest.mark.parametrize(("case", "assignor"), CLIENTS + SERVER)
def test_the_order_of_keys_and_lists_is_irrelevant(case: Case, assignor: str) -> None:
    assert answer(assignor, _turned_round(case["request"])) == answer(assignor, case["request"])


@pytest.mark.parametrize(("case", "assignor"), CLIENTS)
def test_only_the_order_of_names_matters(case: Case, assignor: str) -> None:
    """Kafka's own answer can change here: its HashMap is ordered by hashes."""
    members = case["request"]["members"]
    new = dict(zip(sorted(members), (f"pod-{place:02}" for place in range(len(members))), strict=True))
    renamed: RequestObject = {**case["request"], "members": {new[name]: member for name, member in members.items()}}
    before, after = answer(assignor, case["request"]), answer(assignor, renamed)
    assert after["assignment"] == {new[name]: hand for name, hand in before["assignment"].items()}
    assert after["withheld"] == {new[name]: hand for name, hand in before["withheld"].items()}


@pytest.mark.parametrize(("case", "assignor"), SERVER)
def test_minimal_is_as_even_as_kafkas_server_and_moves_no_more(case: Case, assignor: str) -> None:
    answered = answer(assignor, case["request"])
    if assignor == "range":
        assert answered["assignment"] == case["theirs"]
    assert _unevenness(answered["assignment"]) == _unevenness(case["theirs"])
    held = {tuple(claim): name for name, member in case["request"]["members"].items() for claim in member.get("owned", ())}
    theirs = sum(held.get(partition, name) != name for partition, name in _owners(case["theirs"]).items())
    assert answered["moves"] <= theirs


def _owners(*sides: Mapping[str, NumbersByQueue]) -> dict[tuple[str, int], str]:
    return {
        (queue, number): name
        for side in sides
        for name, hand in side.items()
        for queue, numbers in hand.items()
        for number in numbers
    }


def _unevenness(assignment: Mapping[str, NumbersByQueue]) -> int:
    return sum(count**2 for count in Counter(_owners(assignment).values()).values())


def _turned_round(value: RequestObject) -> RequestObject:
    """Lists too: subscriptions and claims are sets. Zones stand in the order of the partitions."""
    request: RequestObject = json.loads(json.dumps(value), object_pairs_hook=lambda pairs: dict(reversed(pairs)))
    for member in request["members"].values():
        member["subscribed"].reverse()
        member.get("owned", []).reverse()
    for zones in request.get("zones", {}).values():
        for zone in zones:
            zone.reverse()
    return request
