"""The switch by which tests end the operator between any two effects."""

import signal
import subprocess
import sys

import pytest
from tests.waiting import PATIENCE

from baton.controller import faults
from baton.controller.faults import EFFECTS, VARIABLE, BadFault, arm, boundary, parse

PROGRAM = """
from baton.controller.faults import arm, boundary
arm()
for number in range(1, 4):
    with boundary("pause"):
        pass
    with boundary("grant"):
        print("granted", number, flush=True)
"""


def run(fault: str) -> tuple[int, list[str]]:
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM], env={VARIABLE: fault}, capture_output=True, text=True, check=False, timeout=PATIENCE
    )
    return done.returncode, [line for line in done.stdout.splitlines() if line.startswith("granted")]


@pytest.mark.parametrize(
    ("fault", "done"),
    [("KILL:before:grant#2", 1), ("KILL:after:grant#2", 2), ("KILL:before:pause#1", 0)],
)
def test_the_process_is_killed_right_there(fault: str, done: int) -> None:
    assert run(fault) == (-signal.SIGKILL, [f"granted {number}" for number in range(1, done + 1)])


def test_a_place_that_is_not_reached_so_often_ends_nothing() -> None:
    assert run("KILL:after:grant#4")[0] == 0


def test_what_fails_has_no_after() -> None:
    fault = parse("KILL:after:grant#1")
    with pytest.raises(OSError), faults._around(fault, "grant"):
        raise OSError
    assert fault.left == 1


@pytest.mark.parametrize(
    "text", ["", "1", "KILL", "KILL:after:grant", "KILL:after:everything#1", "TERM:after:grant#1", "KILL:after:grant#0"]
)
def test_a_text_that_is_no_fault_is_refused_and_the_cure_is_named(text: str) -> None:
    with pytest.raises(BadFault, match=f"{VARIABLE}=.*unset it.*ledger-write.*KILL:after:grant#2"):
        parse(text)


def test_without_the_variable_nothing_is_armed() -> None:
    arm({})
    assert all(boundary(effect) is boundary("grant") for effect in EFFECTS)
