"""kopf's watches: failures of one namespace affect no other."""

import asyncio
import json
import threading
from collections.abc import AsyncIterator, Set
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import kopf
import pytest
from aiohttp import web

from baton.controller import watch as watch_module
from baton.controller.watch import WatchEvents, Watching
from baton.kube.api import PAGE
from baton.kube.store import WATCHED, Key, Manifest, WatchedKind
from tests.waiting import eventually

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


def manifest(namespace: str, name: str, version: int = 3) -> Json:
    return {"metadata": {"namespace": namespace, "name": name, "uid": f"{namespace}-{name}", "resourceVersion": str(version)}}


class TwoNamespaces:
    """Watches at one server."""

    def __init__(self, server: HttpApiServer, kubeconfig: Path) -> None:
        self.server = server
        self.heard: list[tuple[WatchedKind, str, str]] = []
        self.parts: set[tuple[str, tuple[str, ...]]] = set()
        """Events of each object, by name."""
        self.broke: list[tuple[WatchedKind, str | None]] = []
        self.listed: list[tuple[WatchedKind, str | None]] = []
        self.there: Set[Key] = set()
        """Objects of the last list."""
        feed = WatchEvents(asyncio.get_running_loop(), self._hear, lambda *what: self.broke.append(what), self._listed)
        self.watching = Watching(kubeconfig, ["shop", "bank"], feed)

    def _hear(self, of: WatchedKind, kind: str | None, manifest: Manifest) -> None:
        self.heard.append((of, manifest["metadata"]["namespace"], manifest["metadata"]["name"]))
        self.parts.add((manifest["metadata"]["name"], tuple(part for part in manifest if part not in ("kind", "apiVersion"))))

    def _listed(self, of: WatchedKind, scope: str | None, there: Set[Key], version: int) -> None:
        self.listed.append((of, scope))
        self.there = there

    async def watched(self, namespace: str, of: WatchedKind, name: str) -> None:
        """An event there arrives."""
        self.server.event(namespace, of.value, "ADDED", manifest(namespace, name))

        async def heard() -> bool:
            return (of, namespace, name) in self.heard

        await eventually(heard, f"{name} of {namespace} is reported")

    async def broke_or_relisted(self, namespace: str, of: WatchedKind) -> None:
        """It was listed a second time, or its watch is told to have broken."""

        async def so() -> bool:
            return (of, namespace) in self.broke or self.listed.count((of, namespace)) >= 2

        await eventually(so, f"{of} of {namespace} broke, or are listed again")


