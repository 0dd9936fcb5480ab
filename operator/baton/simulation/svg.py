"""The drawing of a run as a self-contained SVG, for light and dark pages, and with a description for screen readers."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from html import escape

from baton.simulation.chart import SHARED, STATES, UNOWNED, Axis, axis, label, lanes, paint, ticks
from baton.simulation.history import SEVERAL, History, Row, Spell, Stretch, WorkPhase
from baton.simulation.run import time_text

_MOST_ROWS = 200
_WIDTH, _EDGE, _RIGHT = 1000, 20, 36
_LETTER = 6.3
"""The approximate width of a letter in pixels, because fonts cannot be measured here."""
_LANE, _ROW, _BAR = 17, 24, 18

_STYLE = """
.page{fill:#ffffff;stroke:#d8dee4}.ink{fill:#1f2328}.faint{fill:#59636e}.line{stroke:#c3cbd3}
.cut{stroke:#ffffff}.halo{paint-order:stroke;stroke:#ffffff;stroke-width:4px}.on{fill:#101010}.unowned{fill:#fdecec}
@media (prefers-color-scheme:dark){.page{fill:#15191f;stroke:#343b44}.ink{fill:#e8ecf1}.faint{fill:#9aa5b1}.line{stroke:#434c56}
.cut{stroke:#15191f}.halo{stroke:#15191f}.unowned{fill:#3b1d20}}
text{font:12px system-ui,-apple-system,"Segoe UI","DejaVu Sans",sans-serif}
.small{font-size:11px}.title{font-size:16px;font-weight:600}
""".strip()


@dataclass(frozen=True, slots=True)
class _Page:
    history: History
    axis: Axis
    left: float
    across: float

    def x(self, at: float) -> float:
        return self.left + self.axis.place(at) * self.across

    def around(self, at: float, words: str) -> tuple[float, float]:
        """Return the room of a label that is centred at a time."""
        half = (len(words) * _LETTER + 8) / 2
        return self.x(at) - half, self.x(at) + half

    def paint(self, owner: str | None) -> str:
        return paint(self.history, owner)


def svg(history: History, title: str, sentences: Sequence[str]) -> str:
    """Return a drawing with this title, and the `sentences` below it. The same run gives the same text."""
    rows, more = history.shown(_MOST_ROWS)
    left = _EDGE + 14 + _LETTER * max([len(label(row)) for row in rows] + [len("seconds")])
    page = _Page(history, axis(history), left, _WIDTH - left - _RIGHT)
    body: list[str] = []
    y = 52.0
    marks = [(min(int(page.x(mark.at) - left), int(page.across) - 1), mark) for mark in history.marks]
    flags = lanes(marks, int(page.across), _LETTER)
    top = y + _LANE * len(flags) + 6
    bottom = top + _ROW * (len(rows) + 1)
    labels = [(page.x(at), words) for at, words in ticks(history, page.around)]
    body += (_line(x, top + _ROW, x, bottom + 4, "line", ' stroke-dasharray="1 3"') for x, _ in labels)
    body += _flags(page, flags, y, top)
    body += _states(page, top)
    for place, row in enumerate(rows):
        body += _row(page, row, top + _ROW * (place + 1))
    body += _cuts(page, top, bottom)
    for place, row in enumerate(rows):
        body += _names(page, row, top + _ROW * (place + 1))
    body += [_text(left - 10, bottom + 16, "seconds", "faint small", "end")] if rows else []
    body += [_text(x, bottom + 16, words, "faint small", "middle") for x, words in labels]
    y = bottom + 40
    if more:
        body.append(_text(left, y, f"and {more:,} more rows", "faint"))
        y += 22
    legend, y = _legend(page, rows, y)
    body += legend
    for n, sentence in enumerate(sentences):
        body.append(_text(_EDGE, y + 18 * n, sentence, "ink"))
    height = y + 18 * len(sentences) + 4
    head = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {_n(height)}" role="img" aria-labelledby="title desc">',
        f'<title id="title">{_safe(title)}</title>',
        f'<desc id="desc">{_safe(_described(history, sentences))}</desc>',
        f"<style>{_STYLE}</style>",
        '<defs><pattern id="hatch" width="6" height="6" patternUnits="userSpaceOnUse" patternTransform="rotate(45)">'
        '<rect width="3" height="6" fill="#101010" fill-opacity=".5"/></pattern>'
        '<pattern id="gone" width="8" height="8" patternUnits="userSpaceOnUse" patternTransform="rotate(-45)">'
        f'<rect width="5" height="8" fill="{UNOWNED}"/></pattern></defs>',
        f'<rect class="page" x=".5" y=".5" width="{_WIDTH - 1}" height="{_n(height - 1)}" rx="8"/>',
        _text(_EDGE, 32, title, "ink title"),
    ]
    return "\n".join([*head, *body, "</svg>", ""])


def _described(history: History, sentences: Sequence[str]) -> str:
    """Describe the drawing for screen readers."""
    events = "; ".join(f"at {time_text(mark.at)} s {mark.text}" for mark in history.marks[:20])
    return " ".join(
        ["A row per partition, coloured by owner, over time.", *([f"Events: {events}."] if events else []), *sentences]
    )


def _flags(page: _Page, flags: Sequence[Sequence[tuple[int, str]]], top: float, bottom: float) -> Iterator[str]:
    for n, lane in enumerate(flags):
        yield from (_line(page.left + place, top + _LANE * n + 2, page.left + place, bottom, "line") for place, _ in lane)
    for n, lane in enumerate(flags):
        y = top + _LANE * n
        for place, text in lane:
            x = page.left + place
            room = int((_WIDTH - _EDGE / 2 - x) / _LETTER)
            if len(text) > room > 0 and x > _WIDTH * 0.7 and not any(p < place for p, _ in lane):
                yield _text(x - 4, y + 12, text, "ink small halo", "end")
            else:
                yield _text(x + 4, y + 12, text if len(text) <= room else text[: max(room - 1, 1)] + "…", "ink small halo")


def _states(page: _Page, y: float) -> Iterator[str]:
    yield _text(page.left - 10, y + 13, "state", "faint small", "end")
    for spell in page.history.spells:
        if spell.state != "Ready":
            yield from _spell(page, spell, y)


def _spell(page: _Page, spell: Spell, y: float) -> Iterator[str]:
    x, width = page.x(spell.start), max(page.x(spell.end) - page.x(spell.start), 2)
    words = f"{spell.state}, {time_text(spell.start)} to {time_text(spell.end)} s"
    yield _rect(x, y + 2, width, 14, STATES.get(spell.state, SHARED), words)
    if len(spell.state) * _LETTER + 8 <= width:
        yield _text(x + 5, y + 13, spell.state, "on small")


def _row(page: _Page, row: Row, y: float) -> Iterator[str]:
    yield _text(page.left - 10, y + 13, label(row), "ink", "end")
    for stretch in sorted(row.stretches, key=lambda stretch: stretch.phase):
        yield from _stretch(page, stretch, y)


def _stretch(page: _Page, stretch: Stretch, y: float) -> Iterator[str]:
    x, width = page.x(stretch.start), max(page.x(stretch.end) - page.x(stretch.start), 2)
    span = f"{time_text(stretch.start)} to {time_text(stretch.end)} s"
    match stretch.phase:
        case WorkPhase.ORPHANED:
            yield _rect(x, y, width, _BAR, page.paint(stretch.owner), f"without a live owner: {stretch.owner} is gone, {span}")
            yield _rect(x, y, width, _BAR, "url(#gone)", "", ' pointer-events="none"')
        case WorkPhase.UNOWNED:
            yield _rect(x, y, width, _BAR, None, f"without an owner, {span}", ' class="unowned"')
            yield _line(
                x,
                y + _BAR / 2,
                x + width,
                y + _BAR / 2,
                "",
                f' stroke="{UNOWNED}" stroke-dasharray="2 4" stroke-width="2"',
            )
        case WorkPhase.PAUSED:
            yield _rect(x, y, width, _BAR, page.paint(stretch.owner), f"paused, {stretch.owner} is to release it, {span}")
            yield _rect(x, y, width, _BAR, "url(#hatch)", "", ' pointer-events="none"')
        case WorkPhase.OWNED:
            yield _rect(x, y, width, _BAR, page.paint(stretch.owner), f"{stretch.owner}, {span}")


def _names(page: _Page, row: Row, y: float) -> Iterator[str]:
    """Yield the owners' names that fit."""
    for stretch in row.stretches:
        x, width = page.x(stretch.start), page.x(stretch.end) - page.x(stretch.start)
        if stretch.phase is WorkPhase.OWNED and len(str(stretch.owner)) * _LETTER + 8 <= width:
            yield _text(x + 5, y + 13, str(stretch.owner), "on small")


def _cuts(page: _Page, top: float, bottom: float) -> Iterator[str]:
    """Yield two slanted strokes through all rows for each shortened period."""
    for cut in page.axis.cuts:
        x = page.left + cut * page.across
        for shift in (-3, 3):
            yield _line(x + shift - 3, bottom - 4, x + shift + 3, top + _ROW - 2, "cut", ' stroke-width="2.5"')


def _legend(page: _Page, rows: Sequence[Row], y: float) -> tuple[list[str], float]:
    stretches = [stretch for row in rows for stretch in row.stretches]
    shown = {stretch.owner for stretch in stretches}
    phases = {stretch.phase for stretch in stretches}
    owners = [owner for owner in page.history.owners if owner in shown]
    items = [(owner, page.paint(owner), "") for owner in owners[:30]]
    items += [(f"and {len(owners) - 30} more", SHARED, "")] if len(owners) > 30 else []
    items += [(SEVERAL, SHARED, "")] if SEVERAL in shown else []
    items += [("paused", SHARED, "url(#hatch)")] if WorkPhase.PAUSED in phases else []
    items += [("without a live owner, unnoticed", SHARED, "url(#gone)")] if WorkPhase.ORPHANED in phases else []
    items += [("without an owner", "", "unowned")] if WorkPhase.UNOWNED in phases else []
    items += [(state, STATES[state], "") for state in STATES if state in {s.state for s in page.history.spells}]
    out: list[str] = []
    x = float(_EDGE)
    for words, fill, over in items:
        width = 22 + len(words) * _LETTER + 14
        if x + width > _WIDTH - _EDGE:
            x, y = float(_EDGE), y + 20
        if over == "unowned":
            out.append(_rect(x, y - 10, 14, 12, None, "", ' class="unowned"'))
            out.append(_line(x, y - 4, x + 14, y - 4, "", f' stroke="{UNOWNED}" stroke-dasharray="2 4" stroke-width="2"'))
        else:
            out.append(_rect(x, y - 10, 14, 12, fill, ""))
            out += [_rect(x, y - 10, 14, 12, over, "")] if over else []
        out.append(_text(x + 20, y, words, "faint"))
        x += width
    return out, y + 28


def _rect(x: float, y: float, width: float, height: float, fill: str | None, tip: str, more: str = "") -> str:
    paint = "" if fill is None else f' fill="{fill}"'
    box = f'<rect x="{_n(x)}" y="{_n(y)}" width="{_n(width)}" height="{_n(height)}"{paint}{more}'
    return f"{box}><title>{_safe(tip)}</title></rect>" if tip else f"{box}/>"


def _line(x1: float, y1: float, x2: float, y2: float, kind: str, more: str = "") -> str:
    named = f' class="{kind}"' if kind else ""
    return f'<line x1="{_n(x1)}" y1="{_n(y1)}" x2="{_n(x2)}" y2="{_n(y2)}"{named}{more}/>'


def _text(x: float, y: float, words: str, kind: str, anchor: str = "") -> str:
    at = f' text-anchor="{anchor}"' if anchor else ""
    return f'<text x="{_n(x)}" y="{_n(y)}" class="{kind}"{at}>{_safe(words)}</text>'


def _n(value: float) -> str:
    return f"{value:.1f}".removesuffix(".0")


def _safe(text: str) -> str:
    return escape("".join(char if char.isprintable() else "�" for char in text))
