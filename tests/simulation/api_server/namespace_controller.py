"""The controller that empties a namespace that is deleted: kind by kind, in any order, and again until nothing is left.

As since Kubernetes 1.33 pods go first, and the rest waits for them; before that they had no place of their own.
"""

import random
from collections.abc import Callable

from tests.simulation.api_server.deletion import Deletion
from tests.simulation.api_server.kinds import KINDS, NAMESPACES, PODS, Kind
from tests.simulation.api_server.manifests import Manifest
from tests.simulation.api_server.paths import Target
from tests.simulation.api_server.store import Key, Store

RETRY = 25
"""Paces, at most, after which what is still there is looked at again."""

Later = Callable[[float, Callable[[], None]], None]


class NamespaceController:
    """`pace` gives the seconds until its next step."""

    def __init__(
        self, store: Store, deletion: Deletion, rng: random.Random, later: Later, pace: Callable[[], float], pods_first: bool
    ) -> None:
        self._store = store
        self._deletion = deletion
        self._rng = rng
        self._later = later
        self._pace = pace
        self._pods_first = pods_first
        self._emptying: set[str] = set()

    def written(self, kind: Kind, key: Key, manifest: Manifest) -> None:
        """A namespace that is being deleted is emptied."""
        if kind is NAMESPACES and "deletionTimestamp" in manifest["metadata"] and key[1] not in self._emptying:
            self._emptying.add(key[1])
            self._later(self._pace(), lambda: self._begin(key[1]))

    def _begin(self, namespace: str) -> None:
        kinds = [kind for kind in KINDS if kind.namespaced]
        self._rng.shuffle(kinds)
        if self._pods_first:
            kinds.sort(key=lambda kind: kind is not PODS)
        self._next(namespace, kinds)

    def _next(self, namespace: str, kinds: list[Kind]) -> None:
        """The next kind; then, a moment later, the others."""
        if not kinds:
            self._finish(namespace)
            return
        kind = kinds[0]
        for key in self._store.keys(kind, namespace):
            self._deletion.delete(Target(kind, namespace, key[1]))
        if self._pods_first and kind is PODS and self._store.keys(kind, namespace):
            self._again(namespace)
        else:
            self._later(self._pace(), lambda: self._next(namespace, kinds[1:]))

    def _finish(self, namespace: str) -> None:
        if any(self._store.keys(kind, namespace) for kind in KINDS if kind.namespaced):
            self._again(namespace)
            return
        self._emptying.discard(namespace)
        self._store.remove(NAMESPACES, ("", namespace))

    def _again(self, namespace: str) -> None:
        self._later(self._pace() * self._rng.uniform(2, RETRY), lambda: self._begin(namespace))
