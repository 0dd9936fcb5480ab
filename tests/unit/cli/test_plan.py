"""`baton plan` for programs: requests and answers."""

import json
import os
import re
import subprocess
import sys
import tracemalloc
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NotRequired

import pytest
from click.testing import CliRunner, Result

from baton.assignors.request import RequestError
from baton.cli.main import main
from baton.cli.plan import AnswerObject, parse_request
from tests.waiting import PATIENCE

Asked = str | dict[str, Any]
"""A line, or the object in it."""

ASKED: dict[str, Any] = {
    "assignor": "solace",
    "queues": {"orders": 7},
    "members": {
        "a": {"subscribed": ["orders"], "owned": [["orders", 0], ["orders", 3], ["orders", 6]], "generation": 3},
        "b": {"subscribed": ["orders"], "owned": [["orders", 1], ["orders", 4]], "generation": 3},
        "c": {"subscribed": ["orders"], "owned": [["orders", 2], ["orders", 5]], "generation": 3},
        "d": {"subscribed": ["orders"]},
    },
}


class Answered(AnswerObject):
    error: NotRequired[str]


def plan(*lines: Asked, args: Sequence[str] = ()) -> Result:
    return CliRunner().invoke(
        main, ["plan", *args], input="".join((line if isinstance(line, str) else json.dumps(line)) + "\n" for line in lines)
    )


def answers(result: Result) -> list[Answered]:
    return [json.loads(line) for line in result.stdout.splitlines()]


def refusal(request: Asked) -> str:
    result = plan(request)
    assert result.exit_code == 1
    [answer] = answers(result)
    assert answer.keys() == {"error"}
    return answer["error"]


def test_a_request_is_answered_with_one_line() -> None:
    result = plan(ASKED)
    assert result.exit_code == 0
    assert answers(result) == [
        {
            "assignment": {"a": {"orders": [0, 3]}, "b": {"orders": [1, 4]}, "c": {"orders": [2, 5]}, "d": {"orders": [6]}},
            "withheld": {},
            "moves": 1,
            "lower_bound": 1,
        }
    ]


def test_withheld_partitions_count_as_moved() -> None:
    [answer] = answers(plan(ASKED | {"assignor": "cooperative-sticky"}))
    assert answer["withheld"] == {"d": {"orders": [6]}}
    assert answer["assignment"]["d"] == {}
    assert (answer["moves"], answer["lower_bound"]) == (1, 1)


def test_a_first_grant_is_no_move() -> None:
    [answer] = answers(plan({"assignor": "range", "queues": {"orders": 2}, "members": {"a": {"subscribed": ["orders"]}}}))
    assert (answer["moves"], answer["lower_bound"]) == (0, 0)


def test_a_bad_line_does_not_stop_the_others() -> None:
    result = plan(ASKED, "{", "", ASKED)
    assert result.exit_code == 1
    assert ["error" in answer for answer in answers(result)] == [False, True, False]


def test_no_request_is_no_answer() -> None:
    result = plan()
    assert (result.exit_code, result.stdout) == (0, "")


@pytest.mark.parametrize("indent", [None, 2], ids=["on one line", "over several lines"])
def test_a_request_may_come_from_a_file(tmp_path: Path, indent: int | None) -> None:
    file = tmp_path / "request.json"
    file.write_text(json.dumps(ASKED, indent=indent))
    assert answers(plan(args=["--request", str(file)])) == answers(plan(ASKED))


def test_a_file_may_have_many_requests(tmp_path: Path) -> None:
    file = tmp_path / "requests.jsonl"
    file.write_text(2 * (json.dumps(ASKED) + "\n"))
    assert len(answers(plan(args=["--request", str(file)]))) == 2


def test_a_syntax_error_over_several_lines_is_reported_once(tmp_path: Path) -> None:
    file = tmp_path / "request.json"
    file.write_text(json.dumps(ASKED, indent=2).replace(",\n", "\n", 1))
    result = plan(args=["--request", str(file)])
    (answer,) = answers(result)
    assert result.exit_code == 1
    assert re.match(r"not JSON: Expecting ',' delimiter: line 3 ", str(answer["error"]))


def test_an_invalid_line_of_a_file_does_not_hide_the_others(tmp_path: Path) -> None:
    file = tmp_path / "requests.jsonl"
    file.write_text("{\n" + json.dumps(ASKED) + "\n")
    assert ["error" in answer for answer in answers(plan(args=["--request", str(file)]))] == [True, False]


def test_an_empty_file_is_no_answer(tmp_path: Path) -> None:
    file = tmp_path / "requests.jsonl"
    file.write_text("\n")
    assert plan(args=["--request", str(file)]).stdout == ""


