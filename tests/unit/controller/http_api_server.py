"""An API server over HTTP with scripted answers, for clients such as kopf that use HTTP themselves."""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from aiohttp import web

from baton.kube.store import WatchedKind

Json = dict[str, Any]

DEEP = "too deep for Python's parser"
"""Stands for as many levels as an API server takes: Python could not write them, either."""


class HttpApiServer:
    """Lists and watches. All kinds exist and are empty unless a test changes that."""

    def __init__(self) -> None:
        self.served = set(WatchedKind)
        """The kinds that there are."""
        self.objects: dict[tuple[str, str], list[Json]] = {}
        """By namespace and resource."""
        self.refused: dict[tuple[str, str], int] = {}
        """Status of lists and watches, by namespace and resource."""
        self.lines: dict[tuple[str, str], list[bytes]] = {}
        """What a watch says next, by namespace and resource; then it goes on."""
        self.lists: list[tuple[str, str]] = []
        self.pages: dict[tuple[str, str], list[int]] = {}
        """How many objects each page of a list had."""
        self.stale: set[tuple[str, str]] = set()
        """Lists whose rest is gone, once."""
        self._news = asyncio.Event()
        self._latest: dict[tuple[str, str], web.StreamResponse] = {}
        """The watch that was begun last, by namespace and resource."""
        self._closing = False

    def event(self, namespace: str, resource: str, kind: str, manifest: Json) -> None:
        """Tell the watch. What is added is listed from then on: a watch that is just ending may have taken the word."""
        if kind == "ADDED":
            self.objects[namespace, resource] = [*self.objects.get((namespace, resource), []), manifest]
        self.say(namespace, resource, _text({"type": kind, "object": manifest}).encode() + b"\n")

    def say(self, namespace: str, resource: str, line: bytes) -> None:
        self.lines.setdefault((namespace, resource), []).append(line)
        self._news.set()

    @asynccontextmanager
    async def running(self, folder: Path) -> AsyncIterator[Path]:
        """A kubeconfig for it."""
        app = web.Application()
        app.router.add_get("/api", self._answer({"versions": ["v1"]}))
        app.router.add_get("/apis", self._groups)
        app.router.add_get("/api/{version}", self._resources)
        app.router.add_get("/apis/{group}/{version}", self._resources)
        app.router.add_get("/api/v1/namespaces/{namespace}/{resource}", self._objects)
        app.router.add_get("/apis/{group}/{version}/namespaces/{namespace}/{resource}", self._objects)
        runner = web.AppRunner(app, shutdown_timeout=1, handler_cancellation=True)
        await runner.setup()
        site = web.TCPSite(runner, "127.0.0.1", 0)
        await site.start()
        port = runner.addresses[0][1]
        kubeconfig = folder / "kubeconfig"
        context = {"name": "one", "context": {"cluster": "one", "user": "one"}}
        config = {
            "apiVersion": "v1",
            "kind": "Config",
            "current-context": "one",
            "contexts": [context],
            "clusters": [{"name": "one", "cluster": {"server": f"http://127.0.0.1:{port}"}}],
            "users": [{"name": "one", "user": {"token": "secret"}}],
        }
        kubeconfig.write_text(json.dumps(config))
        try:
            yield kubeconfig
        finally:
            self._closing = True
            self._news.set()
            await runner.cleanup()

    def _answer(self, body: Json) -> Any:
        async def answer(_: web.Request) -> web.Response:
            return web.json_response(body)

        return answer

    async def _groups(self, _: web.Request) -> web.Response:
        found = {of.group_version for of in self.served if of.group_version[0]}
        named = [(group, {"groupVersion": f"{group}/{version}", "version": version}) for group, version in found]
        return web.json_response(
            {"groups": [{"name": group, "preferredVersion": version, "versions": [version]} for group, version in named]}
        )

    async def _resources(self, request: web.Request) -> web.Response:
        where = (request.match_info.get("group", ""), request.match_info["version"])
        found = [
            {"name": of.value, "singularName": of.value[:-1], "namespaced": True, "kind": of.value, "verbs": ["list", "watch"]}
            for of in self.served
            if of.group_version == where
        ]
        if where[0] == "":
            found.append({**found[0], "name": "namespaces", "singularName": "", "namespaced": False, "kind": "Namespace"})
        return web.json_response({"resources": found}) if found else _status(404)

    async def _objects(self, request: web.Request) -> web.StreamResponse:
        where = (request.match_info["namespace"], request.match_info["resource"])
        if where in self.refused:
            return _status(self.refused[where])
        if "watch" not in request.query:
            self.lists.append(where)
            self._latest.pop(where, None)  # what is said from now on is for the watch that begins where this list ends
            if "continue" in request.query and where in self.stale:
                self.stale.remove(where)
                return _status(410)
            return self._page(where, int(request.query.get("continue", 0)), int(request.query["limit"]))
        stream = web.StreamResponse()
        await stream.prepare(request)
        self._latest[where] = stream
        while not self._closing and self._latest.get(where) is stream:
            while self._latest.get(where) is stream and (said := self.lines.get(where)):
                await stream.write(said.pop(0))
            self._news.clear()
            await self._news.wait()
        return stream

    def _page(self, where: tuple[str, str], begin: int, limit: int) -> web.Response:
        found = self.objects.get(where, [])
        page, more = found[begin : begin + limit], begin + limit < len(found)
        self.pages.setdefault(where, []).append(len(page))
        metadata = {"resourceVersion": "9", "continue": str(begin + limit) if more else ""}
        return web.json_response({"items": page, "metadata": metadata}, dumps=_text)


def _status(code: int) -> web.Response:
    return web.json_response({"kind": "Status", "status": "Failure", "code": code, "message": "no"}, status=code)


def _text(body: Json) -> str:
    return json.dumps(body).replace(json.dumps(DEEP), '{"f:a":' * 9_000 + "{}" + "}" * 9_000)
