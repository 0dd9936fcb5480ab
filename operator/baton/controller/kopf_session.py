"""What kopf has for an HTTP session: the operator's own client, which answers what kopf could not go on with.

kopf ends all its watches where one of them meets a 404, a 410 in the midst of a list, or something that it cannot read; and it
has no bound for the bytes of a page. So kopf is given no such answer. Lists are tried until they work, in pages of bounded size,
and a watch that cannot go on tells kopf that its version is gone, at which kopf lists again.
"""

import asyncio
import json
from collections.abc import AsyncIterator, Callable, Collection, Iterator, Mapping
from itertools import chain, repeat
from types import TracebackType
from typing import Any, Self
from urllib.parse import parse_qsl

import kopf
import structlog

from baton.kube.api import Api, Json
from baton.kube.errors import ApiError, UnavailableError
from baton.kube.following import GONE, SHORTEST_WATCH, events, pages
from baton.kube.watched_kinds import WatchedKind

ENDS = (ApiError, UnavailableError, LookupError, TypeError, AttributeError)
"""What ends a list or a watch: a refusal, or an answer that is not the API server's."""

log = structlog.get_logger("baton.watch")


def backoffs() -> Iterator[float]:
    """Seconds between tries, which do not end: after an outage of the API server watches are to be back in seconds."""
    return chain((0.2, 0.5, 1.0), repeat(2.0))


Begins = Callable[[WatchedKind, str | None], None]
"""kopf has the first page of a list of a kind in a namespace (None: in all), or cannot list or watch it there."""


def login(api: Api, kinds: Collection[WatchedKind], begins: Begins) -> kopf.AiohttpSession:
    """What kopf logs in with."""
    session: Any = _Session(api, kinds, begins)
    return kopf.AiohttpSession(server="", aiohttp_session=session)


class _Session:
    """Answers what kopf asks: which kinds there are, lists and watches."""

    def __init__(self, api: Api, kinds: Collection[WatchedKind], begins: Begins) -> None:
        self._api = api
        self._kinds = kinds
        self._discovery = _discovery(kinds)
        self._begins = begins
        self._pages: dict[str, AsyncIterator[Json]] = {}
        """Of lists that are under way, by path."""
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
            return _Answer({}, _Lines(self._lines(of, path, query)))
        return _Answer(await self._page(of, path, query))

    async def _page(self, of: WatchedKind, path: str, query: dict[str, str]) -> Json:
        """The next page of a list; the first one again where the list cannot go on."""
        del query["limit"]
        begins = query.pop("continue", None) is None
        for pause in backoffs():
            if begins:
                self._pages[path] = pages(self._api, path, query)
            try:
                page = await anext(self._pages[path])
                if begins:  # told now: the safety list must not be older than this one
                    self._begins(of, _namespace(path))
                page["items"] = [of.looked_at(one) for one in page.get("items") or ()]
                return page
            except ENDS as error:
                log.debug("a list cannot go on; it begins again", path=path, error=str(error)[:500])
                self._begins(of, _namespace(path))
            begins = True
            await asyncio.sleep(pause)
        raise AssertionError("there is always a next try")

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
                yield json.dumps({"type": kind, "object": there}).encode() + b"\n"
        except UnavailableError as error:
            log.debug("a watch ended", path=path, error=str(error))
            self._begins(of, _namespace(path))
        except ENDS as error:
            log.debug("cannot watch; kopf lists again", path=path, error=str(error)[:500])
            yield _GONE
        await asyncio.sleep(asked + SHORTEST_WATCH - asyncio.get_running_loop().time())


class _Answer:
    """As much of an aiohttp response as kopf looks at."""

    status = 200

    def __init__(self, body: Json, content: "_Lines | None" = None) -> None:
        self._body = body
        self.content = content

    async def json(self) -> Json:
        return self._body

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        pass

    def close(self) -> None:
        pass


class _Lines:
    """The content of a watch's answer."""

    def __init__(self, lines: AsyncIterator[bytes]) -> None:
        self._lines = lines

    def iter_chunked(self, size: int) -> AsyncIterator[bytes]:
        return self._lines


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
