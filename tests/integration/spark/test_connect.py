"""Spark Connect: the guide's server, with a fleet under `baton dev`, and clients in other processes."""

import json
import os
import re
import subprocess
import sys
from base64 import b64decode
from collections import Counter, defaultdict
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from baton.queues.redis import RedisProducer
from baton.spark import jar_file
from cluster.ports import free_ports
from tests.integration.dev.test_dev import BATON, Dev, ended
from tests.local_spark import JAVA, java_options
from tests.processes import ChildProcess
from tests.waiting import until

ROOT = Path(__file__).parents[3]
GUIDE = (ROOT / "docs" / "guides" / "spark-connect.md").read_text()
CLIENT = "tests.integration.spark.connect_client"
JAVA_CLIENT = Path(__file__).parent / "java" / "ConnectClient.java"
LONGEST = 600
"""Seconds for a client, whose own waits have shorter limits."""
pytestmark = pytest.mark.long


def program(words: str) -> str:
    """The guide's program that contains these words."""
    [block] = [text for text in re.findall(r"```python\n(.*?)```", GUIDE, re.DOTALL) if words in text]
    return str(block)


class Served:
    """A server, its queue and its clients."""

    process: "subprocess.Popen[bytes]"

    def __init__(self, dev: Dev, stack: ExitStack) -> None:
        self._dev, self._stack, self._port = dev, stack, next(free_ports())
        self.url = f"sc://127.0.0.1:{self._port}"
        self.environment = dev.environment | {
            "JAVA_HOME": str(JAVA),
            "JAVA_TOOL_OPTIONS": java_options(dev.folder),
            "SPARK_LOCAL_IP": "127.0.0.1",
            "PYSPARK_PYTHON": sys.executable,
        }
        dev.start("--partitions", "4", "--delay", "0")
        address = dev.folder / "dev" / "address.json"
        until(address.exists, "it says where it is")
        url = json.loads(address.read_text())["url"]
        self.producer = stack.enter_context(RedisProducer(url, "dev/orders", patience=60))
        self.start()

    def start(self) -> None:
        """Start the guide's server, and wait until its executors own the partitions."""
        server = self._dev.folder / "server.py"
        text = self.here(program(".serve()"))
        assert "conf(group)" in text
        server.write_text(text.replace("conf(group)", "conf(group, executor_timeout=120)"))  # a busy machine loses no executor
        log = self._dev.folder / "server.log"
        command = [str(BATON), "dev", "run", "--", sys.executable, str(server)]
        with log.open("ab") as file:
            self.process = ChildProcess(command, stdout=file, stderr=file, env=self.environment, start_new_session=True)
        self._stack.callback(ended, self.process)
        until(
            lambda: "-exec-0: " in self._dev.last() and "-exec-1: " in self._dev.last(), "both executors own partitions", LONGEST
        )

    def stop(self) -> int:
        """Stop the server, as Kubernetes does. Returns the exit code."""
        self.process.terminate()
        code = self.process.wait(LONGEST)
        until(lambda: "unowned: 0-3" in self._dev.last(), "the partitions are given back")
        return code

    def here(self, text: str) -> str:
        """Replace the guide's port by this server's."""
        assert "15002" in text
        return text.replace("15002", str(self._port))

    def send(self, name: str, begin: int, end: int) -> list[str]:
        """Send unique values, with twenty keys."""
        values = [f"{name}-{number:04}" for number in range(begin, end)]
        self.producer.send_many((f"customer-{number % 20}", value) for number, value in enumerate(values))
        return values

    def client(self, task: str, *arguments: object, session: str = "") -> Any:
        """Run a task of the client, and return its answer."""
        url = self.url + (f"/;user_id=etl;session_id={session}" if session else "")
        return json.loads(self.run(sys.executable, "-m", CLIENT, url, task, *map(str, arguments)).splitlines()[-1])

    def run(self, *command: str) -> str:
        ran = subprocess.run(
            command, cwd=ROOT, env=self.environment, capture_output=True, text=True, timeout=LONGEST, check=False
        )
        assert ran.returncode == 0, ran.stderr
        return ran.stdout


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    with ExitStack() as stack:
        yield Served(Dev(tmp_path_factory.mktemp("connect"), stack), stack)


def rows(output: Path) -> list[dict[str, Any]]:
    """The rows of a file sink with a log, or else of all files."""
    log = output / "_spark_metadata"
    files = {
        Path(json.loads(line)["path"]).name for batch in log.glob("[0-9]*") for line in batch.read_text().splitlines()[1:]
    } or {file.name for file in output.glob("*.json")}
    return [json.loads(line) for file in files for line in (output / file).read_text().splitlines()]


def values(output: Path) -> list[str]:
    return sorted(row["value"] for row in rows(output))


def in_order(found: list[dict[str, Any]]) -> bool:
    """Whether the offsets of each partition grow with the values, which count one sender's entries."""
    offsets: dict[int, list[int]] = defaultdict(list)
    for row in sorted(found, key=lambda row: str(row["value"])):
        offsets[row["partition"]].append(row["offset"])
    return all(of_one == sorted(set(of_one)) for of_one in offsets.values())


def test_a_batch_read_and_sql_return_existing_entries(served: Served) -> None:
    sent = served.send("there", 0, 100)
    found = served.client("read")
    assert [value for value in found["values"] if value.startswith("there")] == sent
    assert found["in SQL"] == len(found["values"])


