"""How objects go: at once, after their pod's grace, when the last finalizer is off, or with their owner."""

import random
from collections import defaultdict
from collections.abc import Callable
from contextlib import suppress
from typing import Any

from baton.model.times import to_text
from tests.simulation.api_server.kinds import KINDS, NAMESPACES, PODS, Kind
from tests.simulation.api_server.manifests import Json, Manifest
from tests.simulation.api_server.paths import Target
from tests.simulation.api_server.refusals import Refused, conflict, not_found
from tests.simulation.api_server.store import Key, Store
from tests.simulation.api_server.writes import believe

_KINDS = {(kind.group_version, kind.name): kind for kind in KINDS}

Soon = Callable[[Callable[[], None]], None]
"""Do this after a moment."""


class Deletion:
    """Deletes, and collects what has lost its owners."""

    def __init__(self, store: Store, now: Callable[[], float], soon: Soon) -> None:
        self._store = store
        self._now = now
        self._soon = soon
        self._owned: dict[str, set[tuple[Kind, Key]]] = defaultdict(set)
        """Objects by the UID of an owner."""

    def delete(self, target: Target, options: Json | None = None) -> Json:
        """Raises Refused: 404, or 409 where a precondition does not hold."""
        kind, options = target.kind, options or {}
        found = self._store.get(kind, target.key)
        if found is None:
            raise not_found(kind, target.name)
        expected = options.get("preconditions") or {}
        believe(kind, found, expected.get("uid"), expected.get("resourceVersion"))
        if kind is NAMESPACES:
            return self._delete_namespace(target, found)
        grace = _grace(found, options.get("gracePeriodSeconds")) if kind is PODS else 0
        if grace > 0 or found["metadata"].get("finalizers"):
            return self._mark(kind, target.key, found, grace)
        if kind is PODS:  # watchers are shown first that it is to go at once
            found = self._mark(kind, target.key, found, 0)
        self._store.remove(kind, target.key)
        if kind is PODS:
            return found
        details = {"name": target.name, "group": kind.group, "kind": kind.plural, "uid": found["metadata"]["uid"]}
        details = {field: value for field, value in details.items() if value}
        return {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "details": details}

    def due(self, before: Manifest, after: Json) -> bool:
        """Whether a write takes the last thing away that held a deleted object: then it is not written, but is gone."""
        was = before["metadata"]
        over = "deletionTimestamp" in was and not was.get("deletionGracePeriodSeconds")
        return over and not after["metadata"].get("finalizers")

    def written(self, kind: Kind, key: Key, manifest: Manifest) -> None:
        """Look at its owners."""
        owners = manifest["metadata"].get("ownerReferences")
        if owners:
            for owner in owners:
                self._owned[owner["uid"]].add((kind, key))
            if any(self._lives(kind, key, owner) is False for owner in owners):
                self._soon(lambda: self._collect(kind, key))

    def removed(self, kind: Kind, key: Key, manifest: Manifest) -> None:
        """What it owned goes as well; what waited for it to go goes on."""
        for owned in sorted(self._owned.pop(manifest["metadata"]["uid"], ()), key=_order):
            self._soon(lambda owned=owned: self._collect(*owned))  # type: ignore[misc]
        for owner in manifest["metadata"].get("ownerReferences") or ():
            self._owned[owner["uid"]].discard((kind, key))

    def _delete_namespace(self, target: Target, found: Manifest) -> Json:
        if "deletionTimestamp" in found["metadata"]:
            why = "The system is ensuring all content is removed from this namespace.  Upon completion, this namespace will "
            raise conflict(NAMESPACES, target.name, f"{why}automatically be purged by the system.")
        metadata = Manifest({**found["metadata"], "deletionTimestamp": to_text(self._now())})
        status = Manifest({**found["status"], "phase": "Terminating"})
        return self._store.put(NAMESPACES, target.key, {**found, "metadata": metadata, "status": status})

    def _mark(self, kind: Kind, key: Key, found: Manifest, grace: int) -> Manifest:
        was = found["metadata"]
        if "deletionTimestamp" in was and was.get("deletionGracePeriodSeconds", 0) <= grace:
            return found
        metadata = {**was, "deletionTimestamp": to_text(self._now() + grace), "deletionGracePeriodSeconds": grace}
        if "generation" in was and "deletionTimestamp" not in was:
            metadata["generation"] = was["generation"] + 1
        return self._store.put(kind, key, {**found, "metadata": Manifest(metadata)})

    def _collect(self, kind: Kind, key: Key) -> None:
        found = self._store.get(kind, key)
        owners = found["metadata"].get("ownerReferences") if found is not None else None
        if found is None or not owners:
            return
        dead = {owner["uid"] for owner in owners if self._lives(kind, key, owner) is False}
        if len(dead) == len(owners):
            self._delete_if_there(kind, key)
        elif dead:
            self._without(kind, key, found, dead)

    def _without(self, kind: Kind, key: Key, found: Manifest, owners: set[str]) -> None:
        left = [one for one in found["metadata"]["ownerReferences"] if one["uid"] not in owners]
        self._store.put(kind, key, {**found, "metadata": Manifest({**found["metadata"], "ownerReferences": left})})

    def _lives(self, kind: Kind, key: Key, owner: Any) -> bool | None:
        """None: unknown, because its kind is not modelled."""
        owners_kind = _KINDS.get((owner["apiVersion"], owner["kind"]))
        if owners_kind is None:
            return None
        found = self._store.get(owners_kind, (key[0] if owners_kind.namespaced else "", owner["name"]))
        return found is not None and bool(found["metadata"]["uid"] == owner["uid"])

    def _delete_if_there(self, kind: Kind, key: Key) -> None:
        with suppress(Refused):
            self.delete(Target(kind, key[0] or None, key[1]))


def _grace(pod: Manifest, asked: int | None) -> int:
    """Seconds that a pod has. One that runs nowhere, or has ended, needs none."""
    spec = pod.get("spec") or {}
    if not spec.get("nodeName") or (pod.get("status") or {}).get("phase") in ("Succeeded", "Failed"):
        return 0
    return int(spec.get("terminationGracePeriodSeconds", 30) if asked is None else asked)


def _order(owned: tuple[Kind, Key]) -> tuple[str, Key]:
    return owned[0].plural, owned[1]


# The controller that empties a namespace that is deleted: kind by kind, in any order, and again until nothing is left


RETRY = 25
"""Paces, at most, after which what is still there is looked at again."""

Later = Callable[[float, Callable[[], None]], None]


class NamespaceController:
    """`pace` gives the seconds until its next step."""

    def __init__(self, store: Store, deletion: Deletion, rng: random.Random, later: Later, pace: Callable[[], float]) -> None:
        self._store = store
        self._deletion = deletion
        self._rng = rng
        self._later = later
        self._pace = pace
        self._emptying: set[str] = set()

    def written(self, kind: Kind, key: Key, manifest: Manifest) -> None:
        """A namespace that is being deleted is emptied."""
        if kind is NAMESPACES and "deletionTimestamp" in manifest["metadata"] and key[1] not in self._emptying:
            self._emptying.add(key[1])
            self._later(self._pace(), lambda: self._begin(key[1]))

    def _begin(self, namespace: str) -> None:
        kinds = [kind for kind in KINDS if kind.namespaced]
        self._rng.shuffle(kinds)
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
        if kind is PODS and self._store.keys(kind, namespace):
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
