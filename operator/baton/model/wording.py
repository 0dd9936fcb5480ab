"""Numbers, lists and untrusted texts in messages for people."""

from collections.abc import Collection, Sequence
from difflib import get_close_matches


def counted(count: int, one: str, many: str = "") -> str:
    """`1 partition`, `2,000 partitions`; with words whose form goes by the number: `1 entry is`, `2 entries are`."""
    return f"{count:,} {one if count == 1 else many or f'{one}s'}"


def first_of(words: Sequence[str], most: int) -> str:
    """`a, b, c`, and of more than `most`: `a, b, c and 2 more`"""
    return ", ".join(words[:most]) + (f" and {len(words) - most} more" if len(words) > most else "")


def choose(name: str, among: Collection[str]) -> str:
    """Return advice for a name that is not in `among`."""
    near = get_close_matches(name, sorted(among), n=1)
    if near:
        return f"did you mean {near[0]}?"
    some = sorted(among)[:8]
    return f"choose one of {', '.join(some)}{', …' if len(among) > len(some) else ''}" if some else "none exists yet"


def quoted(text: str, most: int = 80) -> str:
    """Return an untrusted text in quotes, on one line and without control characters.

    It has at most `most` characters between the quotes. An escaped character takes up to ten of them.
    """
    start = text[:most]
    while (beyond := len(f"{start!a}") - 2 - most) > 0:
        start = start[: -max(1, beyond // 10)]
    left = len(text) - len(start)
    return f"{start!a} and {left:,} more characters" if left else f"{start!a}"


def one_line(text: str, most: int) -> str:
    """Return an untrusted text on one line, without control characters, cut after `most` characters."""
    start = text[: 4 * most]
    if not start.isprintable():
        start = "".join(letter if letter.isprintable() else " " for letter in start)
    words = " ".join(start.split())
    return words if len(words) <= most and len(start) == len(text) else words[:most] + "…"
