"""The scenario file: queues, a group, its consumers, and what happens when."""

import math
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Literal

import yaml
from pydantic import BaseModel, ConfigDict, Field, RootModel, ValidationError, field_validator, model_validator

from baton.assignors import names
from baton.engine.observation import GroupSpec, OnDeadline, Protocol, ScaleMode

Seconds = Annotated[float, Field(ge=0, le=1e9, allow_inf_nan=False)]
Name = Annotated[str, Field(min_length=1)]


class ScenarioError(ValueError):
    """A scenario that cannot be run. The message is one line: the file, the field and the cure."""


class _Part(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, coerce_numbers_to_str=True)


class QueuePart(_Part):
    partitions: int = Field(ge=0, le=1_000_000)
    accessType: Literal["NonExclusive", "Exclusive"] = "NonExclusive"  # noqa: N815 - the file's words
    type: Literal["Redis", "Kafka", "External"] = "Redis"
    onDeadline: OnDeadline = OnDeadline.WAIT  # noqa: N815

    @model_validator(mode="before")
    @classmethod
    def _short(cls, value: Any) -> Any:
        return {"partitions": value} if isinstance(value, int) and not isinstance(value, bool) else value


class _Queues(RootModel[dict[Name, QueuePart]]):
    """The queues after some events."""


class RebalancePart(_Part):
    delaySeconds: Seconds = 5  # noqa: N815
    maxHandoffSeconds: Seconds = 3  # noqa: N815
    resyncSeconds: Annotated[float, Field(gt=0, le=1e9)] = 20  # noqa: N815
    maxConcurrentHandoffs: int = Field(default=0, ge=0)  # noqa: N815


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
    assignors: tuple[Name, ...] = Field(default=("solace",), min_length=1)
    protocol: Protocol = Protocol.COOPERATIVE
    rebalance: RebalancePart = RebalancePart()
    membership: MembershipPart = MembershipPart()
    paused: bool = False
    replicas: int | None = Field(default=None, ge=0)
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
            replicas=self.replicas,
            scale_mode=None if self.scale is None else self.scale.mode,
        )


class JoinPart(_Part):
    id: Name
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
    scale: Mapping[Name, Annotated[int, Field(ge=0, le=1_000_000)]] = {}
    queues: Mapping[Name, Any] = {}
    """Merged into the queues; null removes one."""
    group: Mapping[str, Any] = {}
    operator: Literal["stop", "start"] | None = None
    lose: Literal["observation"] | None = None
    request: Name | None = None
    """A manual request to rebalance."""

    @field_validator("join", "leave", "terminate", mode="before")
    @classmethod
    def _one(cls, value: Any) -> Any:
        return [value] if isinstance(value, str | int | dict) else value

    @model_validator(mode="after")
    def _says_something(self) -> "EventPart":
        if self.model_fields_set <= {"at"}:
            raise ValueError("says nothing; add one of join, leave, terminate, scale, queues, group, operator, lose, request")
        return self


class Scenario(_Part):
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


def read_scenario(path: Path) -> Scenario:
    """Raises ScenarioError for a file that is not there, is not YAML, or does not say what a scenario needs."""
    try:
        raw = yaml.safe_load(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise ScenarioError(f"{path}: {error.strerror}") from None
    except UnicodeDecodeError:
        raise ScenarioError(f"{path}: not a text in UTF-8") from None
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        where = f"line {mark.line + 1}: " if mark is not None else ""
        raise ScenarioError(f"{path}: {where}not YAML: {getattr(error, 'problem', None) or 'unreadable'}") from None
    if not isinstance(raw, dict):
        raise ScenarioError(f"{path}: a scenario is a mapping with queues, group, consumers, events and until")
    return parse_scenario(raw, str(path))


def parse_scenario(raw: Mapping[str, Any], source: str = "scenario") -> Scenario:
    """Raises ScenarioError; also walks through the events, so that a change in mid-life that makes no sense is found at once."""
    try:
        scenario = Scenario.model_validate(raw)
    except ValidationError as error:
        raise ScenarioError(f"{source}: {_sentence(error)}") from None
    group, queues = dict(scenario.group), {name: q.model_dump() for name, q in scenario.queues.items()}
    for number, event in enumerate(scenario.events):
        try:
            group = merged(group, event.group)
            GroupPart.model_validate(group)
        except ValidationError as error:
            raise ScenarioError(f"{source}: events.{number}.group.{_sentence(error)}") from None
        try:
            queues = merged(queues, event.queues)
            _Queues.model_validate(queues)
        except ValidationError as error:
            raise ScenarioError(f"{source}: events.{number}.queues.{_sentence(error)}") from None
        for name in event.scale:
            if name not in queues:
                raise ScenarioError(
                    f"{source}: events.{number}.scale.{name}: there is no such queue; choose one of {', '.join(sorted(queues))}"
                )
    if not math.isfinite(scenario.until):
        raise ScenarioError(f"{source}: until: give the time at which the scenario ends")
    return scenario


def _sentence(error: ValidationError) -> str:
    """The first fault: the field, and what it should be."""
    fault = error.errors(include_url=False)[0]
    at = fault["loc"]
    if at[:2] == ("consumers", "own"):
        at = at[:1] + at[2:]  # in the file a member's name stands directly under consumers
    field = ".".join(str(part) for part in at) or "scenario"
    message = str(fault["msg"]).removeprefix("Value error, ")
    if fault["type"] == "extra_forbidden":
        message = "there is no such field; take it out or correct its name"
    elif fault["type"] == "missing":
        message = "is missing; add it"
    else:
        message = f"{message[:1].lower()}{message[1:]}, found {str(fault['input'])[:60]!r}"
    return f"{field}: {message}"
