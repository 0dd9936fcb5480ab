"""Report a failed test at once in one line, for a run that is cut off at its time limit, and keep its output short."""

import time
from collections.abc import Generator, Sequence
from contextlib import suppress
from typing import Any

import pytest
from _pytest.terminal import TerminalReporter

from cluster.waiting import PATIENCE
from tests.promises import ASSERTIONS, BrokenPromiseError

LINES, CHARACTERS = 60, 8000
"""Bounds of each captured section and of each entry of a traceback."""
ACCEPTED = ("DID NOT RAISE StaleOwner", "DID NOT RAISE PartitionPaused")
"""What `pytest.raises` says of a stale call that was accepted."""
WIDTH = 240
"""Columns. With the 80 of a run without a terminal, pytest leaves the reason out where a test's name is long."""
OUTCOMES = "baton/outcomes"
"""Where pytest's cache has the tests that failed, those that passed, and the reasons for which none runs once more."""


class AtOnce:
    """Write a line for each failure, and keep what a second run is judged by."""

    def __init__(self, config: pytest.Config, reporter: TerminalReporter) -> None:
        self._config, self._reporter = config, reporter
        self._failed: dict[str, None] = {}
        self._passed: list[str] = []
        self._never: list[str] = []
        self._channels: list[Any] = []
        """To xdist's workers."""

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.when == "call" and report.passed:
            self._passed.append(report.nodeid)
        if report.failed:
            self._failed[report.nodeid] = None
            if self._config.get_terminal_writer().width_of_current_line:  # xdist's dots
                self._reporter.write_line("")
            self._reporter.write_line(at_once(report))
            if getattr(report, "promise", False):
                self._never.append(f"{report.nodeid} saw a broken promise")

    @pytest.hookimpl(optionalhook=True)
    def pytest_testnodeready(self, node: Any) -> None:
        self._channels.append(node.channel)

    def pytest_keyboard_interrupt(self, excinfo: pytest.ExceptionInfo[BaseException]) -> None:
        """Ctrl-C has interrupted the workers, too. Wait until their fixtures have stopped servers and removed mounts: xdist would
        interrupt that after 5 s, and kill the workers after 10."""
        deadline = time.monotonic() + PATIENCE
        for channel in self._channels if excinfo.type is KeyboardInterrupt else ():
            with suppress(EOFError, channel.RemoteError, channel.TimeoutError):
                channel.waitclose(deadline - time.monotonic())

    @pytest.hookimpl(optionalhook=True)
    def pytest_testnodedown(self, error: object | None) -> None:
        if error:
            self._never.append(f"a worker of xdist has ended: {error}")

    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        if cut := session.shouldfail or session.shouldstop:
            self._never.append(f"the run was cut short: {cut}")
        if (cache := getattr(self._config, "cache", None)) is not None:
            outcomes = {"failed": list(self._failed), "passed": self._passed, "never again": self._never}
            cache.set(OUTCOMES, outcomes)


def at_once(report: pytest.TestReport) -> str:
    """The test, how long it ran, and the first line of the reason."""
    crash = getattr(report.longrepr, "reprcrash", None)
    reason = (str(crash.message) if crash is not None else report.longreprtext).strip().partition("\n")[0]
    return f"failed: {report.nodeid} ({report.when}, {report.duration:.0f} s): {reason}"[: 2 * WIDTH]


@pytest.hookimpl(trylast=True)
def pytest_configure(config: pytest.Config) -> None:
    """Only the process with the terminal writes: xdist's workers send it their reports."""
    reporter = config.pluginmanager.get_plugin("terminalreporter")
    if reporter is not None and not hasattr(config, "workerinput"):
        config.pluginmanager.register(AtOnce(config, reporter))


def pytest_terminal_summary(config: pytest.Config) -> None:
    writer = config.get_terminal_writer()
    writer.fullwidth = max(WIDTH, writer.fullwidth)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    report = yield
    if report.failed:
        kinds = ASSERTIONS if item.get_closest_marker("promise") else (BrokenPromiseError,)
        report.promise = call.excinfo is not None and _is_one(call.excinfo.value, kinds)  # type: ignore[attr-defined]
        report.sections = [(name, end_of(text)) for name, text in report.sections]
        for traceback, *_ in getattr(report.longrepr, "chain", ()):
            for entry in traceback.reprentries:
                entry.lines = without_middle(entry.lines)
    return report


def _is_one(error: BaseException | None, kinds: tuple[type[BaseException], ...]) -> bool:
    """The error, one in the group of a TaskGroup, or one that it hides: the end of a block may fail as well."""
    inner = error.exceptions if isinstance(error, BaseExceptionGroup) else ()
    return error is not None and (
        isinstance(error, kinds)
        or str(error).startswith(ACCEPTED)
        or any(_is_one(one, kinds) for one in (*inner, error.__cause__, error.__context__))
    )


def end_of(text: str) -> str:
    """The last lines."""
    lines = text.splitlines(keepends=True)
    kept = "".join(lines[-LINES:])[-CHARACTERS:]
    left_out = len(lines) - kept.count("\n")
    return kept if kept == text else f"… {left_out} lines before are left out\n{kept}"


def without_middle(lines: Sequence[str]) -> list[str]:
    """First and last lines, none of them long: an assertion's message begins with the reason, and may end with a whole log."""
    half = LINES // 2
    width = CHARACTERS // LINES * 4
    kept = [line if len(line) <= width else f"{line[:width]}…" for line in lines]
    if len(kept) > LINES:
        kept[half:-half] = [f"E   … {len(kept) - LINES} lines are left out"]
    return kept
