"""The kinds of object that the operator watches, and a store for the objects of one kind.

A watch that restarts lists the objects that exist and does not report those deleted meanwhile. So the store is also compared with
complete lists from time to time. Resource versions order events and lists (they may be compared as numbers, KEP-5504).

An object whose view raises an exception does not affect others: the store keeps its previous view.
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
"""Deleted objects to remember, so that an older list does not bring them back."""

log = structlog.get_logger("baton.watch")


class Placed(Protocol):
    """An object that a store can hold."""

    @property
    def namespace(self) -> str: ...
    @property
    def name(self) -> str: ...
    @property
    def group(self) -> str:
        """The ConsumerGroup that the object belongs to."""


V = TypeVar("V", bound=Placed)


def key_of(manifest: Manifest) -> Key:
    """Namespace and name of an object."""
    metadata = manifest["metadata"]
    return metadata["namespace"], metadata["name"]


class Store(Generic[V]):
    """Views by namespace and group. `changed(before, after)` is called for each put and removal, even if the view is the same."""

    def __init__(self, view: Callable[[Manifest], V | None], changed: Callable[[V | None, V | None], None]) -> None:
        self._view = view
        self._changed = changed
        self._objects: defaultdict[str, dict[str, tuple[int, V]]] = defaultdict(dict)
        """Version last seen and view, by namespace and name."""
        self._gone: OrderedDict[Key, int] = OrderedDict()
        """Version at which each deleted object was removed, oldest removal first."""
        self._buckets: dict[Bucket, dict[str, V]] = {}

    def bucket(self, namespace: str, group: str) -> Mapping[str, V]:
        """Views of one group by name."""
        return self._buckets.get((namespace, group), {})

    def __iter__(self) -> Iterator[V]:
        return (view for held in list(self._buckets.values()) for view in list(held.values()))

    def buckets(self) -> Mapping[Bucket, Mapping[str, V]]:
        return self._buckets

    def get(self, namespace: str, name: str) -> V | None:
        found = self._objects[namespace].get(name) if namespace in self._objects else None
        return None if found is None else found[1]

    def event(self, kind: str | None, manifest: Manifest) -> None:
        """Apply a watch event or an item of a list. `kind`: the event's type; anything but DELETED means that the object
        exists."""
        key, version = key_of(manifest), int(manifest["metadata"]["resourceVersion"])
        found = self._objects[key[0]].get(key[1])
        seen, view = found or (self._gone.get(key, 0), None)
        if version < seen:
            return  # older than what is known
        if version == seen and view is not None and kind != "DELETED":
            return  # already known
        try:
            after = None if kind == "DELETED" else self._view(manifest)
        except Exception as error:  # must not affect other objects
            why = type(error).__name__
            log.warning("cannot read an object; keeping its previous view", namespace=key[0], name=key[1], why=why)
            after = view
        self._replace(key, version, after)

    def keep(self, namespace: str | None, there: Set[Key], as_of: int) -> None:
        """Remove objects that a complete list did not contain. `there`: the objects of the namespace (None: of all namespaces) as
        of version `as_of`; each was already passed to `event`."""
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
    """A kind by its plural name, as in RBAC rules."""

    PODS = "pods"
    LEASES = "leases"
    LEDGERS = "configmaps"
    QUEUES = "partitionedqueues"
    GROUPS = "consumergroups"

    @property
    def group_version(self) -> tuple[str, str]:
        """API group ("" for the core group) and version."""
        group, _, version = _GROUP_VERSIONS.get(self, "/v1").rpartition("/")
        return group, version

    @property
    def selector(self) -> Mapping[str, str]:
        """Query parameters that narrow a list or watch at the server."""
        return {} if self in (WatchedKind.QUEUES, WatchedKind.GROUPS) else {"labelSelector": GROUP_LABEL}

    def trimmed(self, manifest: Manifest) -> Manifest:
        """Return only the parts that are used, to save memory while objects wait to be processed. A pod's spec, or an object's
        managed fields, can have a MiB as JSON and twenty times as much as Python objects."""
        parts = ("metadata", "status") if self is WatchedKind.PODS else manifest.keys()
        made = {part: manifest[part] for part in parts if part in manifest}
        return {**made, "metadata": {name: value for name, value in manifest["metadata"].items() if name != "managedFields"}}

    def path(self, namespace: str | None) -> str:
        """Path of all objects in this namespace; None: in all namespaces."""
        group, version = self.group_version
        return group_path(f"{group}/{version}", namespace, self.value) if group else core_path(namespace, self.value)


_GROUP_VERSIONS = {WatchedKind.LEASES: LEASES, WatchedKind.QUEUES: GROUP_VERSION, WatchedKind.GROUPS: GROUP_VERSION}

WATCHED = tuple(of for of in WatchedKind if of is not WatchedKind.LEDGERS)
"""Ledgers are not watched: the operator is their only writer, and notices edits by a write conflict or a list."""
