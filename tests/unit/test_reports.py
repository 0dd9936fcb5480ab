"""What pytest prints of a failed test: its name with the reason at once and last of all, a line each, and little between."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
CHATTY = """
import logging

def test_with_a_name_that_is_as_long_as_those_of_this_project_and_takes_up_more_than_a_line_of_a_terminal():
    for number in range(5000):
        print(f"printed {number}.")
        logging.getLogger().warning(f"logged {number}.")
    assert False, "\\n".join(["what it comes to"] + [f"said {number}." for number in range(5000)])

def test_that_holds():
    pass
"""


@pytest.mark.parametrize("side_by_side", [(), ("--numprocesses=1",)], ids=["one process", "side by side"])
def test_a_failed_test_is_reported_shortly_and_its_reason_is_the_last_line(tmp_path: Path, side_by_side: tuple[str, ...]) -> None:
    (tmp_path / "test_chatty.py").write_text(CHATTY)
    options = ("-ra", "--force-short-summary", "-p", "tests.reports", "-p", "no:cacheprovider", f"--rootdir={tmp_path}")
    command = [sys.executable, "-m", "pytest", *options, *side_by_side, "test_chatty.py"]
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "COLUMNS": "80", "CI": "1"}
    for variable in [name for name in environment if name.startswith("PYTEST_")]:
        del environment[variable]
    done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False)
    lines = done.stdout.splitlines()
    assert len(lines) < 300, "\n".join(lines[:400])
    for kind in ("printed", "logged", "said"):
        shown = [line for line in lines if f"{kind} 4999." in line]
        assert shown and not [line for line in lines if f"{kind} 2500." in line], (kind, shown)
    (at_once,) = (line for line in lines if line.startswith("failed: "))
    assert at_once.startswith("failed: test_chatty.py::test_with") and at_once.endswith(": AssertionError: what it comes to")
    reason, counts = lines[-2:]
    assert reason.startswith("FAILED test_chatty.py::test_with") and reason.endswith(" - AssertionError: what it comes to")
    assert "1 failed, 1 passed" in counts
