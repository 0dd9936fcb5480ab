"""`make bench-spark` with a few rows: it measures what it says it does. How fast that was is nobody's concern here."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.integration

ROOT = Path(__file__).parents[3]
OTHERS = ("no ownership", "a Python source")


def test_the_source_s_benchmark_ends_with_a_line_of_json() -> None:
    command = [sys.executable, "-m", "tests.bench.spark", "--quick"]
    run = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert run.returncode == 0, run.stderr
    cases = json.loads(run.stdout.splitlines()[-1])["cases"]
    assert all(set(case) == {"name", "ours", "peer", "ratio", "unit"} for case in cases)
    names = [case["name"] for case in cases]
    assert len(set(names)) == len(names)
    for other in OTHERS:
        for limit in ("200", "1,000"):
            what = f"{limit} rows a batch, 2 partitions; beside"
            assert f"{what} {other}" in names and f"time of a batch, {what} {other}" in names
            assert f"{what} the rate source" in names
        for what in (
            "3,000 rows by AvailableNow, 2 partitions",
            "processor time of executors, 3,000 rows by AvailableNow, 2 partitions",
            "processor time of Redis, 3,000 rows by AvailableNow, 2 partitions",
            "send to process at 200 rows/s, p50",
            "send to process at 200 rows/s, p95",
            "processor time at rest, driver",
            "processor time at rest, Redis",
        ):
            assert f"{what}; beside {other}" in names
    assert "bookkeeping of a batch, 20 partitions, 4 executors; beside plain pipelines" in names
    owner = next(case for case in cases if case["name"].startswith("ranges that were read on their owner"))
    assert owner["ours"] > 0
    assert "200 rows a batch, 2 partitions: round 1 of 1" in run.stderr
