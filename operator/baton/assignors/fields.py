"""Types of the fields of a request in JSON, for pydantic, and the refusal of a request."""

import json
from collections import Counter
from typing import Annotated, TypeVar

from pydantic import AfterValidator, Field

T = TypeVar("T")

LONGEST_PATH = 300
"""Characters. Names in a path may be of any length."""


class RequestError(ValueError):
    """A refused request. The message is one line that names the field, what is wrong and what is right."""

    def __init__(self, path: str, sentence: str) -> None:
        words = f"{_cut(path, LONGEST_PATH)}: {sentence}" if path else sentence
        super().__init__("".join(one if one.isprintable() else one.encode("unicode_escape").decode() for one in words))


def shown(value: object) -> str:
    """The value as it stands in the request, at most 60 characters of it."""
    text = _cut(json.dumps(value, ensure_ascii=False, default=lambda _: "…"), 60)
    return text.encode(errors="backslashreplace").decode()  # pydantic writes no half of a surrogate pair


def _cut(text: str, length: int) -> str:
    return text if len(text) <= length else text[:length] + "…"


def _each_once(values: list[T]) -> list[T]:
    for value, count in Counter(values).items():
        if count > 1:
            raise ValueError(f"{shown(value)} is given {count} times; keep one")
    return values


EachOnce = AfterValidator(_each_once)
Text = Annotated[str, Field(strict=True, min_length=1)]
Whole = Annotated[int, Field(strict=True, ge=0)]
