"""One kopf operator watches all objects that this operator serves, and passes every event to the cluster cache.

All handlers are on.event handlers, which write nothing: kopf puts no annotations or finalizers on any object. Followers watch as
well, so that they can lead at once. A kopf index would keep objects that were deleted while a watch was broken, because kopf does
not report what a new list lacks. So the cluster cache has separate stores, which each list corrects.

kopf ends all its watches if one of them meets a 404, a 410 during a list, or an unreadable answer; and it does not limit the size
of a page. So its HTTP session is the operator's client, which never returns such an answer: it retries lists until they work, in
pages of bounded size, and ends a watch that cannot continue by telling kopf that its version expired, so that kopf lists again.

kopf keeps data of each object and spends a millisecond on each event. Because there are many pods, and Leases are renewed all the
time, the session passes these directly to the cluster cache.
"""

import asyncio
import json
import logging
import threading
from collections.abc import AsyncIterator, Callable, Collection, Mapping, Sequence, Set
from contextlib import suppress
from functools import partial
from itertools import islice
from pathlib import Path
from types import TracebackType
from typing import Any, Self
from urllib.parse import parse_qsl

import kopf
import structlog

from baton.kube.api import PAGE, Api, Json, connect
from baton.kube.errors import ApiError, UnavailableError
from baton.kube.following import GONE, SHORTEST_WATCH, events, pages
from baton.kube.store import WATCHED, Key, Manifest, WatchedKind, key_of
from baton.model.names import GROUP_LABEL

AT_ONCE = 50
"""Events to deliver before other tasks get a turn."""

RETRY = 2.0
"""Seconds between attempts to list, without backoff: after an outage of the API server, watches are back in seconds."""

STOPS_WITHIN = 3.0
"""Seconds for which `Watching.stop` waits."""

ENDS = (ApiError, UnavailableError, LookupError, TypeError, ValueError, AttributeError)
"""Errors that end a list or a watch: a refusal, or an answer that is not from the API server."""

MANY = (WatchedKind.PODS, WatchedKind.LEASES)
"""Kinds whose objects bypass kopf."""

Broke = Callable[[WatchedKind, str | None], None]
"""Called when a list or watch of a kind breaks in a namespace (None: in all)."""

Listed = Callable[[WatchedKind, str | None, Set[Key], int], None]
"""Called after a complete list of a kind in a namespace (None: in all), with the objects that existed and the list's version."""

log = structlog.get_logger("baton.watch")


class WatchEvents:
    """Passes events from the watch thread to the event loop. All methods may be called from any thread.

    Only the newest event of each object waits, so that the number of objects bounds the queue. Events are delivered a few at a
    time, so that ten thousand pods seen at once do not block other tasks.
    """

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        deliver: Callable[[WatchedKind, str | None, Manifest], None],
        watch_broke: Broke = lambda of, scope: None,
        watch_listed: Listed = lambda of, scope, there, version: None,
    ) -> None:
        """The functions are called on the event loop: see `ClusterCache.event`, `Relists.watch_broke`, `Relists.watch_listed`."""
        self._loop = loop
        self._watch_broke = watch_broke
        self._watch_listed = watch_listed
        self._deliver = deliver
        self._lock = threading.Lock()
        self._waiting: dict[tuple[WatchedKind, str, str], tuple[str | None, Manifest]] = {}
        self._called = False
        """Whether `_some` is already scheduled on the event loop."""

    def put(self, of: WatchedKind, kind: str | None, manifest: Manifest) -> None:
        """An event's type (None: the object was listed), and the object."""
        metadata = manifest["metadata"]
        key = (of, metadata["namespace"], metadata["name"])
        with self._lock:
            before = self._waiting.get(key)
            if before is not None and _version(before[1]) > _version(manifest):
                return
            self._waiting[key] = (kind, manifest)
            if self._called:
                return
            self._called = True
        self._call(self._some)

    def broke(self, of: WatchedKind, scope: str | None) -> None:
        self._call(self._watch_broke, of, scope)

    def listed(self, of: WatchedKind, scope: str | None, there: Set[Key], version: int) -> None:
        """Report a complete list. Waiting events of objects that the list lacks are dropped if they are older than the list: they
        would bring the object back."""
        with self._lock:
            for key, (_, manifest) in list(self._waiting.items()):
                kind, namespace, name = key
                if kind is of and scope in (None, namespace) and (namespace, name) not in there and _version(manifest) <= version:
                    del self._waiting[key]
        self._call(self._watch_listed, of, scope, there, version)

    def _call(self, function: Callable[..., None], *arguments: object) -> None:
        with suppress(RuntimeError):  # the event loop has ended: the process is ending
            self._loop.call_soon_threadsafe(function, *arguments)

    def _some(self) -> None:
        with self._lock:
            batch = [(key, self._waiting.pop(key)) for key in list(islice(self._waiting, AT_ONCE))]
            self._called = bool(self._waiting)
        if self._called:
            self._loop.call_soon(self._some)
        for (of, namespace, name), (kind, manifest) in batch:
            try:
                self._deliver(of, kind, manifest)
            except Exception:  # must not affect other objects
                log.exception(
                    "cannot read an object; keeping its previous view", resource=of.value, namespace=namespace, name=name
                )


