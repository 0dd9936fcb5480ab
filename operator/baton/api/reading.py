"""Read resources of the API server into the models. Their CRDs may be those of another release, so a field may be unreadable: the
first such mistake is returned with the path of its field."""

from collections.abc import Mapping
from copy import deepcopy
from typing import Any, TypeVar

from pydantic import BaseModel, ValidationError

from baton.schema.mistakes import first_mistake, in_words

M = TypeVar("M", bound=BaseModel)

LONGEST_MISTAKE = 500
"""The most characters of a message about a mistake."""


def read_whole(model: type[M], raw: object, field: str) -> tuple[M | None, str | None]:
    """Read all of `raw`, or nothing and the first mistake. `field`: the path of `raw` in the resource."""
    try:
        return model.model_validate(raw or {}), None
    except ValidationError as error:
        return None, _first(error, field)


def read_what_can_be(model: type[M], raw: object, field: str) -> tuple[M, str | None]:
    """Read a model without required fields, leaving out unreadable fields and list items; return the first mistake, too."""
    try:
        return model.model_validate(raw or {}), None
    except ValidationError as error:
        rest = _without(raw, error) if isinstance(raw, Mapping) else {}
        return read_whole(model, rest, field)[0] or model(), _first(error, field)


def _first(error: ValidationError, field: str) -> str:
    mistake = first_mistake(error)
    return f"{'.'.join(map(str, (field, *mistake['loc'])))}: {in_words(mistake)}"[:LONGEST_MISTAKE]


def _without(raw: Mapping[str, Any], error: ValidationError) -> Any:
    """Return `raw` without the list items, or else the fields, that contain mistakes."""
    rest = deepcopy(raw)
    mistaken = [mistake["loc"] for mistake in error.errors(include_url=False)]
    items = [max((at for at, step in enumerate(place) if isinstance(step, int)), default=0) for place in mistaken]
    for *way, last in sorted({place[: at + 1] for place, at in zip(mistaken, items, strict=True)}, reverse=True):
        within: Any = rest
        for step in way:
            within = within[step]
        del within[last]
    return rest
