"""The live view: members, their partitions as a coloured strip, rates and the story. Pure except `Screen`."""

import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import Self

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.panel import Panel
from rich.table import Table
from rich.text import Text

from demo.picture import Member, Picture
from demo.story import Line, Story, Voice, clock_text

COLOURS = ("bright_cyan", "bright_magenta", "bright_green", "bright_yellow", "bright_blue", "bright_red", "bright_white", "cyan")
"""Colours that differ even on terminals with sixteen colours."""
_VOICES = {
    Voice.STEP: "bold bright_white",
    Voice.DEED: "bold yellow",
    Voice.CLUSTER: "dim",
    Voice.GOOD: "green",
    Voice.BAD: "bold red",
}
_STATES = {"Ready": "green", "Holddown": "yellow", "Rebalancing": "cyan", "Paused": "magenta"}
_PHASES = {"ready": "green", "starting": "dim", "leaving": "yellow", "failed": "red", "gone": "red"}


@dataclass(frozen=True, slots=True)
class Flow:
    """Messages produced and processed so far, and their present rates."""

    produced: int = 0
    processed: int = 0
    produced_rate: float = 0.0
    processed_rate: float = 0.0
    lag: int = 0
    """Messages not committed yet."""
    stale_refused: int = 0
    history: tuple[float, ...] = ()
    """Messages processed per second, the oldest value first."""


class Colours:
    """Assigns each pod a colour for the whole run, in the order of appearance."""

    def __init__(self) -> None:
        self._given: dict[str, str] = {}

    def of(self, name: str) -> str:
        return self._given.setdefault(name, COLOURS[len(self._given) % len(COLOURS)])


def render(title: str, picture: Picture, flow: Flow, story: Story, colours: Colours, stopped: frozenset[str], rows: int) -> Panel:
    """The whole screen."""
    body: list[RenderableType] = []
    if picture.members or picture.state:
        body += [_state(picture), Text(), _members(picture, colours, stopped), Text(), _flow(picture, flow), Text()]
    body.append(_told(story.lines, rows))
    if story.waiting:
        body.append(Text(f"… {story.waiting}", style="italic bright_black"))
    heading = Text.assemble((" Baton ", "bold reverse"), "  ", (title, "bold"), "  ", (clock_text(story.elapsed), "dim"), " ")
    return Panel(Group(*body), title=heading, title_align="left", border_style="bright_black", padding=(0, 1))


def _state(picture: Picture) -> Text:
    text = Text.assemble(
        ("● ", _STATES.get(picture.state, "dim")),
        (picture.state or "no state yet", f"bold {_STATES.get(picture.state, 'dim')}"),
    )
    if picture.state == "Holddown" and picture.hold_until:
        text.append(f" until {picture.hold_until[11:19]}", "yellow")
    text.append(f"   generation {picture.generation}   partitions {picture.partitions}   desired size {picture.replicas}")
    if picture.moving:
        text.append(f"   moving {picture.moving}", "cyan")
    if picture.trouble:
        text.append(f"   {picture.trouble}", "red")
    return text


def _members(picture: Picture, colours: Colours, stopped: frozenset[str]) -> Table:
    table = Table(box=None, padding=(0, 2, 0, 0), show_header=False)
    for member in picture.members:
        if member.phase == "gone" and not member.owned and not member.revoking:
            continue
        phase = "stopped" if member.name in stopped and member.phase != "gone" else member.phase
        words = phase if member.registered or phase != "ready" else "registering"
        table.add_row(
            Text(member.name, colours.of(member.name)),
            Text(words, _PHASES.get(phase, "red")),
            strip(member, picture.partitions, colours.of(member.name)),
            Text(f"{len(member.owned)}" + (f" -{len(member.revoking)}" if member.revoking else ""), "dim"),
        )
    return table


def strip(member: Member, partitions: int, colour: str) -> Text:
    """One cell per partition: owned in the member's colour, on its way out in yellow, otherwise a dot."""
    text = Text()
    for number in range(partitions):
        if number in member.owned:
            text.append(f"{number:>2} ", f"black on {colour}")
        elif number in member.revoking:
            text.append(f"{number:>2}›", "black on yellow")
        else:
            text.append(" · ", "bright_black")
    return text


def _flow(picture: Picture, flow: Flow) -> Text:
    return Text.assemble(
        ("produced ", "dim"),
        f"{flow.produced:,}",
        (f" ({flow.produced_rate:,.0f}/s)", "dim"),
        ("   processed ", "dim"),
        f"{flow.processed:,}",
        (f" ({flow.processed_rate:,.0f}/s) ", "dim"),
        (spark(flow.history[-24:]), "green"),
        ("   lag ", "dim"),
        f"{flow.lag:,}",
        ("   moves ", "dim"),
        f"{picture.moves}",
        (f" (least {picture.lower_bound})", "dim"),
        ("   refused ", "dim"),
        f"{flow.stale_refused}",
    )


def spark(values: tuple[float, ...]) -> str:
    """The values as bars relative to the largest: `▁▂▇`"""
    top = max(values, default=0.0)
    return "".join("▁▂▃▄▅▆▇█"[min(7, int(value / top * 8))] if top > 0 else "▁" for value in values)


def _told(lines: tuple[Line, ...], rows: int) -> Text:
    text = Text(no_wrap=True, overflow="ellipsis")
    for line in lines[-rows:]:
        text.append(f"{clock_text(line.at):>6} ", "bright_black")
        text.append(f"{'' if line.voice in (Voice.STEP, Voice.DEED) else '  '}{line.text}\n", _VOICES[line.voice])
    text.rstrip()
    return text


class Screen:
    """Draws `render` a few times a second while open; on outputs that are not a terminal it prints what the run waits for."""

    def __init__(self, console: Console, drawn: Callable[[int], RenderableType], story: Story) -> None:
        self._console, self._drawn, self._story = console, drawn, story
        self._closed = threading.Event()
        self._thread = threading.Thread(target=self._draw if console.is_terminal else self._remind, name="screen", daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._closed.set()
        self._thread.join()

    def _draw(self) -> None:
        with Live(console=self._console, auto_refresh=False, transient=True) as live:
            while not self._closed.wait(0.25):
                live.update(self._drawn(max(6, self._console.height - 18)), refresh=True)

    def _remind(self) -> None:
        while not self._closed.wait(10):
            self._story.remind()
