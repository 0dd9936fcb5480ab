"""Run one tier of the tests: `python -m tests quick|test|cluster|long [pytest options]`.

A test with real processes that fails runs once more at the end, alone. If it passes then, it is listed as FLAKY and the run
passes; more than three of them fail the run. Unit tests and simulation never run twice, nor does a test that saw a promise of
Baton broken (tests/promises.py), nor any test of a run that was cut short. A process, mount or run folder that the tests leave
behind fails the run, too.
"""

import argparse
import json
import os
import signal
import sys
import time
from collections.abc import Collection
from contextlib import suppress
from pathlib import Path
from types import FrameType
from uuid import uuid4

from cluster import runs
from cluster.processes import with_variable
from cluster.programs import cache
from cluster.waiting import PATIENCE
from tests.processes import ChildProcess
from tests.reports import OUTCOMES

CLUSTER = ("tests/e2e", "tests/integration/cluster", "tests/integration/operator/under_load", "tests/integration/prometheus")
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
CACHE = Path(".pytest_cache") / "v"
_MARK = "BATON_TEST_RUN"
_SOME_FAILED = 1
"""pytest's exit code."""


def main() -> int:
    """Exit code: 0, pytest's, or 1 for what was left behind."""
    parser = argparse.ArgumentParser(prog="python -m tests", description="Further arguments are pytest's.")
    parser.add_argument("tier", choices=TIERS)
    arguments, options = parser.parse_known_args()
    expression, *chosen = TIERS[arguments.tier]
    os.environ[_MARK] = uuid4().hex
    before = _mounts_and_folders()
    command = [sys.executable, "-m", "pytest", "-m", expression, *chosen, *side_by_side(arguments.tier), *options]
    code = run([*command, "--cache-clear"])
    flaky: list[str] = []
    if code == _SOME_FAILED and (failed := repeatable()):
        print(f"\n{len(failed)} failed: once more, alone\n", flush=True)
        code = run([*command, "--last-failed", "--numprocesses=0"])
        again = _outcomes()
        flaky = [test for test in failed if test in again["passed"] and test not in again["failed"]]
        code = code or int(flaky != failed)  # one that was skipped, or has another name now, has not passed
    left = left_behind(before)
    for words in (*(f"LEFT BEHIND {what}" for what in left), *(f"FLAKY {test}" for test in flaky)):
        print(words, flush=True)
    return code or int(bool(left))


def run(command: list[str]) -> int:
    """The command's exit code. SIGINT and SIGTERM interrupt it, so that its fixtures stop their servers."""
    children: list[int] = []

    def interrupt(_number: int, _frame: FrameType | None) -> None:
        for child in children:
            os.killpg(child, signal.SIGINT)

    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, interrupt)  # before: the child would ignore what this process ignores, as in a script's background
    with ChildProcess(command, process_group=0) as child:
        children.append(child.pid)
        return child.wait()


def side_by_side(tier: str) -> list[str]:
    """Options of xdist. Tests with servers wait more than they work: where they are with tests that compute, each core has three
    processes, otherwise few cores have two more. Six are the most. A worker that dies ends the run: with a new one xdist may wait
    for ever."""
    cores = os.cpu_count() or 1
    processes = min(3 * cores if tier == "test" else cores + 2, 6)
    return [f"--numprocesses={processes}", "--dist=loadfile", "--no-loadscope-reorder", "--max-worker-restart=0"]


def repeatable() -> list[str]:
    """The failed tests, if they may run once more; else nothing, having said why not."""
    outcomes = _outcomes()
    failed = outcomes["failed"]
    why = [f"{test} has no real processes" for test in failed if not test.startswith(REPEATED)] + outcomes["never again"]
    if len(failed) > MOST_FLAKY:
        why.append(f"{len(failed)} failed, and at most {MOST_FLAKY} may be flaky")
    for words in why:
        print(f"not run again: {words}")
    return [] if why else failed


def left_behind(before: Collection[str] = (), patience: float = PATIENCE) -> list[str]:
    """What is still there after `patience` seconds: processes of the tests, and what `before` lacks of mounts in the cache and of
    this clone's run folders without an owner, which their guards remove."""
    deadline = time.monotonic() + patience
    while (
        left := [*_processes(), *(what for what in _mounts_and_folders() if what not in before)]
    ) and time.monotonic() < deadline:
        time.sleep(0.1)
    return left


def _mounts_and_folders() -> list[str]:
    return [
        *(f"mount {mount}" for mount in mounts_of_tests(Path("/proc/self/mountinfo").read_text())),
        *(f"run folder {folder}" for folder in runs.folders() if runs.is_ours(folder) and runs.is_abandoned(folder)),
    ]


def mounts_of_tests(mountinfo: str) -> list[str]:
    """Mounts in the cache, and those whose source has this run's mark (tests/kafka_broker/small_disk.py); see proc(5)."""
    found = []
    for line in mountinfo.splitlines():
        mount, source = line.split()[4].replace("\\040", " "), line.partition(" - ")[2].split()[1]
        if mount.startswith(f"{cache().resolve()}/") or source.endswith(os.environ[_MARK]):
            found.append(mount)
    return found


def _outcomes() -> dict[str, list[str]]:
    found: dict[str, list[str]] = json.loads((CACHE / OUTCOMES).read_text())
    return found


def _processes() -> list[str]:
    found = []
    for process in with_variable(_MARK, os.environ[_MARK]):
        with suppress(OSError):  # it ended meanwhile
            command = Path(f"/proc/{process.pid}/cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
            found.append(f"process {process.pid}: {command[:200]}")
    return found


if __name__ == "__main__":
    sys.exit(main())
