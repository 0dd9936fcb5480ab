"""From a pydantic model's JSON schema to the structural OpenAPI v3 schema that a CRD wants.

Structural means: no references, a type everywhere, nothing but plain properties. Optional fields are those that are not
required, so `anyOf [X, null]` becomes X; titles and null defaults say nothing and go.
"""

from typing import Any

from pydantic import BaseModel

Schema = dict[str, Any]

_ORDER = ("description", "type", "format", "enum", "default")


def structural(model: type[BaseModel]) -> Schema:
    """The model's schema as `openAPIV3Schema` of a CRD. Raises ValueError for what a structural schema cannot say."""
    raw = model.model_json_schema(by_alias=True)
    definitions = raw.pop("$defs", {})
    return _clean(raw, definitions)


def _clean(raw: Schema, definitions: dict[str, Schema]) -> Schema:
    raw = _inlined(_without_null(_inlined(raw, definitions)), definitions)
    if "anyOf" in raw or "oneOf" in raw or "allOf" in raw:
        raise ValueError(f"a structural schema has no unions: {raw}")
    made: Schema = {}
    for key, value in raw.items():
        if key == "title" or (key == "default" and value is None):
            continue
        if key == "properties":
            made[key] = {name: _clean(field, definitions) for name, field in value.items()}
        elif key == "items":
            made[key] = _clean(value, definitions)
        elif key == "description":
            made[key] = " ".join(value.split())
        elif key == "const":
            made["enum"] = [value]
        elif key == "additionalProperties":
            continue
        else:
            made[key] = value
    if made.get("type") == "object" and "default" in made:
        made["default"] = {}  # the fields' own defaults fill it in
    if made.get("type") == "integer":
        made.setdefault("format", "int64" if made.get("maximum", 2**40) >= 2**31 else "int32")
    return {key: made[key] for key in (*_ORDER, *made) if key in made}


def _inlined(raw: Schema, definitions: dict[str, Schema]) -> Schema:
    """A reference replaced by what it refers to; what stands beside it (a field's own description) wins."""
    while "$ref" in raw:
        target = definitions[raw["$ref"].removeprefix("#/$defs/")]
        raw = {**target, **{key: value for key, value in raw.items() if key != "$ref"}}
    return raw


def _without_null(raw: Schema) -> Schema:
    choices = [choice for choice in raw.get("anyOf", ()) if choice != {"type": "null"}]
    if len(choices) != 1:
        return raw
    rest = {key: value for key, value in raw.items() if key != "anyOf"}
    return {**choices[0], **rest}
