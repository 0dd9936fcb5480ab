"""One API server for all processes of xdist: it outlives the session of the one that started it, and ends with the run."""

import os
import subprocess
import sys
from pathlib import Path

from tests.processes import ChildProcess
from tests.waiting import PATIENCE, until

ROOT = Path(__file__).parents[3]
STARTS = """
from pathlib import Path

import pytest

@pytest.fixture(scope="session")
def over():
    yield
    Path("over").touch()

def test_starts(over, control_plane):
    Path("folder").write_text(str(control_plane.folder))
"""
COMES_LATER = """
from pathlib import Path

from tests.waiting import until

def test_comes_later(request):
    until(Path("over").exists, "the session of the process that started it has ended")
    shared = request.getfixturevalue("control_plane")
    assert str(shared.folder) == Path("folder").read_text()
    assert "namespace/default" in shared.kubectl("get", "namespaces", "-o", "name")
"""


def test_it_outlives_the_session_that_started_it_and_ends_with_the_run(tmp_path: Path) -> None:
    (tmp_path / "test_starts.py").write_text(STARTS)
    (tmp_path / "test_comes_later.py").write_text(COMES_LATER)
    (tmp_path / "pytest.ini").write_text("[pytest]\nmarkers = own_node\n")
    environment = {name: text for name, text in os.environ.items() if not name.startswith("PYTEST_")}
    environment |= {"PYTHONPATH": str(ROOT), "PYTHONSAFEPATH": "1"}
    command = [sys.executable, "-m", "pytest", "-p", "tests.conftest", "--numprocesses=2", "--dist=loadfile"]
    command += ["--basetemp", str(tmp_path / "temporary")]
    with ChildProcess(command, cwd=tmp_path, env=environment, stdout=subprocess.PIPE, text=True) as process:
        said, _ = process.communicate(timeout=10 * PATIENCE)
    assert process.returncode == 0, said
    folder = Path((tmp_path / "folder").read_text())
    until(lambda: not folder.exists(), "its guard has removed it")
