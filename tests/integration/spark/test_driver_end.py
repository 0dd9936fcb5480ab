"""The shutdown of a driver's JVM that is the first process of its pod, as in cluster mode: on a real Spark and a real Redis."""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

import pyspark
import pytest
import redis

from baton.spark import jar
from tests.integration.spark import driver_program
from tests.integration.spark.chaos import BUSY, DRIVERS, ROOT, running
from tests.integration.spark.driver_program import GO_ON, HELD, Place, arguments, hold
from tests.left_undone import logged, open_batches
from tests.local_spark import JAVA, java_options
from tests.processes import ChildProcess
from tests.waiting import until

SUBMIT = Path(pyspark.__file__).parent / "bin" / "spark-submit"


@pytest.mark.long
def test_a_running_batch_is_finished_before_the_jvm_ends(tmp_path: Path) -> None:
    log = tmp_path / "driver.log"
    with running(tmp_path) as chaos, redis.Redis.from_url(chaos.operator.url) as server, ExitStack() as stack:
        stack.callback(chaos.producer.stop)  # while there is a Redis: it would try for an hour
        place = chaos.drivers[DRIVERS[0]].place
        chaos.table.mkdir()
        with submitted(place, log) as jvm:
            until((chaos.table / HELD).exists, "a batch runs", BUSY)
            jvm.send_signal(signal.SIGTERM)
            until(lambda: "told to stop: the JVM ends" in log.read_text() or jvm.poll() is not None, "it has heard of it", BUSY)
            assert jvm.poll() is None, "it waits for the batch"
            assert open_batches(Path(place.checkpoint)) != []
            assert logged(server, place.queue) != []
            (chaos.table / GO_ON).touch()
            jvm.wait(BUSY)
        assert open_batches(Path(place.checkpoint)) == [], "Spark has written down that it is done with the batch"
        assert logged(server, place.queue) == [], "nothing is left that the next driver would be given again"


@contextmanager
def submitted(place: Place, log: Path) -> Iterator["subprocess.Popen[bytes]"]:
    """The driver, run by spark-submit. At the end it is killed with all its children."""
    program = [driver_program.__file__, *arguments(hold, place)]
    command = [SUBMIT, "--driver-class-path", jar(), "--driver-memory", "512m", *program]
    options = java_options(Path(place.temporary_files))
    environment = os.environ | {"PYTHONPATH": str(ROOT), "PYSPARK_PYTHON": sys.executable, "JAVA_TOOL_OPTIONS": options}
    if JAVA.is_dir():
        environment["JAVA_HOME"] = str(JAVA)
    with log.open("wb") as out:
        jvm = ChildProcess(list(map(str, command)), env=environment, stdout=out, stderr=out, start_new_session=True)
    try:
        yield jvm
    finally:
        with suppress(ProcessLookupError):
            os.killpg(jvm.pid, signal.SIGKILL)
        jvm.wait()
        print(log.read_text()[-6000:])
