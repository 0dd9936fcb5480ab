"""Objects of one kind as the watch shows them, put right by lists.

A watch that had to start again lists what there is and says nothing of what vanished meanwhile; so every now and then a list is
laid over what is in the store. Resource versions order the two (they may be compared as numbers, KEP-5504).

One object never stops the others: whatever its view raises, the rest of the list is taken, what was last read of it stands, and
it is told as unread.
"""

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from math import inf
from typing import Any, Generic, Protocol, TypeVar
from weakref import WeakSet

import structlog

from baton.model.names import GROUP_LABEL

Manifest = Mapping[str, Any]

MOST_GONE = 1000
"""Objects of which it is remembered that they are gone, so that an old story does not bring them back. A list that is laid over
the store forgets them, but a replica that does not lead may list nothing for months. While a list is under way, more are
remembered: all that went since it was made, for its later pages show them still."""

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
Bucket = tuple[str, str]


class Store(Generic[V]):
    """Views by namespace and group. `changed` hears of everything that is put or taken, also where nothing of it changed."""

    def __init__(self, view: Callable[[Manifest], V | None], changed: Callable[[V | None, V | None], None]) -> None:
        self._view = view
        self._changed = changed
        self._objects: dict[str, dict[str, tuple[int, V | None]]] = {}
        """By namespace and name: the version last seen, and the view; None once it is gone."""
        self._gone: deque[tuple[str, str, int]] = deque()
        """Namespace, name and version of those that went last, as far as they have not come back."""
        self._under_way: WeakSet[Listing[V]] = WeakSet()
        """Lists that have not ended; one that was given up is not held."""
        self._buckets: dict[Bucket, dict[str, V]] = {}
        self._unread: dict[tuple[str, str], tuple[int, str, str]] = {}
        """By namespace and name: the version that could not be read, the bucket that it names, and why."""

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
        return self._seen(namespace, name)[1]

    def event(self, kind: str | None, manifest: Manifest) -> None:
        """A watch's event; `kind` DELETED, or anything else for an object that is there."""
        self._put(manifest, gone=kind == "DELETED")

    def listed(self, namespace: str | None, manifests: Iterable[Manifest], version: str) -> None:
        """A list of all of a namespace's objects (None: of all namespaces) as of this version."""
        laid = self.listing(namespace, version)
        laid.page(manifests)
        laid.end()

    def listing(self, namespace: str | None, version: str) -> "Listing[V]":
        """The same, in pages."""
        listing = Listing(self, namespace, int(version))
        self._under_way.add(listing)
        return listing

    def _without(self, namespace: str | None, there: set[tuple[str, str]], as_of: int) -> None:
        """A list shows these, and no others."""
        for within in list(self._objects) if namespace is None else [namespace]:
            held = self._objects.get(within, {})
            for name, (seen, view) in list(held.items()):
                if seen > as_of or (within, name) in there:
                    continue
                self._unread.pop((within, name), None)
                if view is None:
                    del held[name]
                else:
                    self._replace((within, name), as_of, None)
            if not held:
                self._objects.pop(within, None)

    def _seen(self, namespace: str, name: str) -> tuple[int, V | None]:
        return self._objects.get(namespace, {}).get(name, (0, None))

    def _put(self, manifest: Manifest, gone: bool) -> None:
        metadata = manifest["metadata"]
        key = (metadata["namespace"], metadata["name"])
        version = int(metadata["resourceVersion"])
        seen, view = self._seen(*key)
        if version < seen:
            return  # an old story
        if version == seen and view is not None and not gone:
            return  # the same story
        if gone:
            self._unread.pop(key, None)
            self._replace(key, version, None)
            return
        try:
            after = self._view(manifest)
        except Exception as error:  # whatever it is: it is this object's alone
            self._refuse(key, version, manifest, error)
            after = view
        else:
            self._unread.pop(key, None)
        self._replace(key, version, after)

    def _refuse(self, key: tuple[str, str], version: int, manifest: Manifest, error: Exception) -> None:
        if self._unread.get(key, (-1, "", ""))[0] == version:
            return
        why = type(error).__name__
        log.warning("an object cannot be read, and is passed over", namespace=key[0], name=key[1], why=why)
        labels = manifest["metadata"].get("labels")
        group = labels.get(GROUP_LABEL) if isinstance(labels, Mapping) else None
        self._unread[key] = (version, str(group), why)

    def _replace(self, key: tuple[str, str], version: int, after: V | None) -> None:
        _, before = self._seen(*key)
        self._objects.setdefault(key[0], {})[key[1]] = (version, after)
        if after is None:
            self._went(*key, version)
        if before is not None:
            held = self._buckets[before.namespace, before.group]
            held.pop(before.name, None)
            if not held:
                del self._buckets[before.namespace, before.group]
        if after is not None:
            self._buckets.setdefault((after.namespace, after.group), {})[after.name] = after
        if before is not None or after is not None:
            self._changed(before, after)

    def _went(self, namespace: str, name: str, version: int) -> None:
        self._gone.append((namespace, name, version))
        self._forget_oldest()

    def _forget_oldest(self) -> None:
        oldest = min((listing.as_of for listing in self._under_way), default=inf)
        while len(self._gone) > MOST_GONE and self._gone[0][2] <= oldest:
            namespace, name, version = self._gone.popleft()
            if self._seen(namespace, name) == (version, None):
                del self._objects[namespace][name]
                if not self._objects[namespace]:
                    del self._objects[namespace]


class Listing(Generic[V]):
    """A list that is laid over what is in a store, page by page; what it does not show is gone when it has ended."""

    def __init__(self, store: Store[V], namespace: str | None, as_of: int) -> None:
        self._store = store
        self._namespace = namespace
        self.as_of = as_of
        """The version that all its pages show."""
        self._there: set[tuple[str, str]] = set()

    def page(self, manifests: Iterable[Manifest]) -> None:
        for manifest in manifests:
            self._there.add((manifest["metadata"]["namespace"], manifest["metadata"]["name"]))
            self._store._put(manifest, gone=False)

    def end(self) -> None:
        self._store._without(self._namespace, self._there, self.as_of)
        self._store._under_way.discard(self)
        self._store._forget_oldest()
