"""A namespace that is deleted: what can still be written, and when it is gone."""

import pytest

from baton.kube.errors import NotFoundError
from tests.integration.api_server.objects import FINALIZER, NAMESPACED, body, path
from tests.integration.api_server.servers import Server, refused
from tests.simulation.api_server.kinds import CONFIG_MAPS, EVENTS, GROUPS, LEASES, NAMESPACES, PODS, Kind
from tests.waiting import eventually


async def terminating(server: Server, namespace: str) -> None:
    """With a group that holds it."""
    await server.api.create(path(GROUPS, namespace), body(GROUPS, "held", metadata={"name": "held", "finalizers": [FINALIZER]}))
    await server.delete(path(NAMESPACES, None, namespace))


async def test_a_namespace_shows_its_phase(server: Server, namespace: str) -> None:
    found = await server.api.get(path(NAMESPACES, None, namespace))
    assert found["status"]["phase"] == "Active"
    assert found["metadata"]["labels"]["kubernetes.io/metadata.name"] == namespace
    await terminating(server, namespace)
    found = await server.api.get(path(NAMESPACES, None, namespace))
    assert found["status"]["phase"] == "Terminating"
    assert found["metadata"]["deletionTimestamp"]


@pytest.mark.parametrize("kind", NAMESPACED, ids=lambda kind: kind.plural)
async def test_nothing_is_created_in_a_namespace_being_deleted(server: Server, namespace: str, kind: Kind) -> None:
    await terminating(server, namespace)
    error = await refused(server.api.create(path(kind, namespace), body(kind, "a", namespace=namespace)))
    assert (error.status, error.reason, error.causes) == (403, "Forbidden", frozenset({"NamespaceTerminating"}))
    assert error.message == (
        f'{kind.qualified} "a" is forbidden: unable to create new content in namespace {namespace} because it is being terminated'
    )


async def test_objects_there_can_be_changed_but_no_lease_is_created_by_replacing(server: Server, namespace: str) -> None:
    await terminating(server, namespace)
    error = await refused(server.api.replace(path(LEASES, namespace, "a"), body(LEASES, "a")))
    assert (error.status, error.reason) == (403, "Forbidden")
    where = path(GROUPS, namespace, "held")
    await server.api.merge(f"{where}/status", {"status": {"state": "Ready"}})
    await server.api.merge(where, {"metadata": {"annotations": {"b": "c"}}})


async def test_a_namespace_is_deleted_after_its_content(server: Server, namespace: str) -> None:
    for kind in (CONFIG_MAPS, LEASES, PODS, EVENTS):
        await server.api.create(path(kind, namespace), body(kind, "a", namespace=namespace))
    await terminating(server, namespace)
    for kind in (CONFIG_MAPS, LEASES, PODS, EVENTS):
        await server.gone(path(kind, namespace, "a"))

    async def marked() -> bool:
        return "deletionTimestamp" in (await server.api.get(path(GROUPS, namespace, "held")))["metadata"]

    await eventually(marked, "the group is deleted")
    assert await server.api.find(path(NAMESPACES, None, namespace)) is not None
    await server.api.merge(path(GROUPS, namespace, "held"), {"metadata": {"finalizers": None}})
    await server.gone(path(NAMESPACES, None, namespace))


async def test_a_terminating_pod_delays_the_rest_of_its_namespace(server: Server, namespace: str) -> None:
    spec = {"nodeName": "nowhere", "containers": [{"name": "c", "image": "none"}]}
    await server.api.create(path(PODS, namespace), body(PODS, "a", spec=spec))
    await server.api.create(path(CONFIG_MAPS, namespace), body(CONFIG_MAPS, "a"))
    await server.delete(path(NAMESPACES, None, namespace))

    async def marked() -> bool:
        return "deletionTimestamp" in (await server.api.get(path(PODS, namespace, "a")))["metadata"]

    await eventually(marked, "the pod is asked to end")
    assert await server.api.find(path(CONFIG_MAPS, namespace, "a")) is not None
    await server.delete(path(PODS, namespace, "a"), gracePeriodSeconds=0)
    await server.gone(path(NAMESPACES, None, namespace))


async def test_nothing_is_created_in_a_missing_namespace(server: Server) -> None:
    for kind in (CONFIG_MAPS, GROUPS, EVENTS, LEASES):
        error = await refused(server.api.create(path(kind, "nowhere"), body(kind, "a", namespace="nowhere")))
        assert (type(error), error.status, error.message) == (NotFoundError, 404, 'namespaces "nowhere" not found')


async def test_a_missing_namespace_lists_as_empty(server: Server) -> None:
    for kind in (PODS, CONFIG_MAPS, GROUPS):
        assert (await server.api.get(path(kind, "nowhere")))["items"] == []
    error = await refused(server.api.get(path(CONFIG_MAPS, "nowhere", "a")))
    assert error.message == 'configmaps "a" not found'


async def test_a_recreated_namespace_is_another(server: Server, namespace: str) -> None:
    first = await server.api.get(path(NAMESPACES, None, namespace))
    await server.delete(path(NAMESPACES, None, namespace))
    await server.gone(path(NAMESPACES, None, namespace))
    second = await server.api.create(path(NAMESPACES, None), body(NAMESPACES, namespace))
    assert second["metadata"]["uid"] != first["metadata"]["uid"]
    assert (await server.api.get(path(GROUPS, namespace)))["items"] == []
