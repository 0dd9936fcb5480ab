"""The base of the models of resources: camelCase in YAML, docstrings as descriptions, and CEL rules beside the fields."""

from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field
from pydantic.alias_generators import to_camel

from baton.model.ids import OnDeadline

Rule = dict[str, str]


class Shape(BaseModel):
    """A part of a resource. Unknown fields are ignored here: the API server prunes them, and a newer CRD may have more."""

    model_config = ConfigDict(
        alias_generator=to_camel,
        populate_by_name=True,
        use_attribute_docstrings=True,
        frozen=True,
        extra="ignore",
    )


def rule(cel: str, message: str, *, field: str | None = None, reason: str | None = None) -> Rule:
    """Return a validation for the API server.

    `message` names the field and the cure. `field`: the path to report, below this object. `reason`: FieldValueInvalid,
    FieldValueForbidden, FieldValueRequired or FieldValueDuplicate.
    """
    made = {"rule": cel, "message": message}
    if reason is not None:
        made["reason"] = reason
    if field is not None:
        made["fieldPath"] = field
    return made


def rules(*those: Rule) -> dict[str, Any]:
    """Return the `json_schema_extra` of a model with these rules."""
    return {"x-kubernetes-validations": list(those)}


def list_map(*keys: str) -> dict[str, object]:
    """Return the schema of a list that server-side apply merges by these keys, and in which no two items have equal keys."""
    return {"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": list(keys)}


NonNegativeSeconds = Annotated[int, Field(ge=0, le=86_400)]
"""0 s to a day."""

ObjectName = Annotated[str, Field(min_length=1, max_length=253, pattern=r"^[a-z0-9]([-a-z0-9.]*[a-z0-9])?$")]


class SecretKey(Shape):
    """A key of a Secret in the queue's namespace. Each field of this type has its default for the key."""

    name: ObjectName
    """The Secret's name."""
    key: Annotated[str, Field(min_length=1, max_length=253)]
    """The key in the Secret."""


class SourceFields(Shape):
    """The fields of `spec.source.<kind>`: the base of the model of each kind of queue."""

    def at_deadline(self) -> OnDeadline:
        """What a hand-off does at its deadline; matters only for queues that cannot fence."""
        return OnDeadline.WAIT
