"""The pauses as SVG: a bar from the median to the longest per event and system, on a logarithmic scale."""

from collections.abc import Mapping, Sequence
from html import escape
from math import log10
from typing import Any

ROW, LEFT, WIDTH, TOP = 15, 270, 560, 40
OURS, PEER = "#2563eb", "#f59e0b"
_LOW, _HIGH = 1, 5
"""Powers of ten, of milliseconds."""


def draw(rows: Sequence[Mapping[str, Any]]) -> str:
    """Rows as the last line of the bench has them."""
    events = list(dict.fromkeys(row["event"] for row in rows))
    height = TOP + sum(ROW * (2 + sum(row["event"] == event for row in rows)) for event in events) + 30

    def x(milliseconds: float) -> float:
        return LEFT + WIDTH * (log10(max(milliseconds, 10**_LOW)) - _LOW) / (_HIGH - _LOW)

    box = f'viewBox="0 0 {LEFT + WIDTH + 90} {height}" font-family="sans-serif" font-size="11"'
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" {box}>',
        f'<rect width="100%" height="100%" fill="#ffffff"/><text x="12" y="20" font-size="13" fill="{OURS}">■ Baton</text>',
        f'<text x="90" y="20" font-size="13" fill="{PEER}">■ Kafka\'s own groups</text>',
        f'<text x="{LEFT}" y="20" font-size="13" fill="#374151">pause of a partition that moved: median to longest</text>',
    ]
    for power in range(_LOW, _HIGH + 1):
        at = x(10.0**power)
        parts.append(f'<line x1="{at:.1f}" x2="{at:.1f}" y1="{TOP - 8}" y2="{height - 24}" stroke="#e5e7eb"/>')
        parts.append(f'<text x="{at:.1f}" y="{height - 8}" text-anchor="middle" fill="#6b7280">{_time(10**power)}</text>')
    top = TOP
    for event in events:
        parts.append(f'<text x="12" y="{top + 11}" font-size="13" font-weight="bold">{escape(event)}</text>')
        top += ROW + 4
        for row in rows:
            if row["event"] == event:
                parts += _bar(row, top, x)
                top += ROW
        top += ROW - 4
    return "\n".join([*parts, "</svg>", ""])


def _bar(row: Mapping[str, Any], top: int, x: Any) -> list[str]:
    color = OURS if row["system"].startswith("baton") else PEER
    begin, end = x(row["pause_ms_p50"]), x(row["pause_ms_max"])
    what = f"{_time(row['pause_ms_p50'])} to {_time(row['pause_ms_max'])}, {row['moves']} moves" if row["moves"] else "no move"
    bar = f'<rect x="{begin:.1f}" y="{top}" width="{max(3.0, end - begin):.1f}" height="11" rx="3" fill="{color}"/>'
    return [
        f'<text x="{LEFT - 10}" y="{top + 10}" text-anchor="end">{escape(row["system"])}</text>',
        *([bar] if row["moves"] else []),
        f'<text x="{(end if row["moves"] else LEFT) + 8:.1f}" y="{top + 10}" font-size="10" fill="#374151">{what}</text>',
    ]


def _time(milliseconds: float) -> str:
    return f"{milliseconds:g} ms" if milliseconds < 1000 else f"{milliseconds / 1000:.3g} s"
