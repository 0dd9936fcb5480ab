"""One kopf watches everything that this operator serves, and hands every event over to the cluster cache.

All handlers are on.event handlers, which write nothing: no annotations and no finalizers of a framework on any object. A
follower watches too, so that it can lead at once. An index of kopf's would keep objects that vanished while a watch was broken,
because kopf lists again without saying what is gone. So the cluster cache has stores of its own, which each list corrects.

kopf ends all its watches where one of them meets a 404, a 410 in the midst of a list, or something that it cannot read; and it
has no bound for the bytes of a page. So its HTTP session is the operator's own client, which gives it no such answer. Lists are
tried until they work, in pages of bounded size, and a watch that cannot go on tells kopf that its version is gone, at which kopf
lists again.

kopf keeps something of each object and works on each event for a millisecond. There are many pods, and Leases are renewed all
the time: what the session reads of these goes past kopf to the cluster cache.
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
"""Events that are delivered before others have their turn."""

RETRY = 2.0
"""Seconds before a list that failed is tried again, for ever: after an outage of the API server watches are back in seconds."""

STOPS_WITHIN = 3.0
"""Seconds for which `Watching.stop` waits."""

ENDS = (ApiError, UnavailableError, LookupError, TypeError, ValueError, AttributeError)
"""What ends a list or a watch: a refusal, or an answer that is not the API server's."""

MANY = (WatchedKind.PODS, WatchedKind.LEASES)
"""Kinds whose objects go past kopf."""

Broke = Callable[[WatchedKind, str | None], None]
"""kopf cannot list or watch a kind in a namespace (None: in all)."""

Listed = Callable[[WatchedKind, str | None, Set[Key], int], None]
"""It has listed all, and these were there as of this version."""

log = structlog.get_logger("baton.watch")


class WatchEvents:
    """Events of the watches on their way from their thread to the event loop. All methods may be called from any thread.

    Of each object only the newest event waits, so that what waits is bounded by the objects that there are. They are delivered a
    few at a time, so that ten thousand pods that are seen at once hold up no group.
    """

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        deliver: Callable[[WatchedKind, str | None, Manifest], None],
        watch_broke: Broke = lambda of, scope: None,
        watch_listed: Listed = lambda of, scope, there, version: None,
    ) -> None:
        """All are called on the event loop; see `ClusterCache.event`, `Relists.watch_broke` and `Relists.watch_listed`."""
        self._loop = loop
        self._watch_broke = watch_broke
        self._watch_listed = watch_listed
        self._deliver = deliver
        self._lock = threading.Lock()
        self._waiting: dict[tuple[WatchedKind, str, str], tuple[str | None, Manifest]] = {}
        self._called = False
        """The event loop knows that something waits."""

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
        with suppress(RuntimeError):  # the event loop has ended, and the process is about to
            self._loop.call_soon_threadsafe(self._some)

    def broke(self, of: WatchedKind, scope: str | None) -> None:
        with suppress(RuntimeError):
            self._loop.call_soon_threadsafe(self._watch_broke, of, scope)

    def listed(self, of: WatchedKind, scope: str | None, there: Set[Key], version: int) -> None:
        """An older event of an object that the list does not have is delivered no more: it would bring the object back."""
        with self._lock:
            for key, (_, manifest) in list(self._waiting.items()):
                kind, namespace, name = key
                if kind is of and scope in (None, namespace) and (namespace, name) not in there and _version(manifest) <= version:
                    del self._waiting[key]
        with suppress(RuntimeError):
            self._loop.call_soon_threadsafe(self._watch_listed, of, scope, there, version)

    def _some(self) -> None:
        with self._lock:
            batch = [(key, self._waiting.pop(key)) for key in list(islice(self._waiting, AT_ONCE))]
            self._called = bool(self._waiting)
        if self._called:
            self._loop.call_soon(self._some)
        for (of, namespace, name), (kind, manifest) in batch:
            try:
                self._deliver(of, kind, manifest)
            except Exception:  # whatever is the matter with it, other objects are not to suffer
                log.exception(
                    "an object could not be read; it counts as it was before", resource=of.value, namespace=namespace, name=name
                )


def _version(manifest: Manifest) -> int:
    return int(manifest["metadata"]["resourceVersion"])


