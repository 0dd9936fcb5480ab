"""Fields that a structural schema does not have, at any depth: the API server refuses them. Pure."""

from collections.abc import Mapping
from typing import Any, NamedTuple


class UnknownField(NamedTuple):
    """The first one."""

    field: str
    """From where the schema begins, with dots."""
    known: tuple[str, ...]
    """Those that there are in its place."""


def unknown_field(schema: Mapping[str, Any], value: object) -> UnknownField | None:
    """None: it has no such field."""
    if isinstance(value, list) and "items" in schema:
        below = ((str(place), one, schema["items"]) for place, one in enumerate(value))
    elif isinstance(value, Mapping) and "properties" in schema:
        known = tuple(schema["properties"])
        for field in value:
            if field not in known:
                return UnknownField(str(field), known)
        below = ((str(field), one, schema["properties"][field]) for field, one in value.items())
    else:
        return None
    for at, one, its_schema in below:
        if (found := unknown_field(its_schema, one)) is not None:
            return UnknownField(f"{at}.{found.field}", found.known)
    return None
