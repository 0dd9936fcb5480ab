"""Objects of one kind as the watch shows them, put right by lists.

A watch that had to start again lists what there is and says nothing of what vanished meanwhile; so every now and then a list is
laid over what is in the store. Resource versions order the two (they may be compared as numbers, KEP-5504).

One object never stops the others: whatever its view raises, the rest of the list is taken, what was last read of it stands, and
it is told as unread.
"""

from collections import OrderedDict
from collections.abc import Callable, Iterator, Mapping, Set
from typing import Any, Generic, Protocol, TypeVar

import structlog

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
        self._objects: dict[Key, tuple[int, V]] = {}
        """The version last seen, and the view."""
        self._gone: OrderedDict[Key, int] = OrderedDict()
        """The version at which each went, as far as it has not come back; the latest last."""
        self._buckets: dict[Bucket, dict[str, V]] = {}
        self._unread: dict[Key, tuple[int, str, str]] = {}
        """The version that could not be read, the bucket that it names, and why."""

    def bucket(self, namespace: str, group: str) -> Mapping[str, V]:
        """Views by name."""
        return self._buckets.get((namespace, group), {})

    def __iter__(self) -> Iterator[V]:
        """All views."""
        return (view for held in list(self._buckets.values()) for view in list(held.values()))

    def buckets(self) -> Mapping[Bucket, Mapping[str, V]]:
        return self._buckets

    def unread(self, namespace: str, group: str) -> Mapping[str, str]:
        """What could not be read of those that name this bucket: why, by name."""
        return {name: why for (within, name), (_, named, why) in self._unread.items() if (within, named) == (namespace, group)}

    def get(self, namespace: str, name: str) -> V | None:
        found = self._objects.get((namespace, name))
        return None if found is None else found[1]

    def event(self, kind: str | None, manifest: Manifest) -> None:
        """An event's type, and the object: DELETED, or anything else for an object that is there, also as an item of a list."""
        key, version = key_of(manifest), int(manifest["metadata"]["resourceVersion"])
        found = self._objects.get(key)
        seen, view = found or (self._gone.get(key, 0), None)
        if version < seen:
            return  # an old story
        if version == seen and view is not None and kind != "DELETED":
            return  # the same story
        try:
            after = None if kind == "DELETED" else self._view(manifest)
            self._unread.pop(key, None)
        except Exception as error:  # whatever it is: it is this object's alone
            self._refuse(key, version, manifest, error)
            after = view
        self._replace(key, version, after)

    def keep(self, namespace: str | None, there: Set[Key], as_of: int) -> None:
        """A list of all of a namespace's objects (None: of all namespaces) as of this version showed these, and no others. Each
        was put by `event`."""
        for key, (seen, _) in list(self._objects.items()):
            if seen <= as_of and key not in there and namespace in (None, key[0]):
                self._replace(key, as_of, None)
        for key in [key for key in self._unread if key not in there and namespace in (None, key[0])]:
            del self._unread[key]

    def _refuse(self, key: Key, version: int, manifest: Manifest, error: Exception) -> None:
        if self._unread.get(key, (-1, "", ""))[0] == version:
            return
        why = type(error).__name__
        log.warning("an object cannot be read, and is passed over", namespace=key[0], name=key[1], why=why)
        labels = manifest["metadata"].get("labels")
        group = labels.get(GROUP_LABEL) if isinstance(labels, Mapping) else None
        self._unread[key] = (version, str(group), why)

    def _replace(self, key: Key, version: int, after: V | None) -> None:
        _, before = self._objects.pop(key, (0, None))
        self._gone.pop(key, None)
        if before is not None:
            held = self._buckets[before.namespace, before.group]
            held.pop(before.name, None)
            if not held:
                del self._buckets[before.namespace, before.group]
        if after is not None:
            self._objects[key] = (version, after)
            self._buckets.setdefault((after.namespace, after.group), {})[after.name] = after
        else:
            self._gone[key] = version
            if len(self._gone) > MOST_GONE:
                self._gone.popitem(last=False)
        if before is not None or after is not None:
            self._changed(before, after)
