"""Turn a pydantic model's JSON schema into the structural OpenAPI v3 schema that a CRD needs.

Structural means: no references, a type everywhere, plain properties only. Fields that are not required are optional, so
`anyOf [X, null]` becomes X; titles and null defaults are dropped.
"""

from typing import Any

from pydantic import BaseModel

Schema = dict[str, Any]

_ORDER = ("description", "type", "format", "enum", "default")


def structural(model: type[BaseModel]) -> Schema:
    """Return the model's schema as `openAPIV3Schema` of a CRD. Raises ValueError if a structural schema cannot express it."""
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
        made["default"] = {}  # filled in from the defaults of the fields
    if made.get("type") == "integer":
        made.setdefault("format", "int64" if made.get("maximum", 2**40) >= 2**31 else "int32")
    return {key: made[key] for key in (*_ORDER, *made) if key in made}


def _inlined(raw: Schema, definitions: dict[str, Schema]) -> Schema:
    """Replace a reference by its target. Keys beside the reference, such as the field's description, win."""
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
