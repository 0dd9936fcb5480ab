"""`make bench-consumer` with a few entries: it measures what it says it does. How fast that was is nobody's concern here."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.integration

ROOT = Path(__file__).parents[3]


def test_the_consumers_benchmark_ends_with_a_line_of_json() -> None:
    command = [sys.executable, "-m", "tests.bench.consumer", "--tiny"]
    run = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert run.returncode == 0, run.stderr
    cases = json.loads(run.stdout.splitlines()[-1])["cases"]
    assert all(set(case) == {"name", "ours", "peer", "ratio", "unit"} for case in cases)
    names = [case["name"] for case in cases]
    assert len(set(names)) == len(names)
    for partitions in ("1 partition", "3 partitions"):
        assert f"consume and ack, {partitions}" in names
        assert f"idle consumer, from send to handler, p50, {partitions}" in names
    assert "single sends" in names
    assert all(case["ours"] > 0 for case in cases), cases
    assert "consume and ack, 3 partitions: round 1 of 1" in run.stderr
