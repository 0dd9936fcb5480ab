"""Break each rule in turn, in a copy of the package, and see which test notices. Exit 1 if a mutation survives."""

import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path

from tests.mutation.rules import MUTATIONS, Mutation

ROOT = Path(__file__).parents[2]
SEEDS = "200"
TESTS = ("tests/unit/engine", "tests/simulation/test_scenarios.py")


def killed_by(original: Path, mutation: Mutation | None) -> str | None:
    """The first test that fails; None: nothing notices. Without a mutation it should be None."""
    with tempfile.TemporaryDirectory() as place:
        package = Path(place) / "baton"
        shutil.copytree(original / "operator" / "baton", package)
        if mutation is not None:
            module = package / mutation.module
            text = module.read_text()
            module.write_text(text.replace(mutation.old, mutation.new))
        environment = {**os.environ, "PYTHONPATH": f"{place}{os.pathsep}{original}", "PYTHONDONTWRITEBYTECODE": "1"}
        tests = _run(original, environment, "pytest", "-x", "-q", "-p", "no:cacheprovider", *TESTS)
        if tests.returncode:
            failed = [line.split(" - ")[0] for line in tests.stdout.splitlines() if line.startswith(("FAILED", "ERROR"))]
            return failed[0].split("::")[-1] if failed else tests.stdout[-200:] + tests.stderr[-200:]
        seeds = _run(original, environment, "tests.simulation", "--seeds", SEEDS)
        if seeds.returncode:
            wrong = [line.lstrip("\r") for line in seeds.stdout.splitlines() if line.lstrip("\r").startswith("seed ")]
            return wrong[0][:110] if wrong else seeds.stderr[-200:]
        return None


def _run(place: Path, environment: dict[str, str], *arguments: str) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(
        [sys.executable, "-m", *arguments], cwd=place, env=environment, capture_output=True, text=True, timeout=900, check=False
    )


def astray(original: Path, mutations: Iterable[Mutation]) -> list[str]:
    """Mutations whose line is not there, or more than once: the engine has changed."""
    return [one.name for one in mutations if (original / "operator" / "baton" / one.module).read_text().count(one.old) != 1]


def main() -> int:
    chosen = [mutation for mutation in MUTATIONS if not sys.argv[1:] or any(word in mutation.name for word in sys.argv[1:])]
    with tempfile.TemporaryDirectory() as place, ThreadPoolExecutor(os.cpu_count()) as pool:
        original = Path(place) / "clone"  # so that nobody's work of the next minutes comes between
        shutil.copytree(ROOT, original, ignore=shutil.ignore_patterns(".*", "__pycache__"))
        if lost := astray(original, chosen):
            raise SystemExit(f"tests/mutation/rules.py has to follow the engine: {', '.join(lost)}")
        if (failing := killed_by(original, None)) is not None:
            raise SystemExit(f"nothing is broken, and yet: {failing}")
        survivors = 0
        print("| Rule | Broken | Noticed by |\n|---|---|---|")
        for mutation, test in zip(chosen, pool.map(partial(killed_by, original), chosen), strict=True):
            survivors += test is None
            print(f"| {mutation.rule} | {mutation.name} | {test or '**nobody**'} |", flush=True)
    print(f"\n{len(chosen)} mutations, {survivors} survived")
    return survivors > 0


if __name__ == "__main__":
    sys.exit(main())
