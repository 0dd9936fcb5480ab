"""Break each rule in turn, and see which test notices. Exit 1 if a mutation survives.

One process loads the package and the tests. Each mutation is a fork of it, in which a function has another body.
"""

import ast
import importlib
import inspect
import os
import re
import sys
import tempfile
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import redirect_stdout
from io import StringIO
from pathlib import Path
from types import CodeType, FunctionType, ModuleType

import pytest

from tests.mutation.mutations import MUTATIONS, Mutation

ROOT = Path(__file__).parents[2]
PACKAGE = ROOT / "operator" / "baton"
_AT_ONCE = os.cpu_count() or 1
_OPTIONS = ("-x", "-q", "-p", "no:cacheprovider", "-W", "ignore::pytest.PytestAssertRewriteWarning", "--timeout-method=thread")
LONGEST = 60
"""Seconds of one test. One that hangs has noticed, and ends its process: what it tests may go on whatever is raised in it."""

NOTHING_RAN = (4, 5)
"""Pytest's answers where a test that is named does not exist."""


class MissingTestsError(Exception):
    """A test that is named does not exist."""


# Another body


def found(mutation: Mutation) -> ast.FunctionDef | ast.AsyncFunctionDef | re.Match[str] | None:
    """The function in its source; None: the code has changed."""
    module, _, function = mutation.function.partition(":")
    path = PACKAGE / module
    if not path.exists():
        return None
    if path.suffix == ".lua":
        return re.search(rf"^(?:local )?function {function}\([^)\n]*\)\n((?:.*\n)*?)end$", path.read_text(), re.MULTILINE)
    node: ast.AST | None = ast.parse(path.read_text())
    for name in function.split("."):
        node = next((one for one in ast.iter_child_nodes(node) if getattr(one, "name", None) == name), None) if node else None
    return node if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) else None


def break_here(mutation: Mutation) -> None:
    """In this process the function has the mutation's body from now on."""
    name, _, function = mutation.function.partition(":")
    node = found(mutation)
    assert node is not None
    if isinstance(node, re.Match):
        return _break_script(PACKAGE / name, node, mutation.body)
    module = importlib.import_module("baton." + name.removesuffix(".py").replace("/", "."))
    _python_function(module, function).__code__ = _code(module, node, mutation.body)
    return None


def _python_function(module: ModuleType, function: str) -> FunctionType:
    target: object = module
    for name in function.split("."):
        target = inspect.getattr_static(target, name)
    if isinstance(target, property):
        target = target.fget
    target = inspect.unwrap(getattr(target, "__func__", target))  # type: ignore[arg-type]  # a function, plain or decorated
    assert isinstance(target, FunctionType)
    return target


def _code(module: ModuleType, node: ast.FunctionDef | ast.AsyncFunctionDef, body: str) -> CodeType:
    node.decorator_list, node.body = [], ast.parse(body.replace("; ", "\n")).body
    scope = dict(vars(module))
    exec(compile(ast.Module([node], []), "<mutation>", "exec"), scope)
    made: FunctionType = scope[node.name]
    return made.__code__


def _break_script(path: Path, found: re.Match[str], body: str) -> None:
    """Everything of ours is loaded again, with this text in the place of the file's."""
    text = found.string[: found.start(1)] + f"  {body}\n" + found.string[found.end(1) :]
    read = Path.read_text
    Path.read_text = lambda self, *of, **how: text if self == path else read(self, *of, **how)  # type: ignore[method-assign]
    for name in [name for name in sys.modules if name.partition(".")[0] in ("baton", "tests", "conftest")]:
        del sys.modules[name]


# Runs of tests in forks


class Runs:
    """`begin` forks; `next_end` waits for one of those that have begun."""

    def __init__(self, outputs: Path) -> None:
        self._outputs = outputs
        self._running: dict[int, int] = {}

    @property
    def count(self) -> int:
        return len(self._running)

    def begin(self, key: int, mutation: Mutation | None, tests: Sequence[str]) -> None:
        sys.stdout.flush()
        pid = os.fork()
        if pid == 0:
            code = 1
            try:
                output = os.open(self._outputs / f"{key}", os.O_WRONLY | os.O_CREAT)
                os.dup2(output, 1)
                os.dup2(output, 2)
                if mutation is not None:
                    break_here(mutation)
                code = pytest.main([*_OPTIONS, f"--timeout={LONGEST}", *(f"tests/{test}" for test in tests)])
                sys.stdout.flush()
            finally:
                os._exit(int(code))
        self._running[pid] = key

    def next_end(self) -> tuple[int, str | None]:
        """The key of a run, and the first test of it that failed; None: all passed. Raises MissingTestsError."""
        pid, status = os.wait()
        key = self._running.pop(pid)
        return key, verdict(os.waitstatus_to_exitcode(status), (self._outputs / f"{key}").read_text(errors="replace"))


def verdict(code: int, said: str) -> str | None:
    """The first test that failed, by what pytest answered and said; None: all passed. Raises MissingTestsError."""
    if code in NOTHING_RAN:
        raise MissingTestsError(said[-800:])
    if not code:
        return None
    failed = [line.split(" - ")[0] for line in said.splitlines() if line.startswith(("FAILED tests/", "ERROR tests/"))]
    if failed:
        return failed[0].split("::", 1)[-1]
    return "a test that hung" if "Timeout" in said else said[-400:]


def killers(chosen: Sequence[Mutation], runs: Runs) -> Iterator[tuple[Mutation, str | None]]:
    """Each with the first test that fails, in their order; None: no test notices."""
    ended: dict[int, str | None] = {}
    begun = told = 0
    while told < len(chosen):
        while begun < len(chosen) and runs.count < _AT_ONCE:
            runs.begin(begun, chosen[begun], chosen[begun].tests)
            begun += 1
        number, test = runs.next_end()
        ended[number] = test
        while told in ended:
            yield chosen[told], ended.pop(told)
            told += 1


def astray(mutations: Iterable[Mutation]) -> list[str]:
    """Mutations whose function is not there."""
    return sorted({one.function for one in mutations if found(one) is None})


def main() -> int:
    chosen = [one for one in MUTATIONS if not sys.argv[1:] or any(word in f"{one.rule}: {one.name}" for word in sys.argv[1:])]
    if not chosen:
        raise SystemExit("No mutation has this in its rule or name; `make mutate` takes them all.")
    if lost := astray(chosen):
        raise SystemExit(f"tests/mutation has to follow the code: {', '.join(lost)}")
    began, survivors = time.monotonic(), 0
    tests = list(dict.fromkeys(test for one in chosen for test in one.tests))
    with redirect_stdout(StringIO()):  # loads them
        pytest.main(["--collect-only", "-qq", "-p", "no:cacheprovider", *(f"tests/{test}" for test in tests)])
    with tempfile.TemporaryDirectory() as folder:
        runs = Runs(Path(folder))
        runs.begin(-1, None, tests)
        if (failing := runs.next_end()[1]) is not None:
            raise SystemExit(f"nothing is broken, and yet: {failing}")
        print("| Rule | Function | Instead | Noticed by |\n|---|---|---|---|")
        for one, test in killers(chosen, runs):
            survivors += test is None
            print(f"| {one.rule} | `{one.function}` | `{one.body}` | {test or '**no test**'} |", flush=True)
    print(f"\n{len(chosen)} mutations in {time.monotonic() - began:.0f} s, {survivors} survived")
    return survivors > 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except MissingTestsError as missing:
        raise SystemExit(f"tests/mutation has to follow the tests:\n{missing}") from None
