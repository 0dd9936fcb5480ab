"""Log lines contain what happened and where, and no local variables."""

import asyncio
import json
import logging
from collections.abc import Iterator

import pytest
import structlog

from baton.controller.logs import set_up
from baton.controller.supervision import Tasks
from baton.kube.clock import ApiServerClock

PASSWORD = "-".join(["hunter", "two"])
"""Not as the source has it: a traceback shows lines of that."""


@pytest.fixture(autouse=True)
def as_before() -> Iterator[None]:
    root = logging.getLogger()
    handlers, level, structured = root.handlers[:], root.level, structlog.get_config()
    yield
    root.handlers[:] = handlers
    root.setLevel(level)
    structlog.configure(**structured)


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
    assert "\x1b" not in said, "colours are for terminals"
    if style == "json":
        assert json.loads(said)["exception"][0]["exc_type"] == "ValueError"


async def test_log_lines_of_a_groups_work_name_the_group_and_its_namespace(capsys: pytest.CaptureFixture[str]) -> None:
    """`grep '"group": "orders"'` finds it, also where a library of the adapter's wrote it."""
    set_up("info", "json")
    tasks = Tasks(ApiServerClock())

    async def elsewhere() -> None:
        structlog.get_logger("baton.watch").info("of no group")

    async def of_orders() -> None:
        structlog.get_logger("baton.queue").warning("a queue cannot be used")
        logging.getLogger("baton.queues.redis.adapter").warning("a change of owner is not durable")
        await asyncio.create_task(deeper())
        await tasks.start("list", elsewhere())

    async def deeper() -> None:
        structlog.get_logger("baton.status").warning("a status could not be written")

    await tasks.start("queue", of_orders(), namespace="shop", group="orders", queue="jobs")
    said = [json.loads(line) for line in capsys.readouterr().err.splitlines()]
    where = [(one.get("namespace"), one.get("group"), one.get("queue")) for one in said]
    assert where == [("shop", "orders", "jobs")] * 3 + [(None, None, None)]
