"""Break each rule in turn, in a copy of the package, and see which test notices. Exit 1 if a mutation survives."""

import os
import shutil
import sys
import tempfile
import time
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from tests.mutation.forked_runs import ForkedRuns, MissingTestsError
from tests.mutation.java import JAVA
from tests.mutation.kafka import KAFKA
from tests.mutation.kafka_reading import KAFKA_READING
from tests.mutation.mutation import Mutation
from tests.mutation.ranges import RANGES
from tests.mutation.rules import ENGINE
from tests.mutation.spark import SPARK
from tests.mutation.telling import TELLING
from tests.mutation.watching import WATCHING
from tests.mutation.writing import WRITING

ROOT = Path(__file__).parents[2]
MUTATIONS = ENGINE + WATCHING + WRITING + TELLING + RANGES + SPARK + JAVA + KAFKA + KAFKA_READING
_AT_ONCE = os.cpu_count() or 1


def killers(original: Path, chosen: Sequence[Mutation], runs: ForkedRuns, place: Path) -> Iterator[tuple[Mutation, str | None]]:
    """Each with the first test that fails, in their order; None: nothing notices."""
    ended: dict[int, str | None] = {}
    begun = told = 0
    while told < len(chosen):
        while begun < len(chosen) and runs.count < _AT_ONCE:
            runs.begin(begun, [chosen[begun].tests], _broken(original, chosen[begun], place / f"{begun}"))
            begun += 1
        number, test = runs.next_end()
        ended[number] = test
        shutil.rmtree(place / f"{number}")
        while told in ended:
            yield chosen[told], ended.pop(told)
            told += 1


def _broken(original: Path, mutation: Mutation, place: Path) -> Path:
    """A folder with the package in which this is broken."""
    shutil.copytree(original / "operator" / "baton", place / "baton")
    name, _, script = mutation.module.partition("#")
    module = place / "baton" / name
    before, text, after = _parts(module.read_text(), script)
    module.write_text(before + text.replace(mutation.old, mutation.new) + after)
    return place


def _parts(text: str, script: str) -> tuple[str, str, str]:
    """Before this script of a file of scripts in Lua, the script itself, and after it; without a name, all is in the middle."""
    if not script:
        return "", text, ""
    before, mark, rest = text.partition(f"--@script {script}\n")
    found, next_mark, after = rest.partition("--@script ")
    return before + mark, found, next_mark + after


def astray(original: Path, mutations: Iterable[Mutation]) -> list[str]:
    """Mutations whose line is not there, or more than once: the code has changed."""
    texts = {}
    for module in {one.module for one in mutations}:
        name, _, script = module.partition("#")
        path = original / "operator" / "baton" / name
        texts[module] = _parts(path.read_text(), script)[1] if path.exists() else ""
    return [one.name for one in mutations if texts[one.module].count(one.old) != 1]


def main() -> int:
    chosen = [one for one in MUTATIONS if not sys.argv[1:] or any(word in f"{one.rule}: {one.name}" for word in sys.argv[1:])]
    if not chosen:
        raise SystemExit("No mutation has this in its rule or name; `make mutate` takes them all.")
    began, survivors = time.monotonic(), 0
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder)
        original = place / "clone"  # so that nobody's work of the next minutes comes between
        shutil.copytree(ROOT, original, ignore=shutil.ignore_patterns(".*", "__pycache__"))
        if lost := astray(original, chosen):
            raise SystemExit(f"tests/mutation has to follow the code: {', '.join(lost)}")
        runs = ForkedRuns(original, place)
        if (failing := runs.load(sorted({one.tests for one in chosen}), _AT_ONCE)) is not None:
            raise SystemExit(f"nothing is broken, and yet: {failing}")
        print("| Rule | Broken | Noticed by |\n|---|---|---|")
        for number, (one, test) in enumerate(killers(original, chosen, runs, place), 1):
            survivors += test is None
            print(f"| {one.rule} | {one.name} | {test or '**nobody**'} |", flush=True)
            if sys.stderr.isatty():
                print(f"\r{number} of {len(chosen)}, {time.monotonic() - began:.0f} s", end="\r", file=sys.stderr, flush=True)
    print(f"\n{len(chosen)} mutations in {time.monotonic() - began:.0f} s, {survivors} survived")
    return survivors > 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except MissingTestsError as missing:
        raise SystemExit(f"tests/mutation has to follow the tests:\n{missing}") from None
