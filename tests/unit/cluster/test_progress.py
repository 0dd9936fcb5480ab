"""Long work shows its name, the time so far and the usual time: on one line on a terminal."""

import io
import re

import pytest

from cluster.progress import shown_progress
from tests.waiting import until


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_a_terminal_shows_progress_on_one_line() -> None:
    screen = Terminal()
    with shown_progress("building kube", "about 5 minutes", screen, moves=0.01) as progress:
        progress.far = "7 of 9 packages compiled"
        until(lambda: " of about 5 minutes: 7 of 9 packages compiled" in screen.getvalue())
    assert screen.getvalue().count("\n") == 1
    last = screen.getvalue().rsplit("\r", 1)[1]
    assert re.fullmatch(r"\x1b\[Kcluster: building kube: done after \d:\d\d\n", last)


def test_a_log_has_complete_lines() -> None:
    log = io.StringIO()
    with shown_progress("building kube", "about 5 minutes", log, moves=0.01) as progress:
        progress.far = "7 of 9 packages compiled"
        until(lambda: "compiled" in log.getvalue())
    first, *more, last = log.getvalue().splitlines()
    assert first == "cluster: building kube (about 5 minutes)"
    update = r"cluster: building kube, \d:\d\d of about 5 minutes(: 7 of 9 packages compiled)?"
    assert all(re.fullmatch(update, one) for one in more)
    assert re.fullmatch(r"cluster: building kube: done after \d:\d\d", last)


def test_failed_work_is_shown_as_failed() -> None:
    log = io.StringIO()
    with pytest.raises(ZeroDivisionError), shown_progress("building kube", "about 5 minutes", log):
        _ = 1 / 0
    assert log.getvalue().splitlines()[-1] == "cluster: building kube: failed after 0:00"
