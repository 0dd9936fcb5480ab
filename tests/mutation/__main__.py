"""Break each rule in turn, in a copy of the package, and see which test notices. Exit 1 if a mutation survives."""

import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path

from tests.mutation.mutation import Mutation
from tests.mutation.rules import ENGINE
from tests.mutation.telling import TELLING
from tests.mutation.watching import WATCHING
from tests.mutation.writing import WRITING

ROOT = Path(__file__).parents[2]
MUTATIONS = ENGINE + WATCHING + WRITING + TELLING
LONGEST = 60
"""Seconds of one test. One that hangs has noticed, and ends its process: what it tests may go on whatever is raised in it."""

NOTHING_RAN = (4, 5)
"""Pytest's answers where a test that is named does not exist."""


def killed_by(original: Path, mutation: Mutation) -> str | None:
    """The first test that fails; None: nothing notices."""
    with tempfile.TemporaryDirectory() as place:
        package = Path(place) / "baton"
        shutil.copytree(original / "operator" / "baton", package)
        module = package / mutation.module
        module.write_text(module.read_text().replace(mutation.old, mutation.new))
        return _failing(original, [mutation.tests], place)


def _failing(original: Path, tests: Iterable[str], *places: str) -> str | None:
    path = os.pathsep.join([*places, str(original / "operator"), str(original)])
    tested = subprocess.run(
        [sys.executable, "-m", "pytest", "-x", "-q", "-p", "no:cacheprovider", f"--timeout={LONGEST}", "--timeout-method=thread"]
        + [f"tests/{name}" for name in tests],
        cwd=original,
        env={**os.environ, "PYTHONPATH": path, "PYTHONDONTWRITEBYTECODE": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    if tested.returncode in NOTHING_RAN:
        raise SystemExit(f"tests/mutation has to follow the tests:\n{tested.stdout[-500:]}{tested.stderr[-500:]}")
    if not tested.returncode:
        return None
    failed = [line.split(" - ")[0] for line in tested.stdout.splitlines() if line.startswith(("FAILED", "ERROR"))]
    if failed:
        return failed[0].split("::", 1)[-1]
    return "a test that hung" if "Timeout" in tested.stderr + tested.stdout else tested.stdout[-200:] + tested.stderr[-200:]


def astray(original: Path, mutations: Iterable[Mutation]) -> list[str]:
    """Mutations whose line is not there, or more than once: the code has changed."""
    modules = {one.module: original / "operator" / "baton" / one.module for one in mutations}
    texts = {module: path.read_text() if path.exists() else "" for module, path in modules.items()}
    return [one.name for one in mutations if texts[one.module].count(one.old) != 1]


def main() -> int:
    chosen = [one for one in MUTATIONS if not sys.argv[1:] or any(word in f"{one.rule}: {one.name}" for word in sys.argv[1:])]
    if not chosen:
        raise SystemExit("No mutation has this in its rule or name; `make mutate` takes them all.")
    began, survivors = time.monotonic(), 0
    with tempfile.TemporaryDirectory() as place, ThreadPoolExecutor(os.cpu_count()) as pool:
        original = Path(place) / "clone"  # so that nobody's work of the next minutes comes between
        shutil.copytree(ROOT, original, ignore=shutil.ignore_patterns(".*", "__pycache__"))
        if lost := astray(original, chosen):
            raise SystemExit(f"tests/mutation has to follow the code: {', '.join(lost)}")
        if (failing := _failing(original, sorted({one.tests for one in chosen}))) is not None:
            raise SystemExit(f"nothing is broken, and yet: {failing}")
        print("| Rule | Broken | Noticed by |\n|---|---|---|")
        for number, (one, test) in enumerate(zip(chosen, pool.map(partial(killed_by, original), chosen), strict=True), 1):
            survivors += test is None
            print(f"| {one.rule} | {one.name} | {test or '**nobody**'} |", flush=True)
            if sys.stderr.isatty():
                print(f"\r{number} of {len(chosen)}, {time.monotonic() - began:.0f} s", end="\r", file=sys.stderr, flush=True)
    print(f"\n{len(chosen)} mutations in {time.monotonic() - began:.0f} s, {survivors} survived")
    return survivors > 0


if __name__ == "__main__":
    sys.exit(main())
