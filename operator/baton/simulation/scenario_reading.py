"""Reading of scenario files. A mistake gives one line: the file, the field and the cure.

A file has a scenario, or resources: the output of `kubectl get cg,pq -o yaml` can be simulated as it is.
"""

from collections.abc import Hashable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import yaml
from pydantic import BaseModel, ValidationError

from baton.engine.ledger import MOST_PARTITIONS
from baton.model.names import API_GROUP, API_VERSION
from baton.model.wording import choose
from baton.schema.mistakes import first_mistake, in_words
from baton.simulation.scenario import (
    EventPart,
    FaultError,
    GroupPart,
    QueuePart,
    QueueParts,
    Scenario,
    ScenarioError,
    merged,
)

# YAML as people write it by hand: a repeated key is a mistake, and so is half of a surrogate pair


class _Loader(yaml.SafeLoader):
    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Hashable, object]:
        seen: set[Hashable] = set()
        for key_node, _ in node.value:
            key = self.construct_object(key_node, deep=True) if key_node.tag != "tag:yaml.org,2002:merge" else None
            if key is not None and isinstance(key, Hashable):
                if key in seen:
                    raise yaml.constructor.ConstructorError(
                        None, None, f"the key {key!r} is here a second time; remove one of them", key_node.start_mark
                    )
                seen.add(key)
        return super().construct_mapping(node, deep)

    def construct_scalar(self, node: yaml.ScalarNode | yaml.MappingNode) -> str:
        value = super().construct_scalar(node)
        try:
            value.encode()
        except UnicodeEncodeError:  # pydantic would raise it too, while it reports a mistake
            raise yaml.constructor.ConstructorError(
                None, None, "half of a character (a surrogate); write the whole of it", node.start_mark
            ) from None
        return value


def read_document(text: str) -> object:
    """Return the value of the only document in a YAML text; None: the text has no document. Raises FaultError."""
    documents = read_documents(text)
    if len(documents) > 1:
        raise FaultError("more than one document; remove everything after the first ---")
    return documents[0] if documents else None


def read_documents(text: str) -> list[object]:
    """Return the values of all documents in a YAML text. Raises FaultError."""
    try:
        return list(yaml.load_all(text, _Loader))
    except yaml.MarkedYAMLError as error:
        where = f"line {error.problem_mark.line + 1}: " if error.problem_mark is not None else ""
        what = "" if isinstance(error, yaml.constructor.ConstructorError) else "not YAML: "
        raise FaultError(f"{where}{what}{error.problem or error.context}") from None
    except yaml.reader.ReaderError as error:
        raise FaultError(f"not YAML: {error.reason}, at character {error.position}") from None
    except RecursionError:
        raise FaultError("it is nested too deeply") from None
    except ValueError as error:
        raise FaultError(f"a value cannot be read: {str(error).split(';')[0]}") from None


# Resources as a scenario


Manifest = Mapping[str, object]

AT_REST = 60.0
"""Least seconds between two changes of a fleet for which the file has no events; more if the delays are longer."""

_VERSION = f"{API_GROUP}/{API_VERSION}"
_KINDS = ("ConsumerGroup", "PartitionedQueue")
_FIELDS = ("apiVersion", "kind", "metadata", "spec", "status")

MEMBERS = 3
"""The number of members if neither the group's status nor its spec gives one."""


def manifests(documents: Iterable[object]) -> list[Manifest]:
    """The objects among the documents, including those in lists. An object has a kind."""
    found: list[Manifest] = []
    for document in documents:
        if isinstance(document, Mapping) and isinstance(document.get("kind"), str):
            items = document.get("items")
            found += manifests(items) if document["kind"].endswith("List") and isinstance(items, list) else [document]
    return found


def scenario_of(objects: Iterable[Manifest], group: str | None) -> dict[str, Any]:
    """The queues and the spec of the ConsumerGroup of this name (None: of the only one), and a life for its fleet. Objects of
    other kinds do not matter. Raises FaultError."""
    ours = [one for one in objects if str(one.get("apiVersion", "")).startswith(f"{API_GROUP}/")]
    for one in ours:
        _check_shape(one)
    chosen = _chosen([one for one in ours if one["kind"] == "ConsumerGroup"], group)
    namespace, name = _metadata(chosen, "namespace"), _metadata(chosen, "name")
    queues = {
        _metadata(one, "name"): one
        for one in ours
        if one["kind"] == "PartitionedQueue" and _metadata(one, "namespace") == namespace
    }
    spec = _mapping(chosen, "spec")
    named = [str(queue.get("name")) for queue in _list(spec, "queues") if isinstance(queue, Mapping)]
    if "queues" not in spec and spec.keys() <= _aliases(GroupPart):  # misspelled fields are reported first
        raise FaultError(f"ConsumerGroup {name}: it names no queue; write spec.queues, or take what kubectl kustomize prints")
    for queue in named:
        if queue not in queues:
            raise FaultError(f"ConsumerGroup {name} needs PartitionedQueue {queue}; add it (kubectl get cg,pq -o yaml)")
    specs = {queue: _queue(queues[queue]) for queue in named}
    return {"queues": specs, "group": dict(spec), **_life(name, chosen, specs)}


