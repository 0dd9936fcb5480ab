"""Messages for users about what pydantic rejects: what was expected, and what was found."""

import json
from collections.abc import Callable, Mapping

from pydantic import ValidationError
from pydantic_core import ErrorDetails

_EXPECTED: Mapping[str, str] = {
    "model_type": "a mapping",
    "model_attributes_type": "a mapping",
    "dict_type": "a mapping",
    "mapping_type": "a mapping",
    "list_type": "a list",
    "tuple_type": "a list",
    "frozen_set_type": "a list",
    "too_short": "at least one",
    "string_type": "a text",
    "bool_parsing": "true or false",
    "bool_type": "true or false",
    "float_parsing": "a number",
    "float_type": "a number",
    "int_parsing": "a whole number",
    "int_type": "a whole number",
    "int_from_float": "a whole number",
}
"""By the type of pydantic's error: what was expected, for errors whose messages are for programmers."""

_UNKNOWN = ("extra_forbidden", "unknown_field")
_LONGEST = 60


def first_mistake(error: ValidationError) -> ErrorDetails:
    """Return the mistake to report: an unknown field before a missing one, because it is often that field misspelt."""
    return min(error.errors(include_url=False), key=lambda one: one["type"] not in _UNKNOWN)


def as_read(value: object) -> str:
    """Return the value as YAML has it, at most 60 characters."""
    try:
        text = repr(value) if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=str, skipkeys=True)
    except ValueError:  # it contains itself, by an anchor of YAML
        text = repr(value)
    return text if len(text) <= _LONGEST else f"{text[: _LONGEST - 1]}…"


def in_words(
    mistake: ErrorDetails,
    show: Callable[[object], str] = as_read,
    expected: Mapping[str, str] | None = None,
    *,
    own_words_suffice: bool = False,
) -> str:
    """Return one sentence about the mistake.

    `expected`: what was expected, by the type of the error or the name of a model; added to the defaults. `own_words_suffice`:
    the messages of these models' validators name what was found, as those of mappings and lists always do.
    """
    kind, known = mistake["type"], {**_EXPECTED, **(expected or {})}
    if kind == "missing":
        return "is missing; add it"
    if (wanted := known.get(mistake.get("ctx", {}).get("class_name", kind), known.get(kind))) is not None:
        return f"expected {wanted}, found {show(mistake['input'])}"
    said = mistake["msg"].removeprefix("Value error, ")
    said = f"{said[:1].lower()}{said[1:]}"
    suffices = kind == "value_error" and (own_words_suffice or isinstance(mistake["input"], Mapping | list | tuple))
    return said if suffices else f"{said}, found {show(mistake['input'])}"