@pytest.fixture
async def watching(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[TwoNamespaces]:
    monkeypatch.setattr(watch_module, "SHORTEST_WATCH", 0.05)
    monkeypatch.setattr(watch_module, "RETRY", 0.2)
    server = HttpApiServer()
    async with server.running(tmp_path) as kubeconfig, _begun(TwoNamespaces(server, kubeconfig)) as one:
        yield one
        assert not one.watching.failed, "nothing that the server said has ended kopf"


@asynccontextmanager
async def _begun(one: TwoNamespaces) -> AsyncIterator[TwoNamespaces]:
    one.watching.start()
    try:
        for namespace in ("shop", "bank"):
            await one.watched(namespace, WatchedKind.PODS, "first")
        yield one
    finally:
        await asyncio.to_thread(one.watching.stop)


async def test_existing_and_new_objects_are_reported(watching: TwoNamespaces) -> None:
    for of in WATCHED:
        for namespace in ("shop", "bank"):
            await watching.watched(namespace, of, "one")
    assert watching.watching.begun


async def test_a_list_has_large_pages_and_smaller_ones_for_large_objects(watching: TwoNamespaces) -> None:
    there = [manifest("bank", f"one-{number}") for number in range(PAGE + 1)]
    watching.server.objects["bank", "pods"] = there
    watching.server.objects["bank", "leases"] = [{**one, "spec": {"holderIdentity": "x" * 700_000}} for one in there[:30]]
    watching.server.pages.clear()
    for of in (WatchedKind.PODS, WatchedKind.LEASES):
        watching.server.say("bank", of.value, ENDS["gone"])
        await watching.watched("bank", of, "after")
    assert {name for of, _, name in watching.heard if of is WatchedKind.PODS} >= {one["metadata"]["name"] for one in there}
    assert watching.server.pages["bank", "pods"][0] == PAGE
    assert watching.server.pages["bank", "leases"][:4] == [31, 25, 2, 2], "the first two were not read to their end"


async def test_a_list_whose_continuation_expired_begins_again(watching: TwoNamespaces) -> None:
    watching.server.objects["bank", "pods"] = [manifest("bank", f"one-{number}") for number in range(2 * PAGE)]
    watching.server.stale.add(("bank", "pods"))
    watching.server.say("bank", "pods", ENDS["gone"])
    await watching.watched("bank", WatchedKind.PODS, "after")
    assert {name for _, _, name in watching.heard} >= {f"one-{number}" for number in range(2 * PAGE)}
    assert watching.there >= {("bank", f"one-{number}") for number in range(2 * PAGE)}


async def test_only_the_needed_parts_of_an_object_are_kept(watching: TwoNamespaces) -> None:
    spec = {"containers": [{"name": "c", "image": "none"}]}
    watching.server.objects["bank", "pods"] = [{**manifest("bank", "listed"), "spec": spec}]
    watching.server.say("bank", "pods", ENDS["gone"])
    await watching.broke_or_relisted("bank", WatchedKind.PODS)
    watching.server.event("bank", "pods", "MODIFIED", {**manifest("bank", "told"), "spec": spec})
    await watching.watched("bank", WatchedKind.PODS, "after")
    assert {parts for name, parts in watching.parts if name in ("listed", "told")} == {("metadata",)}


async def test_an_object_too_deep_to_parse_hides_no_other(watching: TwoNamespaces) -> None:
    fields = {"manager": "kubectl", "operation": "Update", "fieldsType": "FieldsV1", "fieldsV1": DEEP}
    deep = {"metadata": {**manifest("bank", "deep")["metadata"], "managedFields": [fields]}}
    watching.server.event("bank", "pods", "ADDED", deep)
    await watching.watched("bank", WatchedKind.PODS, "second")
    assert (WatchedKind.PODS, "bank", "deep") in watching.heard
    watching.heard.clear()
    watching.server.say("bank", "pods", ENDS["gone"])
    await watching.watched("bank", WatchedKind.PODS, "third")
    assert (WatchedKind.PODS, "bank", "deep") in watching.heard, "as it was listed"


ENDS = {
    "gone": b'{"type": "ERROR", "object": {"kind": "Status", "code": 410, "message": "no"}}\n',
    "error": b'{"type": "ERROR", "object": {"kind": "Status", "code": 500, "message": "no"}}\n',
    "cut off": b'{"type": "ADDED", "obj\n',
    "no object": b'{"type": "ADDED", "object": {}}\n',
}


@pytest.mark.parametrize("line", ENDS.values(), ids=ENDS)
async def test_a_broken_watch_is_renewed_and_stops_no_other_namespace(watching: TwoNamespaces, line: bytes) -> None:
    watching.server.say("bank", "pods", line)
    await watching.broke_or_relisted("bank", WatchedKind.PODS)
    await watching.watched("shop", WatchedKind.PODS, "second")
    await watching.watched("bank", WatchedKind.PODS, "second")


@pytest.mark.parametrize("status", [401, 403, 404, 410, 422, 429, 503])
async def test_a_refused_namespace_stops_no_other_and_is_watched_again_later(watching: TwoNamespaces, status: int) -> None:
    watching.server.refused["bank", "pods"] = status
    watching.server.say("bank", "pods", ENDS["gone"])
    await watching.broke_or_relisted("bank", WatchedKind.PODS)
    await watching.watched("shop", WatchedKind.PODS, "second")
    del watching.server.refused["bank", "pods"]
    watching.server.objects["bank", "pods"] = [manifest("bank", "third")]
    await watching.watched("bank", WatchedKind.PODS, "second")
    assert (WatchedKind.PODS, "bank", "third") in watching.heard


async def test_a_kind_that_is_installed_later_is_watched_then(tmp_path: Path) -> None:
    server = HttpApiServer()
    server.served.remove(WatchedKind.QUEUES)
    server.refused["bank", WatchedKind.QUEUES.value] = 404
    async with server.running(tmp_path) as kubeconfig, _begun(TwoNamespaces(server, kubeconfig)) as one:
        await one.watched("bank", WatchedKind.PODS, "second")  # without that kind
        server.served.add(WatchedKind.QUEUES)
        server.refused.clear()
        await one.watched("bank", WatchedKind.QUEUES, "orders")


async def test_the_process_is_told_that_kopf_ended(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def fails(**_: object) -> None:
        raise RuntimeError("a fault of kopf's")

    monkeypatch.setattr(kopf, "operator", fails)
    ended = threading.Event()
    async with HttpApiServer().running(tmp_path) as kubeconfig:
        watching = Watching(kubeconfig, ["shop"], WatchEvents(asyncio.get_running_loop(), lambda *_: None), ended.set)
        watching.start()
        assert await asyncio.to_thread(ended.wait, 60)
        assert watching.failed
        await asyncio.to_thread(watching.stop)


async def test_an_event_that_cannot_be_handled_delays_no_other() -> None:
    heard = []

    class UnforeseenError(Exception):
        """Of no kind that anybody could have named."""

    def deliver(of: WatchedKind, kind: str | None, one: Manifest) -> None:
        if one["metadata"]["name"] == "bad":
            raise UnforeseenError
        heard.append((one["metadata"]["name"], kind))

    feed = WatchEvents(asyncio.get_running_loop(), deliver)
    for name in ("bad", *(f"pod-{number}" for number in range(1000))):
        feed.put(WatchedKind.PODS, "ADDED", manifest("shop", name))  # all before any is delivered
    for _ in range(1000):  # turns of the event loop
        await asyncio.sleep(0)
    assert len(heard) == 1000


async def test_a_list_outdates_waiting_events_of_objects_that_it_does_not_have() -> None:
    """A pod created and deleted while the watch was broken used to come back, because its first event was delivered last."""
    heard: list[str] = []
    feed = WatchEvents(asyncio.get_running_loop(), lambda of, kind, one: heard.append(one["metadata"]["name"]))
    for version, name in enumerate(["gone", "there", "new"], start=1):
        feed.put(WatchedKind.PODS, "ADDED", manifest("shop", name, version))
    feed.put(WatchedKind.PODS, "ADDED", manifest("bank", "elsewhere", 1))
    feed.put(WatchedKind.LEASES, "ADDED", manifest("shop", "lease", 1))
    feed.listed(WatchedKind.PODS, "shop", {("shop", "there")}, 2)
    await asyncio.sleep(0)
    assert sorted(heard) == ["elsewhere", "lease", "new", "there"]


async def test_only_the_newest_event_of_an_object_waits() -> None:
    heard: list[tuple[str | None, str]] = []
    feed = WatchEvents(asyncio.get_running_loop(), lambda of, kind, one: heard.append((kind, one["metadata"]["resourceVersion"])))
    feed.put(WatchedKind.PODS, "ADDED", manifest("shop", "a", 1))
    feed.put(WatchedKind.PODS, "DELETED", manifest("shop", "a", 2))
    feed.put(WatchedKind.PODS, "ADDED", manifest("shop", "a", 10))
    feed.put(WatchedKind.PODS, "MODIFIED", manifest("shop", "a", 9))
    await asyncio.sleep(0)
    assert heard == [("ADDED", "10")]
