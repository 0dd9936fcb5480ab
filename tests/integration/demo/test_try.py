"""The whole story of `make try` in processes of this machine, and what is left of it."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.processes import ChildProcess
from tests.promises import promised
from tests.waiting import PATIENCE, until

ROOT = Path(__file__).parents[3]
FIELDS = [
    "produced", "processed", "gaps", "duplicates", "redelivered", "order_violations", "moves", "lower_bound", "pause_ms_p50",
    "pause_ms_max", "ready_to_ledger_ms_p50", "ledger_to_executor_ms_p50", "stale_refused", "stale_accepted",
]  # fmt: skip


@contextmanager
def told(folder: Path) -> Iterator["subprocess.Popen[bytes]"]:
    """The story, with all its files in the folder `files`."""
    (folder / "files").mkdir()
    environment = {**os.environ, "TMPDIR": str(folder / "files"), "BATON_REDIS_URL": "redis://127.0.0.1:1"}
    with (folder / "out").open("wb") as out, (folder / "said").open("wb") as said:
        command = [sys.executable, "-m", "demo", "laptop"]
        process = ChildProcess(command, cwd=ROOT, env=environment, stdout=out, stderr=said, start_new_session=True)
        try:
            yield process
        finally:
            process.kill()
            process.wait()


def left(folder: Path) -> list[str]:
    """Files, and the commands of processes."""
    found = [str(path) for path in (folder / "files").iterdir()]
    for process in Path("/proc").glob("[0-9]*"):
        try:
            if f"TMPDIR={folder}".encode() in (process / "environ").read_bytes():
                found.append((process / "cmdline").read_text())
        except OSError:  # it has just ended
            continue
    return found


def test_the_story_ends_well_and_leaves_nothing(tmp_path: Path) -> None:
    with told(tmp_path) as process:
        code = process.wait(2 * PATIENCE)
    said = (tmp_path / "said").read_text()
    with promised():
        assert code != 1, said
    assert code == 0, said
    (line,) = (tmp_path / "out").read_text().splitlines()
    verdict = json.loads(line)
    assert list(verdict) == FIELDS
    assert verdict["produced"] == verdict["processed"] > 0
    assert verdict["moves"] == verdict["lower_bound"] >= 13
    assert verdict["stale_refused"] >= 12, "six calls while one is stopped, and six when it woke up"
    assert left(tmp_path) == []


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGKILL])
def test_an_interrupted_story_leaves_nothing(tmp_path: Path, number: signal.Signals) -> None:
    with told(tmp_path) as process:
        until(lambda: "the producer sends" in (tmp_path / "said").read_text(), "all of it runs")
        assert len(left(tmp_path)) > 5
        process.send_signal(number)
        assert process.wait(PATIENCE) == (-number if number is signal.SIGKILL else 130)
        until(lambda: not left(tmp_path), "nothing is left")
    assert "Traceback" not in (tmp_path / "said").read_text()
