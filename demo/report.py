"""The end of a run: the auditor's findings, durations, and a line of JSON for programs."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from demo.audit import Finding, Verdict
from demo.timings import Timings, milliseconds


@dataclass(frozen=True, slots=True)
class Totals:
    """The totals in the ConsumerGroup's status and the queue's counters at the end."""

    rate: float
    """The average of messages produced per second."""
    moves: int
    lower_bound: int
    deadline_misses: int
    stale_refused: int
    attempts: int
    """Calls directly at the queue with the credentials of former owners."""
    driver: Mapping[str, Any]
    """The Spark driver's counts (baton.spark.Statistics); empty: unknown."""
    member: str = "consumer"
    """The word for a member."""
    missed_by_stopped: int = 0
    """The deadlines that the stopped member missed."""


def clean(verdict: Verdict, totals: Totals) -> bool:
    """Whether no promise was broken."""
    return verdict.clean and totals.moves <= totals.lower_bound


def line(verdict: Verdict, timings: Timings, totals: Totals) -> str:
    """The last line of the output; its fields are a contract."""
    pause_p50, pause_max = milliseconds(timings.pauses)
    return json.dumps(
        {
            "produced": verdict.produced,
            "processed": verdict.processed,
            "gaps": verdict.gaps.count,
            "duplicates": verdict.duplicates.count,
            "redelivered": verdict.redelivered,
            "order_violations": verdict.order_violations.count,
            "moves": totals.moves,
            "lower_bound": totals.lower_bound,
            "pause_ms_p50": pause_p50,
            "pause_ms_max": pause_max,
            "ready_to_ledger_ms_p50": milliseconds(timings.ready_to_ledger)[0],
            "ledger_to_executor_ms_p50": milliseconds(timings.ledger_to_executor)[0],
            "stale_refused": totals.stale_refused,
            "stale_accepted": verdict.stale_accepted.count,
        },
        separators=(",", ":"),
    )


def table(verdict: Verdict, timings: Timings, totals: Totals) -> RenderableType:
    """The report for people."""
    rows = Table(box=None, show_header=False, padding=(0, 2, 0, 0))
    rows.add_row("", Text("produced"), f"{verdict.produced:,} ({totals.rate:,.0f} per second)")
    rows.add_row("", Text("processed"), f"{verdict.processed:,}")
    for words, finding in (
        ("lost", verdict.gaps),
        ("done twice, unmarked", verdict.duplicates),
        ("out of order within a key", verdict.order_violations),
        ("stale reads and commits accepted", verdict.stale_accepted),
    ):
        rows.add_row(_mark(finding.count == 0), words, f"{finding.count:,}")
    rows.add_row("", "redelivered, marked", f"{verdict.redelivered:,}")
    rows.add_row("", "late results ignored", f"{verdict.late:,}")
    rows.add_row("", "stale calls refused by the queue", f"{totals.stale_refused:,} ({totals.attempts} made on purpose)")
    rows.add_row(_mark(totals.moves <= totals.lower_bound), "moves", f"{totals.moves} (minimum {totals.lower_bound})")
    by_stopped = f" (the stopped {totals.member}'s)" if 0 < totals.deadline_misses == totals.missed_by_stopped else ""
    rows.add_row("", "missed deadlines", f"{totals.deadline_misses}" + by_stopped)
    rows.add_row("", "pause of a partition that is handed off", _spread(timings.pauses))
    rows.add_row("", "wait of a partition whose owner died", _spread(timings.orphaned))
    rows.add_row("", "delay over until assigned", _spread(timings.ready_to_ledger))
    rows.add_row("", "assigned until its first message", _spread(timings.ledger_to_executor))
    if totals.driver:
        rows.add_row("", "ranges read on their owner", _share(totals.driver))
        rows.add_row("", "micro-batches, as their function takes", _spread(timings.batches))
    return Group(rows, *_examples(verdict))


def _examples(verdict: Verdict) -> list[Text]:
    findings = (verdict.gaps, verdict.duplicates, verdict.order_violations, verdict.stale_accepted)
    return [line for finding in findings for line in _told(finding)]


def _told(finding: Finding) -> list[Text]:
    lines = [Text(f"  {example}", "red") for example in finding.examples]
    if finding.count > len(finding.examples):
        lines.append(Text(f"  … and {finding.count - len(finding.examples):,} more", "red"))
    return lines


def _mark(good: bool) -> Text:
    return Text("✓", "bold green") if good else Text("✗", "bold red")


def _share(driver: Mapping[str, Any]) -> str:
    planned, read, lent = driver["ranges_planned"], driver["ranges_read_on_owner"], driver["ranges_lent"]
    return f"{driver['owner_share']:.2%} ({read:,} of {planned:,}{f'; others borrowed {lent:,}' if lent else ''})"


def _spread(durations: list[float]) -> str:
    if not durations:
        return "none"
    middle, most = milliseconds(durations)
    return f"p50 {middle:,} ms, max {most:,} ms ({len(durations)})"
