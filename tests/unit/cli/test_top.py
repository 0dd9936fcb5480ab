"""`baton top`: the most urgent groups first, no more than fits, and nothing of the previous frame."""

import io
import re
from collections.abc import Mapping, Sequence
from typing import Any

import pytest
from pydantic import ValidationError
from rich.console import Console, Group, RenderableType
from rich.live import Live

from baton.cli.group import GroupLook, look
from baton.cli.lag import ALL, ONE, GroupLag, lag_by_partition, lag_table, partition_rows
from baton.cli.printing import console
from baton.cli.status import screen
from baton.cli.top import top_json, top_screen
from baton.engine import dump
from tests.unit.cli.test_status import MANIFEST, condition, rebalancing


def group(name: str, ready: str = "True", **status: object) -> GroupLook:
    said = {**MANIFEST["status"], "moving": 0, "conditions": [condition("Ready", ready, "Why", "m")], **status}
    made: Mapping[str, Any] = {**MANIFEST, "metadata": {**MANIFEST["metadata"], "name": name}, "status": said}
    return look(made, {}, now=5.0)


def drawn(*parts: RenderableType) -> list[str]:
    console = Console(width=160, file=io.StringIO(), highlight=False)
    for part in parts:
        console.print(part)
    assert isinstance(console.file, io.StringIO)
    return console.file.getvalue().splitlines()


def shown(looks: Sequence[GroupLook], lags: Sequence[GroupLag], lines: int | None = None, *, wide: bool = False) -> list[str]:
    return drawn(*top_screen(looks, lags, lines, wide=wide))


def test_groups_are_sorted_by_problems_unowned_moving_and_lag() -> None:
    looks = [group("calm"), group("busy"), group("moves", moving=1), group("unowned", unowned=2), group("broken", "False")]
    lags = [GroupLag("shop", one.group.name, lag=90 if one.group.name == "busy" else 0) for one in looks]
    assert [line.split()[1] for line in shown(looks, lags)[2:]] == ["broken", "unowned", "moves", "busy", "calm"]


def test_groups_that_do_not_fit_are_counted() -> None:
    looks = [group(f"g{number}") for number in range(50)]
    lines = shown(looks, [GroupLag("shop", one.group.name) for one in looks], 20)
    assert len(lines) <= 20 and "and 34 more groups, with nothing more urgent" in lines


def test_no_groups_and_unknown_lag_are_explained() -> None:
    assert shown([], []) == ["0 groups"]
    screen = shown([group("a")], [GroupLag("shop", "a", problem="you may\nnot")])
    assert screen[-1] == "the lag of some groups is unknown: you may not"


def test_json_has_the_groups_in_the_same_order() -> None:
    looks = [group("calm"), group("broken", "False")]
    told = top_json(looks, [GroupLag("shop", "calm", lag=3, seconds=1.5), GroupLag("shop", "broken", problem="you may not")])
    assert [(one["group"], one["lag"], one["lagSeconds"], one["lagProblem"]) for one in told] == [
        ("broken", None, None, "you may not"),
        ("calm", 3, 1.5, None),
    ]
    assert told[0]["conditions"]["Ready"]["reason"] == "Why" and "owners" not in told[0]


def test_a_wide_screen_has_more_columns() -> None:
    head, line = shown([group("broken", "False", moves=7)], [GroupLag("shop", "broken", lag=3, seconds=2.0)], wide=True)[1:]
    assert head.split()[-6:] == ["WORK", "STANDBYS", "MOVES", "MISSED", "ASSIGNOR", "WHY"]
    assert "2 s" in line and line.split()[-1] == "m"


def test_a_wide_lag_has_members_and_states() -> None:
    lag = GroupLag("shop", "work", lag=12, seconds=2.0, queues={"orders": {0: 12, 1: 0}})
    look = group("work", members=4, standbys=1, partitions=2)
    assert [line.split() for line in drawn(lag_table([lag]))][1:] == [["shop", "work", "12", "2", "s"]]
    head, line, queue = (line.split() for line in drawn(lag_table([lag], [look])))
    assert head == ["NAMESPACE", "GROUP", "QUEUE", "LAG", "WORK", "STATE", "PARTITIONS", "MEMBERS", "STANDBYS", "EACH", "NOTE"]
    assert line == ["shop", "work", "12", "2", "s", str(look.shown_state), "2", "4", "1", "4"]
    assert queue == ["orders", "12"]


