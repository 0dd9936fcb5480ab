"""The objects, each by its kind, namespace and name, under one version that grows with every write."""

from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from tests.simulation.api_server.history import Change, History
from tests.simulation.api_server.kinds import Kind
from tests.simulation.api_server.manifests import Manifest

Key = tuple[str, str]
"""Namespace (empty for cluster-wide objects) and name."""


class Store:
    """`written` and `removed` hear of every change, after it."""

    def __init__(self) -> None:
        self.version = 1
        self.history = History()
        self.written: Callable[[Kind, Key, Manifest], None] = lambda kind, key, manifest: None
        self.removed: Callable[[Kind, Key, Manifest], None] = lambda kind, key, manifest: None
        self._objects: dict[Kind, dict[Key, Manifest]] = defaultdict(dict)

    def get(self, kind: Kind, key: Key) -> Manifest | None:
        return self._objects[kind].get(key)

    def put(self, kind: Kind, key: Key, manifest: Mapping[str, Any]) -> Manifest:
        """Write it under the next version."""
        self.version += 1
        before = self._objects[kind].get(key)
        after = Manifest({**manifest, "metadata": Manifest({**manifest["metadata"], "resourceVersion": str(self.version)})})
        self._objects[kind][key] = after
        self.history.add(kind, Change(self.version, before, after))
        self.written(kind, key, after)
        return after

    def remove(self, kind: Kind, key: Key) -> Manifest:
        """It is no more. Returns it as it was last."""
        self.version += 1
        before = self._objects[kind].pop(key)
        self.history.add(kind, Change(self.version, before, None))
        self.removed(kind, key, before)
        return before

    def keys(self, kind: Kind, namespace: str | None) -> list[Key]:
        """Of a namespace, or of all (None), in their order."""
        return sorted(key for key in self._objects[kind] if namespace is None or key[0] == namespace)

    def listed(self, kind: Kind, namespace: str | None) -> Iterator[Manifest]:
        objects = self._objects[kind]
        return (objects[key] for key in self.keys(kind, namespace))

    def compact(self) -> None:
        """Forget what was before now: watches that are behind have to list."""
        self.history.compact(self.version)
