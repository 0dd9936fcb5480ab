"""Spark under `baton dev`: the guide's program, on processes of this machine alone."""

import json
import os
import re
import subprocess
import sys
import threading
from base64 import b64decode
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from baton.dev.server import DevServer
from baton.model.lease import holder_of
from baton.queues.redis import RedisProducer
from baton.spark.environment import Development
from baton.spark.session import FleetSession
from tests.integration.dev.test_dev import BATON, Dev, ended, stopped
from tests.local_spark import JAVA, java_options
from tests.processes import ChildProcess
from tests.waiting import PATIENCE, until

GUIDE = Path(__file__).parents[3] / "docs" / "tutorials" / "spark.md"
ROWS, KEYS = 600, 20


@pytest.fixture
def dev(tmp_path: Path) -> Iterator[Dev]:
    with ExitStack() as stack:
        yield Dev(tmp_path, stack)


def program(output: Path) -> str:
    """The guide's program, with a sink that a test can read, and the checkpoint for it."""
    [block] = [
        text
        for text in re.findall(r"```python\n(.*?)```", GUIDE.read_text(), re.DOTALL)
        if "BATON_REDIS_URL" in text and ".serve()" not in text
    ]
    counted, _, sink = str(block).partition("    counts = ")
    assert ".start().awaitTermination()" in sink
    stored = f'orders.writeStream.format("json").option("checkpointLocation", "{output}-checkpoint").start("{output}")'
    return f"{counted}    {stored}.awaitTermination()\n"


def test_executors_of_this_machine_own_the_partitions_and_read_all_rows(dev: Dev, tmp_path: Path) -> None:
    dev.start("--partitions", "4", "--delay", "0")
    address = dev.folder / "dev" / "address.json"
    until(address.exists, "it says where it is")
    with RedisProducer(json.loads(address.read_text())["url"], "dev/orders", patience=60) as producer:
        producer.send_many((f"customer-{number % KEYS}", str(number)) for number in range(ROWS))
    output, app = tmp_path / "rows", tmp_path / "app.py"
    app.write_text(program(output))
    log = (tmp_path / "app.log").open("wb")
    command = [str(BATON), "dev", "run", "--", sys.executable, str(app)]
    java = {"JAVA_HOME": os.environ.get("JAVA_HOME", str(JAVA)), "JAVA_TOOL_OPTIONS": java_options(tmp_path)}
    environment = dev.environment | java
    driver: subprocess.Popen[bytes] = ChildProcess(command, stdout=log, stderr=log, env=environment, start_new_session=True)
    try:
        until(lambda: "-exec-0: " in dev.last() and "-exec-1: " in dev.last(), "both executors own partitions", 400)
        # The first batch of a new query has no rows, and earlier entries are not committed: all of them are read.
        until(lambda: len(values(output)) >= ROWS, "all rows are there", 300)
        assert values(output) == sorted(range(ROWS))
        stopped(driver)
        until(lambda: "unowned: 0-3" in dev.last(), "the driver has given its partitions back")
    finally:
        ended(driver)
        log.close()


def test_a_second_driver_under_baton_dev_waits_for_the_first(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    server = DevServer("dev", "orders", lambda: None)
    server.start()

    def session(uid: str) -> FleetSession:
        at_server = {"BATON_API_SERVER": server.url, "BATON_API_TOKEN": server.token, "POD_NAMESPACE": "dev"}
        return Development(at_server | {"POD_UID": uid, "BATON_LEDGER": str(tmp_path)}).session("orders")

    def holders() -> list[str]:
        return [holder_of(lease) for lease in server.leases()]

    first, second = session("uid-1"), session("uid-2")
    first.acquire()
    waiting = threading.Thread(target=second.acquire)
    waiting.start()
    try:
        until(lambda: "uid-1 has the group orders; waiting until its Lease is free" in caplog.text, "the second says so")
        assert holders() == ["uid-1"]
    finally:
        first.close()
        waiting.join(PATIENCE)
        taken = holders()
        second.close()
        server.close()
    assert taken == ["uid-2"]


def values(output: Path) -> list[int]:
    """The rows that Spark's file sink has named in its log."""
    files: set[str] = set()
    for batch in (output / "_spark_metadata").glob("[0-9]*"):
        files |= {Path(json.loads(line)["path"]).name for line in batch.read_text().splitlines()[1:]}
    lines = [line for file in files for line in (output / file).read_text().splitlines()]
    return sorted(int(b64decode(json.loads(line)["value"])) for line in lines)  # as Spark writes what is binary
