"""The chart of a run as text: a row per partition, with events and the group's state above, over time.

Returns text with styles; the caller decides how styles look, and whether to use colours. The time axis and the lanes of labels
are shared with the drawing (`svg`).
"""

from bisect import bisect_right
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import NamedTuple

from baton.model.ranges import format_numbers
from baton.simulation.history import SEVERAL, History, Mark, Row, Stretch, WorkPhase, names
from baton.simulation.run import time_text

# The colours: light enough for dark text on them, on light and on dark pages

OWNERS = ("#7aa6d6", "#f5a65b", "#7cc37a", "#c79bd9", "#eccb55", "#6fc7c1", "#f2929f", "#b8a389", "#a9c8ef", "#b5cf6b")
"""Colours of members, in the order of their first grants. They repeat if there are more members."""
SHARED = "#a8b0ba"
"""The colour of several members, and of owners beyond the legend."""
UNOWNED = "#e5484d"
STATES = {"Holddown": "#c3cad3", "Rebalancing": "#77828f", "Paused": "#9fb3c8", "operator down": "#e5484d"}
"""Greys, to distinguish states from owners."""


# The time axis, which shortens long periods in which the group is at rest

_REST = 0.15
"""The longest drawn period at rest, as a part of the time in which the group is not at rest."""


@dataclass(frozen=True, slots=True)
class Axis:
    """Maps times to places between 0 and 1."""

    times: tuple[float, ...]
    places: tuple[float, ...]
    cuts: tuple[float, ...]
    """Places of cuts in shortened periods: late in each period, because names are drawn early."""

    def place(self, at: float) -> float:
        n = min(max(bisect_right(self.times, at) - 1, 0), len(self.times) - 2)
        start, end = self.times[n], self.times[n + 1]
        part = (at - start) / (end - start)
        return self.places[n] + (self.places[n + 1] - self.places[n]) * min(max(part, 0.0), 1.0)


def axis(history: History) -> Axis:
    """Return the axis of a run. It is linear between two instants at which anything changes."""
    busy = _busy(history)
    last = history.until or 1.0
    changes = {0.0, last, *(mark.at for mark in history.marks), *(spell.start for spell in history.spells)}
    changes |= {at for start, end in busy for at in (start, end)}
    times = sorted(changes)
    spans = list(pairwise(times))
    starts = [start for start, _ in busy]

    def rests(start: float) -> bool:
        n = bisect_right(starts, start) - 1
        return n < 0 or busy[n][1] <= start

    active = sum(end - start for start, end in spans if not rests(start))
    longest = _REST * active if active else last
    lengths = [min(end - start, longest) if rests(start) else end - start for start, end in spans]
    total = sum(lengths)
    places = [0.0]
    for length in lengths:
        places.append(places[-1] + length / total)
    cut = [n for n, (start, end) in enumerate(spans) if lengths[n] < 0.5 * (end - start)]
    return Axis(tuple(times), tuple(places), tuple(places[n] + 0.75 * (places[n + 1] - places[n]) for n in cut))


def _busy(history: History) -> list[tuple[float, float]]:
    """Return the periods in which the group rebalances, or a partition has no working owner, joined if they touch."""
    spans = [(spell.start, spell.end) for spell in history.spells if spell.state in ("Holddown", "Rebalancing")]
    spans += [(s.start, s.end) for row in history.rows for s in row.stretches if s.phase is not WorkPhase.OWNED]
    joined: list[tuple[float, float]] = []
    for start, end in sorted(set(spans)):
        if joined and start <= joined[-1][1]:
            joined[-1] = (joined[-1][0], max(end, joined[-1][1]))
        else:
            joined.append((start, end))
    return joined


