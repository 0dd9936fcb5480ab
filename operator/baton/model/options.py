"""What a program sets, looked at before it is used: what is wrong is said with its name, where it was set."""

import inspect
from math import isnan


def number(name: str, value: object, least: float) -> None:
    """Raises TypeError for what is no number, and ValueError for less than `least`."""
    if not isinstance(value, (int, float)):
        raise TypeError(f"{name} is {value!r}: set it to a number, {least} or more")
    if isnan(value) or value < least:
        raise ValueError(f"{name} is {value}: set it to {least} or more")


def whole(name: str, value: object, least: int) -> None:
    """Likewise, for what is counted."""
    if not isinstance(value, int):
        raise TypeError(f"{name} is {value!r}: set it to a whole number, {least} or more")
    number(name, value, least)


def function(name: str, value: object, *gets: str) -> None:
    """Raises TypeError for what cannot be called, or not with what it `gets`: one name per argument. None: there is none."""
    if value is None:
        return
    if not callable(value):
        raise TypeError(f"{name} is {value!r}, which cannot be called: give the function itself, and not what it returns")
    try:
        signature = inspect.signature(value)
    except (TypeError, ValueError):  # many that are written in C have none
        return
    try:
        signature.bind(*gets)
    except TypeError:
        takes = signature.replace(
            parameters=[one.replace(annotation=one.empty) for one in signature.parameters.values()],
            return_annotation=signature.empty,
        )
        called = f"called with ({', '.join(gets)})"
        raise TypeError(f"{name} is {value!r}, which takes {takes}; it is {called}: give a function that takes these") from None
