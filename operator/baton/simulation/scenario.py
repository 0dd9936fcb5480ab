"""What a scenario says: queues, a group, its consumers, and what happens when."""

from collections.abc import Mapping
from typing import Annotated, Any, Literal

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    RootModel,
    field_validator,
    model_validator,
)
from pydantic_core import PydanticCustomError

from baton.assignors import DEFAULT, names
from baton.engine.observation import Approval, GroupSpec, OnDeadline, Protocol, ScaleMode
from baton.model.names import LEDGER_GROUP_KEY


def _a_number(value: Any) -> Any:
    if isinstance(value, bool):
        raise ValueError("give a number")
    return value


def _a_name(value: Any) -> Any:
    if isinstance(value, bool):
        raise ValueError("write the name in quotes, for YAML takes yes, no, on and off for true or false")
    if not isinstance(value, str | int | float):
        raise ValueError("give a name, in quotes if need be")
    return value


def _a_pods_name(value: str) -> str:
    if value == LEDGER_GROUP_KEY:
        raise ValueError("a pod of this name cannot take part, for the ledger has a key of that name; give it another name")
    return value


def _printable(value: str) -> str:
    if not value.isprintable():
        raise ValueError("take out what cannot be printed")
    return value


Seconds = Annotated[float, BeforeValidator(_a_number), Field(ge=0, le=1e9, allow_inf_nan=False)]
MOST_PARTITIONS = 100_000
"""At a time, of all queues together: as many as one External queue can have in a cluster."""

MOST_MEMBERS = 10_000
"""Names that ever join."""

MOST_QUEUES = 256
"""At a time."""

MOST_EVENTS = 10_000

MOST_NAMED = 200_000
"""Members that all events name together."""

Count = Annotated[int, BeforeValidator(_a_number), Field(ge=0, le=MOST_PARTITIONS)]
Name = Annotated[str, BeforeValidator(_a_name), AfterValidator(_printable), Field(min_length=1, max_length=253)]


class _Part(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, coerce_numbers_to_str=True)

    @model_validator(mode="before")
    @classmethod
    def _known_fields(cls, value: Any) -> Any:
        """Says which fields there are, which `extra` alone does not."""
        if isinstance(value, Mapping):
            for key in value:
                if key not in cls.model_fields:
                    raise PydanticCustomError("unknown_field", "", {"field": str(key), "known": tuple(cls.model_fields)})
        return value


class QueuePart(_Part):
    partitions: Count
    accessType: Literal["NonExclusive", "Exclusive"] = "NonExclusive"  # noqa: N815 - the file's words
    type: Literal["Redis", "Kafka", "External"] = "Redis"
    onDeadline: OnDeadline = OnDeadline.WAIT  # noqa: N815

    @model_validator(mode="before")
    @classmethod
    def _short(cls, value: Any) -> Any:
        return {"partitions": value} if isinstance(value, int) and not isinstance(value, bool) else value


class Queues(RootModel[dict[Name, QueuePart]]):
    """The queues after some events."""


class RebalancePart(_Part):
    delaySeconds: Seconds = 5  # noqa: N815
    maxHandoffSeconds: Seconds = 3  # noqa: N815
    resyncSeconds: Annotated[Seconds, Field(ge=0.001)] = 20  # noqa: N815
    maxConcurrentHandoffs: Count = 0  # noqa: N815


class MembershipPart(_Part):
    identityLabel: str | None = None  # noqa: N815
    sessionTimeoutSeconds: Seconds = 0  # noqa: N815


class ScalePart(_Part):
    mode: ScaleMode
    targetRef: dict[str, Any] | None = None  # noqa: N815


class QueueRef(_Part):
    name: Name

    @model_validator(mode="before")
    @classmethod
    def _short(cls, value: Any) -> Any:
        return {"name": value} if isinstance(value, str) else value


class GroupPart(_Part):
    """As much of a ConsumerGroup's spec as matters here."""

    queues: tuple[QueueRef, ...] | None = None
    assignors: tuple[Name, ...] = Field(default=(DEFAULT,), min_length=1)
    protocol: Protocol = Protocol.COOPERATIVE
    rebalance: RebalancePart = RebalancePart()
    membership: MembershipPart = MembershipPart()
    paused: bool = False
    approval: Approval = Approval.AUTOMATIC
    replicas: Count | None = None
    scale: ScalePart | None = None

    @field_validator("assignors")
    @classmethod
    def _one_exists(cls, value: tuple[str, ...]) -> tuple[str, ...]:
        if not set(value) & set(names()):
            raise ValueError(f"there is no assignor {value[0]!r}; choose one of {', '.join(names())}")
        return value

    def spec(self) -> GroupSpec:
        """The engine's form."""
        return GroupSpec(
            assignors=self.assignors,
            protocol=self.protocol,
            delay=self.rebalance.delaySeconds,
            resync=self.rebalance.resyncSeconds,
            max_concurrent_handoffs=self.rebalance.maxConcurrentHandoffs,
            session_timeout=self.membership.sessionTimeoutSeconds,
            paused=self.paused,
            approval=self.approval,
            replicas=self.replicas,
            scale_mode=None if self.scale is None else self.scale.mode,
        )


class JoinPart(_Part):
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
    release: Seconds | None = 0.5
    """Seconds from being told until it has released a partition; None: it never does."""


class ConsumersPart(BaseModel):
    """`release` is everybody's; any other key names a member."""

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
    at: Seconds
    join: tuple[JoinPart, ...] = ()
    leave: tuple[Name, ...] = ()
    terminate: tuple[Name, ...] = ()
    unready: tuple[Name, ...] = ()
    """Not Ready from then on; they go on working, and their sessions are renewed."""
    ready: tuple[Name, ...] = ()
    """Ready again."""
    scale: Mapping[Name, Count] = {}
    queues: Mapping[Name, Any] = {}
    """Merged into the queues; null removes one."""
    group: Mapping[str, Any] = {}
    operator: Literal["stop", "start"] | None = None
    lose: Literal["observation"] | None = None
    request: Name | None = None
    """A manual request to rebalance."""
    approve: Literal[True] | None = None
    """Somebody approves what is proposed then, if anything is."""

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
    queues: Mapping[Name, QueuePart]
    group: Mapping[str, Any] = {}
    consumers: ConsumersPart = ConsumersPart()
    events: Annotated[tuple[EventPart, ...], Field(max_length=MOST_EVENTS)] = ()
    until: Seconds
    expect: Mapping[str, Any] = {}

    @field_validator("group")
    @classmethod
    def _is_a_spec(cls, value: Mapping[str, Any]) -> Mapping[str, Any]:
        GroupPart.model_validate(value)
        return value


def merged(base: Mapping[str, Any], change: Mapping[str, Any]) -> dict[str, Any]:
    """`change` laid over `base`, mappings field by field; null takes a field away."""
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
