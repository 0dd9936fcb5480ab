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
    """One aspect of the state: its status, since when, and why."""

    type: Annotated[str, Field(max_length=64)]
    """The name of the condition, for example Ready."""
    status: ConditionStatus
    """True, False or Unknown."""
    reason: Annotated[str, Field(max_length=128)]
    """The reason in one word, for programs. The reference page about conditions lists all reasons with their cures."""
    message: Annotated[str, Field(max_length=4096)] = ""
    """The reason in a sentence, with the cure."""
    last_transition_time: Annotated[str, Field(json_schema_extra={"format": "date-time"})]
    """When the status last changed."""
    observed_generation: int | None = None
    """The generation of the spec that the condition is about."""


Conditions = Annotated[list[Condition], Field(max_length=16, json_schema_extra=list_map("type"))]
