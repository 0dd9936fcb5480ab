"""The pictures of a run: what a person sees in a terminal, and in a drawing."""

import re
from itertools import groupby
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest
from click.testing import CliRunner

from baton.cli.main import main
from baton.cli.simulate import simulate
from baton.simulation import chart, history, log_lines, parse_scenario, svg, verdict
from baton.simulation import simulate as run
from baton.simulation.history import orphaned_partitions

BASE = {
    "queues": {"orders": 4},
    "group": {"rebalance": {"delaySeconds": 2, "maxHandoffSeconds": 3}},
    "consumers": {"release": 1},
    "events": [{"at": 0, "join": ["a", "b"]}, {"at": 10, "join": ["c"]}, {"at": 20, "leave": ["b"]}],
    "until": 30,
}


def text(width: int = 120, /, **changes: object) -> list[str]:
    scenario = parse_scenario(BASE | changes)
    lines = chart(history(scenario, run(scenario)), width, coloured=False)
    return ["".join(ran.text for ran in line) for line in lines]


def row(lines: list[str], label: str) -> str:
    return next(line.split(label, 1)[1].strip() for line in lines if line.strip().startswith(label))


def squeezed(cells: str) -> str:
    """Each run of equal characters once."""
    return "".join(char for char, _ in groupby(cells.replace("⋮", "")))


def test_partitions_with_the_same_history_share_a_row() -> None:
    lines = text()
    assert squeezed(row(lines, "orders 0,2")) == "·A"
    assert squeezed(row(lines, "orders 3")) == "·B░C"
    assert squeezed(row(lines, "orders 1")) == "·B·C"


def test_events_and_state_are_above_the_rows() -> None:
    lines = text()
    assert "╭ a, b join" in lines[0] and any("╭ b leaves" in line for line in lines)
    assert row(lines, "state").startswith("─ Holddown ─")
    assert row(lines, "seconds").split()[:3] == ["0", "2", "10"]


def test_no_line_is_wider_than_asked_for() -> None:
    for width in (60, 80, 133):
        assert max(map(len, text(width))) <= width


def test_time_at_rest_is_shortened() -> None:
    lines = text(until=100_000)
    assert any("░" in line for line in lines)
    assert any("⋮" in line for line in lines)


def test_a_missing_partition_is_blank() -> None:
    lines = text(events=[{"at": 0, "join": ["a"]}, {"at": 10, "scale": {"orders": 5}}, {"at": 20, "scale": {"orders": 4}}])
    cells = next(line for line in lines if line.strip().startswith("orders 4")).split("orders 4", 1)[1]
    assert squeezed(cells) == " A░"


AWAY = [
    {"at": 0, "join": ["a", "b"]},
    {"at": 10, "operator": "stop"},
    {"at": 12, "leave": ["b"]},
    {"at": 20, "operator": "start"},
]


def test_a_pod_that_vanishes_unnoticed_is_shown() -> None:
    lines = text(events=AWAY)
    assert squeezed(row(lines, "orders 1,3")) == "·B!·A"
    assert any("! without a live owner, unnoticed" in line for line in lines)


def test_a_pod_that_is_back_goes_on_working() -> None:
    back = [*AWAY[:3], {"at": 15, "join": ["b"]}, AWAY[3]]
    assert squeezed(row(text(events=back), "orders 1,3")) == "·B!B"
    other = [*AWAY[:3], {"at": 15, "join": [{"id": "b", "uid": "new"}]}, AWAY[3]]
    assert squeezed(row(text(events=other), "orders 1,3")) == "·B!B", "the new pod gets them when the operator is back"
    result = run(parse_scenario(BASE | {"events": other}))
    assert [(one.start, one.end) for one in orphaned_partitions(result)] == [(12, 20), (12, 20)]


def test_a_lost_observation_shows_partitions_without_a_live_owner() -> None:
    events = [{"at": 0, "join": ["a", "b"]}, {"at": 10, "lose": "observation"}, {"at": 12, "leave": ["b"]}]
    assert squeezed(row(text(events=events), "orders 1,3")) == "·B!·A", "until the resync at 20"


