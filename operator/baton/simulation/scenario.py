"""A scenario: queues, a group, its consumers, and what happens when. And the errors of one that cannot be simulated."""

from collections.abc import Mapping
from functools import lru_cache
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, RootModel, field_validator, model_validator
from pydantic_core import PydanticCustomError

from baton.api.group import ConsumerGroupSpec, GroupRebalance, Membership, QueueRef
from baton.api.queue import PartitionedQueueSpec, QueueRebalance, Source, misplaced
from baton.assignors import DEFAULT, names
from baton.engine.ledger import MOST_PARTITIONS
from baton.model.names import LEDGER_GROUP_KEY
from baton.model.wording import choose
from baton.schema.shape import Shape
from baton.schema.structural import structural


class ScenarioError(ValueError):
    """The scenario cannot be run. The message is one line: the file, the field and the cure."""


class TooMuchWork(ScenarioError):  # noqa: N818 -- what is wrong, for the user
    """The scenario is valid, but would take too long."""


class FaultError(Exception):
    """A mistake in a scenario: the line or the field, and the cure. The reader of the file adds the file's name."""


def unknown_field(schema: Mapping[str, Any], value: object) -> tuple[str, tuple[str, ...]] | None:
    """Return the path of the first unknown field of a value, and the fields that the schema has there; None: all are known."""
    if isinstance(value, list) and "items" in schema:
        below = ((str(place), one, schema["items"]) for place, one in enumerate(value))
    elif isinstance(value, Mapping) and "properties" in schema:
        known = tuple(schema["properties"])
        for field in value:
            if field not in known:
                return str(field), known
        below = ((str(field), one, schema["properties"][field]) for field, one in value.items())
    else:
        return None
    for at, one, its_schema in below:
        if (found := unknown_field(its_schema, one)) is not None:
            return f"{at}.{found[0]}", found[1]
    return None


def _a_name(value: Any) -> Any:
    if isinstance(value, bool):
        raise ValueError("write the name in quotes, because YAML reads yes, no, on and off as true or false")
    if not isinstance(value, str | int | float):
        raise ValueError("give a name, in quotes if need be")
    return value


def _a_pods_name(value: str) -> str:
    if value == LEDGER_GROUP_KEY:
        raise ValueError("a pod of this name cannot take part, because the ledger has a key of that name; give it another name")
    return value


def _printable(value: str) -> str:
    if not value.isprintable():
        raise ValueError("remove the characters that cannot be printed")
    return value


Seconds = Annotated[float, Field(strict=True, ge=0, le=1e9, allow_inf_nan=False)]
Count = Annotated[int, Field(strict=True, ge=0, le=MOST_PARTITIONS)]
Name = Annotated[str, BeforeValidator(_a_name), AfterValidator(_printable), Field(min_length=1, max_length=253)]


class _Part(Shape):
    """A part of a scenario. Fields are camelCase in the file, and unknown ones are mistakes."""

    model_config = ConfigDict(extra="forbid", coerce_numbers_to_str=True)

    @model_validator(mode="before")
    @classmethod
    def _known_fields(cls, value: Any) -> Any:
        """Reject unknown fields with the list of known ones, which `extra` does not give."""
        if isinstance(value, Mapping):
            known = tuple(field.alias or name for name, field in cls.model_fields.items())
            for key in value:
                if key not in known:
                    raise PydanticCustomError("unknown_field", "", {"field": str(key), "known": known})
        return value

    def as_written(self) -> dict[str, Any]:
        """Return the part as the file has it, so that changes can be merged in."""
        return self.model_dump(by_alias=True, exclude_unset=True)


class _SpecPart(_Part):
    """The spec of a custom resource. Fields of all depths are checked, as by the API server."""

    @model_validator(mode="before")
    @classmethod
    def _known_fields(cls, value: Any) -> Any:
        if (unknown := unknown_field(_schema(cls), value)) is not None:
            raise PydanticCustomError("unknown_field", "", {"field": unknown[0], "known": unknown[1]})
        return value


@lru_cache
def _schema(part: type[BaseModel]) -> Mapping[str, Any]:
    return structural(part)


class QueueRebalancePart(_Part, QueueRebalance):
    """`rebalance` of a PartitionedQueue, with fractions of seconds."""

    delay_seconds: Seconds = 5  # type: ignore[assignment]
    max_handoff_seconds: Seconds = 3  # type: ignore[assignment]


class QueuePart(_SpecPart, PartitionedQueueSpec):
    """The spec of a PartitionedQueue. Short forms: the number of partitions; or `type` and `onDeadline` instead of `source`."""

    source: Source = Source(type="Redis")
    partitions: Count
    rebalance: QueueRebalancePart = QueueRebalancePart()

    @model_validator(mode="before")
    @classmethod
    def _short(cls, value: Any) -> Any:
        if isinstance(value, int) and not isinstance(value, bool):
            return {"partitions": value}
        short = ("type", "onDeadline")
        if not isinstance(value, Mapping) or not value.keys() & short or not isinstance(value.get("source", {}), Mapping):
            return value
        given = {"type": value["type"]} if "type" in value else {}
        if "onDeadline" in value:
            given["external"] = {"onDeadline": value["onDeadline"]}
        source = merged(value.get("source", {"type": "Redis"}), given)
        return {"source": source, **{name: one for name, one in value.items() if name not in (*short, "source")}}

    @model_validator(mode="after")
    def _as_its_kind_has_it(self) -> "QueuePart":
        if (mistake := misplaced(self)) is not None:
            raise ValueError(mistake)
        return self


