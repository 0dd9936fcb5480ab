"""How a failed test is reported where little of the output is kept: a line at once, each part cut short, and the reasons last,
a line each."""

from collections.abc import Generator, Sequence

import pytest
from _pytest.terminal import TerminalReporter

LINES, CHARACTERS = 60, 8000
"""Of each captured section and of each entry of a traceback."""
WIDTH = 240
"""Columns. With the 80 that stand for no terminal, pytest leaves the reason out where a test's name is long."""


class AtOnce:
    """Says in a line what failed and why, when it fails: a run that is cut off at its time limit never gets to its end."""

    def __init__(self, reporter: TerminalReporter) -> None:
        self._reporter = reporter

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.failed:
            self._reporter.ensure_newline()
            self._reporter.write_line(at_once(report))


def at_once(report: pytest.TestReport) -> str:
    """The test, how long it ran, and the first line of the reason."""
    crash = getattr(report.longrepr, "reprcrash", None)
    reason = (str(crash.message) if crash is not None else report.longreprtext).strip().partition("\n")[0]
    return f"failed: {report.nodeid} ({report.when}, {report.duration:.0f} s): {reason}"[: 2 * WIDTH]


@pytest.hookimpl(trylast=True)
def pytest_configure(config: pytest.Config) -> None:
    """A process of xdist has no terminal: what it reports is told by the one that started it."""
    reporter = config.pluginmanager.get_plugin("terminalreporter")
    if reporter is not None and not hasattr(config, "workerinput"):
        config.pluginmanager.register(AtOnce(reporter))


def pytest_terminal_summary(config: pytest.Config) -> None:
    """Right before the names of what failed."""
    writer = config.get_terminal_writer()
    writer.fullwidth = max(WIDTH, writer.fullwidth)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport() -> Generator[None, pytest.TestReport, pytest.TestReport]:
    report = yield
    if report.failed:
        report.sections = [(name, end_of(text)) for name, text in report.sections]
        for traceback, *_ in getattr(report.longrepr, "chain", ()):
            for entry in traceback.reprentries:
                entry.lines = without_middle(entry.lines)
    return report


def end_of(text: str) -> str:
    """The last lines."""
    lines = text.splitlines(keepends=True)
    kept = "".join(lines[-LINES:])[-CHARACTERS:]
    left_out = len(lines) - kept.count("\n")
    return kept if kept == text else f"… {left_out} lines before are left out\n{kept}"


def without_middle(lines: Sequence[str]) -> list[str]:
    """First and last lines, none of them long: what an assertion says begins with the reason, and may end with a whole log."""
    half = LINES // 2
    width = CHARACTERS // LINES * 4
    kept = [line if len(line) <= width else f"{line[:width]}…" for line in lines]
    if len(kept) > LINES:
        kept[half:-half] = [f"E   … {len(kept) - LINES} lines are left out"]
    return kept
