"""An API server in memory, without HTTP: requests in, answers or refusals out, at once.

It keeps the promises of the real one that the operator relies on; tests/integration/api_server holds both to them.
Left out: users and their rights, selectors other than the existence of a label, generated names, bookmarks, the schemas and
defaults of custom resources, managedFields, admission other than namespaces and quotas, the immutable fields of pods and
workloads, and server-side apply.
"""

import asyncio
import random
import re
from base64 import urlsafe_b64encode
from collections.abc import Callable, Mapping, Sequence
from email.utils import formatdate
from functools import lru_cache
from typing import Any, NamedTuple
from uuid import UUID

from baton.model.times import to_text
from tests.simulation.api_server.deletion import Deletion, NamespaceController
from tests.simulation.api_server.history import Change, Selects, Subscription
from tests.simulation.api_server.kinds import NAMESPACES, QUOTAS, Kind, discovery
from tests.simulation.api_server.manifests import Json, Manifest, merged, patched, received, size, with_fields
from tests.simulation.api_server.paths import Target, target
from tests.simulation.api_server.refusals import (
    Mistake,
    already_exists,
    another,
    bad_request,
    forbidden,
    invalid,
    list_expired,
    made_before,
    no_patch,
    no_size,
    no_such_path,
    no_such_resource,
    no_version,
    not_found,
    terminating,
    too_large,
    too_large_to_store,
)
from tests.simulation.api_server.store import Key, Store
from tests.simulation.api_server.validation import ANNOTATIONS_LIMIT, REQUEST_LIMIT, STORED_LIMIT, check, check_change
from tests.simulation.api_server.writes import changed_by, new, scale_of

# Lists that are read in parts: each part shows the objects as they were when the first was read


KEPT = 100
"""Lists that were begun, and whose rest is kept."""


class Page(NamedTuple):
    """A part of a list."""

    items: list[Manifest]
    version: int
    token: str
    """For the next part; empty: this is the last."""
    left: int | None
    """How many follow; None: not known, for a selector takes only some of them."""


class Pages:
    """What was not read yet of the lists that were begun."""

    def __init__(self) -> None:
        self._rest: dict[str, tuple[Sequence[Manifest], int]] = {}
        self._begun = 0

    def read(self, listed: Callable[[], tuple[Sequence[Manifest], int]], selects: Selects | None, limit: int, token: str) -> Page:
        """The next part, of no more than `limit` objects (0: no limit). `listed`: the whole, and its version, for the first part.

        Raises Refused: 410 where the rest is not to be had any more, 400 for what never was a token.
        """
        objects, version = self._continued(token) if token else listed()
        taken: list[Manifest] = []
        passed = 0
        for one in objects:
            if limit and len(taken) == limit:
                break
            passed += 1
            if selects is None or selects(one):
                taken.append(one)
        rest = objects[passed:]
        if not rest:
            return Page(taken, version, "", None)
        return Page(taken, version, self._keep(rest, version), len(rest) if selects is None else None)

    def compact(self) -> None:
        """Forget all that was begun."""
        self._rest = dict.fromkeys(self._rest, ((), 0))

    def _keep(self, rest: Sequence[Manifest], version: int) -> str:
        self._begun += 1
        token = urlsafe_b64encode(f"{version}/{self._begun}".encode()).decode()
        self._rest[token] = (rest, version)
        if len(self._rest) > KEPT:
            del self._rest[next(iter(self._rest))]
        return token

    def _continued(self, token: str) -> tuple[Sequence[Manifest], int]:
        if token not in self._rest:
            raise bad_request("invalid continue token: continue key is not valid: it is no token of this server's")
        objects, version = self._rest[token]
        if not objects:
            raise list_expired()
        return objects, version


