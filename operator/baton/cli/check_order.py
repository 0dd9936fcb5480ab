"""`baton check-order`: whether all messages were processed, once and in order."""

import sys
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO

import click

from baton.cli.options import Form, Parsed, bounded, output_option, say_object
from baton.cli.printing import console, refuse, say, table
from baton.model.wording import counted
from baton.order import OrderChecker, OrderViolation, Processing, RecordError, Report, in_order_of_time, processings, produced

if TYPE_CHECKING:
    from rich.table import Table

SEEN = "seen"
STANDARD_INPUT = "-"


def _first(value: str) -> str | int:
    if value == SEEN:
        return value
    if not (value.isascii() and value.isdigit() and len(value) < 19):
        raise ValueError(f"not a number from 0, and not {SEEN}")
    return int(value)


@click.command("check-order")
@click.argument("files", metavar="[FILE...]", nargs=-1, type=click.Path(path_type=Path))
@click.option(
    "--produced",
    "sent",
    type=click.Path(path_type=Path),
    help="Records of what was sent. With them the end of each key is checked, too.",
)
@click.option(
    "--first",
    type=Parsed("number", _first),
    default=1,
    show_default=True,
    help=f"The first sequence number of each key; {SEEN}: the first one recorded.",
)
@click.option(
    "--examples", type=bounded(0, 1000), default=5, show_default=True, help="Show at most this many cases of each kind."
)
@output_option()
def check_order(files: tuple[Path, ...], sent: Path | None, first: str | int, examples: int, form: Form) -> None:
    """Check records of processed messages: for each key what was lost, out of order or done twice, by which member and when.

    Reads lines of JSON from each FILE, or from standard input: {"key": "a", "sequence": 1}, with partition, member, epoch,
    time and redelivered if known. Records of several files are ordered by time.

    Exits with 1 if something was lost, out of order, or done twice without the mark redelivered.
    """
    files = files or (Path(STANDARD_INPUT),)
    if [str(file) for file in (*files, sent)].count(STANDARD_INPUT) > 1:
        raise click.UsageError("standard input can be used only once")
    with ExitStack() as stack:
        try:
            known = produced(*_opened(stack, sent)) if sent is not None else None
            checker = OrderChecker(first=first if isinstance(first, int) else None, produced=known, examples=examples)
            for one in _records(stack, files):
                checker.add(one)
            report = checker.report()
        except RecordError as error:
            refuse(str(error), 2)
        except OSError as error:
            refuse(f"{error.filename or 'the input'} cannot be read: {error.strerror}", 2)
    if not report.records and not known:
        refuse("the input has no records: nothing was checked", 2)
    if form.for_programs:
        say_object(report.to_json(), form)
    else:
        _tell(report, counted_to_the_end=known is not None)
    if not report.clean:
        sys.exit(1)


def _records(stack: ExitStack, files: tuple[Path, ...]) -> Iterator[Processing]:
    opened = [_opened(stack, file) for file in files]
    return processings(*opened[0]) if len(opened) == 1 else in_order_of_time(opened)


def _opened(stack: ExitStack, file: Path) -> tuple[BinaryIO, str]:
    if str(file) == STANDARD_INPUT:
        return sys.stdin.buffer, "standard input"
    return stack.enter_context(file.open("rb")), file.name


def _tell(report: Report, *, counted_to_the_end: bool) -> None:
    checked = f"{counted(report.records, 'record')} of {counted(report.keys, 'key')}"
    late = f", {counted(report.late, 'result')} too late" if report.late else ""
    say(f"{checked}: {counted(report.processed, 'message')} processed{late}")
    for fault, words in _WORDS.items():
        say(f"{words:<28}{report.tallies[fault].count:>12,}")
    if not counted_to_the_end:
        say("Losses at the end of a key are not found without --produced.")
    if report.worst:
        say()
        console().print(_worst(report))
        if report.keys_at_fault > len(report.worst):
            say(f"and {counted(report.keys_at_fault - len(report.worst), 'more key')}")
    for fault in _WORDS:
        tally = report.tallies[fault]
        for finding in tally.findings:
            say(f"{fault.value}: {finding.text}")
        if tally.findings and fault is not OrderViolation.GAP and tally.count > len(tally.findings):
            say(f"{fault.value}: and {tally.count - len(tally.findings):,} more")


_WORDS = {
    OrderViolation.GAP: "lost",
    OrderViolation.OUT_OF_ORDER: "out of order",
    OrderViolation.DUPLICATE: "done twice, unmarked",
    OrderViolation.REDELIVERED: "redelivered, marked",
}


def _worst(report: Report) -> "Table":
    head = ("KEY", "PROCESSED", "LOST", "OUT OF ORDER", "TWICE", "REDELIVERED")
    numbers = ((one.processed, one.gaps, one.out_of_order, one.duplicates, one.redelivered) for one in report.worst)
    rows = ([one.key, *(f"{number:,}" for number in of)] for one, of in zip(report.worst, numbers, strict=True))
    return table(head, rows, right=head[1:])
