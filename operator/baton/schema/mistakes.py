"""What pydantic finds wrong with a value, in words for users: what was expected there, and what was found."""

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
"""By the type of an error whose own words are a programmer's."""

_UNKNOWN = ("extra_forbidden", "unknown_field")
_LONGEST = 60


def first_mistake(error: ValidationError) -> ErrorDetails:
    """The one that is told: a field that there is not before one that is missing, for it is often the same one, misspelt."""
    return min(error.errors(include_url=False), key=lambda one: one["type"] not in _UNKNOWN)


def as_read(value: object) -> str:
    """A value as YAML has it, at most 60 characters of it."""
    try:
        text = repr(value) if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=str, skipkeys=True)
    except ValueError:  # it is in itself, by an anchor
        text = repr(value)
    return text if len(text) <= _LONGEST else f"{text[: _LONGEST - 1]}…"


def in_words(
    mistake: ErrorDetails,
    show: Callable[[object], str] = as_read,
    expected: Mapping[str, str] | None = None,
    *,
    own_words_suffice: bool = False,
) -> str:
    """One sentence. `expected`: what should stand there, by an error's type or the name of a model, where others say it better.
    `own_words_suffice`: validators of these models say in their message what was found, as those of mappings and lists
    always do."""
    kind, known = mistake["type"], {**_EXPECTED, **(expected or {})}
    if kind == "missing":
        return "is missing; add it"
    if (wanted := known.get(mistake.get("ctx", {}).get("class_name", kind), known.get(kind))) is not None:
        return f"expected {wanted}, found {show(mistake['input'])}"
    said = mistake["msg"].removeprefix("Value error, ")
    said = f"{said[:1].lower()}{said[1:]}"
    suffices = kind == "value_error" and (own_words_suffice or isinstance(mistake["input"], Mapping | list | tuple))
    return said if suffices else f"{said}, found {show(mistake['input'])}"
