"""The shells complete commands and options."""

import subprocess
import sys
from pathlib import Path

import pytest

from baton.cli.main import SHELLS

BATON = Path(sys.executable).parent / "baton"


@pytest.mark.parametrize("shell", SHELLS)
def test_each_shell_is_given_a_script(shell: str) -> None:
    done = subprocess.run([BATON, "completion", shell], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "_BATON_COMPLETE" in done.stdout


@pytest.mark.parametrize(
    ("typed", "wanted"),
    [
        ("baton re", ["rebalance", "resume"]),
        ("baton status --all", ["--all-namespaces"]),
        ("baton offsets ", ["reset", "show"]),
        ("baton offsets reset orders --dr", ["--dry-run"]),
        ("baton offsets orders --out", ["--output"]),
        ("baton bundle --f", ["--file"]),
    ],
)
def test_bash_completes_commands_and_options(typed: str, wanted: list[str]) -> None:
    """As it does when Tab is pressed."""
    script = subprocess.run([BATON, "completion", "bash"], capture_output=True, text=True, check=True).stdout
    words = typed.split(" ")
    ask = f'COMP_WORDS=({typed}); COMP_CWORD={len(words) - 1}; _baton_completion baton; printf "%s\\n" "${{COMPREPLY[@]}}"'
    path = f"PATH={BATON.parent}:$PATH"
    done = subprocess.run(["bash", "-c", f"{path}\n{script}\n{ask}"], capture_output=True, text=True, check=False)
    assert done.stdout.split() == wanted, done.stderr
