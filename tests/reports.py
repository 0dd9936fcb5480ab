"""How a failed test is reported where little of the output is kept: each part cut short, and the reasons last, a line each."""

from collections.abc import Generator, Sequence

import pytest

LINES, CHARACTERS = 60, 8000
"""Of each captured section and of each entry of a traceback."""
WIDTH = 240
"""Columns. With the 80 that stand for no terminal, pytest leaves the reason out where a test's name is long."""


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
