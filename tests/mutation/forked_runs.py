"""Runs of tests in processes that are forked from one which has loaded everything that is not ours: to load it takes seconds, and
there are hundreds of runs.

Only one thread may be there, so `ForkedRuns` is for a main program.
"""

import importlib
import os
import random
import sys
import tempfile
import threading
from collections.abc import Iterable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

import pytest

LONGEST = 60
"""Seconds of one test.

One that hangs has noticed, and ends its process: what it tests may go on whatever is raised in it.
"""

NOTHING_RAN = (4, 5)
"""Pytest's answers where a test that is named does not exist."""

_OURS = ("baton", "cluster", "demo", "tests", "conftest")


class MissingTestsError(Exception):
    """A test that is named does not exist."""


class _Run(NamedTuple):
    key: int
    output: Path


class ForkedRuns:
    """Over one copy of the repository. `begin` forks, `next_end` waits for one of those that have begun."""

    def __init__(self, original: Path, outputs: Path) -> None:
        self._original, self._outputs = original, outputs
        self._running: dict[int, _Run] = {}

    @property
    def count(self) -> int:
        """How many run."""
        return len(self._running)

    def load(self, tests: Sequence[str], at_once: int) -> str | None:
        """Run these, and load what they load that is not ours. The first that fails; None: none does."""
        shares = [share for share in (tests[nth::at_once] for nth in range(at_once)) if share]
        lists = [self._outputs / f"modules-{nth}" for nth in range(len(shares))]
        for nth, share in enumerate(shares):
            self.begin(nth, share, loaded=lists[nth])
        failed = [failing for failing in [self.next_end()[1] for _ in shares] if failing is not None]
        for name in dict.fromkeys(name for one in lists if one.exists() for name in one.read_text().split()):
            with suppress(Exception):  # what cannot be loaded by itself a run loads again
                importlib.import_module(name)
        assert threading.active_count() == 1, f"these are not forked: {threading.enumerate()}"
        return failed[0] if failed else None

    def begin(self, key: int, tests: Iterable[str], *places: Path, loaded: Path | None = None) -> None:
        """Run tests, below tests/, with packages from these places before all others."""
        descriptor, output = tempfile.mkstemp(dir=self._outputs)
        os.close(descriptor)
        sys.stdout.flush()
        sys.stderr.flush()
        pid = os.fork()
        if pid == 0:
            _in_child(self._original, places, [f"tests/{name}" for name in tests], Path(output), loaded)
        self._running[pid] = _Run(key, Path(output))

    def next_end(self) -> tuple[int, str | None]:
        """The key of a run, and the first test of it that failed; None: all passed. Raises MissingTestsError."""
        while True:
            pid, status = os.wait()
            if (run := self._running.pop(pid, None)) is not None:
                return run.key, verdict(os.waitstatus_to_exitcode(status), run.output.read_text(errors="replace"))


def _in_child(original: Path, places: Sequence[Path], tests: list[str], output: Path, loaded: Path | None) -> None:
    code = 1
    try:
        descriptor = os.open(output, os.O_WRONLY)
        os.dup2(descriptor, 1)
        os.dup2(descriptor, 2)
        paths = [str(path) for path in (*places, original / "operator", original)]
        os.chdir(original)
        os.environ |= {"PYTHONPATH": os.pathsep.join(paths), "PYTHONDONTWRITEBYTECODE": "1"}
        sys.dont_write_bytecode = True
        sys.path[:] = [*paths, *(path for path in sys.path if path)]
        for name in [name for name in sys.modules if name.partition(".")[0] in _OURS]:
            del sys.modules[name]
        random.seed()
        options = ["-x", "-q", "-p", "no:cacheprovider", "-W", "ignore::pytest.PytestAssertRewriteWarning"]
        code = pytest.main([*options, f"--timeout={LONGEST}", "--timeout-method=thread", *tests])
        if loaded is not None:
            loaded.write_text("\n".join(_others()))
        sys.stdout.flush()
    finally:
        os._exit(int(code))


def _others() -> list[str]:
    """Modules that are loaded and are not ours, in their order."""
    return [
        name
        for name, module in list(sys.modules.items())
        if name.partition(".")[0] not in (*_OURS, "__main__", "__mp_main__") and getattr(module, "__spec__", None) is not None
    ]


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
