"""A copy of the package with the toy kind in it: its folder, and one line."""

import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[3]
_COMPILED = shutil.ignore_patterns("__pycache__")
_LINE = '    _kind("baton.queues.external"),\n'


def tree_with_the_toy(folder: Path) -> Path:
    """Create the tree, and return the folder for PYTHONPATH."""
    shutil.copytree(ROOT / "operator" / "baton", folder / "baton", ignore=_COMPILED)
    shutil.copytree(Path(__file__).with_name("toy_kind"), folder / "baton" / "queues" / "toy", ignore=_COMPILED)
    registry = folder / "baton" / "queues" / "kinds.py"
    text = registry.read_text()
    assert text.count(_LINE) == 1
    registry.write_text(text.replace(_LINE, _LINE + '    _kind("baton.queues.toy"),\n'))
    return folder


def run_in(tree: Path, *words: str | Path) -> str:
    """Run a program with this tree. Returns its output."""
    environment = {"PYTHONPATH": f"{tree}:{ROOT}"}
    done = subprocess.run([sys.executable, *words], capture_output=True, text=True, env=environment, check=False, cwd=tree)
    assert done.returncode == 0, done.stderr
    return done.stdout
