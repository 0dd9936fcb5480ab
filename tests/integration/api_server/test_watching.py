"""What a watch tells, and from where on."""

import asyncio
from typing import Any

import pytest

from tests.integration.api_server.objects import FINALIZER, body, path
from tests.integration.api_server.servers import Server
from tests.simulation.api_server.kinds import CONFIG_MAPS, GROUPS, LEASES, PODS, Kind

Json = dict[str, Any]


async def version(server: Server, kind: Kind, namespace: str | None) -> str:
    """From where on a watch of what comes now begins."""
    return str((await server.api.get(path(kind, namespace)))["metadata"]["resourceVersion"])


def without_version(manifest: Json) -> Json:
    return {**manifest, "metadata": {**manifest["metadata"], "resourceVersion": ""}}


def told(events: list[Json]) -> list[tuple[str, str]]:
    return [(event["type"], event["object"]["metadata"]["name"]) for event in events]


@pytest.mark.parametrize("kind", [PODS, CONFIG_MAPS, LEASES, GROUPS], ids=lambda kind: kind.plural)
async def test_a_watch_reports_everything_after_its_version_in_order(server: Server, namespace: str, kind: Kind) -> None:
    before = await server.api.create(path(kind, namespace), body(kind, "before"))
    since = str(before["metadata"]["resourceVersion"])
    made = await server.api.create(path(kind, namespace), body(kind, "a"))
    changed = await server.api.merge(path(kind, namespace, "a"), {"metadata": {"labels": {"b": "c"}}})
    await server.delete(path(kind, namespace, "a"))
    after = await server.api.create(path(kind, namespace), body(kind, "after"))
    events = await server.events(path(kind, namespace), since, 5 if kind is PODS else 4)
    if kind is PODS:  # of these it is first said that they are to go
        marked = events.pop(2)
        assert marked["type"] == "MODIFIED"
        assert marked["object"]["metadata"]["deletionGracePeriodSeconds"] == 0
        changed = marked["object"]
    assert told(events) == [("ADDED", "a"), ("MODIFIED", "a"), ("DELETED", "a"), ("ADDED", "after")]
    assert [events[0]["object"], events[3]["object"]] == [made, after]
    assert without_version(events[2]["object"]) == without_version(changed), "it is shown as it was last"
    versions = [int(event["object"]["metadata"]["resourceVersion"]) for event in events]
    assert versions == sorted(set(versions))  # what is gone has the version at which it went


async def test_a_watch_continues_with_new_events(server: Server, namespace: str) -> None:
    since = await version(server, LEASES, namespace)
    watching = asyncio.create_task(server.events(path(LEASES, namespace), since, 2))
    await asyncio.sleep(0)
    await server.api.create(path(LEASES, namespace), body(LEASES, "a"))
    await server.delete(path(LEASES, namespace, "a"))
    assert told(await watching) == [("ADDED", "a"), ("DELETED", "a")]


async def test_an_object_that_loses_the_selected_label_is_deleted_for_the_watch(server: Server, namespace: str) -> None:
    since = await version(server, LEASES, namespace)
    await server.api.create(path(LEASES, namespace), body(LEASES, "other"))
    await server.api.create(path(LEASES, namespace), body(LEASES, "a"))
    marked = await server.api.merge(path(LEASES, namespace, "a"), {"metadata": {"labels": {"x": "1"}}})
    bare = await server.api.merge(path(LEASES, namespace, "a"), {"metadata": {"labels": {"x": None}}})
    await server.api.merge(path(LEASES, namespace, "a"), {"metadata": {"annotations": {"not": "told"}}})
    again = await server.api.merge(path(LEASES, namespace, "a"), {"metadata": {"labels": {"x": "2"}}})
    await server.api.merge(path(LEASES, namespace, "a"), {"metadata": {"labels": {"x": "3"}}})
    await server.delete(path(LEASES, namespace, "other"))
    await server.delete(path(LEASES, namespace, "a"))
    events = await server.events(path(LEASES, namespace), since, 5, labelSelector="x")
    assert told(events) == [("ADDED", "a"), ("DELETED", "a"), ("ADDED", "a"), ("MODIFIED", "a"), ("DELETED", "a")]
    assert events[1]["object"]["metadata"]["labels"] == {"x": "1"}, "it is shown as it was"
    assert [event["object"]["metadata"]["resourceVersion"] for event in events[:3]] == [
        one["metadata"]["resourceVersion"] for one in (marked, bare, again)
    ]


async def test_a_watch_of_a_namespace_reports_no_other(server: Server, namespace: str) -> None:
    other = await server.namespace()
    since = await version(server, GROUPS, None)
    label = {namespace: ""}
    await server.api.create(path(GROUPS, other), body(GROUPS, "other", metadata={"name": "other", "labels": label}))
    await server.api.create(path(GROUPS, namespace), body(GROUPS, "a", metadata={"name": "a", "labels": label}))
    assert told(await server.events(path(GROUPS, namespace), since, 1)) == [("ADDED", "a")]
    everywhere = await server.events(path(GROUPS, None), since, 2, labelSelector=namespace)
    assert told(everywhere) == [("ADDED", "other"), ("ADDED", "a")]


async def test_a_deletion_held_by_a_finalizer_is_reported_as_a_change_first(server: Server, namespace: str) -> None:
    since = await version(server, GROUPS, namespace)
    await server.api.create(path(GROUPS, namespace), body(GROUPS, "a", metadata={"name": "a", "finalizers": [FINALIZER]}))
    await server.delete(path(GROUPS, namespace, "a"))
    await server.api.merge(path(GROUPS, namespace, "a"), {"metadata": {"finalizers": None}})
    events = await server.events(path(GROUPS, namespace), since, 3)
    assert told(events) == [("ADDED", "a"), ("MODIFIED", "a"), ("DELETED", "a")]
    assert "deletionTimestamp" in events[1]["object"]["metadata"]
    assert events[2]["object"]["metadata"]["finalizers"] == [FINALIZER]


async def test_a_write_that_changes_nothing_is_not_reported(server: Server, namespace: str) -> None:
    since = await version(server, CONFIG_MAPS, namespace)
    await server.api.create(path(CONFIG_MAPS, namespace), body(CONFIG_MAPS, "a"))
    await server.api.merge(path(CONFIG_MAPS, namespace, "a"), {"data": {"a": "1"}})
    await server.delete(path(CONFIG_MAPS, namespace, "a"))
    assert told(await server.events(path(CONFIG_MAPS, namespace), since, 2)) == [("ADDED", "a"), ("DELETED", "a")]


async def test_a_watch_from_an_expired_version_is_refused(server: Server, namespace: str) -> None:
    await server.api.create(path(GROUPS, namespace), body(GROUPS, "a"))
    assert told(await server.events(path(GROUPS, namespace), "0", 1)) == [("ADDED", "a")], "0: what there is"
    server.forget()
    error = (await server.events(path(GROUPS, namespace), "1", 1))[0]
    assert error["type"] == "ERROR"
    assert (error["object"]["kind"], error["object"]["code"], error["object"]["reason"]) == ("Status", 410, "Expired")
    assert error["object"]["message"].startswith("too old resource version: 1 (")
