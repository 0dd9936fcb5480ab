"""Break each rule in turn, in a copy of the package, and see which test notices. Exit 1 if a mutation survives."""

import ast
import os
import re
import shutil
import sys
import tempfile
import time
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from textwrap import indent

from tests.mutation.forked_runs import ForkedRuns, MissingTestsError
from tests.mutation.mutations import MUTATIONS, Mutation

ROOT = Path(__file__).parents[2]
_AT_ONCE = os.cpu_count() or 1


def killers(original: Path, chosen: Sequence[Mutation], runs: ForkedRuns, place: Path) -> Iterator[tuple[Mutation, str | None]]:
    """Each with the first test that fails, in their order; None: nothing notices."""
    ended: dict[int, str | None] = {}
    begun = told = 0
    while told < len(chosen):
        while begun < len(chosen) and runs.count < _AT_ONCE:
            runs.begin(begun, chosen[begun].tests, _broken(original, chosen[begun], place / f"{begun}"))
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
    module, _, function = mutation.function.partition(":")
    path = place / "baton" / module
    text = path.read_text()
    found = body_of(path, function)
    assert found is not None
    body = indent(mutation.body.replace("; ", "\n"), " " * found[2]) + "\n"
    path.write_text("".join([*text.splitlines(True)[: found[0]], body, *text.splitlines(True)[found[1] :]]))
    return place


def body_of(path: Path, function: str) -> tuple[int, int, int] | None:
    """The lines of a function's body, the last excluded, and its indentation. None: there is no such function."""
    if path.suffix == ".lua":
        lines = path.read_text().splitlines()
        starts = [n for n, line in enumerate(lines) if re.match(rf"(local )?function {function}\([^)]*\)$", line)]
        return (starts[0] + 1, lines.index("end", starts[0]), 2) if starts else None
    node: ast.AST | None = ast.parse(path.read_text())
    for name in function.split("."):
        node = next((one for one in ast.iter_child_nodes(node) if getattr(one, "name", None) == name), None) if node else None
    if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
        return None
    return node.body[0].lineno - 1, node.end_lineno or 0, node.body[0].col_offset


def astray(original: Path, mutations: Iterable[Mutation]) -> list[str]:
    """Mutations whose function is not there: the code has changed."""
    package = original / "operator" / "baton"
    named = {one.function for one in mutations}
    paths = {name: package / name.partition(":")[0] for name in named}
    return sorted(name for name in named if not paths[name].exists() or body_of(paths[name], name.partition(":")[2]) is None)


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
        if (failing := runs.load(sorted({test for one in chosen for test in one.tests}), _AT_ONCE)) is not None:
            raise SystemExit(f"nothing is broken, and yet: {failing}")
        print("| Rule | Function | Instead | Noticed by |\n|---|---|---|---|")
        for number, (one, test) in enumerate(killers(original, chosen, runs, place), 1):
            survivors += test is None
            print(f"| {one.rule} | `{one.function}` | `{one.body}` | {test or '**no test**'} |", flush=True)
            if sys.stderr.isatty():
                print(f"\r{number} of {len(chosen)}, {time.monotonic() - began:.0f} s", end="\r", file=sys.stderr, flush=True)
    print(f"\n{len(chosen)} mutations in {time.monotonic() - began:.0f} s, {survivors} survived")
    return survivors > 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except MissingTestsError as missing:
        raise SystemExit(f"tests/mutation has to follow the tests:\n{missing}") from None
