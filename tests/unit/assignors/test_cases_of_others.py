"""The tests of Kafka's and RocketMQ's assignors, told in our words: `cases/*.jsonl`, each with its origin.

A case has the exact `assignment` (and, for a cooperative assignor, what is `withheld`), or what `holds` of any right answer.
"""

import json
from collections import Counter
from pathlib import Path
from typing import NotRequired, TypedDict

import pytest

from baton.assignors import names
from baton.cli.plan import AnswerObject, NumbersByQueue, answer_line


class MemberObject(TypedDict):
    owned: NotRequired[list[tuple[str, int]]]
    generation: NotRequired[int]


class RequestObject(TypedDict):
    assignor: str
    members: dict[str, MemberObject]


class Case(TypedDict):
    name: str
    request: RequestObject
    assignment: NotRequired[dict[str, NumbersByQueue]]
    withheld: NotRequired[dict[str, NumbersByQueue]]
    holds: NotRequired[list[str]]
    kept_at_least: NotRequired[int]


FILES = sorted(Path(__file__).with_name("cases").glob("*.jsonl"))
CASES: list[Case] = [json.loads(line) for path in FILES for line in path.open()]


@pytest.fixture(params=[pytest.param(case, id=case["name"]) for case in CASES])
def case(request: pytest.FixtureRequest) -> Case:
    asked: Case = request.param
    return asked


def test_the_answer_is_that_of_the_original(case: Case) -> None:
    answer = answer_line(json.dumps(case["request"]))
    if "assignment" in case:
        assert answer["assignment"] == case["assignment"]
    if "withheld" in case:
        assert answer["withheld"] == case["withheld"]
    counts = _counts(answer)
    for what in case.get("holds", ()):
        assert {
            "even": max(counts.values()) - min(counts.values()) <= 1,
            "between 1 and 2": set(counts.values()) <= {1, 2},
            "4 each": set(counts.values()) == {4},
            "1 move": answer["moves"] == 1,
        }[what], what
    assert _kept(case["request"], answer) >= case.get("kept_at_least", 0)


def test_the_answer_is_the_same_with_all_keys_the_other_way_round(case: Case) -> None:
    assert answer_line(json.dumps(_reversed(case["request"]))) == answer_line(json.dumps(case["request"]))


def test_there_are_cases_for_each_of_theirs() -> None:
    kafkas = {"range", "round-robin", "sticky", "cooperative-sticky"}
    rocketmqs = {"average", "circle", "consistent-hash", "machine-room-nearby"}
    assert kafkas | rocketmqs <= {case["request"]["assignor"] for case in CASES} <= set(names())


def _counts(answer: AnswerObject) -> Counter[str]:
    counts = Counter(dict.fromkeys(answer["assignment"], 0))
    for part in (answer["assignment"], answer["withheld"]):
        for member, queues in part.items():
            counts[member] += sum(map(len, queues.values()))
    return counts


def _kept(request: RequestObject, answer: AnswerObject) -> int:
    """How many partitions stay with the newest that claims them."""
    newest: dict[tuple[str, int], tuple[int, str]] = {}
    for name, member in request["members"].items():
        for queue, number in member.get("owned", ()):
            claim = (member.get("generation", -1), name)
            newest[queue, number] = max(newest.get((queue, number), (-2, "")), claim)
    return sum(
        newest.get((queue, number), (-2, ""))[1] == member
        for member, queues in answer["assignment"].items()
        for queue, numbers in queues.items()
        for number in numbers
    )


def _reversed(value: object) -> object:
    return {key: _reversed(value[key]) for key in reversed(value)} if isinstance(value, dict) else value
