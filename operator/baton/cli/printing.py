"""All that the commands print. Names and messages come from outside: no character of theirs moves a cursor, colours or hides
anything, or begins a line.

`say` is for lines, `console` for what rich draws; JSON for programs is escaped already.
"""

import asyncio
import json
import signal
import sys
import threading
from collections.abc import Awaitable, Callable, Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, NoReturn

import click

from baton.kube.errors import UnavailableError
from baton.model.extras import cure

if TYPE_CHECKING:
    from rich.console import Console, RenderableType
    from rich.table import Table

PIPED = 10_000
"""Columns of an output that is no terminal."""
PATIENCE = 1.0
"""Seconds until a command prints what it is waiting for."""


def printable(text: str) -> str:
    """On one line, with a � for each character that is none to be seen: control characters, and those that turn the direction."""
    if text.isprintable():
        return text
    return "".join(char if char.isprintable() else " " if char.isspace() else "�" for char in text)


def say(text: str = "", *, error: bool = False) -> None:
    """One line for people; `error`: on standard error."""
    click.echo(printable(text), err=error)


def refuse(text: str, status: int = 1) -> NoReturn:
    """Ends the command with a line on standard error that begins with its name."""
    context: click.Context | None = click.get_current_context()
    names: list[str] = []
    while context is not None and context.parent is not None:
        names.insert(0, context.info_name or "")
        context = context.parent
    say(f"{' '.join(['baton', *filter(None, names)])}: {text}", error=True)
    sys.exit(status)


@contextmanager
def waiting_for(what: str, still: Callable[[], bool] = lambda: True) -> Iterator[None]:
    """Name what is waited for on standard error when the block takes longer than a second, if `still` is true by then."""

    def notify() -> None:
        if still():
            say(f"Waiting for {what} …", error=True)

    notice = threading.Timer(PATIENCE, notify)
    notice.daemon = True
    notice.start()
    try:
        yield
    finally:
        notice.cancel()


def agree(question: str) -> None:
    """Ends the command unless the answer is yes."""
    # asyncio takes the first Ctrl-C for itself, and would go on waiting for the answer.
    main = threading.current_thread() is threading.main_thread()
    before = signal.signal(signal.SIGINT, signal.default_int_handler) if main else None
    try:
        agreed = click.confirm(question)
    except click.Abort:  # by Ctrl-C, or because nothing can answer
        say()
        agreed = False
    finally:
        if main:
            signal.signal(signal.SIGINT, before)
    if not agreed:
        refuse("nothing is changed; --yes does not ask")


def need_redis() -> None:
    """Ends the command where the library for it is not installed."""
    if find_spec("redis") is None:
        refuse(f"it needs redis-py: {cure('redis')}")


def need_kafka() -> None:
    """Likewise, for the libraries of Kafka."""
    if find_spec("aiokafka") is None or find_spec("confluent_kafka") is None:
        refuse(f"it needs aiokafka and confluent-kafka: {cure('kafka')}")


def say_json(value: Any, **options: Any) -> None:
    """One line for programs; `options` of json.dumps."""
    click.echo(json.dumps(value, **options))


def say_text(text: str) -> None:
    """Lines for programs, whose control characters are escaped already."""
    click.echo(text)


def console(**options: Any) -> "Console":
    """A console on standard output, on which nothing is drawn that is not printable. It is as wide as the terminal; what is piped
    is never cut."""
    from rich.console import Console, ConsoleOptions, RenderableType
    from rich.segment import Segment

    class Screen(Console):
        def render(self, renderable: RenderableType, options: ConsoleOptions | None = None) -> Iterable[Segment]:
            """Without blanks at the ends of a table's lines. A live screen keeps them: they cover the frame before."""
            line: list[Segment] = []
            for segment in super().render(renderable, options):
                shown = segment if segment.control else Segment(_lines(segment.text), segment.style)
                if self.is_alt_screen:
                    yield shown
                elif shown.text == "\n":
                    while line and not line[-1].text.strip():
                        line.pop()
                    yield from line[:-1]
                    yield from (Segment(last.text.rstrip(), last.style) for last in line[-1:])
                    yield shown
                    line.clear()
                else:
                    line.append(shown)
            yield from line

    return Screen(highlight=False, **{"width": None if sys.stdout.isatty() else PIPED, **options})


async def keep_drawing(draw: Callable[[], Awaitable[Iterable["RenderableType"]]], every: float) -> NoReturn:
    """Draw a live screen again after `every` seconds; the last one stays while the API server does not answer."""
    from rich.console import Group
    from rich.live import Live
    from rich.text import Text

    seen = Group(*await draw())
    with Live(seen, console=console(), screen=True, auto_refresh=False) as live:
        while True:
            await asyncio.sleep(every)
            try:
                shown = seen = Group(*await draw())
            except UnavailableError as error:
                shown = Group(Text(printable(f"As last seen: {error}"), "red"), seen)
            live.update(shown, refresh=True)


def table(head: Sequence[str], rows: Iterable[Sequence[object]], right: Collection[str] = ()) -> "Table":
    """Columns of texts, never of markup; `right`: those of numbers. None is an empty cell."""
    from rich.table import Table
    from rich.text import Text

    made = Table(box=None, pad_edge=False)
    for name in head:
        made.add_column(name, justify="right" if name in right else "left", no_wrap=True)
    for row in rows:
        made.add_row(*(Text("" if cell is None else printable(str(cell))) for cell in row))
    return made


def _lines(text: str) -> str:
    """rich ends lines in the texts of segments."""
    return text if text.isprintable() else "\n".join(map(printable, text.split("\n")))
