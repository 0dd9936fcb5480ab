"""The benches of Kafka, with little to do: they measure what they claim. Speed does not matter here."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.bench_runs import bench_run

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
