"""Kinds of object that the operator watches, and the objects of one kind as the watch shows them, put right by lists.

A watch that had to start again lists what there is and says nothing of what vanished meanwhile; so every now and then a list is
laid over what is in the store. Resource versions order the two (they may be compared as numbers, KEP-5504).

One object never stops the others: whatever its view raises, the rest of the list is taken, and what was last read of it stands.
"""

from collections import OrderedDict, defaultdict
from collections.abc import Callable, Iterator, Mapping, Set
from enum import StrEnum
from typing import Any, Generic, Protocol, TypeVar

import structlog

from baton.kube.api import core_path, group_path
from baton.kube.leases import LEASES
from baton.kube.objects import GROUP_VERSION
from baton.model.names import GROUP_LABEL

Manifest = Mapping[str, Any]
Bucket = tuple[str, str]
"""Namespace and group."""
Key = tuple[str, str]
"""Namespace and name."""

MOST_GONE = 10_000
"""Objects of which it is remembered that they are gone, so that an older list does not bring them back."""

log = structlog.get_logger("baton.watch")


class Placed(Protocol):
    """What can be in a store."""

    @property
    def namespace(self) -> str: ...
    @property
    def name(self) -> str: ...
    @property
    def group(self) -> str:
        """The bucket within the namespace."""


V = TypeVar("V", bound=Placed)


def key_of(manifest: Manifest) -> Key:
    """Where an object is."""
    metadata = manifest["metadata"]
    return metadata["namespace"], metadata["name"]


class Store(Generic[V]):
    """Views by namespace and group. `changed` hears of everything that is put or taken, also where nothing of it changed."""

    def __init__(self, view: Callable[[Manifest], V | None], changed: Callable[[V | None, V | None], None]) -> None:
        self._view = view
        self._changed = changed
        self._objects: defaultdict[str, dict[str, tuple[int, V]]] = defaultdict(dict)
        """By namespace and name: the version last seen, and the view."""
        self._gone: OrderedDict[Key, int] = OrderedDict()
        """The version at which each went, as far as it has not come back; the latest last."""
        self._buckets: dict[Bucket, dict[str, V]] = {}

    def bucket(self, namespace: str, group: str) -> Mapping[str, V]:
        """Views by name."""
        return self._buckets.get((namespace, group), {})

    def __iter__(self) -> Iterator[V]:
        return (view for held in list(self._buckets.values()) for view in list(held.values()))

    def buckets(self) -> Mapping[Bucket, Mapping[str, V]]:
        return self._buckets

    def get(self, namespace: str, name: str) -> V | None:
        found = self._objects[namespace].get(name) if namespace in self._objects else None
        return None if found is None else found[1]

    def event(self, kind: str | None, manifest: Manifest) -> None:
        """An event's type, and the object: DELETED, or anything else for an object that is there, also as an item of a list."""
        key, version = key_of(manifest), int(manifest["metadata"]["resourceVersion"])
        found = self._objects[key[0]].get(key[1])
        seen, view = found or (self._gone.get(key, 0), None)
        if version < seen:
            return  # an old story
        if version == seen and view is not None and kind != "DELETED":
            return  # the same story
        try:
            after = None if kind == "DELETED" else self._view(manifest)
        except Exception as error:  # whatever it is: it is this object's alone
            why = type(error).__name__
            log.warning("an object cannot be read; what was last read of it stands", namespace=key[0], name=key[1], why=why)
            after = view
        self._replace(key, version, after)

    def keep(self, namespace: str | None, there: Set[Key], as_of: int) -> None:
        """A list of all of a namespace's objects (None: of all namespaces) as of this version showed these, and no others. Each
        was put by `event`."""
        for within in [*self._objects] if namespace is None else [namespace]:
            gone = [name for name, (seen, _) in self._objects[within].items() if seen <= as_of and (within, name) not in there]
            for name in gone:
                self._replace((within, name), as_of, None)
            if not self._objects[within]:
                del self._objects[within]

    def _replace(self, key: Key, version: int, after: V | None) -> None:
        _, before = self._objects[key[0]].pop(key[1], (0, None))
        self._gone.pop(key, None)
        if before is not None:
            held = self._buckets[before.namespace, before.group]
            held.pop(before.name, None)
            if not held:
                del self._buckets[before.namespace, before.group]
        if after is not None:
            self._objects[key[0]][key[1]] = (version, after)
            self._buckets.setdefault((after.namespace, after.group), {})[after.name] = after
        else:
            self._gone[key] = version
            if len(self._gone) > MOST_GONE:
                self._gone.popitem(last=False)
        if before is not None or after is not None:
            self._changed(before, after)


class WatchedKind(StrEnum):
    """By plural, as rules of RBAC name them."""

    PODS = "pods"
    LEASES = "leases"
    LEDGERS = "configmaps"
    QUEUES = "partitionedqueues"
    GROUPS = "consumergroups"

    @property
    def group_version(self) -> tuple[str, str]:
        """API group ("" for the core's) and version."""
        group, _, version = _GROUP_VERSIONS.get(self, "/v1").rpartition("/")
        return group, version

    @property
    def selector(self) -> Mapping[str, str]:
        """What narrows a list or a watch at the server."""
        return {} if self in (WatchedKind.QUEUES, WatchedKind.GROUPS) else {"labelSelector": GROUP_LABEL}

    def looked_at(self, manifest: Manifest) -> Manifest:
        """The parts that are used, so that waiting objects do not keep the rest. A pod's spec, and any object's managed fields,
        may have a MiB, and twenty times as much as Python objects."""
        parts = ("metadata", "status") if self is WatchedKind.PODS else manifest.keys()
        made = {part: manifest[part] for part in parts if part in manifest}
        return {**made, "metadata": {name: value for name, value in manifest["metadata"].items() if name != "managedFields"}}

    def path(self, namespace: str | None) -> str:
        """Of all in this namespace; None: of all namespaces."""
        group, version = self.group_version
        return group_path(f"{group}/{version}", namespace, self.value) if group else core_path(namespace, self.value)


_GROUP_VERSIONS = {WatchedKind.LEASES: LEASES, WatchedKind.QUEUES: GROUP_VERSION, WatchedKind.GROUPS: GROUP_VERSION}

WATCHED = tuple(of for of in WatchedKind if of is not WatchedKind.LEDGERS)
"""The operator is the only writer of ledgers: it notices an edit by a conflict, or by a list."""
