"""Hostile inputs of commands get an answer or one line with the mistake, never a traceback, and are never printed raw."""

import io
import json
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result
from hypothesis import given
from hypothesis import strategies as st

from baton.api import ProposalStatus
from baton.cli.group import look, partitions
from baton.cli.group_words import proposal_in_lines
from baton.cli.plan import plan
from baton.cli.printing import console, printable, say
from baton.cli.simulate import simulate
from baton.cli.status import group_table, partition_table, screen
from baton.engine import dump
from tests.unit.cli.test_status import MANIFEST, MOVE, QUEUES, condition, queue, rebalancing

ROOT = Path(__file__).parents[3]
REQUEST = (
    '{"assignor":"sticky","queues":{"orders":12,"mail":3},"members":{"a":{"subscribed":["orders"],"owned":[["orders",0]],'
    '"generation":3,"instance":"i","zone":"z","capacity":2},"c":{"subscribed":["orders","mail"]}},"zones":{"mail":[["z"],[],[]]},'
    '"weights":{"mail":[1,2,3]},"options":{}}'
)
JSON = ["1e999", "-1", "NaN", "-Infinity", "null", "true", '"\\ud800"', '"\\u0000"', '"\x1b[31m"', "[]", "{}", "1.5", "9" * 4400]
JSON += ["9" * 30, '"group"', '{"a":1,"a":2}', '""', '"a\\nb"', "[" * 3000, '"\u202e"', "[null]", "\x1b]0;x\x07"]
YAML = [".nan", ".inf", "-1", "1e300", "null", "yes", "[]", "{}", "&a [*a]", "*a", '"\\e[2J"', "group", "9" * 5000]
YAML += ["!!python/object:os.x y", "!!set {a}", "2020-01-01", "? a", "[" * 300, '"\\ud800"', "<<: {}", "1000000", '"\\u202e"']
YAML += ["''", "- x", "---", "\x07", "\x1b"]
SCENARIOS = [path.read_text() for path in sorted((ROOT / "manifests/examples/scenarios").glob("*.yaml"))]


@st.composite
def spoilt(draw: st.DrawFn, texts: list[str], words: str, nasty: list[str]) -> bytes:
    """Draw one of the texts with one to three words replaced, repeated or removed; sometimes it is not UTF-8."""
    text = draw(st.sampled_from(texts))
    for _ in range(draw(st.integers(1, 3))):
        spans = [found.span() for found in re.finditer(words, text)] or [(0, len(text))]
        (start, end), (other, there) = draw(st.sampled_from(spans)), draw(st.sampled_from(spans))
        put = draw(st.sampled_from([*nasty, "", text[other:there], text[start:end] * 2]))
        text = text[:start] + put + text[end:]
    raw = text.encode("utf-8", "surrogatepass")
    place = draw(st.integers(0, 10 * len(raw)))  # seldom within the text
    return raw if place >= len(raw) else raw[:place] + b"\xff" + raw[place:]


def answered(result: Result) -> None:
    """Check that there is no traceback, and no control sequence for a terminal."""
    assert result.exception is None or isinstance(result.exception, SystemExit), result.exc_info
    assert [line for line in result.output.splitlines() if printable(line) != line] == []


@given(line=spoilt([REQUEST], r'"[^"]*"|\d+|\[\]|\{\}', JSON), explain=st.booleans())
def test_any_request_for_a_plan_is_answered_cleanly(line: bytes, explain: bool) -> None:
    answered(CliRunner().invoke(plan, ["--explain"] if explain else [], input=line.replace(b"\n", b" ") + b"\n"))


@given(text=spoilt(SCENARIOS, r"[\w.-]+", YAML), options=st.sampled_from([["--json"], ["--check"], ["--story", "--svg"]]))
def test_any_scenario_is_answered_cleanly(tmp_path_factory: pytest.TempPathFactory, text: bytes, options: list[str]) -> None:
    folder = tmp_path_factory.getbasetemp()
    file = folder / "spoilt.yaml"
    file.write_bytes(text)
    drawing = [str(folder / "spoilt.svg")] if "--svg" in options else []
    result = CliRunner().invoke(simulate, [str(file), *options, *drawing])
    answered(result)
    assert result.exit_code != 2 or len(result.output.splitlines()) == 1


SETTINGS = ["group.rebalance.delaySeconds", "queues.orders", "queues.x.partitions", "events.0.join.0", "until.a"]
SETTINGS += ["a.b", "events", "."]


@given(path=st.sampled_from(SETTINGS), values=st.lists(st.sampled_from([*YAML, "0", "1e9"]), min_size=1, max_size=3))
def test_any_setting_is_answered_cleanly(path: str, values: list[str]) -> None:
    scenario = str(ROOT / "manifests/examples/scenarios/node-drain.yaml")
    answered(CliRunner().invoke(simulate, [scenario, "--set", f"{path}={','.join(values)}"]))


