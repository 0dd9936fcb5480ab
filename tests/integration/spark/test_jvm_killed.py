"""A driver's JVM that is killed, as by lack of memory, on a real Spark. The Python program is another process, and lives."""

import os
import re
import signal
from contextlib import suppress
from pathlib import Path

import pytest

from baton.dev.server import DevServer
from baton.model.lease import holder_of
from tests.integration.spark.chaos import BUSY, ROOT
from tests.integration.spark.driver_program import JVM, QUERY, Place, Task, command, run_another, serve
from tests.processes import ChildProcess
from tests.waiting import until


@pytest.mark.parametrize("task", [serve, pytest.param(run_another, marks=pytest.mark.long)])
def test_a_program_whose_jvm_is_killed_gives_the_group_up_and_ends(tmp_path: Path, task: Task) -> None:
    """Its queue does not exist."""
    log = tmp_path / "driver.log"
    server = DevServer("default", "orders", lambda: None)
    server.start()
    place = Place(
        name="driver-1",
        api=server.url,
        token=server.token,
        redis="redis://127.0.0.1:1/0",
        queue="default/orders",
        group="orders",
        ledger=str(tmp_path / "ledger"),
        checkpoint=str(tmp_path / "checkpoint"),
        table="",
        temporary_files=str(tmp_path),
    )

    def holder() -> str:
        return next(map(holder_of, server.leases()), "")

    with log.open("wb") as out:
        driver = ChildProcess(command(task, place), cwd=ROOT, stdout=out, stderr=out, start_new_session=True)
    try:
        jvm = until(lambda: re.search(rf"^{JVM}(\d+)$", log.read_text(), re.MULTILINE), "its fleet has started", BUSY)
        if task is run_another:
            until(lambda: QUERY in log.read_text(), "its query runs", BUSY)
        assert holder() == place.name
        os.kill(int(jvm[1]), signal.SIGKILL)
        driver.wait(BUSY)
        assert driver.returncode == 1
        assert holder() == "", "the next driver need not wait for its term"
    finally:
        with suppress(ProcessLookupError):
            os.killpg(driver.pid, signal.SIGKILL)
        driver.wait()
        server.close()
        print(log.read_text()[-6000:])