def ticks(history: History, span: Callable[[float, str], tuple[float, float]]) -> Iterator[tuple[float, str]]:
    """Yield times to label, and their labels: first times of events, then of changes of the group. `span`: the room of a
    label."""
    wanted = [0.0, history.until, *(mark.at for mark in history.marks), *(spell.start for spell in history.spells)]
    taken: list[tuple[float, float]] = []
    for at in dict.fromkeys(wanted):
        label = time_text(at)
        start, end = span(at, label)
        if all(end <= first or last <= start for first, last in taken):
            taken.append((start, end))
            yield at, label


# The labels of events: flags on lanes, so that no labels and no stems cross


Flag = tuple[int, str]
"""A place (a column or a pixel), and a label that begins there."""

_MOST_LANES = 8


def lanes(marks: Sequence[tuple[int, Mark]], across: int, letter: float) -> list[list[Flag]]:
    """Return lanes from the top down; a stem goes down from each flag.

    `marks` come with their places in [0, across); `letter`: the width of a letter. A flag is on a lower lane than any earlier one
    whose label overlaps it. If that makes too many lanes, neighbours share a flag.
    """
    bucket = 1
    while True:
        placed = _stacked(_shared(marks, bucket), letter)
        if len(placed) <= _MOST_LANES or bucket > across:
            return placed
        bucket *= 2


