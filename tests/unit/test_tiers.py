"""How a tier's run ends: what runs once more, what never does, what it prints, and what it does not leave behind."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.__main__ import left_behind
from tests.processes import ChildProcess
from tests.waiting import PATIENCE, until

ROOT = Path(__file__).parents[2]
FLAKY = """
from pathlib import Path

def test_fails_once():
    tried = Path("{name}")
    again = tried.exists()
    tried.touch()
    assert again, "not yet"
"""
ACCEPTS = """
from pathlib import Path

import pytest

from baton.queues.fence import StaleOwner

def test_refuses():
    if not Path("tried").exists():
        Path("tried").touch()
        with pytest.raises(StaleOwner):
            pass
"""
# A test of the runner plays it: it fails first, and is skipped when it runs again.
SKIPS = FLAKY.format(name="e").replace("assert again", "import pytest; not again or pytest.skip(); assert again")
LOSES = """
from tests.promises import promised

def test_loses_a_message():
    try:
        with promised():
            assert 1 == 2, "a message is lost"
    finally:
        raise RuntimeError("the server does not stop")
"""
WAITS = """
import threading
from pathlib import Path

import pytest

@pytest.fixture(scope="session")
def server():
    yield
    Path("{folder}", "stopped").touch()

def test_waits(server):
    Path("{folder}", "waits").touch()
    threading.Event().wait(3600)
"""
HOLDS = "def test_holds():\n    pass\n"


def started(folder: Path, *files: tuple[str, str]) -> "subprocess.Popen[str]":
    """A tier's run that has these files (path below tests/, text), and one test that holds in each folder."""
    for path, text in (("unit/test_a.py", HOLDS), ("simulation/test_b.py", HOLDS), ("integration/test_c.py", HOLDS), *files):
        file = folder / "tests" / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
    (folder / "pytest.ini").write_text(
        "[pytest]\naddopts = -ra --force-short-summary -p tests.reports --import-mode=importlib\nmarkers = long\n"
    )
    environment = {name: text for name, text in os.environ.items() if not name.startswith(("PYTEST_", "BATON_TEST_RUN"))}
    environment |= {"PYTHONPATH": str(ROOT), "PYTHONSAFEPATH": "1", "COLUMNS": "80", "CI": "1"}
    command = [sys.executable, "-m", "tests", "test", "--numprocesses=0"]
    return ChildProcess(command, cwd=folder, env=environment, stdout=subprocess.PIPE, text=True)


def run(folder: Path, *files: tuple[str, str]) -> tuple[int, list[str]]:
    """Exit code and lines of such a run."""
    with started(folder, *files) as process:
        said, _ = process.communicate()
    return process.returncode, said.splitlines()


def test_a_failed_or_skipped_second_run_is_no_pass(tmp_path: Path) -> None:
    twice = ("integration/test_f.py", "def test_f(): assert 0")
    code, lines = run(tmp_path, ("integration/test_d.py", FLAKY.format(name="d")), ("integration/test_e.py", SKIPS), twice)
    flaky = [line for line in lines if line.startswith("FLAKY")]
    assert (code, flaky) == (1, ["FLAKY tests/integration/test_d.py::test_fails_once"]), lines


def test_an_interrupted_run_ends_when_its_fixtures_have(tmp_path: Path) -> None:
    with started(tmp_path, ("integration/test_d.py", WAITS.format(folder=tmp_path))) as process:
        try:
            until((tmp_path / "waits").exists, "the test waits")
            process.terminate()
            assert process.wait(PATIENCE) == 2
        finally:
            process.kill()
    assert (tmp_path / "stopped").exists()


def test_some_failures_are_never_run_again(tmp_path: Path) -> None:
    texts = {"unit/test_d.py": FLAKY.format(name="d"), "integration/test_e.py": LOSES, "integration/test_f.py": ACCEPTS}
    code, lines = run(tmp_path, *texts.items(), ("integration/test_g.py", FLAKY.format(name="g")))
    assert (code, [line for line in lines if line.startswith("not run again: ")]) == (
        1,
        [
            "not run again: tests/unit/test_d.py::test_fails_once has no real processes",
            "not run again: tests/integration/test_e.py::test_loses_a_message saw a broken promise",
            "not run again: tests/integration/test_f.py::test_refuses saw a broken promise",
            "not run again: 4 failed, and at most 3 may be flaky",
        ],
    ), lines


@pytest.fixture
def run_of_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BATON_TEST_RUN", "run-of-one")


def test_a_process_that_is_left_behind_is_named(run_of_one: None) -> None:
    with ChildProcess(["sleep", "3600"], start_new_session=True) as left:
        try:
            assert left_behind(patience=0) == [f"process {left.pid}: sleep 3600 "]
        finally:
            left.kill()
    assert left_behind() == []
