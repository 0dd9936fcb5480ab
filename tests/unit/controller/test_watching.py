"""kopf under supervision: what ends the watches of one namespace is no other's trouble."""

import asyncio
import json
import tracemalloc
from collections.abc import AsyncIterator, Callable, Iterable, Sized
from contextlib import asynccontextmanager, suppress
from itertools import islice
from pathlib import Path

import pytest

from baton.controller import watch as watch_module
from baton.controller import watches as watches_module
from baton.controller.watch import settings, watch
from baton.controller.watch_events import WatchEvents
from baton.controller.watches import Watches
from baton.kube.store import Manifest
from baton.kube.watched_kinds import WatchedKind
from tests.unit.controller.http_api_server import DEEP, HttpApiServer, Json
from tests.waiting import eventually


def test_a_watch_is_tried_again_soon_and_for_ever() -> None:
    backoffs = settings().networking.error_backoffs
    assert isinstance(backoffs, Iterable)
    assert not isinstance(backoffs, Sized)  # kopf takes what has a length for a limit
    for _ in range(2):
        tries = list(islice(backoffs, 1000))
        assert (len(tries), tries[0], max(tries)) == (1000, 0.2, 2.0)


def manifest(namespace: str, name: str, version: int = 3) -> Json:
    return {"metadata": {"namespace": namespace, "name": name, "uid": f"{namespace}-{name}", "resourceVersion": str(version)}}


class Watching:
    """Two namespaces of one server."""

    def __init__(self, server: HttpApiServer, kubeconfig: Path) -> None:
        self.server = server
        self.heard: list[tuple[WatchedKind, str, str]] = []
        feed = WatchEvents(asyncio.get_running_loop(), self._hear)
        self.watches = Watches(lambda scope, began: watch(kubeconfig, scope, feed.put, began), ["shop", "bank"])

    def _hear(self, of: WatchedKind, kind: str | None, manifest: Manifest) -> None:
        self.heard.append((of, manifest["metadata"]["namespace"], manifest["metadata"]["name"]))

    async def watched(self, namespace: str, of: WatchedKind, name: str) -> None:
        """An event there arrives."""
        self.server.event(namespace, of.value, "ADDED", manifest(namespace, name))

        async def heard() -> bool:
            return (of, namespace, name) in self.heard

        await eventually(heard, f"{name} of {namespace} is heard of")

    async def restarted(self, namespace: str, times: int = 1) -> None:
        async def so() -> bool:
            return self.watches.restarts[namespace] >= times

        await eventually(so, f"the watch of {namespace} was started again")


@pytest.fixture
async def watching(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Watching]:
    monkeypatch.setattr(watches_module, "FIRST_BACKOFF", 0.05)
    monkeypatch.setattr(watches_module, "LONGEST_BACKOFF", 0.1)
    monkeypatch.setattr(watch_module, "LOOK_AGAIN", 0.05)
    server = HttpApiServer()
    async with server.running(tmp_path) as kubeconfig, _begun(Watching(server, kubeconfig)) as one:
        yield one


@asynccontextmanager
async def _begun(one: Watching) -> AsyncIterator[Watching]:
    one.watches.start()
    try:
        for namespace in ("shop", "bank"):
            await one.watched(namespace, WatchedKind.PODS, "first")
        yield one
    finally:
        await asyncio.to_thread(one.watches.stop)


async def test_what_is_there_and_what_comes_is_heard_of(watching: Watching) -> None:
    for of in WatchedKind:
        for namespace in ("shop", "bank"):
            await watching.watched(namespace, of, "one")
    assert watching.watches.begun
    assert watching.watches.restarts == {"shop": 0, "bank": 0}


async def test_ledgers_are_listed_by_few_and_all_of_them(watching: Watching) -> None:
    there = {f"one-{number}" for number in range(26)}
    for of in (WatchedKind.LEDGERS, WatchedKind.PODS):
        watching.server.objects["bank", of.value] = [manifest("bank", name) for name in sorted(there)]
    watching.server.pages.clear()
    watching.server.say("bank", "pods", ENDS["gone"])
    await watching.restarted("bank")
    for of, at_once in ((WatchedKind.LEDGERS, 3), (WatchedKind.PODS, 5)):
        await watching.watched("bank", of, "after")
        assert {name for kind, _, name in watching.heard if kind is of} >= there
        assert max(watching.server.pages["bank", of.value]) == at_once


async def test_large_objects_are_neither_kept_nor_copied(watching: Watching) -> None:
    variables = [{"name": f"a{number}"} for number in range(LARGE)]
    spec = {"containers": [{"name": "c", "env": variables}]}
    there = [{**manifest("bank", f"large-{number}"), "spec": spec} for number in range(25)]
    text = json.dumps(there[0])
    tracemalloc.start()
    try:
        one = json.loads(text)
        size = tracemalloc.get_traced_memory()[0]
        del one
        watching.server.objects["bank", "pods"] = there
        watching.server.say("bank", "pods", ENDS["gone"])
        await watching.restarted("bank")
        await watching.watched("bank", WatchedKind.PODS, "listed")
        assert {name for _, _, name in watching.heard} >= {f"large-{number}" for number in range(25)}
        assert tracemalloc.get_traced_memory()[1] < 15 * size, "two pages of five, and what came of their text"
    finally:
        tracemalloc.stop()


