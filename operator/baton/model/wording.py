"""How numbers and lists read in what people are told."""

from collections.abc import Sequence


def counted(count: int, noun: str) -> str:
    """`1 partition`, `2,000 partitions`"""
    return f"{count:,} {noun}" if count == 1 else f"{count:,} {noun}s"


def first_of(words: Sequence[str], most: int) -> str:
    """`a, b, c`, and of more than `most`: `a, b, c and 2 more`"""
    return ", ".join(words[:most]) + (f" and {len(words) - most} more" if len(words) > most else "")


def quoted(text: str, most: int = 80) -> str:
    """What somebody else wrote, in quotes: short, on one line, and without anything that a terminal would obey."""
    return f"{text!a}" if len(text) <= most else f"{text[:most]!a} and {len(text) - most:,} more characters"