def _shared(marks: Sequence[tuple[int, Mark]], bucket: int) -> list[Flag]:
    flags: dict[int, list[tuple[int, str]]] = {}
    for place, mark in sorted(marks, key=lambda one: one[0]):
        flags.setdefault(place // bucket, []).append((place, mark.text))
    return [(those[0][0], names([text for _, text in those], 2)) for those in flags.values()]


def _stacked(flags: Sequence[Flag], letter: float) -> list[list[Flag]]:
    lanes: list[list[Flag]] = []
    for place, text in flags:
        covered = [n for n, lane in enumerate(lanes) if lane[-1][0] + (len(lane[-1][1]) + 3) * letter > place]
        lane = max(covered, default=-1) + 1
        if lane == len(lanes):
            lanes.append([])
        lanes[lane].append((place, text))
    return lanes


# The chart


_MOST_ROWS, _LONGEST_LABEL = 40, 24
_LETTERS = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
_SPELLS = {"Holddown": "─", "Rebalancing": "▒", "Paused": "═", "operator down": "x"}
_PAUSED, _ORPHANED, _UNOWNED, _CUT = "░", "!", "·", "⋮"


_PLAIN, _FAINT, _ALONE = "", "bright_black", f"bold {UNOWNED}"


class Ran(NamedTuple):
    """Characters of one style, which is a style of rich."""

    text: str
    style: str


Text = list[Ran]


class _Cells:
    """One line of characters to paint on."""

    def __init__(self, width: int) -> None:
        self.chars = [" "] * width
        self.styles = [_PLAIN] * width

    def fill(self, start: int, end: int, char: str, style: str) -> None:
        for column in range(max(start, 0), min(end, len(self.chars))):
            self.chars[column], self.styles[column] = char, style

    def write(self, start: int, text: str, style: str | None = None) -> None:
        """Write text. `style` None: keep the style below."""
        for column, char in enumerate(text[: max(len(self.chars) - start, 0)], start):
            self.chars[column] = char
            self.styles[column] = self.styles[column] if style is None else style

    def text(self) -> Text:
        runs: Text = []
        for char, style in zip(self.chars, self.styles, strict=True):
            if runs and runs[-1].style == style:
                runs[-1] = Ran(runs[-1].text + char, style)
            else:
                runs.append(Ran(char, style))
        if runs and runs[-1].style == _PLAIN:
            runs[-1] = Ran(runs[-1].text.rstrip(), runs[-1].style)
        return runs


@dataclass(frozen=True, slots=True)
class _Sheet:
    history: History
    axis: Axis
    rows: tuple[Row, ...]
    left: int
    """Columns for the row labels."""
    across: int
    """Columns for the time axis."""
    margin: int
    """Columns that labels may use beyond the time axis."""
    coloured: bool

    def column(self, at: float) -> int:
        return round(self.axis.place(at) * self.across)


def chart(history: History, width: int, *, coloured: bool) -> Iterator[Text]:
    """Yield lines of at most `width` columns. Without colours, letters alone distinguish the owners."""
    shown, more = history.shown(_MOST_ROWS)
    left = min(max(len(label(row)) for row in shown) if shown else 0, max(width // 4, 12))
    left = max(left, len("events")) + 2
    margin = min(14, width // 6)
    sheet = _Sheet(history, axis(history), shown, left, max(width - left - margin, 10), margin, coloured)
    yield from _events(sheet)
    yield _state(sheet)
    for row in shown:
        yield _row(sheet, row)
    yield from _scale(sheet)
    if more:
        yield [Ran(f"{'':{left}}and {more:,} more rows; --json tells of all partitions", _FAINT)]
    yield []
    yield from _legend(sheet, width)


def label(row: Row) -> str:
    """Return the label of a row: `orders 0-3,7`; for many partitions the first ones, and their number."""
    numbers = format_numbers(row.numbers)
    if len(row.queue) + 1 + len(numbers) > _LONGEST_LABEL:
        parts, count = numbers.split(","), f" ({len(row.numbers):,})"
        while len(parts) > 1 and len(row.queue) + len(",".join(parts)) + len(count) + 3 > _LONGEST_LABEL:
            parts.pop()
        numbers = ",".join(parts) + (",…" if len(parts) < numbers.count(",") + 1 else "") + count
    return f"{row.queue} {numbers}"


def letter(history: History, owner: str | None) -> str:
    """Return the letter of an owner. Letters repeat if there are many owners."""
    return "*" if owner == SEVERAL else _LETTERS[_number(history, owner) % len(_LETTERS)]


def _number(history: History, owner: str | None) -> int:
    return history.owners.get(owner or "", 0)


def paint(history: History, owner: str | None) -> str:
    """Return the colour of an owner."""
    return SHARED if owner == SEVERAL else OWNERS[_number(history, owner) % len(OWNERS)]


def _line(sheet: _Sheet, head: str) -> _Cells:
    cells = _Cells(sheet.left + sheet.across + sheet.margin)
    head = head if len(head) <= sheet.left - 2 else head[: sheet.left - 3] + "…"
    cells.write(0, f"{head:>{sheet.left - 2}}", _FAINT)
    return cells


def _row(sheet: _Sheet, row: Row) -> Text:
    cells = _line(sheet, label(row))
    for stretch in sorted(row.stretches, key=lambda stretch: stretch.phase):
        start, end = sheet.column(stretch.start), sheet.column(stretch.end)
        if stretch.phase is not WorkPhase.OWNED:
            end = max(end, start + 1)  # visible even if it is short
            start = min(start, sheet.across - 1)
        _paint(sheet, cells, stretch, sheet.left + start, sheet.left + end)
    for cut in sheet.axis.cuts:
        column = sheet.left + min(int(cut * sheet.across), sheet.across - 1)
        if cells.chars[column] == " " if sheet.coloured else cells.chars[column] != " ":
            cells.write(column, _CUT)  # not into a name
    return cells.text()


def _paint(sheet: _Sheet, cells: _Cells, stretch: Stretch, start: int, end: int) -> None:
    colour = paint(sheet.history, stretch.owner)
    match stretch.phase:
        case WorkPhase.UNOWNED | WorkPhase.ORPHANED:
            cells.fill(start, end, _UNOWNED if stretch.phase is WorkPhase.UNOWNED else _ORPHANED, _ALONE)
        case WorkPhase.PAUSED:
            cells.fill(start, end, _PAUSED, colour)
        case WorkPhase.OWNED:
            style = f"#101010 on {colour}"
            sign = letter(sheet.history, stretch.owner)
            cells.fill(start, end, " " if sheet.coloured else sign, style)
            if sheet.coloured and end > start:
                name = str(stretch.owner)
                cells.write(start, f" {name}" if len(name) + 2 <= end - start else sign, style)


def _state(sheet: _Sheet) -> Text:
    cells = _line(sheet, "state")
    for spell in sheet.history.spells:
        if spell.state == "Ready":
            continue
        start, end = sheet.column(spell.start), max(sheet.column(spell.end), sheet.column(spell.start) + 1)
        style = STATES.get(spell.state, "yellow")
        cells.fill(sheet.left + start, sheet.left + min(end, sheet.across), _SPELLS.get(spell.state, "─"), style)
        if len(spell.state) + 2 <= end - start:
            cells.write(sheet.left + start + 1, f" {spell.state} " if len(spell.state) + 4 <= end - start else spell.state, style)
    return cells.text()


def _events(sheet: _Sheet) -> Iterator[Text]:
    marks = [(min(sheet.column(mark.at), sheet.across - 1), mark) for mark in sheet.history.marks]
    stems: list[int] = []
    for place, lane in enumerate(lanes(marks, sheet.across, 1)):
        cells = _line(sheet, "" if place else "events")
        for column in stems:
            cells.write(sheet.left + column, "│", _FAINT)
        for column, text in lane:
            room = sheet.across + sheet.margin - column - 2
            cells.write(sheet.left + column, "╭ ", _FAINT)
            cells.write(sheet.left + column + 2, text if len(text) <= room else text[: room - 1] + "…", _PLAIN)
            stems.append(column)
        yield cells.text()


def _scale(sheet: _Sheet) -> Iterator[Text]:
    ruler, words = _line(sheet, ""), _line(sheet, "seconds")
    ruler.fill(sheet.left, sheet.left + sheet.across, "─", _FAINT)
    for cut in sheet.axis.cuts:
        ruler.write(sheet.left + min(int(cut * sheet.across), sheet.across - 1), _CUT, _FAINT)
    for at, text in ticks(sheet.history, lambda at, text: (sheet.column(at), sheet.column(at) + len(text) + 1)):
        ruler.write(sheet.left + min(sheet.column(at), sheet.across - 1), "┬", _FAINT)
        words.write(sheet.left + sheet.column(at), text, _FAINT)
    yield ruler.text()
    yield words.text()


def _legend(sheet: _Sheet, width: int) -> Iterator[Text]:
    shown = {stretch.owner for row in sheet.rows for stretch in row.stretches if stretch.owner is not None}
    owners = [owner for owner in sheet.history.owners if owner in shown]
    phases = {stretch.phase for row in sheet.rows for stretch in row.stretches}
    states = {spell.state for spell in sheet.history.spells}
    signs = [(letter(sheet.history, owner), f"#101010 on {paint(sheet.history, owner)}", owner) for owner in owners]
    signs = [(f" {sign} " if sheet.coloured else sign, style, owner) for sign, style, owner in signs[: len(_LETTERS)]]
    signs += [(f"and {len(owners) - len(_LETTERS)}", _PLAIN, "more")] if len(owners) > len(_LETTERS) else []
    signs += [("*", f"#101010 on {SHARED}", SEVERAL)] if SEVERAL in shown else []
    signs += [(_PAUSED, OWNERS[0], "paused")] if WorkPhase.PAUSED in phases else []
    signs += [(_ORPHANED, _ALONE, "without a live owner, unnoticed")] if WorkPhase.ORPHANED in phases else []
    signs += [(_UNOWNED, _ALONE, "without an owner")] if WorkPhase.UNOWNED in phases else []
    signs += [(sign, STATES.get(state, "yellow"), state) for state, sign in _SPELLS.items() if state in states]
    signs += [(_CUT, _FAINT, "time at rest, shortened")] if sheet.axis.cuts else []
    line: Text = []
    for sign, style, words in signs:
        item = [Ran(sign, style), Ran(f" {words}", _PLAIN)]
        used = sum(len(run.text) for run in line)
        if line and used + 3 + sum(len(run.text) for run in item) > width:
            yield line
            line = []
        line = [*line, *([Ran("   ", _PLAIN)] if line else []), *item]
    if line:
        yield line
