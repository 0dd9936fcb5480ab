"""A live screen (`baton top`, `baton status NAME --watch`) shows the last frame, and nothing of the frame before."""

import io
import re

import pytest
from rich.console import Group, RenderableType
from rich.live import Live

from baton.cli.group import look
from baton.cli.lag import GroupLag
from baton.cli.printing import console
from baton.cli.status import screen
from baton.cli.top import top_screen
from baton.engine import dump
from tests.unit.cli.test_status_screen import MANIFEST, rebalancing
from tests.unit.cli.test_top_screen import group

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


def test_a_shorter_frame_of_top_leaves_nothing_of_the_longer_one() -> None:
    longer, shorter = of_top("a-long-name", *(f"group-{number}" for number in range(9))), of_top("short")
    assert last_frame(longer, shorter) == last_frame(shorter)
    assert [line for line in last_frame(longer, shorter) if line][-1].startswith("shop       short")


def test_a_shorter_frame_of_status_leaves_nothing_of_the_longer_one() -> None:
    on = console(file=io.StringIO(), width=WIDTH, height=HEIGHT)
    longer = Group(*screen(look(MANIFEST, dump(rebalancing().state), now=5.0), on, HEIGHT))
    shorter = Group("shop/orders: Ready", "orders 1,4")
    assert last_frame(longer) != last_frame(shorter)
    assert last_frame(longer, shorter) == ["shop/orders: Ready", "orders 1,4", *[""] * (HEIGHT - 2)]