def _version(manifest: Manifest) -> int:
    return int(manifest["metadata"]["resourceVersion"])


class Watching:
    """Runs kopf on a separate thread and event loop, because kopf's work on an event costs more than the operator's."""

    def __init__(
        self, kubeconfig: Path | None, namespaces: Sequence[str], feed: WatchEvents, ended: Callable[[], object] = lambda: None
    ) -> None:
        """`namespaces` empty: all namespaces. `ended` is called on the thread if kopf ends, which no answer of the API server
        should cause: the process must then be restarted."""
        self._kubeconfig = kubeconfig
        self._namespaces = namespaces
        self._feed = feed
        self._ended = ended
        self.begun = False
        """kopf has started to watch, successfully or not."""
        self.failed = False
        """kopf ended unexpectedly."""
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="watch", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        self._stopping.set()
        if self._thread.is_alive():
            self._thread.join(STOPS_WITHIN)

    def _run(self) -> None:
        logging.getLogger("kopf").setLevel(logging.WARNING)
        logging.getLogger("kopf._core.reactor").setLevel(logging.CRITICAL)  # it also raises what it logs when it ends
        asyncio.run(self._watch())

    async def _watch(self) -> None:
        asyncio.get_running_loop().set_exception_handler(lambda _, told: log.debug("left behind by kopf", what=told["message"]))
        registry = kopf.OperatorRegistry()
        for of in WATCHED:
            group, version = of.group_version
            kopf.on.event(group, version, of.value, registry=registry, id=of.value)(partial(self._hear, of))
        kopf.on.login(registry=registry)(self._log_in)
        try:
            async with connect(self._kubeconfig) as (self._api, _):
                await kopf.operator(
                    registry=registry,
                    settings=_settings(),
                    standalone=True,
                    # Otherwise kopf asks for its user's name, and users in containers often have none.
                    identity="baton",  # type: ignore[arg-type] # it is a str by a private name
                    clusterwide=not self._namespaces,
                    namespaces=self._namespaces,
                    stop_flag=self._stopping,
                )
        except (Exception, asyncio.CancelledError) as error:
            log.exception("kopf failed", error=str(error)[:500])
        if not self._stopping.is_set():
            self._stopping.set()  # one of kopf's threads waits for it
            self.failed = True
            log.error("kopf ended; the process ends to be restarted")
            self._ended()

    async def _log_in(self, **_: Any) -> kopf.AiohttpSession:
        self.begun = True
        session: Any = Session(self._api, WATCHED, self._feed)
        return kopf.AiohttpSession(server="", aiohttp_session=session)

    async def _hear(self, of: WatchedKind, event: Any, **_: Any) -> None:
        self._feed.put(of, event["type"], event["object"])


def _settings() -> kopf.OperatorSettings:
    """Settings for kopf to watch only objects with the group's label (filtered by the server), and to post, scan and lock
    nothing."""
    made = kopf.OperatorSettings()
    made.posting.enabled = False
    made.scanning.disabled = True
    made.peering.standalone = True
    for of in WATCHED:
        if of.selector:
            made.watching.label_selectors[of.value] = GROUP_LABEL
    made.watching.chunk_size = PAGE
    # The handlers only pass events on, so an idle object needs no worker for long.
    made.queueing.idle_timeout = 0.05
    made.persistence.diffbase_storage = _NoDiffs()
    made.process.ultimate_exiting_timeout = None  # would end the whole process
    return made


class _NoDiffs(kopf.DiffBaseStorage):
    """Replaces kopf's store of previous objects, and stores nothing. kopf would copy each object to compare it with the previous
    one: for the largest object that an API server accepts, half a second of work and tens of MiB at every change."""

    def build(self, **_: Any) -> Any:
        return {}

    def fetch(self, **_: object) -> None:
        return None

    def store(self, **_: object) -> None:
        return None