class QueueParts(RootModel[dict[Name, QueuePart]]):
    """The queues after some events."""


class GroupRebalancePart(_Part, GroupRebalance):
    """`rebalance` of a ConsumerGroup, with fractions of seconds."""

    delay_seconds: Seconds | None = None  # type: ignore[assignment]
    max_handoff_seconds: Seconds | None = None  # type: ignore[assignment]
    resync_seconds: Annotated[Seconds, Field(ge=0.001)] = 20  # type: ignore[assignment]


class MembershipPart(_Part, Membership):
    """`membership` of a ConsumerGroup. A member's identity is the `instance` with which it joins."""

    identity_label: str = "instance"
    session_timeout_seconds: Seconds = 0  # type: ignore[assignment]


class QueueRefPart(_Part, QueueRef):
    """An entry of `queues` of a ConsumerGroup. Short form: the name."""

    @model_validator(mode="before")
    @classmethod
    def _short(cls, value: Any) -> Any:
        return {"name": value} if isinstance(value, str) else value


class GroupPart(_SpecPart, ConsumerGroupSpec):
    """The spec of a ConsumerGroup."""

    queues: tuple[QueueRefPart, ...] | None = None  # type: ignore[assignment]
    """None: all queues of the scenario."""
    assignors: Annotated[tuple[Name, ...], Field(min_length=1)] = (DEFAULT,)  # type: ignore[assignment]
    rebalance: GroupRebalancePart = GroupRebalancePart()
    membership: MembershipPart = MembershipPart()

    @field_validator("assignors")
    @classmethod
    def _one_exists(cls, value: tuple[str, ...]) -> tuple[str, ...]:
        if not set(value) & set(names()):
            raise ValueError(f"there is no assignor {value[0]!r}; {choose(value[0], names())}")
        return value


class JoinPart(_Part):
    """An entry of an event's `join`: a pod that becomes a member. Short form: the name."""

    id: Annotated[Name, AfterValidator(_a_pods_name)]
    uid: Name | None = None
    instance: Name | None = None
    zone: Name | None = None
    assignors: tuple[Name, ...] | None = None
    queues: tuple[Name, ...] | None = None

    @model_validator(mode="before")
    @classmethod
    def _short(cls, value: Any) -> Any:
        return {"id": value} if isinstance(value, str | int) else value


class ConsumerPart(_Part):
    """`consumers.NAME`: how one member behaves."""

    release: Seconds | None = 0.5
    """Seconds from a revoke to the release of a partition; None: the member never releases."""


class ConsumersPart(BaseModel):
    """`release` applies to all members; any other key names a member."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    release: Seconds | None = 0.5
    own: Mapping[str, ConsumerPart] = {}

    @model_validator(mode="before")
    @classmethod
    def _members_by_name(cls, value: Any) -> Any:
        if not isinstance(value, Mapping):
            return value
        shared = {"release": value["release"]} if "release" in value else {}
        members = {str(key): own for key, own in value.items() if key != "release"}
        return {**shared, "own": {name: {**shared, **own} if isinstance(own, Mapping) else own for name, own in members.items()}}

    def release_of(self, member: str) -> float | None:
        return self.own[member].release if member in self.own else self.release


class EventPart(_Part):
    """An entry of `events`: changes at this second."""

    at: Seconds
    join: tuple[JoinPart, ...] = ()
    leave: tuple[Name, ...] = ()
    terminate: tuple[Name, ...] = ()
    unready: tuple[Name, ...] = ()
    """Pods that are not Ready from then on. They still work, and renew their sessions."""
    ready: tuple[Name, ...] = ()
    """Pods that are Ready again."""
    scale: Mapping[Name, Count] = {}
    queues: Mapping[Name, Any] = {}
    """Merged into the queues; null removes one."""
    group: Mapping[str, Any] = {}
    operator: Literal["stop", "start"] | None = None
    lose: Literal["observation"] | None = None
    request: Name | None = None
    """A manual request to rebalance."""
    approve: Literal[True] | None = None
    """Approve the current proposal, if there is one."""

    @field_validator("join", "leave", "terminate", "unready", "ready", mode="before")
    @classmethod
    def _one(cls, value: Any) -> Any:
        return [value] if isinstance(value, str | int | dict) else value

    @model_validator(mode="after")
    def _says_something(self) -> "EventPart":
        if self.model_fields_set <= {"at"}:
            raise ValueError(
                "says nothing; add one of join, leave, terminate, unready, ready, scale, queues, group, operator, lose, request, "
                "approve"
            )
        return self


class Scenario(_Part):
    """A file of `baton simulate`."""

    queues: Mapping[Name, QueuePart]
    group: Mapping[str, Any] = {}
    consumers: ConsumersPart = ConsumersPart()
    events: tuple[EventPart, ...] = ()
    until: Seconds
    expect: Mapping[str, Any] = {}

    @field_validator("group")
    @classmethod
    def _is_a_spec(cls, value: Mapping[str, Any]) -> Mapping[str, Any]:
        GroupPart.model_validate(value)
        return value


def merged(base: Mapping[str, Any], change: Mapping[str, Any]) -> dict[str, Any]:
    """Merge `change` into `base`, mappings field by field; null removes a field."""
    out = dict(base)
    for key, value in change.items():
        old = out.get(key)
        if value is None:
            out.pop(key, None)
        elif isinstance(value, Mapping) and isinstance(old, Mapping):
            out[key] = merged(old, value)
        else:
            out[key] = value
    return out
