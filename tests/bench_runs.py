"""A benchmark with little to do: it measures what it claims. Its speed does not matter in tests."""

import json
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

_ROOT = Path(__file__).parents[1]
_FIELDS = {"name", "ours", "peer", "ratio", "unit"}


class BenchRun(NamedTuple):
    """What it printed."""

    ours: dict[str, float]
    """Our figure of each case, by its name."""
    told: str
    """On standard error."""


def bench_run(module: str, *options: str) -> BenchRun:
    """Run to its end. The last line is JSON, and no two cases have one name."""
    command = [sys.executable, "-m", module, *options]
    run = subprocess.run(command, cwd=_ROOT, capture_output=True, text=True, check=False)
    assert run.returncode == 0, run.stderr
    cases = json.loads(run.stdout.splitlines()[-1])["cases"]
    assert all(set(case) == _FIELDS for case in cases), cases
    ours = {case["name"]: case["ours"] for case in cases}
    assert len(ours) == len(cases), cases
    return BenchRun(ours, run.stderr)