def test_missing_owners_are_in_drawing_story_and_verdict() -> None:
    drawn = drawing(events=AWAY)
    assert "<title>without a live owner: b is gone, 12 to 20 s</title>" in drawn
    assert "16 s more with an owner that was gone, while no operator noticed." in drawn
    told = list(log_lines(run(parse_scenario(BASE | {"events": AWAY}))))
    assert any(re.fullmatch(r" +12  b is gone: orders 1,3 have no live owner +no operator has noticed", line) for line in told)


def test_no_pod_is_missed_while_the_operator_runs() -> None:
    assert orphaned_partitions(run(parse_scenario(BASE))) == ()
    assert not any("!" in line for line in text())


def test_many_rows_are_folded_by_their_history() -> None:
    members = [f"m-{n}" for n in range(60)]
    lines = text(queues={"orders": 120}, events=[{"at": 0, "join": members}, {"at": 10, "leave": ["m-7"]}])
    assert len([line for line in lines if line.strip().startswith("orders")]) < 10
    assert any("(118)" in line and "***" in line for line in lines)
    assert any("* several members" in line for line in lines)


def test_hundreds_of_events_share_a_few_flags() -> None:
    events = [{"at": n, "join": [f"m-{n}"]} for n in range(300)]
    lines = text(events=events, until=400)
    assert len([line for line in lines if "╭" in line]) <= 8
    assert any("and" in line and "more" in line for line in lines)


def test_a_file_has_no_colours(tmp_path: Path) -> None:
    path = tmp_path / "scenario.yaml"
    path.write_text("queues: {orders: 2}\nevents: [{at: 0, join: [a]}]\nuntil: 9\n")
    output = CliRunner().invoke(simulate, [str(path)]).output
    assert "\x1b" not in output and "AAA" in output


def test_ascii_output_has_no_box_drawing_characters(tmp_path: Path) -> None:
    path = tmp_path / "scenario.yaml"
    path.write_text("queues: {orders: 2}\nevents: [{at: 0, join: [a]}]\nuntil: 9\n")
    result = CliRunner(charset="ascii").invoke(main, ["simulate", str(path)])
    assert result.exit_code == 0 and "AAA" in result.output


def drawing(**changes: object) -> str:
    scenario = parse_scenario(BASE | changes)
    result = run(scenario)
    return svg(history(scenario, result), "a <title> & more", list(verdict(result)))


def test_the_drawing_is_deterministic_and_self_contained() -> None:
    once = drawing()
    assert once == drawing()
    assert once.count("http") == once.count('xmlns="http://www.w3.org/2000/svg"') == 1
    assert "<script" not in once and "@import" not in once


def test_the_drawing_is_described_in_words() -> None:
    root = ElementTree.fromstring(drawing())
    space = "{http://www.w3.org/2000/svg}"
    assert root.get("role") == "img"
    title, described = root.find(f"{space}title"), root.find(f"{space}desc")
    assert title is not None and title.text == "a <title> & more"
    assert described is not None and described.text is not None
    assert "at 20 s b leaves" in described.text and "moves" in described.text
    tips = [element.text for element in root.iter(f"{space}title")]
    assert "paused, a is to release it, 12 to 13 s" in tips or "paused, b is to release it, 12 to 13 s" in tips


@pytest.mark.parametrize("name", ["<script>alert(1)</script>", 'a"b', "a&b", "ä€😀"])
def test_names_are_escaped_in_the_drawing(name: str) -> None:
    root = ElementTree.fromstring(drawing(events=[{"at": 0, "join": [name]}]))
    assert any(element.text == name for element in root.iter("{http://www.w3.org/2000/svg}text"))
    assert not list(root.iter("{http://www.w3.org/2000/svg}script"))


def test_an_empty_life_can_be_drawn() -> None:
    nothing: list[dict[str, Any]] = [{"until": 0, "events": []}, {"events": []}, {"queues": {}}, {"queues": {"orders": 0}}]
    for changes in nothing:
        ElementTree.fromstring(drawing(**changes))
        assert text(**changes)


def test_a_drawing_that_cannot_be_written_gets_one_line(tmp_path: Path) -> None:
    path = tmp_path / "scenario.yaml"
    path.write_text("queues: {orders: 2}\nuntil: 9\n")
    result = CliRunner().invoke(simulate, [str(path), "--svg", str(tmp_path / "none" / "x.svg")])
    assert result.exit_code == 2 and "No such file" in result.output
