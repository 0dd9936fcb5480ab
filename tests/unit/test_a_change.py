"""docs/development/a-change.md does what it says: its blocks, applied to a copy of the tree, and its commands, run there."""

import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "development" / "a-change.md").read_text()
SECTIONS = {part.partition("\n")[0]: part for part in PAGE.split("\n## ")[1:]}
"""Heading -> text."""
LAST = "Before it is sent"
BLOCK = re.compile(r"^```(python|diff|console)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def a_copy(of: Path, place: Path) -> Path:
    """The tree, with the programs of the same virtual environment, which `make` takes for ready whatever the change. None that
    could install something is among them: that would turn the environment to the copy."""
    shutil.copytree(of, place, ignore=shutil.ignore_patterns(".*", "__pycache__"))
    shutil.copytree(of / ".github", place / ".github")  # which the documents name
    programs = place / ".venv" / "bin"
    programs.mkdir(parents=True)
    for program in (of / ".venv" / "bin").iterdir():
        if not program.name.startswith(("uv", "pip")):
            (programs / program.name).symlink_to(program)
    for part in ("lib", "pyvenv.cfg"):
        (place / ".venv" / part).symlink_to(of / ".venv" / part)
    (place / ".venv" / ".ready").touch()
    if (known := of / ".mypy_cache").is_dir():  # no links: it is a database, which is written in place
        shutil.copytree(known, place / ".mypy_cache")
    return place


def add(tree: Path, block: str) -> None:
    """A new file. The first line is its path."""
    first, _, text = block.partition("\n")
    file = tree / first.removeprefix("# ")
    assert not file.exists(), f"{first} is there already"
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text)


def change(tree: Path, block: str) -> None:
    """A file in one place. The first line is its path."""
    first, *lines = block.splitlines()
    file = tree / first.removeprefix("--- ")
    before = "".join(f"{line[1:]}\n" for line in lines if not line.startswith("+"))
    after = "".join(f"{line[1:]}\n" for line in lines if not line.startswith("-"))
    text = file.read_text()
    assert text.count(before) == 1, f"{file.relative_to(tree)} has not exactly once:\n{before}"
    file.write_text(text.replace(before, after))


def run(tree: Path, block: str) -> None:
    """Each command succeeds, and prints the lines that follow it."""
    path = os.pathsep.join([str(tree / "operator"), str(tree)])
    environment = {**os.environ, "PYTHONPATH": path, "MAKEFLAGS": "--old-file=.venv/.ready"}
    for command in re.split(r"^\$ ", block, flags=re.MULTILINE)[1:]:
        line, *expected = command.splitlines()
        done = subprocess.run(line, shell=True, cwd=tree, env=environment, capture_output=True, text=True, check=False)
        assert done.returncode == 0, f"$ {line}\n{done.stdout[-6000:]}{done.stderr[-2000:]}"
        assert [part for part in expected if part not in done.stdout.splitlines()] == [], f"$ {line}\n{done.stdout[-6000:]}"


@pytest.mark.parametrize("section", [pytest.param(one, marks=[pytest.mark.long] * (one == LAST)) for one in SECTIONS])
def test_the_steps_of_the_page_about_a_change_work(tmp_path: Path, section: str) -> None:
    """The last section checks, for most of a minute, what those before it have changed."""
    tree = a_copy(ROOT, tmp_path / "tree")
    does = {"python": add, "diff": change, "console": run}
    blocks = BLOCK.findall(SECTIONS[section])
    assert blocks
    if section == LAST:
        blocks = [block for part in SECTIONS.values() for block in BLOCK.findall(part) if block[0] != "console"] + blocks
        blocks.insert(-1, ("console", "$ make generate\n"))
    for kind, block in blocks:
        does[kind](tree, block)
