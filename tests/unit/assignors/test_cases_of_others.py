"""The tests of Kafka's and RocketMQ's assignors, told in our words: `cases/*.jsonl`, each with its origin.

A case has the exact `assignment` (and, for a cooperative assignor, what is `withheld`), or what `holds` of any right answer.
"""

import json
from collections import Counter
from pathlib import Path

import pytest

from baton.assignors import names
from baton.assignors.plan_json.plan import answer_line

CASES = [json.loads(line) for path in sorted(Path(__file__).with_name("cases").glob("*.jsonl")) for line in path.open()]


@pytest.fixture(params=[pytest.param(case, id=case["name"]) for case in CASES])
def case(request):
    return request.param


def test_the_answer_is_that_of_the_original(case):
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


def test_the_answer_is_the_same_with_all_keys_the_other_way_round(case):
    assert answer_line(json.dumps(_reversed(case["request"]))) == answer_line(json.dumps(case["request"]))


def test_there_are_cases_for_each_of_theirs():
    kafkas = {"range", "round-robin", "sticky", "cooperative-sticky"}
    rocketmqs = {"average", "circle", "consistent-hash", "machine-room-nearby"}
    assert kafkas | rocketmqs <= {case["request"]["assignor"] for case in CASES} <= set(names())


def _counts(answer):
    counts = Counter(dict.fromkeys(answer["assignment"], 0))
    for part in ("assignment", "withheld"):
        for member, queues in answer[part].items():
            counts[member] += sum(map(len, queues.values()))
    return counts


def _kept(request, answer):
    """How many partitions stay with the newest that claims them."""
    newest = {}
    for name, member in request["members"].items():
        for claim in map(tuple, member.get("owned", ())):
            newest[claim] = max(newest.get(claim, (-2, "")), (member.get("generation", -1), name))
    return sum(
        newest.get((queue, number), (-2, ""))[1] == member
        for member, queues in answer["assignment"].items()
        for queue, numbers in queues.items()
        for number in numbers
    )


def _reversed(value):
    return {key: _reversed(value[key]) for key in reversed(value)} if isinstance(value, dict) else value
