"""How numbers and lists read in what people are told."""

from collections.abc import Sequence


def counted(count: int, noun: str) -> str:
    """`1 partition`, `2,000 partitions`"""
    return f"{count:,} {noun}" if count == 1 else f"{count:,} {noun}s"


def first_of(words: Sequence[str], most: int) -> str:
    """`a, b, c`, and of more than `most`: `a, b, c and 2 more`"""
    return ", ".join(words[:most]) + (f" and {len(words) - most} more" if len(words) > most else "")
