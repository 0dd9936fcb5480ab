"""How a tier's run ends: what runs once more, what never does, what it prints, and what it does not leave behind."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.__main__ import left_behind, mounts_of_tests
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
CHATTY = """
import logging

def test_with_a_name_that_is_as_long_as_those_of_this_project_and_takes_up_more_than_a_line_of_a_terminal():
    for number in range(5000):
        print(f"printed {number}.")
        logging.getLogger().warning(f"logged {number}.")
    assert False, "\\n".join(["what it comes to"] + [f"said {number}." for number in range(5000)])
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
DIES = """
import os

def test_dies():
    os._exit(1)
"""
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
    threading.Event().wait({seconds})
    Path("{folder}", "stopped").touch()

def test_waits(server):
    Path("{folder}", "waits").touch()
    threading.Event().wait(3600)
"""
HOLDS = "def test_holds():\n    pass\n"


def started(folder: Path, *files: tuple[str, str], processes: int = 0) -> "subprocess.Popen[str]":
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
    command = [sys.executable, "-m", "tests", "test", f"--numprocesses={processes}"]
    return ChildProcess(command, cwd=folder, env=environment, stdout=subprocess.PIPE, text=True)


def run(folder: Path, *files: tuple[str, str], processes: int = 0) -> tuple[int, list[str]]:
    """Exit code and lines of such a run."""
    with started(folder, *files, processes=processes) as process:
        said, _ = process.communicate()
    return process.returncode, said.splitlines()


def test_a_test_with_real_processes_that_passes_alone_is_flaky_and_fails_nothing(tmp_path: Path) -> None:
    code, lines = run(tmp_path, ("integration/test_d.py", FLAKY.format(name="tried")))
    assert (code, lines[-1]) == (0, "FLAKY tests/integration/test_d.py::test_fails_once"), lines
    assert "1 passed" in lines[-2]


def test_a_test_that_fails_or_is_skipped_the_second_time_has_not_passed(tmp_path: Path) -> None:
    twice = ("integration/test_f.py", "def test_f(): assert 0")
    code, lines = run(tmp_path, ("integration/test_d.py", FLAKY.format(name="d")), ("integration/test_e.py", SKIPS), twice)
    flaky = [line for line in lines if line.startswith("FLAKY")]
    assert (code, flaky) == (1, ["FLAKY tests/integration/test_d.py::test_fails_once"]), lines


def test_a_worker_that_dies_ends_the_run_and_no_test_runs_again(tmp_path: Path) -> None:
    files = [(f"integration/test_{name}.py", HOLDS) for name in "efgh"]
    code, lines = run(tmp_path, ("integration/test_d.py", DIES), *files, processes=2)
    assert code != 0 and not [line for line in lines if line.startswith("FLAKY")], lines
    assert "a worker of xdist has ended" in lines[-1], lines


@pytest.mark.parametrize(("processes", "seconds"), [(0, 0), (1, 6)], ids=["alone", "a worker that needs longer than xdist has"])
def test_an_interrupted_run_ends_when_its_fixtures_have(tmp_path: Path, processes: int, seconds: int) -> None:
    waits = ("integration/test_d.py", WAITS.format(folder=tmp_path, seconds=seconds))
    with started(tmp_path, waits, processes=processes) as process:
        try:
            until((tmp_path / "waits").exists, "the test waits")
            process.terminate()
            assert process.wait(PATIENCE) == 2
        finally:
            process.kill()
    assert (tmp_path / "stopped").exists()


def test_what_never_runs_again_fails_the_run(tmp_path: Path) -> None:
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


def test_a_run_folder_that_its_guard_is_about_to_remove_is_not_left_behind(
    run_of_one: None, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr("cluster.runs.RUNS", tmp_path)
    folder = tmp_path / "control-1-1"
    folder.mkdir()
    (folder / "clone").write_text(f"{ROOT}\n")
    assert left_behind(patience=0) == [f"run folder {folder}"]
    monkeypatch.setattr("tests.__main__.time.sleep", lambda _: shutil.rmtree(folder))
    assert left_behind() == []


def test_a_mount_of_this_run_is_left_behind_wherever_it_is(run_of_one: None) -> None:
    small_disk = "101 22 0:99 / /tmp/small\\040disk rw - tmpfs baton-small-disk-run-of-one rw,size=64m"
    of_another = "102 22 0:98 / /tmp/other rw shared:5 - tmpfs baton-small-disk-another rw,size=64m"
    assert mounts_of_tests(f"{small_disk}\n{of_another}\n") == ["/tmp/small disk"]


def test_a_failure_is_reported_at_once_and_again_at_the_end_and_little_between(tmp_path: Path) -> None:
    _, lines = run(tmp_path, ("unit/test_d.py", CHATTY), processes=1)
    assert len(lines) < 300, "\n".join(lines[:400])
    for kind in ("printed", "logged", "said"):
        shown = [line for line in lines if f"{kind} 4999." in line]
        assert shown and not [line for line in lines if f"{kind} 2500." in line], (kind, shown)
    (at_once,) = (line for line in lines if line.startswith("failed: "))
    assert at_once.startswith("failed: tests/unit/test_d.py::test_with") and at_once.endswith(
        ": AssertionError: what it comes to"
    )
    (summary,) = (line for line in lines if line.startswith("FAILED "))
    assert summary.endswith(" - AssertionError: what it comes to")
