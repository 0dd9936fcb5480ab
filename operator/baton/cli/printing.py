"""Output of the commands. Names and messages come from outside: their characters cannot move the cursor, colour or hide text, or
begin a line.

`say` prints lines, `console` what rich draws; JSON for programs is escaped already.
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
"""Columns of an output that is not a terminal."""
PATIENCE = 1.0
"""Seconds until a command prints what it is waiting for."""


def printable(text: str) -> str:
    """The text on one line, with a � for each invisible character: control characters, and those that change the direction."""
    if text.isprintable():
        return text
    return "".join(char if char.isprintable() else " " if char.isspace() else "�" for char in text)


def say(text: str = "", *, error: bool = False) -> None:
    """Print one line for people; `error`: on standard error."""
    click.echo(printable(text), err=error)


def refuse(text: str, status: int = 1) -> NoReturn:
    """End the command with a line on standard error that begins with the command's name."""
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
    """Ask, and end the command unless the answer is yes."""
    # asyncio handles the first Ctrl-C itself, and would go on waiting for the answer.
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
        refuse("nothing was changed; --yes skips this question")


def need_redis() -> None:
    """End the command if the library for Redis is not installed."""
    if find_spec("redis") is None:
        refuse(f"this needs redis-py: {cure('redis')}")


def need_kafka() -> None:
    """End the command if the libraries for Kafka are not installed."""
    if find_spec("aiokafka") is None or find_spec("confluent_kafka") is None:
        refuse(f"this needs aiokafka and confluent-kafka: {cure('kafka')}")


def say_json(value: Any, **options: Any) -> None:
    """Print one line for programs; `options` of json.dumps."""
    click.echo(json.dumps(value, **options))


def console(**options: Any) -> "Console":
    """A console on standard output that draws printable characters only. It is as wide as the terminal; piped output is never
    cut."""
    from rich.console import Console, ConsoleOptions, RenderableType
    from rich.segment import Segment

    class Screen(Console):
        def render(self, renderable: RenderableType, options: ConsoleOptions | None = None) -> Iterable[Segment]:
            """Strip blanks at the ends of lines, except on a live screen, where they cover the previous frame."""
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
    """Redraw a live screen every `every` seconds. While the API server does not answer, the last screen stays."""
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
    """A table of plain texts, without markup. `right`: names of columns to align right. None is an empty cell."""
    from rich.table import Table
    from rich.text import Text

    made = Table(box=None, pad_edge=False)
    for name in head:
        made.add_column(name, justify="right" if name in right else "left", no_wrap=True)
    for row in rows:
        made.add_row(*(Text("" if cell is None else printable(str(cell))) for cell in row))
    return made


def _lines(text: str) -> str:
    """Make a segment's text printable. rich ends lines within the texts of segments."""
    return text if text.isprintable() else "\n".join(map(printable, text.split("\n")))
