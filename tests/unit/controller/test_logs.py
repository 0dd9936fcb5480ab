"""What a log line may hold: what happened and where, and nothing of what a function had in its variables."""

import json
import logging
from collections.abc import Iterator

import pytest
import structlog

from baton.controller.logs import set_up

PASSWORD = "-".join(["hunter", "two"])
"""Not as the source has it: a traceback shows lines of that."""


@pytest.fixture(autouse=True)
def as_before() -> Iterator[None]:
    root = logging.getLogger()
    handlers, level = root.handlers[:], root.level
    yield
    root.handlers[:] = handlers
    root.setLevel(level)
    structlog.reset_defaults()


def fail(password: str) -> None:
    connection = {"url": f"redis://:{password}@redis"}
    raise ValueError(f"a bad option beside {len(connection)} good ones")


@pytest.mark.parametrize("style", ["json", "text"])
@pytest.mark.parametrize("logger", ["baton.queue", "asyncio"])
def test_a_traceback_shows_where_it_failed_and_no_variables(style: str, logger: str, capsys: pytest.CaptureFixture[str]) -> None:
    set_up("debug", style)
    try:
        fail(PASSWORD)
    except ValueError:
        if logger == "asyncio":
            logging.getLogger(logger).error("Task exception was never retrieved", exc_info=True)
        else:
            structlog.get_logger(logger).exception("unexpected failure")
    said = capsys.readouterr().err
    assert "a bad option beside 1 good ones" in said and "in fail" in said.replace('"name": "fail"', "in fail")
    assert PASSWORD not in said
    if style == "json":
        assert json.loads(said)["exception"][0]["exc_type"] == "ValueError"