def _check_shape(manifest: Manifest) -> None:
    """Reject unknown top-level fields as the API server does: a misspelled one would hide everything below it."""
    kind, name = manifest["kind"], _metadata(manifest, "name")
    if manifest["apiVersion"] != _VERSION:
        raise FaultError(f"{kind} {name}: apiVersion: expected {_VERSION}, found {manifest['apiVersion']}")
    if kind not in _KINDS:
        raise FaultError(f"{name}: kind: expected {' or '.join(_KINDS)}, found {kind}")
    for field in manifest:
        if field not in _FIELDS:
            raise FaultError(f"{kind} {name}: {field}: there is no such field; {choose(field, _FIELDS)}")
    if not isinstance(manifest.get("spec"), Mapping):
        raise FaultError(f"{kind} {name}: spec is missing, or no mapping; write it")


def _chosen(groups: list[Manifest], name: str | None) -> Manifest:
    """Return the group with this name, with or without namespace. `name` None: the only group."""
    full = {f"{_metadata(one, 'namespace')}/{_metadata(one, 'name')}".lstrip("/"): one for one in groups}
    fitting = [one for names, one in full.items() if name is None or name in (names, names.rpartition("/")[2])]
    if len(fitting) == 1:
        return fitting[0]
    if not groups:
        raise FaultError("there is no ConsumerGroup here; add it (kubectl get cg,pq -o yaml)")
    if not fitting:
        raise FaultError(f"there is no ConsumerGroup {name} here; choose one of {', '.join(sorted(full))}")
    raise FaultError(f"there are several ConsumerGroups here; choose one by --group: {', '.join(sorted(full))}")


def _queue(manifest: Manifest) -> dict[str, object]:
    """Return a queue's spec. If it has no number of partitions, that is taken from the status."""
    spec = dict(_mapping(manifest, "spec"))
    reported = _mapping(manifest, "status").get("partitions")
    if spec.get("partitions") is None and reported is not None:
        spec["partitions"] = reported
    return spec


def check_partitions(queues: Mapping[str, object]) -> None:
    """Raise FaultError if the number of partitions of a queue is unknown. `queues`: those of the resources, with all changes."""
    for name, spec in queues.items():
        if not isinstance(spec, Mapping) or spec.get("partitions") is not None or spec.keys() - _aliases(QueuePart):
            continue  # misspelled fields are reported first
        if _mapping(spec, "source").get("type") != "Kafka":
            raise FaultError(f"PartitionedQueue {name}: nothing says how many partitions it has; write spec.partitions")
        raise FaultError(
            f"PartitionedQueue {name}: its topic says how many partitions it has, and a simulation does not ask; "
            f"add a document with queues: {{{name}: {{partitions: 12}}}}, or take what kubectl get cg,pq -o yaml prints"
        )


def _aliases(part: type[BaseModel]) -> set[str | None]:
    return {field.alias for field in part.model_fields.values()}


def _life(name: str, group: Manifest, queues: Mapping[str, Mapping[str, object]]) -> dict[str, object]:
    """Return events for a group without any: its members join; then one more joins, one crashes, and one is replaced."""
    spec, status = _mapping(group, "spec"), _mapping(group, "status")
    count = next((n for n in (status.get("members"), spec.get("replicas")) if isinstance(n, int) and n > 0), MEMBERS)
    rebalances = [_mapping(one, "rebalance") for one in (spec, *queues.values())]
    waits = [wait for one in rebalances for at, wait in one.items() if at.endswith("Seconds") and isinstance(wait, int | float)]
    apart = max([AT_REST, *(4.0 * wait for wait in waits)])
    members = [_member(f"{name}-{number}", number, spec, queues) for number in range(1, count + 3)]
    return {
        "events": [
            {"at": 0, "join": members[:count]},
            {"at": apart, "join": [members[count]]},
            {"at": 2 * apart, "leave": [members[0]["id"]]},
            {"at": 3 * apart, "terminate": [members[count]["id"]], "join": [members[count + 1]]},
        ],
        "until": 4 * apart,
    }


def _member(name: str, number: int, group: Mapping[str, object], queues: Mapping[str, Mapping[str, object]]) -> dict[str, object]:
    """Return a member that joins, in the next of the queues' zones, and with an identity if the group has static members."""
    entries = [entry for queue in queues.values() for entry in _list(queue, "partitionAttributes")]
    zones = sorted({str(zone) for entry in entries for zone in _list(entry, "zones")})
    static = _mapping(group, "membership").get("identityLabel") is not None
    return {"id": name, **({"zone": zones[number % len(zones)]} if zones else {}), **({"instance": name} if static else {})}


