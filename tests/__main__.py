"""Run one tier of the tests: `python -m tests quick|test|cluster|long [pytest options]`.

A test with real processes that fails runs once more at the end, alone. If it passes then, it is listed as FLAKY and the run
passes; more than three of them fail the run. Unit tests and simulation never run twice, nor does a test that saw a promise of
Baton broken (tests/promises.py). A process, mount or run folder that the tests leave behind fails the run, too.
"""

import json
import os
import subprocess
import sys
import time
from pathlib import Path
from uuid import uuid4

from cluster import runs
from cluster.programs import cache
from cluster.waiting import PATIENCE
from tests.reports import PROMISES

CLUSTER = (
    "tests/e2e",
    "tests/integration/cluster",
    "tests/integration/operator/under_load",
    "tests/integration/prometheus",
)
"""Folders of tests that need a node, images, a browser, Prometheus, or a fleet under load."""
TIERS = {
    "quick": ("not long", "tests/unit", "tests/simulation"),
    "test": ("not long", "tests/unit", "tests/simulation", "tests/integration", *(f"--ignore={one}" for one in CLUSTER)),
    "cluster": ("not long", *CLUSTER),
    "long": ("long", "tests"),
}
"""Name -> marker expression and arguments of pytest. `quick` is a part of `test`; no test is in two of the others."""
REPEATED = ("tests/integration/", "tests/e2e/")
"""Folders of tests with real processes."""
MOST_FLAKY = 3
CACHE = Path(".pytest_cache")
_MARK = "BATON_TEST_RUN"
_SOME_FAILED = 1
"""pytest's exit code."""


def main(tier: str, *options: str) -> int:
    """Exit code: 0, pytest's, or 1 for what was left behind."""
    expression, *chosen = TIERS[tier]
    os.environ[_MARK] = uuid4().hex
    command = [sys.executable, "-m", "pytest", "-m", expression, *chosen]
    code = subprocess.run([*command, "--cache-clear", *side_by_side(), *options], check=False).returncode
    flaky: list[str] = []
    if code == _SOME_FAILED and (flaky := repeatable()):
        print(f"\n{len(flaky)} failed: once more, alone\n", flush=True)
        code = subprocess.run([*command, "--last-failed"], check=False).returncode
    left = left_behind()
    for words in (*(f"LEFT BEHIND {what}" for what in left), *(f"FLAKY {test}" for test in flaky if code == 0)):
        print(words, flush=True)
    return code or int(bool(left))


def side_by_side() -> list[str]:
    """Options of xdist: two processes more than there are cores, for tests with servers wait more than they work."""
    return ["--numprocesses", str(min((os.cpu_count() or 1) + 2, 6)), "--dist", "loadfile", "--no-loadscope-reorder"]


def repeatable() -> list[str]:
    """The failed tests, if they may run once more; else nothing, having said why not."""
    failed = list(json.loads((CACHE / "v" / "cache" / "lastfailed").read_text()))
    never = [test for test in failed if not test.startswith(REPEATED)]
    promises = CACHE / "v" / PROMISES
    broken = json.loads(promises.read_text()) if promises.exists() else []
    for tests, why in ((never, "has no real processes"), (broken, "saw a broken promise")):
        for test in tests:
            print(f"not run again: {test} {why}")
    if len(failed) > MOST_FLAKY:
        print(f"not run again: {len(failed)} failed, and at most {MOST_FLAKY} may be flaky")
    return [] if never or broken or len(failed) > MOST_FLAKY else failed


def left_behind(patience: float = PATIENCE) -> list[str]:
    """Processes of the tests that do not end within `patience` seconds, mounts in the cache, and run folders without an owner."""
    deadline = time.monotonic() + patience
    while (processes := _processes()) and time.monotonic() < deadline:
        time.sleep(0.1)
    mounts = [line.split()[4] for line in Path("/proc/self/mountinfo").read_text().splitlines()]
    return [
        *processes,
        *(f"mount {mount}" for mount in mounts if mount.startswith(f"{cache()}/")),
        *(f"run folder {folder}" for folder in runs.folders() if runs.is_abandoned(folder)),
    ]


def _processes() -> list[str]:
    mark, found = f"{_MARK}={os.environ[_MARK]}".encode(), []
    for process in Path("/proc").glob("[0-9]*"):
        try:
            if process.name != str(os.getpid()) and mark in (process / "environ").read_bytes().split(b"\0"):
                command = (process / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
                found.append(f"process {process.name}: {command[:200]}")
        except OSError:  # it ended meanwhile, or is another user's
            continue
    return found


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