class ApiServer:
    """Every request is carried out whole at the moment at which it is made. Raises Refused for what is not."""

    def __init__(
        self,
        rng: random.Random,
        now: Callable[[], float],
        later: Callable[[float, Callable[[], None]], None] | None = None,
        pace: Callable[[], float] | None = None,
    ) -> None:
        """`now`: unix seconds. `later`: how the server's own controllers wait (by the running loop). `pace`: how long."""
        self.store = Store()
        self._pages = Pages()
        self._rng = rng
        self._now = now
        later, pace = later or _on_the_loop, pace or (lambda: rng.uniform(0.005, 0.3))
        self._deletion = Deletion(self.store, now, lambda do: later(pace(), do))
        self._namespaces = NamespaceController(self.store, self._deletion, rng, later, pace)
        self.store.written = self._written
        self.store.removed = self._deletion.removed

    @property
    def date(self) -> str:
        """The header of an answer that is given now."""
        return _date(int(self._now()))

    def request(
        self,
        verb: str,
        path: str,
        query: Mapping[str, str] | None = None,
        body: Mapping[str, Any] | list[Json] | None = None,
        metadata_only: bool = False,
    ) -> Json:
        """`verb`: get, list, create, update, patch or delete, as RBAC names it."""
        about = target(path)
        if about is None:
            return _found(discovery("/" + path.strip("/")))
        match verb:
            case "get":
                return self._get(about)
            case "list":
                return self._list(about, query or {}, metadata_only)
            case "create":
                return self._create(about, *_received(body))
            case "update":
                return self._update(about, *_received(body))
            case "patch":
                return self._patch(about, *_received(body))
            case "delete":
                return self._deletion.delete(about, received(body)[0] if body is not None else None)
        raise no_such_resource()

    def watch(
        self,
        path: str,
        query: Mapping[str, str],
        hear: Callable[[Json], None],
        ended: Callable[[], None],
    ) -> Subscription:
        """Tell `hear` of every change after the query's `resourceVersion`. 0, or none: of what there is, and then of changes."""
        about = target(path)
        if about is None or about.name:
            raise no_such_resource()
        made = Subscription(about.kind, about.namespace, _selects(query), hear, ended)
        since = int(query.get("resourceVersion") or 0)
        if since == 0:
            for manifest in self.store.listed(about.kind, about.namespace):
                made.tell(Change(0, None, manifest))
        self.store.history.subscribe(made, since or self.store.version)
        return made

    def compact(self) -> None:
        """Forget the past: watches that are behind, and lists that were begun, get 410."""
        self.store.compact()
        self._pages.compact()

    # -- reading

    def _get(self, about: Target) -> Json:
        found = self.store.get(about.kind, about.key)
        if found is None:
            raise not_found(about.kind, about.name)
        return self._shown(about, found)

    def _list(self, about: Target, query: Mapping[str, str], metadata_only: bool) -> Json:
        kind, selects = about.kind, _selects(query)
        limit = int(query.get("limit") or 0)
        page = self._pages.read(lambda: self._all(about), selects, limit, query.get("continue", ""))
        found = page.items
        metadata: Json = {"resourceVersion": str(page.version)}
        if page.token:
            metadata |= {"continue": page.token} | ({} if page.left is None else {"remainingItemCount": page.left})
        answer: Json = {"metadata": metadata}
        if metadata_only:
            named = {"kind": "PartialObjectMetadata", "apiVersion": "meta.k8s.io/v1"}
            items = [{**named, "metadata": one["metadata"]} for one in found] or None
            return {"kind": "PartialObjectMetadataList", "apiVersion": "meta.k8s.io/v1", **answer, "items": items}
        shown = found if kind.custom else [_bare(one) for one in found]
        return {"kind": f"{kind.name}List", "apiVersion": kind.group_version, **answer, "items": shown}

    def _all(self, about: Target) -> tuple[list[Manifest], int]:
        return list(self.store.listed(about.kind, about.namespace)), self.store.version

    # -- writing

    def _create(self, about: Target, body: Manifest, size: int) -> Json:
        kind, metadata = about.kind, body["metadata"]
        name = metadata.get("name", "")
        if about.name or (kind.namespaced and about.namespace is None):
            raise no_such_resource()
        if metadata.get("namespace", about.namespace) != about.namespace:
            raise bad_request("the namespace of the provided object does not match the namespace sent on the request")
        about = Target(kind, about.namespace, name)
        if kind.namespaced:
            self._admit(about)
        if not name:
            raise invalid(kind, "", [Mistake("metadata.name", "Required", "name or generateName is required")])
        made = new(about, name, body, self._uid(), to_text(self._now()))
        check(kind, name, made)
        self._within_quota(about)
        if self.store.get(kind, about.key) is not None:
            raise already_exists(kind, name)
        if metadata.get("resourceVersion"):
            raise made_before()
        _storable(made, size)
        return self.store.put(kind, about.key, made)

    def _update(self, about: Target, body: Manifest, size: int) -> Json:
        before = self.store.get(about.kind, about.key)
        if before is None:
            if about.kind.made_by_replacing and not about.subresource:
                if uid := body["metadata"].get("uid"):
                    raise another(about.kind, about.namespace, about.name, uid, "")
                body = Manifest({**body, "metadata": with_fields(body["metadata"], resourceVersion=None)})
                return self._create(Target(about.kind, about.namespace, ""), body, size)
            raise not_found(about.kind, about.name)
        if about.kind.needs_version and not about.subresource and not body["metadata"].get("resourceVersion"):
            raise no_version(about.kind, about.name)
        return self._change(about, before, body, size, patched=False)

    def _patch(self, about: Target, patch: Manifest | list[Json], size: int) -> Json:
        before = self.store.get(about.kind, about.key)
        if before is None:
            raise not_found(about.kind, about.name)
        shown = self._shown(about, before)
        made = patched(Manifest(shown), patch) if isinstance(patch, list) else merged(shown, patch)
        if made is None:
            raise no_patch()
        return self._change(about, before, made, size, patched=True)

    def _change(self, about: Target, before: Manifest, body: Manifest, size: int, *, patched: bool) -> Json:
        kind = about.kind
        after = changed_by(about, before, body, patched=patched)
        if after == before:
            return self._shown(about, before)
        check(kind, about.name, after)
        check_change(kind, about.name, before, after)
        if self._deletion.due(before, after):
            self.store.remove(kind, about.key)
            return after
        _storable(after, size)
        return self._shown(about, self.store.put(kind, about.key, after))

    def _shown(self, about: Target, manifest: Manifest) -> Json:
        if about.subresource != "scale":
            return manifest
        if about.kind.custom and "replicas" not in (manifest.get("spec") or {}):
            raise no_size()
        return scale_of(manifest)

    def _admit(self, about: Target) -> None:
        """Nothing new in a namespace that is not there, or is going."""
        assert about.namespace is not None
        namespace = self.store.get(NAMESPACES, ("", about.namespace))
        if namespace is None:
            raise not_found(NAMESPACES, about.namespace)
        if "deletionTimestamp" in namespace["metadata"]:
            raise terminating(about.kind, about.name, about.namespace)

    def _within_quota(self, about: Target) -> None:
        counted = f"count/{about.kind.qualified}"
        for quota in self.store.listed(QUOTAS, about.namespace) if about.kind.namespaced else ():
            hard = (quota.get("spec") or {}).get("hard") or {}
            for name in (counted, about.kind.plural):
                used = len(self.store.keys(about.kind, about.namespace))
                if name in hard and used + 1 > int(hard[name]):
                    amounts = f"requested: {name}=1, used: {name}={used}, limited: {name}={hard[name]}"
                    raise forbidden(about.kind, about.name, f"exceeded quota: {quota['metadata']['name']}, {amounts}")

    def _written(self, kind: Kind, key: Key, manifest: Manifest) -> None:
        self._deletion.written(kind, key, manifest)
        self._namespaces.written(kind, key, manifest)

    def _uid(self) -> str:
        return str(UUID(int=self._rng.getrandbits(128), version=4))