def _mapping(value: Manifest, field: str) -> Mapping[str, object]:
    found = value.get(field)
    return found if isinstance(found, Mapping) else {}


def _list(value: object, field: str) -> list[object]:
    found = value.get(field) if isinstance(value, Mapping) else None
    return found if isinstance(found, list) else []


def _metadata(manifest: Manifest, field: str) -> str:
    return str(_mapping(manifest, "metadata").get(field, ""))


# The file


def read_scenario(path: Path, group: str | None = None) -> Scenario:
    """Read a scenario; see `read_raw`. Raises ScenarioError if the file is missing, not YAML, or not a scenario."""
    return parse_scenario(read_raw(path, group), str(path))


def read_raw(path: Path, group: str | None = None) -> dict[str, object]:
    """Return the file's scenario, not validated yet.

    Resources give its queues and its group (by the name `group`, if there are several). A document beside them is merged in.
    Raises ScenarioError.
    """
    try:
        return _scenario(read_documents(path.read_text(encoding="utf-8")), group)
    except OSError as error:
        raise ScenarioError(f"{path}: {error.strerror}") from None
    except UnicodeDecodeError:
        raise ScenarioError(f"{path}: not a text in UTF-8") from None
    except FaultError as error:
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
    until = beside[0].get("until")
    if isinstance(until, int | float):  # generated events end with it
        found["events"] = [event for event in found["events"] if event["at"] <= until]
    return {**found, **beside[0], **together}


def parse_scenario(raw: Mapping[str, object], source: str = "scenario") -> Scenario:
    """Validate a scenario, including the changes of all its events. Raises ScenarioError."""
    try:
        scenario = Scenario.model_validate(raw)
        _walk(scenario)
    except ValidationError as error:
        raise ScenarioError(f"{source}: {_sentence(error)}") from None
    except FaultError as error:
        raise ScenarioError(f"{source}: {error}") from None
    return scenario


def _walk(scenario: Scenario) -> None:
    """Check the events in the order of time; those of one time in the order of the file."""
    group: dict[str, object] = dict(scenario.group)
    queues: dict[str, object] = {name: queue.as_written() for name, queue in scenario.queues.items()}
    events = sorted(enumerate(scenario.events), key=lambda numbered: numbered[1].at)
    joins: dict[str, float] = {}
    for _, event in events:
        for member in event.join:
            joins.setdefault(member.id, event.at)
    _not_too_large(scenario.queues, "queues")
    for number, event in events:
        if event.at > scenario.until:
            raise FaultError(
                f"events.{number}.at: {event.at:g} is after until ({scenario.until:g}), so it does not happen; raise until, or "
                "remove the event"
            )
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


def _not_too_large(queues: Mapping[str, QueuePart], field: str) -> None:
    count = sum(queue.partitions for queue in queues.values())
    if count > MOST_PARTITIONS:
        raise FaultError(
            f"{field}: the queues have {count:,} partitions together; a simulation has {MOST_PARTITIONS:,} at most: give fewer"
        )


def _members_are_there(event: EventPart, number: int, joins: Mapping[str, float]) -> None:
    """Check that only pods that have joined leave, stop or change readiness. `joins`: when each joins first."""
    for field in ("leave", "terminate", "unready", "ready"):
        for place, name in enumerate(getattr(event, field)):
            if name in joins and joins[name] <= event.at:
                continue
            there = [other for other, at in joins.items() if at <= event.at]
            cure = f"it first joins at {joins[name]:g}" if name in joins else choose(name, there)
            raise FaultError(f"events.{number}.{field}.{place}: {name!r} has not joined by {event.at:g}; {cure}")


_EXPECTED = {
    "ConsumerPart": "{release: SECONDS}, for a member of this name",
    "QueuePart": "a number of partitions, or a PartitionedQueue's spec",
}


def _sentence(error: ValidationError) -> str:
    """Return the first mistake: the field, and what it should be."""
    fault = first_mistake(error)
    at: tuple[object, ...] = fault["loc"]
    if at[:2] == ("consumers", "own"):
        at = (at[0], *at[2:])  # in the file a member's name is directly under consumers
    cure = in_words(fault, expected=_EXPECTED)
    if fault["type"] == "unknown_field":
        unknown, known = fault["ctx"]["field"], fault["ctx"]["known"]
        at, cure = (*at, unknown), f"there is no such field; {choose(unknown.rpartition('.')[2], known)}"
    field = ".".join(str(part) for part in at if part != "[key]") or "scenario"
    return f"{field}: {cure}".replace("\n", " ")
