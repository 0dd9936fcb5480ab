"""The benches of Kafka, with little to do (speed does not matter here), and a broker by hand for guides without Docker."""

import json
import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from confluent_kafka.admin import AdminClient

from cluster.ports import free_ports
from tests.bench_runs import bench_run
from tests.processes import ChildProcess
from tests.waiting import PATIENCE

ROOT = Path(__file__).parents[3]
EVENTS = {"scale 1 -> 3", "add one", "remove one", "rolling restart", "flapping", "SIGKILL"}


@pytest.mark.long
def test_the_benchmark_of_hand_offs_ends_with_a_line_of_json(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "tests.bench.handoff", "--quick", "--chart", str(tmp_path / "handoff.svg")]
    run = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert run.returncode == 0, run.stderr
    rows = json.loads(run.stdout.splitlines()[-1])["rows"]
    assert {(row["system"], row["event"]) for row in rows} == {
        (system, event) for system in ("baton-redis", "baton-kafka", "kafka-kip848-tuned") for event in EVENTS
    }
    assert sum(row["moves"] for row in rows) > 0
    assert not any(row["order_violations"] for row in rows), rows
    assert (tmp_path / "handoff.svg").read_text().startswith("<svg")


@pytest.mark.long
def test_the_benchmark_of_throughput_ends_with_a_line_of_json() -> None:
    found = bench_run("tests.bench.throughput", "--quick").ours
    assert len(found) == 6
    assert all(found.values()), found


def test_a_broker_by_hand_runs_until_interrupted() -> None:
    port = str(next(free_ports("127.0.0.1")))
    command = [sys.executable, "-m", "tests.kafka_broker", "--port", port, "--topic", "pay", "--partitions", "3"]
    with ChildProcess(command, cwd=ROOT, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            said = process.stdout.readline()
            assert re.match(rf"Kafka at 127.0.0.1:{port}, .* with pay\.", said), said
            topics = AdminClient({"bootstrap.servers": f"127.0.0.1:{port}"}).list_topics(timeout=PATIENCE).topics
            assert len(topics["pay"].partitions) == 3
        finally:
            process.send_signal(signal.SIGINT)
    assert process.returncode == 0
    assert list(Path("/tmp").glob(f"baton-kafka-{process.pid}-*")) == []
