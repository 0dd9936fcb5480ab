"""A bar chart as SVG, with a logarithmic scale: milliseconds of ours and of the peer."""

from collections.abc import Sequence
from html import escape
from math import log10

ROW, LEFT, WIDTH = 38, 430, 560
OURS, PEER = "#2563eb", "#f59e0b"


def draw(rows: Sequence[tuple[str, float, str, float]]) -> str:
    """Rows of name, ours in ms, the peer's name, the peer's ms."""
    figures = [figure for _, ours, _, peer in rows for figure in (ours, peer)]
    low = int(log10(min(figures)) // 1)
    high = int(log10(max(figures)) // 1) + 1
    height = 70 + ROW * len(rows)

    def x(milliseconds: float) -> float:
        return LEFT + WIDTH * (log10(milliseconds) - low) / (high - low)

    box = f'viewBox="0 0 {LEFT + WIDTH + 90} {height}" font-family="sans-serif" font-size="13"'
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" {box}>',
        f'<rect width="100%" height="100%" fill="#ffffff"/><text x="12" y="24" fill="{OURS}">■ Baton (Python)</text>',
        f'<text x="150" y="24" fill="{PEER}">■ Kafka, RocketMQ (Java)</text>',
    ]
    for power in range(low, high + 1):
        at = x(10.0**power)
        parts.append(f'<line x1="{at:.1f}" x2="{at:.1f}" y1="40" y2="{height - 24}" stroke="#e5e7eb"/>')
        parts.append(f'<text x="{at:.1f}" y="{height - 8}" text-anchor="middle" fill="#6b7280">{10.0**power:g} ms</text>')
    for place, (name, ours, peer, theirs) in enumerate(rows):
        top = 46 + ROW * place
        parts.append(f'<text x="{LEFT - 10}" y="{top + 17}" text-anchor="end"><title>{escape(peer)}</title>{escape(name)}</text>')
        for offset, color, value in ((0, OURS, ours), (14, PEER, theirs)):
            parts.append(f'<rect x="{LEFT}" y="{top + offset}" width="{x(value) - LEFT:.1f}" height="12" fill="{color}"/>')
            parts.append(f'<text x="{x(value) + 5:.1f}" y="{top + offset + 10}" font-size="11" fill="#374151">{value:g}</text>')
    return "\n".join([*parts, "</svg>", ""])
