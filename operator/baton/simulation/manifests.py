"""Resources as a scenario: what `kubectl get cg,pq -o yaml` prints simulates as it is."""

from collections.abc import Iterable, Mapping

from pydantic import BaseModel

from baton.model.names import API_GROUP, API_VERSION
from baton.simulation.scenario import GroupPart, QueuePart
from baton.simulation.scenario_errors import FaultError, choose

Manifest = Mapping[str, object]

AT_REST = 60.0
"""Seconds between two changes of a fleet whose life nobody has written down; longer where its delays are longer."""

_VERSION = f"{API_GROUP}/{API_VERSION}"
_KINDS = ("ConsumerGroup", "PartitionedQueue")
_FIELDS = ("apiVersion", "kind", "metadata", "spec", "status")

MEMBERS = 3
"""Where neither the group's status nor its spec says how many there are."""


def manifests(documents: Iterable[object]) -> list[Manifest]:
    """The objects among documents, those in lists too. What has no kind is none."""
    found: list[Manifest] = []
    for document in documents:
        if isinstance(document, Mapping) and isinstance(document.get("kind"), str):
            items = document.get("items")
            found += manifests(items) if document["kind"].endswith("List") and isinstance(items, list) else [document]
    return found


def scenario_of(objects: Iterable[Manifest], group: str | None) -> dict[str, object]:
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
    if "queues" not in spec and spec.keys() <= _aliases(GroupPart):  # what is misspelled is told first
        raise FaultError(f"ConsumerGroup {name}: it names no queue; write spec.queues, or take what kubectl kustomize prints")
    for queue in named:
        if queue not in queues:
            raise FaultError(f"ConsumerGroup {name} needs PartitionedQueue {queue}; add it (kubectl get cg,pq -o yaml)")
    specs = {queue: _queue(queues[queue]) for queue in named}
    return {"queues": specs, "group": dict(spec), **_life(name, chosen, specs)}


def _check_shape(manifest: Manifest) -> None:
    """As the API server does, strictly: what is misspelled at the top would take all below it away."""
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
    """By its name, with or without its namespace; None: the only one."""
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
    """Its spec. The partitions that its server told stand in the status."""
    spec = dict(_mapping(manifest, "spec"))
    told = _mapping(manifest, "status").get("partitions")
    if spec.get("partitions") is None and told is not None:
        spec["partitions"] = told
    return spec


def check_partitions(queues: Mapping[str, object]) -> None:
    """`queues`: those of the resources, with all that was said beside them. Raises FaultError where nothing says how many
    partitions one has."""
    for name, spec in queues.items():
        if not isinstance(spec, Mapping) or spec.get("partitions") is not None or spec.keys() - _aliases(QueuePart):
            continue  # what is misspelled is told first
        if _mapping(spec, "source").get("type") != "Kafka":
            raise FaultError(f"PartitionedQueue {name}: nothing says how many partitions it has; write spec.partitions")
        raise FaultError(
            f"PartitionedQueue {name}: its topic says how many partitions it has, and a simulation does not ask; "
            f"add a document with queues: {{{name}: {{partitions: 12}}}}, or take what kubectl get cg,pq -o yaml prints"
        )


def _aliases(part: type[BaseModel]) -> set[str | None]:
    return {field.alias for field in part.model_fields.values()}


def _life(name: str, group: Manifest, queues: Mapping[str, Mapping[str, object]]) -> dict[str, object]:
    """As many members as there are join; one more comes, one crashes, and one is replaced."""
    spec, status = _mapping(group, "spec"), _mapping(group, "status")
    count = next((n for n in (status.get("members"), spec.get("replicas")) if isinstance(n, int) and n > 0), MEMBERS)
    rebalances = [_mapping(one, "rebalance") for one in (spec, *queues.values())]
    waits = [wait for one in rebalances for wait in one.values() if isinstance(wait, int | float)]
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
    """In each of the queues' zones in turn; with an identity where the group has static members."""
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