class Watching:
    """kopf on a thread with an event loop: what it does with an event costs more than what the operator does."""

    def __init__(
        self, kubeconfig: Path | None, namespaces: Sequence[str], feed: WatchEvents, ended: Callable[[], object] = lambda: None
    ) -> None:
        """Namespaces empty: all of them. `ended` is called there if kopf ends, which nothing that the API server says makes it
        do: the process is to be started again."""
        self._kubeconfig = kubeconfig
        self._namespaces = namespaces
        self._feed = feed
        self._ended = ended
        self.begun = False
        """It watches, or has tried to."""
        self.failed = False
        """kopf ended."""
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
        logging.getLogger("kopf._core.reactor").setLevel(logging.CRITICAL)  # what it says when it ends is raised as well
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
                    # kopf would ask for the name of its user, and one of a container often has none.
                    identity="baton",  # type: ignore[arg-type] # it is a str by a private name
                    clusterwide=not self._namespaces,
                    namespaces=self._namespaces,
                    stop_flag=self._stopping,
                )
        except (Exception, asyncio.CancelledError) as error:
            log.exception("kopf failed", error=str(error)[:500])
        if not self._stopping.is_set():
            self._stopping.set()  # a thread of kopf's waits for it
            self.failed = True
            log.error("kopf ended; the process ends, to be started again")
            self._ended()

    async def _log_in(self, **_: Any) -> kopf.AiohttpSession:
        self.begun = True
        session: Any = Session(self._api, WATCHED, self._feed)
        return kopf.AiohttpSession(server="", aiohttp_session=session)

    async def _hear(self, of: WatchedKind, event: Any, **_: Any) -> None:
        self._feed.put(of, event["type"], event["object"])


def _settings() -> kopf.OperatorSettings:
    """Watch only what has the group's label (narrowed at the server); post, scan and lock nothing."""
    made = kopf.OperatorSettings()
    made.posting.enabled = False
    made.scanning.disabled = True
    made.peering.standalone = True
    for of in WATCHED:
        if of.selector:
            made.watching.label_selectors[of.value] = GROUP_LABEL
    made.watching.chunk_size = PAGE
    # A handler here only passes on what it is told; an idle object needs no worker for long.
    made.queueing.idle_timeout = 0.05
    made.persistence.diffbase_storage = _NoDiffs()
    made.process.ultimate_exiting_timeout = None  # it would end the whole process
    return made


class _NoDiffs(kopf.DiffBaseStorage):
    """Stands for kopf's store of former objects, and keeps none: kopf copies all of each object to compare it with the one
    before. For an object of the largest size that an API server takes, that is half a second of work and tens of MiB at every
    change."""

    def build(self, **_: Any) -> Any:
        return {}

    def fetch(self, **_: object) -> None:
        return None

    def store(self, **_: object) -> None:
        return None


class Session:
    """What kopf has for an HTTP session. Answers what kopf asks: which kinds there are, lists and watches."""

    def __init__(self, api: Api, kinds: Collection[WatchedKind], feed: WatchEvents) -> None:
        """`feed` hears of what breaks, of what a list showed, and of the objects of MANY."""
        self._api = api
        self._kinds = kinds
        self._discovery = _discovery(kinds)
        self._feed = feed
        self._lists: dict[str, tuple[AsyncIterator[Json], set[Key]]] = {}
        """Those that are under way, by path: the pages to come, and what was there so far."""
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
        """The next page of a list; the first one again where the list cannot go on."""
        del query["limit"]
        begins = query.pop("continue", None) is None
        while True:
            if begins:
                self._lists[path] = pages(self._api, path, query), set()
            more, there = self._lists[path]
            try:
                page = await anext(more)
                page["items"] = [of.looked_at(one) for one in page.get("items") or ()]
                there.update(map(key_of, page["items"]))
                if not page["metadata"].get("continue"):
                    self._feed.listed(of, _namespace(path), there, int(page["metadata"]["resourceVersion"]))
                if of in MANY:
                    for one in page["items"]:
                        self._feed.put(of, None, one)
                    page["items"] = []
                return page
            except ENDS as error:
                log.debug("a list cannot go on; it begins again", path=path, error=str(error)[:500])
                self._feed.broke(of, _namespace(path))
            begins = True
            await asyncio.sleep(RETRY)

    async def _lines(self, of: WatchedKind, path: str, query: dict[str, str]) -> AsyncIterator[bytes]:
        """Of one watch, until it has had its time or cannot go on."""
        asked = asyncio.get_running_loop().time()
        try:
            async for event in events(self._api, path, query):
                kind, there = event["type"], event["object"]
                if kind == "ERROR":
                    yield _GONE
                    break
                if kind != "BOOKMARK":
                    there = of.looked_at(there)
                    if of in MANY:
                        self._feed.put(of, kind, there)
                        continue  # the server tells kopf every minute how far the watch is
                yield json.dumps({"type": kind, "object": there}).encode() + b"\n"
        except UnavailableError as error:
            log.debug("a watch ended", path=path, error=str(error))
            self._feed.broke(of, _namespace(path))
        except ENDS as error:
            log.debug("cannot watch; kopf lists again", path=path, error=str(error)[:500])
            yield _GONE
        await asyncio.sleep(asked + SHORTEST_WATCH - asyncio.get_running_loop().time())


class _Answer:
    """As much of an aiohttp response, and of its content, as kopf looks at."""

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
    """What kopf asks first: which kinds there are, by path. All are: a list of one that is missing is tried until it comes."""
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
