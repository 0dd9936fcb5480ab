"""Readers for the values of a JSON request. Each returns a value or raises RequestError with the value's path."""

import json
from collections import Counter
from collections.abc import Iterable
from fractions import Fraction
from typing import TypeGuard

from baton.assignors.plan_json.request_error import RequestError, shown

MOST = 1e15
"""The largest amount."""


class Object(dict[str, object]):
    """A JSON object that knows whether a key stands in it twice. JSON allows that."""

    def __init__(self, pairs: Iterable[tuple[str, object]]) -> None:
        pairs = list(pairs)
        super().__init__(pairs)
        counts = Counter(key for key, _ in pairs)
        self.repeated = next((key for key, count in counts.items() if count > 1), None)

    def check(self, path: str, known: Iterable[str] | None = None, required: Iterable[str] = ()) -> None:
        """Refuses repeated, unknown and missing keys. `known` None: the keys are names of the user's. Raises RequestError."""
        prefix = f"{path}." if path else ""
        if self.repeated is not None:
            raise RequestError(prefix + self.repeated, "is given twice; keep one")
        for key in self if known is None else ():
            if not key:
                raise RequestError(path, "a name is empty")
            _refuse_half_characters(key, path)
        for key in self if known is not None else ():
            if key not in (known or ()):
                raise RequestError(prefix + key, f"there is no such field; there are {', '.join(known or ())}")
        for key in required:
            if key not in self:
                raise RequestError(prefix + key, "is missing")


def json_object(text: str) -> Object:
    """The JSON object in a text. Raises RequestError."""
    try:
        raw = _parsed(text)
    except RecursionError:
        raise RequestError("", "not a request: nested too deeply") from None
    except ValueError as error:
        raise RequestError(
            "", f"not JSON: {error}; give one request per line, or one over several lines as --request FILE"
        ) from None
    if not isinstance(raw, Object):
        raise RequestError("", f"expected an object with assignor, queues, members, found {shown(raw)}")
    return raw


def _parsed(text: str) -> object:
    try:
        return json.loads(text, object_pairs_hook=Object)
    except json.JSONDecodeError:
        raise
    except ValueError:  # more digits than Python reads: the field that has such a number refuses it
        return json.loads(text, object_pairs_hook=Object, parse_int=float)


def inner_object(parent: Object, key: str) -> Object:
    """The object of names under `key`; an empty one without the key. Raises RequestError."""
    value = parent.get(key, Object(()))
    if not isinstance(value, Object):
        raise RequestError(key, f"expected an object, found {shown(value)}")
    value.check(key)
    return value


def items(value: object, path: str, of: str) -> list[object]:
    """A list. Raises RequestError, which says of what it should be."""
    if not isinstance(value, list):
        raise RequestError(path, f"expected a list of {of}, found {shown(value)}")
    return value


def text(value: object, path: str) -> str:
    """A text that is not empty and has whole characters. Raises RequestError."""
    if not isinstance(value, str) or not value:
        raise RequestError(path, f"expected a text that is not empty, found {shown(value)}")
    _refuse_half_characters(value, path)
    return value


def _refuse_half_characters(value: str, path: str) -> None:
    """Refuses half of a surrogate pair. JSON can escape one; it is no character and cannot be written."""
    if not value.isascii() and any("\ud800" <= character <= "\udfff" for character in value):
        raise RequestError(path, f"{value!a} has half of a surrogate pair; write whole characters")


def whole(value: object, path: str, most: int | None = None) -> int:
    """A whole number from 0 to `most`. Raises RequestError."""
    if not is_whole(value) or value < 0:
        raise RequestError(path, f"expected a whole number from 0, found {shown(value)}")
    if most is not None and value > most:
        raise RequestError(path, f"{shown(value)} is too many; there can be {most}")
    return value


def is_whole(value: object) -> TypeGuard[int]:
    """JSON's `true` is no number, though Python counts it as one."""
    return isinstance(value, int) and not isinstance(value, bool)


def amount(value: object, path: str, positive: bool) -> Fraction:
    """A number from 0 (or above 0: `positive`) to 1e15, exactly as written: 0.1 is a tenth. Raises RequestError."""
    least = "above" if positive else "from"
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 <= value <= MOST or (positive and not value):
        raise RequestError(path, f"expected a number {least} 0 to {MOST:.0e}, found {shown(value)}")
    return Fraction(str(value))


def refuse_repeated(values: Iterable[object], path: str) -> None:
    """Raises RequestError where a value is given twice."""
    for value, count in Counter(values).items():
        if count > 1:
            raise RequestError(path, f"{shown(value)} is given {count} times; keep one")
