"""Checks of options that a program sets. Errors name the option."""

import inspect
from math import inf


def number(name: str, value: object, least: float, most: float = inf) -> None:
    """Check that an option is a number. Raises TypeError if it is not, and ValueError unless it is from `least` to `most`."""
    bounds = f"{least} or more" if most == inf else f"{least} to {most:,}"
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise TypeError(f"{name} is {value!r}: set it to a number, {bounds}")
    if not least <= value <= most:
        raise ValueError(f"{name} is {value}: set it to {bounds}")


def whole(name: str, value: object, least: int, most: int | None = None) -> None:
    """Check that an option is a whole number. Raises TypeError if it is not, and ValueError unless it is from `least` to
    `most`."""
    bounds = f"{least} or more" if most is None else f"{least} to {most:,}"
    if isinstance(value, bool) or not isinstance(value, int):
        raise TypeError(f"{name} is {value!r}: set it to a whole number, {bounds}")
    number(name, value, least)
    if most is not None and value > most:
        raise ValueError(f"{name} is {value}: set it to a whole number, {bounds}")


def text(name: str, value: object, what: str) -> None:
    """Check that an option is a string and not empty. `what`: a description for the error. Raises TypeError if it is not."""
    if not isinstance(value, str) or not value:
        raise TypeError(f"{name} is {value!r}: give {what}")


def function(name: str, value: object, *gets: str) -> None:
    """Check that an option is None or can be called with the arguments named by `gets`. Raises TypeError if it is not."""
    if value is None:
        return
    if not callable(value):
        raise TypeError(f"{name} is {value!r}, which cannot be called: pass the function itself, not its result")
    try:
        signature = inspect.signature(value)
    except (TypeError, ValueError):  # many functions in C have no signature
        return
    try:
        signature.bind(*gets)
    except TypeError:
        takes = signature.replace(
            parameters=[one.replace(annotation=one.empty) for one in signature.parameters.values()],
            return_annotation=signature.empty,
        )
        called = f"called with ({', '.join(gets)})"
        raise TypeError(f"{name} is {value!r}, which takes {takes}; it is {called}: pass a function that takes these") from None
