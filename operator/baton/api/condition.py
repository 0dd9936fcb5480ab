"""Conditions, as the Kubernetes API conventions have them."""

from enum import StrEnum
from typing import Annotated

from pydantic import Field

from baton.schema.shape import Shape, list_map


class ConditionStatus(StrEnum):
    """As Kubernetes writes it."""

    TRUE = "True"
    FALSE = "False"
    UNKNOWN = "Unknown"


class Condition(Shape):
    """One thing that is or is not so, since when, and why."""

    type: Annotated[str, Field(max_length=64)]
    """What this is about, for example Ready."""
    status: ConditionStatus
    """Whether it is so."""
    reason: Annotated[str, Field(max_length=128)]
    """Why, in one word for machines. The reference page about conditions lists all of them with their cures."""
    message: Annotated[str, Field(max_length=4096)] = ""
    """Why, in a sentence for people, with the cure."""
    last_transition_time: Annotated[str, Field(json_schema_extra={"format": "date-time"})]
    """When the status last changed."""
    observed_generation: int | None = None
    """The generation of the spec that this is about."""


Conditions = Annotated[list[Condition], Field(max_length=16, json_schema_extra=list_map("type"))]
