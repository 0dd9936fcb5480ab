"""How objects go: at once, when the last finalizer is off, after a pod's grace, or with their owners."""

from typing import Any

import pytest

from tests.integration.api_server.objects import FINALIZER, body, owned_by, path
from tests.integration.api_server.servers import Server, refused
from tests.simulation.api_server.kinds import CONFIG_MAPS, GROUPS, LEASES, PODS, Kind
from tests.waiting import eventually

Json = dict[str, Any]


async def made(server: Server, kind: Kind, namespace: str, name: str = "a", **content: Any) -> Json:
    return await server.api.create(path(kind, namespace), body(kind, name, **content))


def held(**more: Any) -> Json:
    return {"name": "a", "finalizers": [FINALIZER], **more}


@pytest.mark.parametrize("kind", [CONFIG_MAPS, LEASES, GROUPS, PODS], ids=lambda kind: kind.plural)
async def test_an_object_without_finalizers_is_deleted_at_once(server: Server, namespace: str, kind: Kind) -> None:
    await made(server, kind, namespace)
    answer = await server.delete(path(kind, namespace, "a"))
    assert answer["kind"] == "Pod" if kind is PODS else (answer["kind"], answer["status"]) == ("Status", "Success")
    assert await server.api.find(path(kind, namespace, "a")) is None
    error = await refused(server.delete(path(kind, namespace, "a")))
    assert (error.status, error.reason, error.message) == (404, "NotFound", f'{kind.qualified} "a" not found')


async def test_only_the_intended_object_is_deleted(server: Server, namespace: str) -> None:
    found = await made(server, CONFIG_MAPS, namespace)
    where = path(CONFIG_MAPS, namespace, "a")
    error = await refused(server.delete(where, preconditions={"uid": "another"}))
    assert (error.status, error.reason) == (409, "Conflict")
    assert (await refused(server.delete(where, preconditions={"resourceVersion": "1"}))).reason == "Conflict"
    same = {"uid": found["metadata"]["uid"], "resourceVersion": found["metadata"]["resourceVersion"]}
    await server.delete(where, preconditions=same)
    assert await server.api.find(where) is None


@pytest.mark.parametrize("kind", [CONFIG_MAPS, GROUPS, PODS], ids=lambda kind: kind.plural)
async def test_an_object_with_a_finalizer_waits_until_it_is_removed(server: Server, namespace: str, kind: Kind) -> None:
    old = await made(server, kind, namespace, metadata=held())
    where = path(kind, namespace, "a")
    await server.delete(where)
    found = await server.api.get(where)
    assert found["metadata"]["deletionTimestamp"]
    assert found["metadata"]["deletionGracePeriodSeconds"] == 0
    if kind.generation:
        assert found["metadata"]["generation"] == old["metadata"]["generation"] + 1
    await server.delete(where)
    assert await server.api.get(where) == found  # asked again, nothing changes
    changed = await server.api.merge(where, {"metadata": {"labels": {"b": "c"}}})
    assert changed["metadata"]["deletionTimestamp"] == found["metadata"]["deletionTimestamp"]
    last = await server.api.merge(where, {"metadata": {"finalizers": None}})
    assert last["metadata"]["uid"] == old["metadata"]["uid"]
    assert await server.api.find(where) is None


async def test_an_object_being_deleted_gets_a_status_but_no_finalizer(server: Server, namespace: str) -> None:
    await made(server, GROUPS, namespace, metadata=held())
    where = path(GROUPS, namespace, "a")
    await server.delete(where)
    new = await server.api.merge(f"{where}/status", {"status": {"state": "Ready"}})
    assert new["status"] == {"state": "Ready"}
    error = await refused(server.api.merge(where, {"metadata": {"finalizers": [FINALIZER, "example.com/late"]}}))
    assert (error.status, error.reason) == (422, "Invalid")
    assert error.message == (
        'ConsumerGroup.baton.dev "a" is invalid: metadata.finalizers: Forbidden: no new finalizers can be added if the object is '
        'being deleted, found new finalizers []string{"example.com/late"}'
    )


# -- pods on a node


def on_a_node(grace: int = 40) -> Json:
    return {"nodeName": "nowhere", "terminationGracePeriodSeconds": grace, "containers": [{"name": "c", "image": "none"}]}