def test_a_missing_file_is_named() -> None:
    result = plan(args=["--request", "nowhere.jsonl"])
    assert result.exit_code == 2
    assert "nowhere.jsonl" in result.stderr


def test_a_claim_on_a_missing_partition_is_dropped() -> None:
    asked = {
        "assignor": "sticky",
        "queues": {"orders": 1},
        "members": {"a": {"subscribed": ["orders", "gone"], "owned": [["orders", 0], ["orders", 1], ["gone", 0]]}},
    }
    [answer] = answers(plan(asked))
    assert answer == {"assignment": {"a": {"orders": [0]}}, "withheld": {}, "moves": 0, "lower_bound": 0}


def with_(path: str, value: object) -> dict[str, Any]:
    request: dict[str, Any] = json.loads(json.dumps(ASKED))
    *parents, last = path.split(".")
    at = request
    for parent in parents:
        at = at[parent]
    at[last] = value
    return request


NAN, INFINITY = float("nan"), float("inf")


def with_options(assignor: str, **options: object) -> dict[str, object]:
    return ASKED | {"assignor": assignor, "options": options}


@pytest.mark.parametrize(
    ("request_", "message"),
    [
        ("{", "not JSON"),
        ("[" * 100_000, "not a request: nested too deeply"),
        ("[]", "expected an object with assignor, queues, members, found []"),
        ('{"assignor":"solace","assignor":"range"}', "assignor: is given twice"),
        (
            json.dumps(ASKED).replace('{"subscribed": ["orders"]}', '{"subscribed": [], "subscribed": ["orders"]}'),
            "members.d.subscribed: is given twice; keep one",
        ),
        (json.dumps(ASKED).replace('"orders": 7', '"orders": 7, "orders": 8'), "queues.orders: is given twice; keep one"),
        ({}, "assignor: is missing"),
        ({"assignor": "range", "queues": {"t": 2}}, "members: is missing"),
        (with_("asignor", "range"), "asignor: there is no such field; the fields are "),
        (with_("assignor", "best"), "assignor: there is no assignor 'best'; choose one of "),
        (with_("assignor", 7), "assignor: expected a text that is not empty, found 7"),
        (with_("queues", ["orders"]), 'queues: expected an object, found ["orders"]'),
        (with_("queues.orders", -1), "queues.orders: expected a whole number from 0, found -1"),
        (with_("queues.orders", 2.5), "queues.orders: expected a whole number from 0, found 2.5"),
        (with_("queues.orders", NAN), "queues.orders: expected a whole number from 0, found NaN"),
        (with_("queues.orders", True), "queues.orders: expected a whole number from 0, found true"),
        (with_("queues.orders", 10**9), "queues.orders: 1000000000 is too many; the limit is 1000000"),
        (
            with_("queues", dict.fromkeys("abc", 1_000_000)),
            "queues: 3000000 partitions together are too many; the limit is 2000000",
        ),
        (
            json.dumps(ASKED).replace('"orders": 7', '"orders": ' + 5000 * "1"),
            "queues.orders: expected a whole number from 0, found Infinity",
        ),
        (with_("queues.orders", 10**100), f"queues.orders: 1{59 * '0'}… is too many; the limit is"),
        (with_("assignor", 1000 * "x"), f"assignor: there is no assignor '{128 * 'x'}…'; choose"),
        (with_("queues", {1000 * "q": -1}), f"queues.{293 * 'q'}…: expected a whole number"),
        (with_("queues", {"a\nb": -1}), "queues.a\\nb: expected a whole number"),
        (with_("queues", {"": 1}), "queues: a name is empty"),
        (with_("members.\ud800", {}), "members: '\\ud800' has half of a surrogate pair"),
        (with_("members.a", []), "members.a: expected an object such as "),
        (with_("members.a", {}), "members.a.subscribed: is missing"),
        (with_("members.a.weight", NAN), "members.a.weight: there is no such field"),
        (with_("members.a.capacity", NAN), "members.a.capacity: expected a number above 0 to 1e+15, found NaN"),
        (with_("members.a.capacity", 0), "members.a.capacity: expected a number above 0"),
        (with_("members.a.capacity", "2"), "members.a.capacity: expected a number above 0"),
        (with_("weights", {"orders": [1, NAN, 1, 1, 1, 1, 1]}), "weights.orders[1]: expected a number"),
        (with_("weights", {"orders": [-1, 1, 1, 1, 1, 1, 1]}), "weights.orders[0]: expected a number"),
        (with_("weights", {"orders": [True] * 7}), "weights.orders[0]: expected a number"),
        (with_("weights", {"orders": [10**400] * 7}), "weights.orders[0]: expected a number"),
        (with_("weights", {"orders": [1]}), "weights.orders: has 1 entry for 7 partitions"),
        (with_("weights", {"orders": 2}), "weights.orders: expected a list, found 2"),
        (with_("weights", {"order": []}), "weights.order: there is no such queue"),
        (with_("members.a.subscribed", "orders"), "members.a.subscribed: expected a list"),
        (with_("members.a.subscribed", [1]), "members.a.subscribed[0]: expected a text"),
        (with_("members.a.subscribed", ["orders"] * 2), 'members.a.subscribed: "orders" is given 2 times; keep one'),
        (with_("members.a.owned", [["orders"]]), "members.a.owned[0][1]: is missing"),
        (with_("members.a.owned", [["orders", -1]]), "members.a.owned[0][1]: expected a whole number"),
        (with_("members.a.owned", [["orders", 1]] * 2), "members.a.owned: "),
        (with_("members.a.generation", 1.5), "members.a.generation: expected a whole"),
        (with_("members.a.zone", 3), "members.a.zone: expected a text that is not empty, found 3"),
        (with_("zones", {"orders": [["z"]]}), "zones.orders: has 1 entry for 7 partitions; give"),
        (with_("zones", {"orders": ["z"] * 7}), "zones.orders[0]: expected a list"),
        (with_("zones", {"order": []}), "zones.order: there is no such queue in queues"),
        (with_("options", {"virtualNodes": 3}), "options.virtualNodes: solace has no such option"),
        (with_options("consistent-hash", virtualNodes=-1), "options.virtualNodes: expected a whole"),
        (with_options("consistent-hash", virtualNodes=1.5), "options.virtualNodes: expected a whole"),
        (with_options("consistent-hash", virtualNodes=10**9), "options.virtualNodes: 1000000000 is too"),
        (with_options("consistent-hash", partitionKey=3), "options.partitionKey: expected a text"),
        (
            with_options("consistent-hash", partitionKey="{queue}"),
            "options.partitionKey: '{queue}' is the same for every partition; it needs {partition}",
        ),
        (
            with_options("consistent-hash", partitionKey="{topic}-{partition}"),
            "options.partitionKey: there is no {topic}; there are {queue} and {partition}",
        ),
        (
            with_options("consistent-hash", rooms=["a"]),
            "options.rooms: consistent-hash has no such option; its options are partitionKey, virtualNodes",
        ),
        (with_options("machine-room"), "options.rooms: is missing"),
        (with_options("machine-room", rooms="a"), 'options.rooms: expected a list, found "a"'),
        (with_options("machine-room", rooms=["a", ""]), "options.rooms[1]: expected a text"),
        (with_options("machine-room", rooms=["a", "a"]), 'options.rooms: "a" is given 2 times'),
        (with_options("machine-room-nearby"), "members.a.zone: is missing; machine-room-nearby must"),
        (
            with_options("machine-room-nearby", within="machine-room-nearby"),
            'options.within: expected another assignor, found "machine-room-nearby"; choose one of average, ',
        ),
        (with_options("machine-room-nearby", within="best"), "options.within: expected another"),
        (with_options("machine-room-nearby", within=["range"]), 'options.within: expected another assignor, found ["range"]'),
        (with_options("machine-room-nearby", within="machine-room"), "options.rooms: is missing"),
    ],
    ids=lambda value: str(value)[:40],
)
def test_a_wrong_request_is_refused_with_its_field(request_: Asked, message: str) -> None:
    assert refusal(request_).startswith(message)


