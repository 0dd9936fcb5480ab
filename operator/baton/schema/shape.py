"""What the models of resources share: camelCase in YAML, docstrings as descriptions, and CEL rules beside the fields."""

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
    """A validation that the API server runs. `message` names the field and the cure; `field` is the path below this object that
    is reported, `reason` one of FieldValueInvalid, FieldValueForbidden, FieldValueRequired, FieldValueDuplicate."""
    made = {"rule": cel, "message": message}
    if reason is not None:
        made["reason"] = reason
    if field is not None:
        made["fieldPath"] = field
    return made


def rules(*those: Rule) -> dict[str, Any]:
    """For a model's `json_schema_extra`."""
    return {"x-kubernetes-validations": list(those)}


def list_map(*keys: str) -> dict[str, object]:
    """Server-side apply merges such a list by these keys, and refuses two items with equal ones."""
    return {"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": list(keys)}


NonNegativeSeconds = Annotated[int, Field(ge=0, le=86_400)]
"""0 s to a day."""

ObjectName = Annotated[str, Field(min_length=1, max_length=253, pattern=r"^[a-z0-9]([-a-z0-9.]*[a-z0-9])?$")]


class SecretKey(Shape):
    """A key of a Secret in the queue's namespace; each use has a default of its own for the key."""

    name: ObjectName
    """The Secret's name."""
    key: Annotated[str, Field(min_length=1, max_length=253)]
    """The key in the Secret."""


class SourceFields(Shape):
    """The fields of `spec.source.<kind>`; each kind of queue has a model of its own."""

    def at_deadline(self) -> OnDeadline:
        """What a hand-off does at its deadline, where the queue cannot fence."""
        return OnDeadline.WAIT