class Session:
    """Replaces kopf's HTTP session. Answers kopf's requests: discovery of kinds, lists and watches."""

    def __init__(self, api: Api, kinds: Collection[WatchedKind], feed: WatchEvents) -> None:
        """`feed` gets breaks, complete lists, and the objects of the kinds in MANY."""
        self._api = api
        self._kinds = kinds
        self._discovery = _discovery(kinds)
        self._feed = feed
        self._lists: dict[str, tuple[AsyncIterator[Json], set[Key]]] = {}
        """Lists under way, by path: the remaining pages, and the objects so far."""
        self.headers = {"User-Agent": "baton"}
        self.closed = False

    async def close(self) -> None:
        self.closed = True

    async def request(self, *, url: str, **named: object) -> "_Answer":
        path, _, asked = url.partition("?")
        query = dict(parse_qsl(asked))
        if path in self._discovery:
            return _Answer(self._discovery[path])
        of = next(one for one in self._kinds if path.endswith(f"/{one.value}"))
        if query.pop("watch", None):
            return _Answer({}, self._lines(of, path, query))
        return _Answer(await self._page(of, path, query))

    async def _page(self, of: WatchedKind, path: str, query: dict[str, str]) -> Json:
        """The next page of a list, or the first page again if the list cannot continue."""
        del query["limit"]
        begins = query.pop("continue", None) is None
        while True:
            if begins:
                self._lists[path] = pages(self._api, path, query), set()
            more, there = self._lists[path]
            try:
                page = await anext(more)
                page["items"] = [of.trimmed(one) for one in page.get("items") or ()]
                there.update(map(key_of, page["items"]))
                if not page["metadata"].get("continue"):
                    self._feed.listed(of, _namespace(path), there, int(page["metadata"]["resourceVersion"]))
                if of in MANY:
                    for one in page["items"]:
                        self._feed.put(of, None, one)
                    page["items"] = []
                return page
            except ENDS as error:
                log.debug("a list cannot continue; it begins again", path=path, error=str(error)[:500])
                self._feed.broke(of, _namespace(path))
            begins = True
            await asyncio.sleep(RETRY)

    async def _lines(self, of: WatchedKind, path: str, query: dict[str, str]) -> AsyncIterator[bytes]:
        """Lines of one watch, until its time is over or it cannot continue."""
        asked = asyncio.get_running_loop().time()
        try:
            async for event in events(self._api, path, query):
                kind, there = event["type"], event["object"]
                if kind == "ERROR":
                    yield _GONE
                    break
                if kind != "BOOKMARK":
                    there = of.trimmed(there)
                    if of in MANY:
                        self._feed.put(of, kind, there)
                        continue  # bookmarks tell kopf the watch's version every minute
                yield json.dumps({"type": kind, "object": there}).encode() + b"\n"
        except UnavailableError as error:
            log.debug("a watch ended", path=path, error=str(error))
            self._feed.broke(of, _namespace(path))
        except ENDS as error:
            log.debug("cannot watch; kopf lists again", path=path, error=str(error)[:500])
            yield _GONE
        await asyncio.sleep(asked + SHORTEST_WATCH - asyncio.get_running_loop().time())


class _Answer:
    """The parts of an aiohttp response and its content that kopf uses."""

    status = 200

    def __init__(self, body: Json, lines: AsyncIterator[bytes] | None = None) -> None:
        self._body = body
        self._lines = lines
        self.content = self

    async def json(self) -> Json:
        return self._body

    def iter_chunked(self, size: int) -> AsyncIterator[bytes] | None:
        return self._lines

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        pass

    def close(self) -> None:
        pass


_GONE = json.dumps({"type": "ERROR", "object": {"kind": "Status", "code": GONE}}).encode() + b"\n"


def _namespace(path: str) -> str | None:
    _, within, rest = path.partition("/namespaces/")
    return rest.partition("/")[0] if within else None


def _discovery(kinds: Collection[WatchedKind]) -> Mapping[str, Json]:
    """Answers to kopf's discovery requests, by path. They always name all kinds: lists of a missing kind are retried until it
    exists."""
    versions = {of.group_version for of in kinds}
    groups = [(group, {"version": version}) for group, version in versions if group]
    named = {of: {"kind": of.value, "name": of.value, "singularName": of.value, "namespaced": True} for of in kinds}
    namespaces = {"kind": "Namespace", "name": "namespaces", "singularName": "namespace", "namespaced": False}
    return {
        "/api": {"versions": ["v1"]},
        "/apis": {"groups": [{"name": name, "preferredVersion": one, "versions": [one]} for name, one in groups]},
        **{
            f"/apis/{group}/{version}" if group else f"/api/{version}": {
                "resources": [
                    *({**one, "verbs": ["list", "watch"]} for of, one in named.items() if of.group_version == (group, version)),
                    *([] if group else [namespaces]),
                ]
            }
            for group, version in versions
        },
    }