def test_files_have_each_row_once_and_another_client_continues(served: Served, tmp_path: Path) -> None:
    output = tmp_path / "rows"
    first = served.send("files", 0, 500)
    progress = served.client("to_files", output)
    assert sum(progress["rows"]) == len(values(output)) >= 500
    assert max(progress["rows"]) <= 200
    assert (progress["metrics"]["partitionsOwned"], progress["metrics"]["rangesLent"]) == ("4", "0")
    second = served.send("files", 500, 600)
    progress = served.client("to_files", output)
    assert sum(progress["rows"]) == 100
    assert progress["batches"][-1] > 1, "it goes on with the numbers of its checkpoint"
    assert [value for value in values(output) if value.startswith("files")] == first + second
    assert in_order([row for row in rows(output) if row["value"].startswith("files")])


def test_a_function_gets_each_row_once_and_the_same_batch_after_a_failure(served: Served, tmp_path: Path) -> None:
    output = tmp_path / "rows"
    first = served.send("function", 0, 300)
    failed = served.client("to_a_function_that_fails", output)
    assert "ValueError: the sink is full" in "\n".join(failed)
    second = served.send("function", 300, 400)
    progress = served.client("to_a_function", output)
    assert sum(progress["rows"]) == len(rows(output))
    assert [value for value in values(output) if value.startswith("function")] == first + second
    again = Counter((row["batch"], row["value"]) for row in rows(output) if row["batch"] == 1)
    assert again == Counter((row["batch"], row["value"]) for row in rows(tmp_path / "rows-failed"))
    assert {row["redelivered"] for row in rows(output) if row["batch"] == 1} == {True}


def test_errors_are_one_line_at_the_client(served: Served) -> None:
    said = served.client("errors")
    for of in ("group of a batch read", "group of a stream"):
        assert said[of] == [
            "No fleet of group nobody runs in this driver, but one of orders: the program that started the driver (with Spark "
            'Connect, the server) must call fleet = baton.spark.Fleet(spark, group="nobody", …) and fleet.start() before load()'
        ]
    assert re.search(r"query '[0-9a-f-]+' already reads group orders: stop it first", said["second query"][0])
    assert said["fleet"] == [
        "spark is a client session of Spark Connect, and a fleet runs in the driver: start the fleet in the program that "
        'starts the server, with the session of that program. Clients only read: spark.readStream.format("baton")'
    ]


def test_a_query_outlives_its_client_until_its_session_stops_it(served: Served, tmp_path: Path) -> None:
    output, session = tmp_path / "rows", "7a2c9b4e-51d0-4f6b-9a3e-8c1d2e3f4a5b"
    query = served.client("begin_and_go", output, session=session)
    sent = served.send("gone", 0, 100)
    until(lambda: set(sent) <= set(values(output)), "the query reads on", 300)
    assert served.client("come_back", session="00000000-0000-4000-8000-000000000000") == []
    assert served.client("come_back", session=session) == [query]


def test_a_client_in_java_reads_and_streams(served: Served, tmp_path: Path) -> None:
    output = tmp_path / "rows"
    sent = served.send("java", 0, 100)
    jdk, spark = jar_file.jdk(), jar_file.spark_jars()
    assert jdk is not None and spark is not None
    [client] = (spark / "connect-repl").glob("spark-connect-client-jvm_*.jar")
    opened = "--add-opens=java.base/java.nio=ALL-UNNAMED"  # for Arrow
    class_path = os.pathsep.join([str(client), f"{spark}/*"])
    said = served.run(str(jdk / "java"), opened, "-cp", class_path, str(JAVA_CLIENT), served.url, str(output)).splitlines()
    assert [value for value in values(output) if value.startswith("java")] == sent
    found = {line.partition(" ")[0]: line.partition(" ")[2] for line in said}
    assert int(found["there"]) == int(found["rows"]) == len(rows(output))
    assert found["error"].startswith("No fleet of group nobody runs in this driver, but one of orders: ")


def test_a_stopped_server_gives_partitions_back_and_the_next_one_continues(served: Served, tmp_path: Path) -> None:
    """Uses the guide's client, with its output redirected."""
    output = tmp_path / "rows"
    client = tmp_path / "client.py"
    client.write_text(served.here(program("SparkSession.builder.remote")).replace("/tmp/orders", str(output)))
    sent: list[str] = []
    for turn in range(2):
        sent += served.send("turns", 100 * turn, 100 * turn + 100)
        read_by(served, client, output, len(sent))
        assert [value for value in decoded(output) if value.startswith("turns")] == sent
        served.start()


def read_by(served: Served, client: Path, output: Path, count: int) -> None:
    """Run this program until there are this many rows, and then stop its server."""
    with client.with_suffix(".log").open("ab") as log:
        reading = ChildProcess([sys.executable, str(client)], stdout=log, stderr=log, env=served.environment)
    try:
        until(lambda: len(decoded(output)) >= count, "all rows are there", 300)
        assert served.stop() == 0
        reading.wait(LONGEST)
    finally:
        reading.kill()


def decoded(output: Path) -> list[str]:
    """Encode bytes as Spark writes binary columns."""
    return sorted(b64decode(row["value"]).decode() for row in rows(output))