def test_without_a_known_pace_the_duration_is_unknown() -> None:
    lags = [GroupLag("shop", "burst", lag=2997), GroupLag("shop", "calm", lag=0, seconds=0.0), GroupLag("shop", "away")]
    assert [line.split() for line in drawn(lag_table(lags))][1:] == [
        ["shop", "burst", "2,997", "?"],
        ["shop", "calm", "0", "0", "s"],
        ["shop", "away", "?"],
    ]


def test_a_wide_lag_by_partition_has_their_states_and_epochs() -> None:
    lag = GroupLag("shop", "orders", queues={"orders": {0: 2, 99: 5}})
    rows = list(partition_rows(lag, rebalancing().state))
    assert drawn(lag_by_partition(rows, wide=False))[0].split() == ["QUEUE", "PARTITION", "OWNER", "LAG"]
    head, unknown, known = (line.split() for line in drawn(lag_by_partition(rows, wide=True)))
    assert head == ["QUEUE", "PARTITION", "OWNER", "LAG", "STATE", "EPOCH"]
    assert unknown == ["orders", "99", "5"]
    assert known[:2] == ["orders", "0"] and len(known) == 6


@pytest.mark.parametrize(
    "raw",
    [
        None,
        [],
        {"lag": "1"},
        {"lag": True},
        {"lag": -1},
        {"lagSeconds": "x"},
        {"waitingSeconds": True},
        {"queues": []},
        {"queues": {"a": []}},
        {"unfinished": {"a": {"0": ["1-0"]}}},
        {"unfinished": {"a": {"x": ["1-0", 2]}}},
    ],
)
def test_an_invalid_answer_of_an_operator_is_refused(raw: object) -> None:
    with pytest.raises(ValidationError):
        ONE.validate_python(raw)
    with pytest.raises(ValidationError):
        ALL.validate_python({"groups": raw} if isinstance(raw, list) is False else {"groups": [raw]})


WIDTH, HEIGHT = 100, 30
_PIECES = re.compile(r"\x1b\[([?\d;]*)([A-Za-z])|\r|\n|[^\x1b\r\n]+")


def seen(output: str) -> list[str]:
    """The lines that a terminal shows after this output."""
    lines, row, column = [" " * WIDTH] * HEIGHT, 0, 0
    for piece in _PIECES.finditer(output):
        match piece.group(2), piece.group():
            case "H", _:
                row, column = 0, 0
            case (("m" | "h" | "l"), _):
                pass
            case None, "\n":
                row, column = row + 1, 0
            case None, text:
                lines[row] = (lines[row][:column] + text + lines[row][column + len(text) :])[:WIDTH]
                column += len(text)
            case other:
                pytest.fail(f"the terminal of this test does not know {other}")
    return [line.rstrip() for line in lines]


def last_frame(*frames: RenderableType) -> list[str]:
    on = console(file=io.StringIO(), force_terminal=True, _environ={}, width=WIDTH, height=HEIGHT)
    with Live(frames[0], console=on, screen=True, auto_refresh=False) as live:
        for frame in frames[1:]:
            live.update(frame, refresh=True)
        assert isinstance(on.file, io.StringIO)
        return seen(on.file.getvalue())


def of_top(*names: str) -> RenderableType:
    looks = [group(name) for name in names]
    return Group(*top_screen(looks, [GroupLag("shop", name) for name in names], HEIGHT, wide=False))


def test_a_shorter_frame_of_top_overwrites_a_longer_one() -> None:
    longer, shorter = of_top("a-long-name", *(f"group-{number}" for number in range(9))), of_top("short")
    assert last_frame(longer, shorter) == last_frame(shorter)
    assert [line for line in last_frame(longer, shorter) if line][-1].startswith("shop       short")


def test_a_shorter_frame_of_status_overwrites_a_longer_one() -> None:
    on = console(file=io.StringIO(), width=WIDTH, height=HEIGHT)
    longer = Group(*screen(look(MANIFEST, dump(rebalancing().state), now=5.0), on, HEIGHT))
    shorter = Group("shop/orders: Ready", "orders 1,4")
    assert last_frame(longer) != last_frame(shorter)
    assert last_frame(longer, shorter) == ["shop/orders: Ready", "orders 1,4", *[""] * (HEIGHT - 2)]