async def test_an_object_that_is_too_deep_to_be_parsed_hides_no_other(watching: Watching) -> None:
    fields = {"manager": "somebody", "operation": "Update", "fieldsType": "FieldsV1", "fieldsV1": DEEP}
    deep = {"metadata": {**manifest("bank", "deep")["metadata"], "managedFields": [fields]}}
    watching.server.event("bank", "pods", "ADDED", deep)
    await watching.watched("bank", WatchedKind.PODS, "second")
    assert (WatchedKind.PODS, "bank", "deep") in watching.heard
    assert watching.watches.restarts["bank"] == 0
    watching.server.say("bank", "pods", ENDS["gone"])
    await watching.restarted("bank")
    watching.heard.clear()
    await watching.watched("bank", WatchedKind.PODS, "third")
    assert (WatchedKind.PODS, "bank", "deep") in watching.heard, "as it was listed"
    assert watching.watches.restarts["bank"] == 1


LARGE = 10_000
"""Variables of a pod: of the size that an API server takes, it may have ten times as many."""

ENDS = {
    "gone": b'{"type": "ERROR", "object": {"kind": "Status", "code": 500, "message": "no"}}\n',
    "cut off": b'{"type": "ADDED", "obj\n',
    "no object": b'{"type": "ADDED", "object": {}}\n',
}


@pytest.mark.parametrize("line", ENDS.values(), ids=ENDS)
async def test_a_watch_that_cannot_be_read_on_stops_no_other_namespace(watching: Watching, line: bytes) -> None:
    watching.server.say("bank", "pods", line)
    await watching.restarted("bank")
    await watching.watched("shop", WatchedKind.PODS, "second")
    await watching.watched("bank", WatchedKind.PODS, "second")
    assert watching.watches.restarts["shop"] == 0


@pytest.mark.parametrize("status", [401, 404, 410, 422])
async def test_a_namespace_that_is_refused_stops_no_other_and_is_watched_when_it_comes_back(
    watching: Watching, status: int
) -> None:
    watching.server.refused["bank", "pods"] = status
    watching.server.say("bank", "pods", ENDS["gone"])
    await watching.restarted("bank", 2)
    await watching.watched("shop", WatchedKind.PODS, "second")
    del watching.server.refused["bank", "pods"]
    watching.server.objects["bank", "pods"] = [manifest("bank", "third")]
    await watching.watched("bank", WatchedKind.PODS, "second")
    assert (WatchedKind.PODS, "bank", "third") in watching.heard
    assert watching.watches.restarts["shop"] == 0


async def test_a_kind_that_comes_later_is_watched_then(watching: Watching) -> None:
    watching.server.served.remove(WatchedKind.QUEUES)
    watching.server.refused["bank", WatchedKind.QUEUES.value] = 404
    watching.server.say("bank", WatchedKind.QUEUES.value, ENDS["gone"])
    await watching.restarted("bank")
    await watching.watched("bank", WatchedKind.PODS, "second")  # without that kind
    before = watching.watches.restarts["bank"]
    watching.server.served.add(WatchedKind.QUEUES)
    watching.server.refused.clear()
    await watching.restarted("bank", before + 1)
    await watching.watched("bank", WatchedKind.QUEUES, "orders")


async def test_what_a_watch_leaves_behind_has_ended_before_it_is_watched_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(watches_module, "FIRST_BACKOFF", 0.05)
    told: list[str] = []
    left: set[asyncio.Task[None]] = set()

    async def until_cancelled(what: str) -> None:
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:  # not where it is only collected, with its event loop closed
            told.append(what)
            raise

    async def as_of_kopf() -> None:
        """Its watchers and its startup_cleanup_activities wait for others when they are cancelled."""
        with suppress(asyncio.CancelledError):
            await until_cancelled("cancelled")
        try:
            await asyncio.shield(asyncio.create_task(until_cancelled("ended")))
        except asyncio.CancelledError:
            told.append("ended")
            raise

    async def watch_once(scope: str | None, began: Callable[[], None]) -> None:
        told.append("watches")
        if told.count("watches") > 1:
            await asyncio.Event().wait()
        left.add(asyncio.create_task(as_of_kopf()))
        await asyncio.sleep(0)

    async def watched_again() -> bool:
        return told.count("watches") > 1

    watches = Watches(watch_once, ["shop"])
    watches.start()
    await eventually(watched_again, "it is watched again")
    await asyncio.to_thread(watches.stop)
    assert told == ["watches", "cancelled", "ended", "ended", "watches"]


async def test_an_event_that_cannot_be_taken_in_keeps_back_no_other() -> None:
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


async def test_of_an_object_only_the_newest_event_waits() -> None:
    heard: list[tuple[str | None, str]] = []
    feed = WatchEvents(asyncio.get_running_loop(), lambda of, kind, one: heard.append((kind, one["metadata"]["resourceVersion"])))
    feed.put(WatchedKind.PODS, "ADDED", manifest("shop", "a", 1))
    feed.put(WatchedKind.PODS, "DELETED", manifest("shop", "a", 2))
    feed.put(WatchedKind.PODS, "ADDED", manifest("shop", "a", 10))
    feed.put(WatchedKind.PODS, "MODIFIED", manifest("shop", "a", 9))
    await asyncio.sleep(0)
    assert heard == [("ADDED", "10")]