STRANGE: list[object] = [None, True, -1, 1.5, NAN, INFINITY, 10**400, "", "x", "\ud800", [], ["x"], [[]], [[1, 2, 3]]]
STRANGE += [{}, {"": 1}, {"x": {}}]
FIELDS = ["assignor", "queues", "members", "zones", "weights", "options", "queues.orders", "members.a"]
FIELDS += [f"members.a.{name}" for name in ("subscribed", "owned", "generation", "instance", "zone", "capacity")]


@pytest.mark.parametrize("field", FIELDS)
def test_any_value_of_a_field_is_answered_or_refused_by_its_name(field: str) -> None:
    answered = answers(plan(*(with_(field, value) for value in STRANGE)))
    assert len(answered) == len(STRANGE)
    assert [answer["error"] for answer in answered if "error" in answer and not answer["error"].startswith(field)] == []


NEARBY: dict[str, object] = {
    "assignor": "machine-room-nearby",
    "queues": {"orders": 2},
    "members": {"a": {"subscribed": ["orders"], "zone": "east"}, "b": {"subscribed": ["orders"], "zone": "west"}},
    "zones": {"orders": [["west"], ["east"]]},
}


def test_the_assignor_within_rooms_takes_its_own_options() -> None:
    options = {"within": "consistent-hash", "virtualNodes": 0}
    assert [answer["assignment"] for answer in answers(plan(NEARBY, NEARBY | {"options": options}))] == [
        {"a": {"orders": [1]}, "b": {"orders": [0]}},
        {"a": {}, "b": {}},
    ]


