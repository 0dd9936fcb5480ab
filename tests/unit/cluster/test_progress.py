"""Long work says what it is, how long it has taken and how long it usually takes: on one line on a terminal."""

import io
import re

import pytest

from cluster.progress import shown_progress
from tests.waiting import until


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_a_terminal_sees_one_line_that_moves() -> None:
    screen = Terminal()
    with shown_progress("building kube", "about 5 minutes", screen, moves=0.01) as progress:
        progress.far = "7 of 9 packages compiled"
        until(lambda: " of about 5 minutes: 7 of 9 packages compiled" in screen.getvalue())
    assert screen.getvalue().count("\n") == 1
    last = screen.getvalue().rsplit("\r", 1)[1]
    assert re.fullmatch(r"\x1b\[Kcluster: building kube: done after \d:\d\d\n", last)


def test_a_log_has_whole_lines() -> None:
    log = io.StringIO()
    with shown_progress("building kube", "about 5 minutes", log, moves=0.01) as progress:
        progress.far = "7 of 9 packages compiled"
        until(lambda: "compiled" in log.getvalue())
    first, *more, last = log.getvalue().splitlines()
    assert first == "cluster: building kube (about 5 minutes)"
    moved = r"cluster: building kube, \d:\d\d of about 5 minutes(: 7 of 9 packages compiled)?"
    assert all(re.fullmatch(moved, one) for one in more)
    assert re.fullmatch(r"cluster: building kube: done after \d:\d\d", last)


def test_what_fails_is_not_done() -> None:
    log = io.StringIO()
    with pytest.raises(ZeroDivisionError), shown_progress("building kube", "about 5 minutes", log):
        _ = 1 / 0
    assert "building kube: not done after 0:00" in log.getvalue()
