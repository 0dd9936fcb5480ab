"""Break each rule in turn, in a copy of the package, and see which test notices. Exit 1 if a mutation survives."""

import os
import shutil
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from tests.mutation.rules import MUTATIONS, Mutation

ROOT = Path(__file__).parents[2]
SEEDS = "400"
TESTS = ("tests/unit/engine", "tests/simulation/test_scenarios.py")


def killed_by(mutation: Mutation | None) -> str | None:
    """The first test that fails; None: nothing notices. Without a mutation it should be None."""
    with tempfile.TemporaryDirectory() as place:
        package = Path(place) / "baton"
        shutil.copytree(ROOT / "operator" / "baton", package, ignore=shutil.ignore_patterns("__pycache__"))
        if mutation is not None:
            module = package / mutation.module
            text = module.read_text()
            if text.count(mutation.old) != 1:
                raise SystemExit(f"{mutation.name}: {mutation.old!r} is {text.count(mutation.old)} times in {mutation.module}")
            module.write_text(text.replace(mutation.old, mutation.new))
        environment = {**os.environ, "PYTHONPATH": f"{place}{os.pathsep}{ROOT}", "PYTHONDONTWRITEBYTECODE": "1"}
        tests = _run(environment, "pytest", "-x", "-q", "-p", "no:cacheprovider", *TESTS)
        if tests.returncode:
            failed = [line.split(" - ")[0] for line in tests.stdout.splitlines() if line.startswith(("FAILED", "ERROR"))]
            return failed[0].split("::")[-1] if failed else tests.stdout[-200:] + tests.stderr[-200:]
        seeds = _run(environment, "tests.simulation", "--seeds", SEEDS)
        if seeds.returncode:
            wrong = [line.lstrip("\r") for line in seeds.stdout.splitlines() if line.lstrip("\r").startswith("seed ")]
            return wrong[0][:110] if wrong else seeds.stderr[-200:]
        return None


def _run(environment: dict[str, str], *arguments: str) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(
        [sys.executable, "-m", *arguments], cwd=ROOT, env=environment, capture_output=True, text=True, timeout=900, check=False
    )


def main() -> int:
    chosen = [mutation for mutation in MUTATIONS if not sys.argv[1:] or any(word in mutation.name for word in sys.argv[1:])]
    if (failing := killed_by(None)) is not None:
        raise SystemExit(f"nothing is broken, and yet: {failing}")
    survivors = 0
    print("| Rule | Broken | Noticed by |\n|---|---|---|")
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        for mutation, test in zip(chosen, pool.map(killed_by, chosen), strict=True):
            survivors += test is None
            print(f"| {mutation.rule} | {mutation.name} | {test or '**nobody**'} |", flush=True)
    print(f"\n{len(chosen)} mutations, {survivors} survived")
    return survivors > 0


if __name__ == "__main__":
    sys.exit(main())
