"""Report a failed test at once in one line, for a run that is cut off at its time limit, and keep its output short."""

from collections.abc import Generator, Sequence

import pytest
from _pytest.terminal import TerminalReporter

from tests.promises import BrokenPromiseError

LINES, CHARACTERS = 60, 8000
"""Bounds of each captured section and of each entry of a traceback."""
WIDTH = 240
"""Columns. With the 80 of a run without a terminal, pytest leaves the reason out where a test's name is long."""
PROMISES = "baton/promises"
"""Where pytest's cache has the tests that saw a promise broken."""


class AtOnce:
    """Write a line for each failure, and remember broken promises."""

    def __init__(self, config: pytest.Config, reporter: TerminalReporter) -> None:
        self._config, self._reporter = config, reporter
        self._broken: list[str] = []

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.failed:
            if self._config.get_terminal_writer().width_of_current_line:  # xdist's dots
                self._reporter.write_line("")
            self._reporter.write_line(at_once(report))
            if getattr(report, "promise", False):
                self._broken.append(report.nodeid)

    def pytest_sessionfinish(self) -> None:
        if self._broken and self._config.cache is not None:
            self._config.cache.set(PROMISES, self._broken)


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
        kinds = (AssertionError,) if item.get_closest_marker("promise") else (BrokenPromiseError,)
        report.promise = call.excinfo is not None and _is_one(call.excinfo.value, kinds)  # type: ignore[attr-defined]
        report.sections = [(name, end_of(text)) for name, text in report.sections]
        for traceback, *_ in getattr(report.longrepr, "chain", ()):
            for entry in traceback.reprentries:
                entry.lines = without_middle(entry.lines)
    return report


def _is_one(error: BaseException, kinds: tuple[type[BaseException], ...]) -> bool:
    """Alone, or in the group of a TaskGroup."""
    return isinstance(error, kinds) or (
        isinstance(error, BaseExceptionGroup) and any(_is_one(inner, kinds) for inner in error.exceptions)
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
