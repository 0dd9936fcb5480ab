"""Resources as the API server has them, read into the models. CRDs have checked them, but perhaps those of another release: what
does not read is said with its field."""

from collections.abc import Mapping
from copy import deepcopy
from typing import Any, TypeVar

from pydantic import BaseModel, ValidationError

from baton.schema.mistakes import first_mistake, in_words

M = TypeVar("M", bound=BaseModel)

LONGEST_MISTAKE = 500
"""Characters of what is said of one."""


def read_whole(model: type[M], raw: object, field: str) -> tuple[M | None, str | None]:
    """All of it. None where anything does not read, and the first mistake; `field`: where it stands."""
    try:
        return model.model_validate(raw or {}), None
    except ValidationError as error:
        return None, _first(error, field)


def read_what_can_be(model: type[M], raw: object, field: str) -> tuple[M, str | None]:
    """The same of a model that needs no field: fields, and items of lists, that do not read are left out."""
    try:
        return model.model_validate(raw or {}), None
    except ValidationError as error:
        rest = _without(raw, error) if isinstance(raw, Mapping) else {}
        return read_whole(model, rest, field)[0] or model(), _first(error, field)


def _first(error: ValidationError, field: str) -> str:
    mistake = first_mistake(error)
    return f"{'.'.join(map(str, (field, *mistake['loc'])))}: {in_words(mistake)}"[:LONGEST_MISTAKE]


def _without(raw: Mapping[str, Any], error: ValidationError) -> Any:
    """Without each item of a list, or else each field, that a mistake is in."""
    rest = deepcopy(raw)
    mistaken = [mistake["loc"] for mistake in error.errors(include_url=False)]
    items = [max((at for at, step in enumerate(place) if isinstance(step, int)), default=0) for place in mistaken]
    for *way, last in sorted({place[: at + 1] for place, at in zip(mistaken, items, strict=True)}, reverse=True):
        within: Any = rest
        for step in way:
            within = within[step]
        del within[last]
    return rest