LEDGER = dump(rebalancing().state)


@given(key=st.sampled_from(sorted(LEDGER)), data=st.data(), word=st.sampled_from(["[/]", "[bold]x", "\x1b[1m", "a\nb", "\u202e"]))
def test_any_group_is_shown_cleanly(key: str, data: st.DataObject, word: str) -> None:
    text = data.draw(spoilt([LEDGER[key]], r'"[^"]*"|\d+|\[\]|\{\}', JSON)).decode(errors="surrogateescape")
    status = {
        **MANIFEST["status"],
        "state": word,
        "holdUntil": None,
        "conditions": [condition(word, "False", word, word)],
        "handoffs": [{**MOVE, "reason": word}],
    }
    lines = shown({**MANIFEST, "status": status}, {**LEDGER, key: text}, [queue("orders", partitionScaleStatus=word)])
    assert all(printable(line) == line for line in lines)
    assert sum("[/]" in line for line in lines) >= (word == "[/]"), "what looks like rich's markup is shown as it is"


def shown(manifest: Mapping[str, Any], ledger: Mapping[str, str], queues: Sequence[Mapping[str, Any]]) -> list[str]:
    on = console(width=100, file=io.StringIO())
    one = look(manifest, ledger, queues, now=5.0)
    json.dumps(one.to_json())
    for part in (*screen(one, on, 24), group_table([one], wide=True), partition_table(partitions(one.state))):
        on.print(part)
    assert isinstance(on.file, io.StringIO)
    return on.file.getvalue().split("\n")


def test_a_line_break_in_a_name_begins_no_line() -> None:
    status = {**MANIFEST["status"], "handoffs": [{**MOVE, "reason": "x\nshop/orders: Ready"}]}
    lines = shown({**MANIFEST, "status": status}, LEDGER, QUEUES)
    assert not any(line.startswith("shop/orders: Ready") for line in lines)


NO_YEAR = "0001-01-01T00:00:00+14:00"
"""A time, as far as the API server can tell."""


def test_invalid_parts_of_a_status_are_reported_and_the_rest_shown() -> None:
    status = {
        **MANIFEST["status"],
        "state": "Dancing",
        "conditions": [condition("Ready", "False", "QueueUnreachable", "it is away"), {"type": "Odd", "status": "Perhaps"}],
        "handoffs": [{**MOVE, "epoch": "x"}, {**MOVE, "from": 3}, MOVE],
        "proposal": {"moves": 3},
        "holdUntil": NO_YEAR,
    }
    text = " ".join(" ".join(shown({**MANIFEST, "status": status}, LEDGER, [queue("orders", partitions="many")])).split())
    assert (
        "status.state: input should be 'Ready'" in text
        and "queue orders: status.partitions: expected a whole number, found 'many'" in text
    )
    assert "it is away" in text and "exec-3 to exec-7: exec-7 joined" in text and "Odd" not in text


@pytest.mark.parametrize("time", [NO_YEAR, "9999-12-31T23:59:59-14:00", "soon"])
def test_an_impossible_time_is_shown_unchanged(time: str) -> None:
    status = {**MANIFEST["status"], "state": "Holddown", "holdUntil": time, "handoffs": [{**MOVE, "deadline": time}]}
    text = " ".join(shown({**MANIFEST, "status": status}, LEDGER, QUEUES))
    assert f"Holddown, until {time}" in text and "2 unacknowledged messages" in text
    assert "No operator has looked yet" in " ".join(shown({**MANIFEST, "status": {"lastChangeTime": time}}, {}, []))


def test_a_group_with_an_invalid_spec_is_shown_with_the_mistake() -> None:
    spec = {"queues": [{"name": "orders"}], "protocol": "Rude"}
    text = " ".join(" ".join(shown({**MANIFEST, "spec": spec}, LEDGER, QUEUES)).split())
    assert "spec.protocol: input should be 'Cooperative' or 'Eager', found 'Rude'" in text and "orders" in text


def test_a_proposal_is_shown_without_control_characters(capsys: pytest.CaptureFixture[str]) -> None:
    proposal = {"id": "1", "createdAt": "now", "moves": 1, "paused": 1, "pausedAtOnce": 1, "reason": "\x1b[2Jjoined\nforged"}
    for line in proposal_in_lines(ProposalStatus.model_validate(proposal)):
        say(line)
    assert capsys.readouterr().out.splitlines()[0].endswith("(�[2Jjoined forged)")


def test_all_output_goes_through_printing() -> None:
    """`printing` is the one place."""
    folder = ROOT / "operator/baton/cli"
    others = [path for path in folder.glob("*.py") if path.name != "printing.py"]
    assert [path.name for path in others if re.search(r"click\.s?echo\(|[^.\w]print\(|Console\(", path.read_text())] == []
