"""What `baton top` shows: what needs a look first, and nothing that does not fit."""

import io
from collections.abc import Mapping, Sequence
from typing import Any

import pytest
from rich.console import Console

from baton.cli.group_view import GroupLook, look
from baton.cli.lag_view import GroupLag, NotTheOperatorError, read_group, read_groups
from baton.cli.top_screen import top_screen
from tests.unit.cli.test_status_screen import MANIFEST, condition


def group(name: str, ready: str = "True", **status: object) -> GroupLook:
    said = {**MANIFEST["status"], "moving": 0, "conditions": [condition("Ready", ready, "Why", "m")], **status}
    made: Mapping[str, Any] = {**MANIFEST, "metadata": {**MANIFEST["metadata"], "name": name}, "status": said}
    return look(made, {}, now=5.0)


def shown(looks: Sequence[GroupLook], lags: Sequence[GroupLag], lines: int | None = None) -> list[str]:
    console = Console(width=120, file=io.StringIO(), highlight=False)
    for part in top_screen(looks, lags, lines):
        console.print(part)
    assert isinstance(console.file, io.StringIO)
    return console.file.getvalue().splitlines()


def test_what_is_wrong_stands_first_then_what_nobody_owns_then_what_moves_then_lag() -> None:
    looks = [group("calm"), group("busy"), group("moves", moving=1), group("unowned", unowned=2), group("broken", "False")]
    lags = [GroupLag("shop", one.group.name, lag=90 if one.group.name == "busy" else 0) for one in looks]
    assert [line.split()[1] for line in shown(looks, lags)[2:]] == ["broken", "unowned", "moves", "busy", "calm"]


def test_what_does_not_fit_is_counted() -> None:
    looks = [group(f"g{number}") for number in range(50)]
    lines = shown(looks, [GroupLag("shop", one.group.name) for one in looks], 20)
    assert len(lines) <= 20 and "and 34 more groups, with nothing more urgent" in lines


def test_no_group_and_why_a_lag_is_not_known() -> None:
    assert shown([], []) == ["0 groups"]
    assert shown([group("a")], [GroupLag("shop", "a", problem="you may\nnot")])[-1] == "LAG of some is not known: you may not"


@pytest.mark.parametrize(
    "raw", [None, [], {"lag": "1"}, {"lag": True}, {"lag": -1}, {"lagSeconds": "x"}, {"queues": []}, {"queues": {"a": []}}]
)
def test_what_no_operator_tells_is_refused(raw: object) -> None:
    with pytest.raises(NotTheOperatorError):
        read_group(raw)
    with pytest.raises(NotTheOperatorError):
        read_groups({"groups": raw} if isinstance(raw, list) is False else {"groups": [raw]})