@lru_cache(maxsize=4)
def _date(seconds: int) -> str:
    return formatdate(seconds, usegmt=True)


def _received(body: Mapping[str, Any] | list[Json] | None) -> tuple[Any, int]:
    made, bytes_ = received(body or {})
    if bytes_ > REQUEST_LIMIT:
        raise too_large(REQUEST_LIMIT)
    return (made if isinstance(made, list) or "metadata" in made else Manifest({**made, "metadata": Manifest()})), bytes_


def _found(answer: Json | None) -> Json:
    if answer is None:
        raise no_such_path()
    return answer


def _selects(query: Mapping[str, str]) -> Selects | None:
    """By the existence of a label, the only selector that the operator uses. None: no selector."""
    label = query.get("labelSelector")
    if not label:
        return None
    assert re.fullmatch(r"[\w./-]+", label), f"the label selector {label} is not modelled"
    return lambda manifest: label in (manifest["metadata"].get("labels") or {})


def _bare(manifest: Manifest) -> Manifest:
    """As an item of a list, which has said the kind."""
    return Manifest({field: value for field, value in manifest.items() if field not in ("kind", "apiVersion")})


def _storable(manifest: Mapping[str, Any], asked: int) -> None:
    """Raises Refused for what etcd does not take; only a large request makes a large object."""
    if asked > ANNOTATIONS_LIMIT and size(manifest) > STORED_LIMIT:
        raise too_large_to_store()


def _on_the_loop(seconds: float, do: Callable[[], None]) -> None:
    asyncio.get_running_loop().call_later(seconds, do)
