"""Values of the engine's state made of what stood in a ledger: each field holds what it says, or the ledger is none."""

from collections.abc import Mapping
from functools import cache
from math import isfinite
from types import NoneType, UnionType
from typing import Any, NewType, TypeVar, Union, get_args, get_origin, get_type_hints

from baton.model.ledger import LedgerError

T = TypeVar("T")

LATEST = 253_402_300_799
"""Unix seconds: the end of the year 9999. No time and no length of one is greater."""

MOST = 2**63 - 1
"""The greatest whole number that the API server takes."""


def checked(kind: type[T], **fields: Any) -> T:
    """Raises LedgerError where a field has a value of another type, or one that is no time or count."""
    hints: dict[str, Any] = _hints(kind)  # type: ignore[arg-type]  # a class can be hashed, whatever it is of
    for name, value in fields.items():
        hint = hints.get(name)
        if hint is not None and not _fits(value, hint):
            raise LedgerError(f"{name}: {str(value)[:40]!r} cannot stand there")
    return kind(**fields)


@cache
def _hints(kind: type[Any]) -> dict[str, Any]:
    return get_type_hints(kind)


def _fits(value: object, hint: Any) -> bool:
    if isinstance(hint, NewType):
        hint = hint.__supertype__
    if get_origin(hint) in (UnionType, Union):
        return any(_fits(value, one) for one in get_args(hint))
    if hint is NoneType:
        return value is None
    if hint is float:
        return isinstance(value, int | float) and not isinstance(value, bool) and isfinite(value) and abs(value) <= LATEST
    if hint is int:
        return isinstance(value, int) and not isinstance(value, bool) and abs(value) <= MOST
    if isinstance(hint, type):
        return isinstance(value, hint)
    return _holds(value, get_origin(hint), get_args(hint))


def _holds(value: object, kind: Any, of: tuple[Any, ...]) -> bool:
    """A collection of what fits."""
    if not isinstance(value, kind):
        return False
    if isinstance(value, Mapping):
        return all(_fits(key, of[0]) and _fits(one, of[1]) for key, one in value.items())
    assert isinstance(value, tuple | frozenset)
    if isinstance(value, tuple) and of[-1] is not Ellipsis:
        return len(value) == len(of) and all(_fits(one, hint) for one, hint in zip(value, of, strict=True))
    return all(_fits(one, of[0]) for one in value)
