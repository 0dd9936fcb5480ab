"""State objects made of JSON values from a ledger: each field has the declared type and a plausible size."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cache, partial
from math import isfinite
from types import UnionType
from typing import Any, NewType, TypeVar, Union, get_args, get_origin, get_type_hints

from baton.model.ledger import LedgerError

T = TypeVar("T")

LATEST = 253_402_300_799
"""Unix seconds: the end of the year 9999. No time and no duration of a ledger is greater."""

MOST = 2**63 - 1
"""The greatest integer that the API server accepts."""


Test = Callable[[object], bool]


def checked(kind: type[T], **fields: object) -> T:
    """An object of this class. Raises LedgerError, which names the field, for a value of another type or out of range."""
    tests: Mapping[str, Test] = _tests(kind)  # type: ignore[arg-type]  # a class can be hashed, whatever it is of
    for name, value in fields.items():
        fits = tests.get(name)
        if fits is not None and not fits(value):
            raise LedgerError(f"{name}: {str(value)[:40]!r} cannot stand there")
    return kind(**fields)


@cache
def _tests(kind: type[object]) -> dict[str, Test]:
    return {name: _test(hint) for name, hint in get_type_hints(kind).items()}


def _test(hint: object) -> Test:
    """A test of values for this type hint."""
    if isinstance(hint, NewType):
        return _test(hint.__supertype__)
    if get_origin(hint) in (UnionType, Union):
        return _any([_test(one) for one in get_args(hint)])
    if hint is float:
        return _is_time
    if hint is int:
        return _is_count
    if isinstance(hint, type) and not get_args(hint):
        return partial(_is, hint)
    return _collection(get_origin(hint), get_args(hint))


def _is(kind: type, value: object) -> bool:
    return isinstance(value, kind)


def _is_time(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and isfinite(value) and abs(value) <= LATEST


def _is_count(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and abs(value) <= MOST


def _any(tests: Sequence[Test]) -> Test:
    first, *others = tests
    if not others:
        return first
    rest = _any(others)
    return lambda value: first(value) or rest(value)


def _each(hint: object) -> Callable[[Iterable[object]], bool]:
    """A test of many values for one type hint. For a class it looks at each distinct type once."""
    if isinstance(hint, NewType):
        return _each(hint.__supertype__)
    if isinstance(hint, type) and hint not in (int, float) and not get_args(hint):
        return lambda values: all(issubclass(found, hint) for found in set(map(type, values)))
    fits = _test(hint)
    return lambda values: all(map(fits, values))


def _collection(kind: Any, of: tuple[Any, ...]) -> Test:
    if issubclass(kind, Mapping):
        keys_fit, values_fit = map(_each, of)
        return lambda value: isinstance(value, kind) and keys_fit(value) and values_fit(value.values())
    if issubclass(kind, tuple) and of[-1] is not Ellipsis:
        parts = [_test(one) for one in of]
        return lambda value: (
            isinstance(value, kind)
            and len(value) == len(parts)
            and all(fits(one) for fits, one in zip(parts, value, strict=True))
        )
    all_fit = _each(of[0])
    return lambda value: isinstance(value, kind) and all_fit(value)
