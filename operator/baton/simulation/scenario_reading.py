"""Reading a scenario file. What makes no sense gets one line: the file, the field and the cure."""

from collections.abc import Collection, Mapping, Sequence
from pathlib import Path

from pydantic import ValidationError

from baton.schema.mistakes import first_mistake, in_words
from baton.simulation.document import DocumentError, read_documents
from baton.simulation.manifests import check_partitions, manifests, scenario_of
from baton.simulation.scenario import (
    MOST_MEMBERS,
    MOST_NAMED,
    MOST_PARTITIONS,
    MOST_QUEUES,
    EventPart,
    GroupPart,
    QueuePart,
    QueueParts,
    Scenario,
    merged,
)
from baton.simulation.scenario_errors import FaultError, ScenarioError, choose

LARGEST = 1_000_000
"""Bytes of a file; PyYAML takes some eight seconds for so many."""


def read_scenario(path: Path, group: str | None = None) -> Scenario:
    """See `read_raw`. Raises ScenarioError for a file that is not there, is not YAML, or does not say what a scenario needs."""
    return parse_scenario(read_raw(path, group), str(path))


def read_raw(path: Path, group: str | None = None) -> dict[str, object]:
    """The file's scenario, as it stands there. Where there are resources, they are its queues and its group (`group` by name, if
    there are several), and what stands beside them in a document of its own is laid over that. Raises ScenarioError."""
    try:
        with path.open("rb") as file:
            content = file.read(LARGEST + 1)
        if len(content) > LARGEST:
            raise ScenarioError(f"{path}: larger than {LARGEST:,} bytes; write less")
        documents = read_documents(content.decode())
        return _scenario(documents, group)
    except OSError as error:
        raise ScenarioError(f"{path}: {error.strerror}") from None
    except UnicodeDecodeError:
        raise ScenarioError(f"{path}: not a text in UTF-8") from None
    except (DocumentError, FaultError) as error:
        raise ScenarioError(f"{path}: {error}") from None


def _scenario(documents: Sequence[object], group: str | None) -> dict[str, object]:
    objects = manifests(documents)
    own = [document for document in documents if document is not None and not manifests([document])]
    beside = own if own or not objects else [{}]
    if len(beside) != 1 or not isinstance(beside[0], dict):
        raise FaultError("a scenario is a mapping with queues, group, consumers, events and until")
    if not objects:
        return beside[0]
    found = scenario_of(objects, group)
    resources = {field: found[field] for field in ("group", "queues")}
    changes = {field: beside[0][field] for field in resources if isinstance(beside[0].get(field), Mapping)}
    together = merged(resources, changes)
    check_partitions(together["queues"])
    return {**found, **beside[0], **together}


def parse_scenario(raw: Mapping[str, object], source: str = "scenario") -> Scenario:
    """Raises ScenarioError; also walks through the events, so that a change in mid-life that makes no sense is found at once."""
    try:
        scenario = Scenario.model_validate(raw)
        _walk(scenario)
    except ValidationError as error:
        raise ScenarioError(f"{source}: {_sentence(error)}") from None
    except FaultError as error:
        raise ScenarioError(f"{source}: {error}") from None
    return scenario


def _walk(scenario: Scenario) -> None:
    """Through the events in the order of time; those of one time in the order of the file."""
    group: dict[str, object] = dict(scenario.group)
    queues: dict[str, object] = {name: queue.as_written() for name, queue in scenario.queues.items()}
    events = sorted(enumerate(scenario.events), key=lambda numbered: numbered[1].at)
    joins: dict[str, float] = {}
    for _, event in events:
        for member in event.join:
            joins.setdefault(member.id, event.at)
    _not_too_many(scenario, joins)
    for number, event in events:
        _members_are_there(event, number, joins)
        if not (event.group or event.queues or event.scale):
            continue
        group = merged(group, event.group)
        queues = merged(queues, event.queues)
        try:
            GroupPart.model_validate(group)
        except ValidationError as error:
            raise FaultError(f"events.{number}.group.{_sentence(error)}") from None
        try:
            _not_too_large(QueueParts.model_validate(queues).root, f"events.{number}")
        except ValidationError as error:
            raise FaultError(f"events.{number}.queues.{_sentence(error)}") from None
        for name in event.scale:
            if name not in queues:
                raise FaultError(f"events.{number}.scale.{name}: there is no such queue; {choose(name, queues)}")


def _not_too_many(scenario: Scenario, members: Collection[str]) -> None:
    """Bounds of what no field bounds by itself."""
    _not_too_large(scenario.queues, "queues")
    if len(members) > MOST_MEMBERS:
        raise FaultError(f"events: {len(members):,} members join; a simulation has {MOST_MEMBERS:,} at most: name fewer")
    named = sum(len(event.join) + len(event.leave) + len(event.terminate) for event in scenario.events)
    if named > MOST_NAMED:
        raise FaultError(f"events: members are named {named:,} times; {MOST_NAMED:,} is the most: write fewer events")


def _not_too_large(queues: Mapping[str, QueuePart], field: str) -> None:
    if len(queues) > MOST_QUEUES:
        raise FaultError(f"{field}: there are {len(queues):,} queues; a simulation has {MOST_QUEUES:,} at most: give fewer")
    count = sum(queue.partitions for queue in queues.values())
    if count > MOST_PARTITIONS:
        raise FaultError(
            f"{field}: the queues have {count:,} partitions together; a simulation has {MOST_PARTITIONS:,} at most: give fewer"
        )


def _members_are_there(event: EventPart, number: int, joins: Mapping[str, float]) -> None:
    """Only who has joined can go. `joins`: when each joins first."""
    for field in ("leave", "terminate", "unready", "ready"):
        for place, name in enumerate(getattr(event, field)):
            if name in joins and joins[name] <= event.at:
                continue
            there = [other for other, at in joins.items() if at <= event.at]
            cure = f"it first joins at {joins[name]:g}" if name in joins else choose(name, there)
            raise FaultError(f"events.{number}.{field}.{place}: {name!r} has not joined by {event.at:g}; {cure}")


def _sentence(error: ValidationError) -> str:
    """The first fault: the field, and what it should be."""
    fault = first_mistake(error)
    at: tuple[object, ...] = fault["loc"]
    if at[:2] == ("consumers", "own"):
        at = (at[0], *at[2:])  # in the file a member's name stands directly under consumers
    cure = in_words(fault, expected={"ConsumerPart": "{release: SECONDS}, for a member of this name"})
    if fault["type"] == "unknown_field":
        unknown, known = fault["ctx"]["field"], fault["ctx"]["known"]
        at, cure = (*at, unknown), f"there is no such field; {choose(unknown.rpartition('.')[2], known)}"
    field = ".".join(str(part) for part in at if part != "[key]") or "scenario"
    return f"{field}: {cure}".replace("\n", " ")
