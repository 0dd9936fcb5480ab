"""What a server answers, taken as what Redis answers. Whatever else it is: OddAnswerError, and nothing fails elsewhere.

What is recorded in an answer of the right form is judged in records.py.
"""

from collections.abc import Callable, Mapping
from re import ASCII, fullmatch

from redis.exceptions import RedisError


class OddAnswerError(RedisError):
    """A server answers as no Redis does. Names what came in words of Baton's own, and repeats nothing of it."""


def number(raw: object) -> int:
    """A whole number."""
    if not isinstance(raw, int):
        raise OddAnswerError("no number where one belongs")
    return raw


def text(raw: object) -> bytes | None:
    """A text, or nothing."""
    if raw is not None and not isinstance(raw, bytes):
        raise OddAnswerError("no text where one belongs")
    return raw


def fields(count: int) -> Callable[[object], list[bytes | None]]:
    """For an array of so many texts or nothings."""
    return lambda raw: [text(one) for one in _array(raw, count)]


def scalars(count: int) -> Callable[[object], list[bytes | int | None]]:
    """For an array of so many texts, numbers or nothings."""
    return lambda raw: [one if isinstance(one, int) else text(one) for one in _array(raw, count)]


def _array(raw: object, count: int) -> list[object]:
    if not isinstance(raw, list) or len(raw) != count:
        raise OddAnswerError(f"no array of {count} where one belongs")
    return raw


def info(raw: object) -> Mapping[str, str]:
    """The lines of INFO."""
    lines = (text(raw) or b"").decode(errors="replace").splitlines()
    return {name: value for name, colon, value in (line.partition(":") for line in lines) if colon}


def line(lines: Mapping[str, str], name: str, pattern: str, default: str | None = None) -> str:
    """The beginning of a line of INFO; the default where there is no such line."""
    found = fullmatch(rf"({pattern})([^0-9A-Za-z].*)?", lines.get(name, default or ""), ASCII)
    if found is None:
        raise OddAnswerError(f"INFO without a readable {name}")
    return found[1]