async def test_a_pod_on_a_node_stays_until_its_kubelet_confirms_its_end(server: Server, namespace: str) -> None:
    await made(server, PODS, namespace, spec=on_a_node())
    where = path(PODS, namespace, "a")
    answer = await server.delete(where)
    assert answer["metadata"]["deletionGracePeriodSeconds"] == 40
    found = await server.api.get(where)
    assert found["metadata"]["deletionTimestamp"] > found["metadata"]["creationTimestamp"]
    await server.delete(where, gracePeriodSeconds=10)
    assert (await server.api.get(where))["metadata"]["deletionGracePeriodSeconds"] == 10
    await server.delete(where, gracePeriodSeconds=20)
    assert (await server.api.get(where))["metadata"]["deletionGracePeriodSeconds"] == 10
    await server.delete(where, gracePeriodSeconds=0)
    assert await server.api.find(where) is None


async def test_an_ended_pod_needs_no_grace_period(server: Server, namespace: str) -> None:
    await made(server, PODS, namespace, spec=on_a_node())
    await server.api.merge(path(PODS, namespace, "a", "status"), {"status": {"phase": "Succeeded"}})
    await server.delete(path(PODS, namespace, "a"))
    assert await server.api.find(path(PODS, namespace, "a")) is None


async def test_a_pod_with_a_finalizer_stays_after_its_grace_period(server: Server, namespace: str) -> None:
    await made(server, PODS, namespace, spec=on_a_node(), metadata=held())
    where = path(PODS, namespace, "a")
    await server.delete(where)
    freed = await server.api.merge(where, {"metadata": {"finalizers": None}})
    assert freed["metadata"]["deletionGracePeriodSeconds"] == 40  # it still runs
    await server.api.get(where)
    await server.delete(where, gracePeriodSeconds=0)
    assert await server.api.find(where) is None


# -- What becomes of an object whose owner goes.


async def test_owned_objects_are_deleted_after_their_owner(server: Server, namespace: str) -> None:
    owner = await made(server, GROUPS, namespace)
    await made(server, CONFIG_MAPS, namespace, metadata={"name": "a", "ownerReferences": [owned_by(owner)]})
    await server.delete(path(GROUPS, namespace, "a"))
    await server.gone(path(CONFIG_MAPS, namespace, "a"))


async def test_an_object_with_another_owner_stays(server: Server, namespace: str) -> None:
    one, two = [await made(server, GROUPS, namespace, name) for name in ("one", "two")]
    await made(server, CONFIG_MAPS, namespace, metadata={"name": "a", "ownerReferences": [owned_by(one), owned_by(two)]})
    await server.delete(path(GROUPS, namespace, "one"))

    async def owners() -> list[str]:
        found = await server.api.get(path(CONFIG_MAPS, namespace, "a"))
        return [owner["name"] for owner in found["metadata"]["ownerReferences"]]

    async def left() -> bool:
        return await owners() == ["two"]

    await eventually(left, "the reference to the owner that is gone is taken away", shown=owners)


async def test_an_object_whose_owner_is_gone_is_deleted(server: Server, namespace: str) -> None:
    """A namesake is another owner."""
    owner = await made(server, GROUPS, namespace)
    await server.delete(path(GROUPS, namespace, "a"))
    await made(server, GROUPS, namespace)
    await made(server, CONFIG_MAPS, namespace, metadata={"name": "a", "ownerReferences": [owned_by(owner)]})
    await server.gone(path(CONFIG_MAPS, namespace, "a"))


async def test_an_owner_with_a_finalizer_keeps_its_objects(server: Server, namespace: str) -> None:
    owner = await made(server, GROUPS, namespace, metadata=held())
    await made(server, CONFIG_MAPS, namespace, metadata={"name": "a", "ownerReferences": [owned_by(owner)]})
    await server.delete(path(GROUPS, namespace, "a"))
    await made(server, CONFIG_MAPS, namespace, "b", metadata={"name": "b", "ownerReferences": [owned_by(owner, uid="gone")]})
    await server.gone(path(CONFIG_MAPS, namespace, "b"))  # so the collector has been here
    assert await server.api.find(path(CONFIG_MAPS, namespace, "a")) is not None