def test_weights_and_capacities_are_for_minimal() -> None:
    weighed = {"queues": {"orders": 4}, "weights": {"orders": [0.3, 0.1, 0.1, 0.1]}, "assignor": "minimal"}
    alike = {"members": {"a": {"subscribed": ["orders"]}, "b": {"subscribed": ["orders"]}}}
    larger = {"members": {"a": {"subscribed": ["orders"]}, "b": {"subscribed": ["orders"], "capacity": 5}}}
    assert [answer["assignment"] for answer in answers(plan(weighed | alike, weighed | larger))] == [
        {"a": {"orders": [0]}, "b": {"orders": [1, 2, 3]}},
        {"a": {"orders": [1]}, "b": {"orders": [0, 2, 3]}},
    ]


def test_rooms_that_decide_must_be_known() -> None:
    assert refusal(NEARBY | {"zones": {}}).startswith("zones.orders: is missing; machine-room-nearby must know")
    assert refusal(NEARBY | {"zones": {"orders": [["west"], []]}}).startswith("zones.orders[1]: is empty; machine-room-nearby")


def test_an_identity_has_one_member() -> None:
    request = with_("members.a.instance", "one")
    request["members"]["b"]["instance"] = "one"
    assert refusal(request) == 'members.b.instance: "one" is also the identity of a; identities are unique'


def test_help_explains_the_input() -> None:
    assert "one line of JSON in, one line of JSON out" in " ".join(plan(args=["--help"]).stdout.split())


def test_at_a_terminal_the_command_prompts() -> None:
    ours, its = os.openpty()
    os.write(ours, b"\x04")  # Ctrl-D
    baton = Path(sys.executable).parent / "baton"
    done = subprocess.run([baton, "plan"], stdin=its, capture_output=True, text=True, timeout=PATIENCE, check=False)
    os.close(ours)
    os.close(its)
    assert (done.returncode, done.stdout) == (0, "")
    assert done.stderr == "baton plan: type requests, one per line; Ctrl-D ends; see also --help\n"


def test_the_example_of_the_reference_is_true() -> None:
    reference = Path(__file__).parents[3] / "docs" / "reference" / "plan.md"
    request, answer = (json.loads(block) for block in re.findall(r"```json\n(.*?)```", reference.read_text(), re.DOTALL))
    assert answers(plan(request)) == [answer]


def test_the_example_of_the_reference_can_be_saved_and_run(tmp_path: Path) -> None:
    reference = Path(__file__).parents[3] / "docs" / "reference" / "plan.md"
    file = tmp_path / "request.json"
    file.write_text(reference.read_text().partition("```json\n")[2].partition("```")[0])
    assert plan(args=["--request", str(file)]).exit_code == 0
    assert plan(args=["--explain", "--request", str(file)]).stdout.startswith("solace: 7 partitions")
    refused = plan(file.read_text())
    assert refused.exit_code == 1
    assert "or a single one over several lines with --request FILE" in refused.stdout


MANY = 200_000
MEMBER = {"subscribed": ["orders"]}
REQUEST = {"assignor": "range", "queues": {"orders": 6}, "members": {"a": MEMBER}}


@pytest.mark.parametrize(
    ("more", "field"),
    [
        ({"members": {"a": {"subscribed": [1] * MANY}}}, "members.a.subscribed[0]"),
        ({"members": {"a": MEMBER | {"owned": [1] * MANY}}}, "members.a.owned[0]"),
        ({"zones": {"orders": [1] * MANY}}, "zones.orders[0]"),
        ({"weights": {"orders": ["much"] * MANY}}, "weights.orders[0]"),
    ],
)
def test_only_the_first_fault_of_a_long_list_is_collected(more: dict[str, object], field: str) -> None:
    line = json.dumps(REQUEST | more)
    tracemalloc.start()
    try:
        with pytest.raises(RequestError) as refused:
            parse_request(line)
        assert tracemalloc.get_traced_memory()[1] < 50 * len(line)
    finally:
        tracemalloc.stop()
    assert str(refused.value).startswith(f"{field}: ")
