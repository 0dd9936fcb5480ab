"""The results of writes, and the conflicts with other writes."""

from typing import Any

import pytest

from baton.kube.errors import ConflictError, NotFoundError, UnavailableError
from tests.integration.api_server.objects import NAMESPACED, body, path
from tests.integration.api_server.servers import Server, refused
from tests.simulation.api_server.kinds import (
    CONFIG_MAPS,
    DEPLOYMENTS,
    EVENTS,
    GROUPS,
    LEASES,
    PODS,
    QUEUES,
    QUOTAS,
    Kind,
)

Json = dict[str, Any]


def version(manifest: Json) -> int:
    return int(manifest["metadata"]["resourceVersion"])


async def made(server: Server, kind: Kind, namespace: str, name: str = "a", **content: Any) -> Json:
    return await server.api.create(path(kind, namespace), body(kind, name, namespace=namespace, **content))


@pytest.mark.parametrize("kind", NAMESPACED, ids=lambda kind: kind.plural)
async def test_a_created_object_is_returned_as_it_is_stored(server: Server, namespace: str, kind: Kind) -> None:
    answer = await made(server, kind, namespace, metadata={"name": "a", "labels": {"b": "c"}, "annotations": {}})
    if kind not in (DEPLOYMENTS, QUOTAS):  # their controllers write to them
        assert await server.api.get(path(kind, namespace, "a")) == answer
    assert (answer["apiVersion"], answer["kind"]) == (kind.group_version, kind.name)
    metadata = {field: value for field, value in answer["metadata"].items() if field != "managedFields"}
    known = {field: metadata.pop(field) for field in ("uid", "creationTimestamp", "resourceVersion")}
    assert all(type(value) is str and value for value in known.values())
    generation = {"generation": 1} if kind.generation else {}
    assert metadata == {"name": "a", "namespace": namespace, "labels": {"b": "c"}} | generation


async def test_versions_are_numbers_that_grow_with_every_write(server: Server, namespace: str) -> None:
    versions = [version(await made(server, kind, namespace)) for kind in (CONFIG_MAPS, LEASES, GROUPS, PODS, EVENTS)]
    versions.append(version(await server.api.merge(path(CONFIG_MAPS, namespace, "a"), {"data": {"a": "2"}})))
    assert versions == sorted(set(versions))


@pytest.mark.parametrize("kind", [CONFIG_MAPS, LEASES, GROUPS], ids=lambda kind: kind.plural)
async def test_an_existing_object_cannot_be_created(server: Server, namespace: str, kind: Kind) -> None:
    await made(server, kind, namespace)
    error = await refused(made(server, kind, namespace))
    assert (type(error), error.status, error.reason) == (ConflictError, 409, "AlreadyExists")
    assert error.message == f'{kind.qualified} "a" already exists'


@pytest.mark.parametrize("kind", [CONFIG_MAPS, LEASES, PODS, GROUPS, QUEUES], ids=lambda kind: kind.plural)
async def test_a_write_of_an_older_version_is_a_conflict(server: Server, namespace: str, kind: Kind) -> None:
    old = await made(server, kind, namespace)
    await server.api.merge(path(kind, namespace, "a"), {"metadata": {"labels": {"b": "c"}}})
    stale = {"metadata": {"resourceVersion": old["metadata"]["resourceVersion"], "labels": {"b": "d"}}}
    for request in (server.api.replace(path(kind, namespace, "a"), old), server.api.merge(path(kind, namespace, "a"), stale)):
        error = await refused(request)
        assert (type(error), error.status, error.reason) == (ConflictError, 409, "Conflict")
        assert error.message == (
            f'Operation cannot be fulfilled on {kind.qualified} "a": the object has been modified; please apply your changes to '
            "the latest version and try again"
        )


async def test_a_replace_removes_the_old_content(server: Server, namespace: str) -> None:
    old = await made(server, CONFIG_MAPS, namespace, metadata={"name": "a", "labels": {"b": "c"}})
    new = await server.api.replace(
        path(CONFIG_MAPS, namespace, "a"),
        {"metadata": {"name": "a", "resourceVersion": old["metadata"]["resourceVersion"]}, "data": {"b": "2"}},
    )
    assert new["data"] == {"b": "2"}
    assert "labels" not in new["metadata"]
    assert new["metadata"]["uid"] == old["metadata"]["uid"]
    assert version(new) > version(old)
    new = await server.api.replace(path(CONFIG_MAPS, namespace, "a"), body(CONFIG_MAPS, "a", data={"c": "3"}))
    assert new["data"] == {"c": "3"}, "a ConfigMap needs no version"


@pytest.mark.parametrize("kind", [LEASES, GROUPS, QUEUES], ids=lambda kind: kind.plural)
async def test_a_replace_without_a_version_is_invalid_except_for_config_maps(server: Server, namespace: str, kind: Kind) -> None:
    await made(server, kind, namespace)
    error = await refused(server.api.replace(path(kind, namespace, "a"), body(kind, "a")))
    assert (error.status, error.reason) == (422, "Invalid")
    said = "metadata.resourceVersion: Invalid value: 0: must be specified for an update"
    assert error.message == f'{kind.qualified} "a" is invalid: {said}'


@pytest.mark.parametrize("kind", [CONFIG_MAPS, PODS, GROUPS], ids=lambda kind: kind.plural)
async def test_a_missing_object_cannot_be_read_replaced_or_patched(server: Server, namespace: str, kind: Kind) -> None:
    where = path(kind, namespace, "a")
    for request in (server.api.get(where), server.api.replace(where, body(kind, "a")), server.api.merge(where, {"metadata": {}})):
        error = await refused(request)
        assert (type(error), error.status, error.reason) == (NotFoundError, 404, "NotFound")
        assert error.message == f'{kind.qualified} "a" not found'
    assert await server.api.find(where) is None


async def test_a_replace_creates_a_missing_lease(server: Server, namespace: str) -> None:
    new = await server.api.replace(path(LEASES, namespace, "a"), body(LEASES, "a"))
    assert new["spec"]["holderIdentity"] == "one"


async def test_a_replace_of_a_deleted_lease_is_a_conflict(server: Server, namespace: str) -> None:
    old = await made(server, LEASES, namespace)
    await server.delete(path(LEASES, namespace, "a"))
    error = await refused(server.api.replace(path(LEASES, namespace, "a"), old))
    assert (type(error), error.status, error.reason) == (ConflictError, 409, "Conflict")
    assert f"Precondition failed: UID in precondition: {old['metadata']['uid']}, UID in object meta: " in error.message
    bare = {**old, "metadata": {"name": "a", "resourceVersion": old["metadata"]["resourceVersion"]}}
    assert (await server.api.replace(path(LEASES, namespace, "a"), bare))["spec"] == old["spec"], (
        "a version alone does not matter"
    )


@pytest.mark.parametrize("kind", [CONFIG_MAPS, LEASES, PODS, GROUPS], ids=lambda kind: kind.plural)
async def test_a_replace_of_another_object_of_that_name_is_a_conflict(server: Server, namespace: str, kind: Kind) -> None:
    old = await made(server, kind, namespace)
    await server.delete(path(kind, namespace, "a"))
    new = await made(server, kind, namespace)
    error = await refused(server.api.replace(path(kind, namespace, "a"), old))
    assert (type(error), error.status, error.reason) == (ConflictError, 409, "Conflict")
    uids = [one["metadata"]["uid"] for one in (old, new)]
    assert f"Precondition failed: UID in precondition: {uids[0]}, UID in object meta: {uids[1]}" in error.message


async def test_a_patch_changes_what_it_names_and_null_removes(server: Server, namespace: str) -> None:
    metadata = {"name": "a", "labels": {"a": "1", "b": "2"}}
    old = await made(server, CONFIG_MAPS, namespace, metadata=metadata, data={"x": "1", "y": "2"})
    patch = {"metadata": {"labels": {"a": None, "c": "3"}}, "data": {"x": None, "z": "3", "none": None}}
    new = await server.api.merge(path(CONFIG_MAPS, namespace, "a"), patch)
    assert new["metadata"]["labels"] == {"b": "2", "c": "3"}
    assert new["data"] == {"y": "2", "z": "3"}
    assert version(new) > version(old)
    emptied = await server.api.merge(path(CONFIG_MAPS, namespace, "a"), {"metadata": {"labels": None}, "data": None})
    assert "labels" not in emptied["metadata"] and "data" not in emptied
    await made(server, GROUPS, namespace, spec={"queues": [{"name": "a"}, {"name": "b"}]})
    new = await server.api.merge(path(GROUPS, namespace, "a"), {"spec": {"queues": [{"name": "c"}]}})
    assert new["spec"]["queues"] == [{"name": "c"}], "lists are replaced whole"


@pytest.mark.parametrize("kind", [CONFIG_MAPS, PODS, GROUPS], ids=lambda kind: kind.plural)
async def test_a_patch_for_another_object_of_that_name_is_a_conflict(server: Server, namespace: str, kind: Kind) -> None:
    uid = (await made(server, kind, namespace))["metadata"]["uid"]
    patch = {"metadata": {"uid": "another", "labels": {"b": "c"}}}
    error = await refused(server.api.merge(path(kind, namespace, "a"), patch))
    assert (type(error), error.status, error.reason) == (ConflictError, 422, "Invalid")
    assert error.message.endswith('"a" is invalid: metadata.uid: Invalid value: "another": field is immutable')
    new = await server.api.merge(path(kind, namespace, "a"), {"metadata": {"uid": uid, "labels": {"b": "c"}}})
    assert new["metadata"]["labels"] == {"b": "c"}


@pytest.mark.parametrize("kind", [CONFIG_MAPS, LEASES, PODS, GROUPS], ids=lambda kind: kind.plural)
async def test_a_write_that_changes_nothing_keeps_the_version(server: Server, namespace: str, kind: Kind) -> None:
    old = await made(server, kind, namespace, metadata={"name": "a", "labels": {"b": "c"}})
    patched = await server.api.merge(path(kind, namespace, "a"), {"metadata": {"labels": {"b": "c", "d": None}}})
    assert version(patched) == version(old)
    assert version(await server.api.replace(path(kind, namespace, "a"), patched)) == version(old)


async def test_fields_set_by_the_server_cannot_be_changed(server: Server, namespace: str) -> None:
    old = await made(server, CONFIG_MAPS, namespace)
    metadata = {**old["metadata"], "creationTimestamp": "2020-01-01T00:00:00Z", "generation": 7}
    new = await server.api.replace(path(CONFIG_MAPS, namespace, "a"), {**old, "metadata": metadata, "data": {"b": "2"}})
    for field in ("uid", "creationTimestamp", "name", "namespace"):
        assert new["metadata"][field] == old["metadata"][field]


async def test_an_object_must_match_the_name_and_namespace_of_its_path(server: Server, namespace: str) -> None:
    await made(server, CONFIG_MAPS, namespace)
    error = await refused(server.api.replace(path(CONFIG_MAPS, namespace, "a"), body(CONFIG_MAPS, "b")))
    assert (error.status, error.reason) == (400, "BadRequest")
    assert error.message == "the name of the object (b) does not match the name on the URL (a)"
    elsewhere = body(CONFIG_MAPS, "c", metadata={"name": "c", "namespace": "default"})
    error = await refused(server.api.create(path(CONFIG_MAPS, namespace), elsewhere))
    assert (error.status, error.reason) == (400, "BadRequest")
    assert error.message == "the namespace of the provided object does not match the namespace sent on the request"


async def test_an_object_with_a_version_cannot_be_created(server: Server, namespace: str) -> None:
    sent = body(CONFIG_MAPS, "a", metadata={"name": "a", "resourceVersion": "1"})
    with pytest.raises(UnavailableError, match="500 : resourceVersion should not be set on objects to be created"):
        await server.api.create(path(CONFIG_MAPS, namespace), sent)


async def test_writes_to_a_group_and_to_its_status_leave_each_other_alone(server: Server, namespace: str) -> None:
    old = await made(server, GROUPS, namespace, status={"state": "Ready"})
    assert "status" not in old
    assert "status" not in await server.api.merge(path(GROUPS, namespace, "a"), {"status": {"state": "Paused"}})
    metadata = {"labels": {"b": "c"}, "annotations": {"b": "c"}, "finalizers": ["example.com/no"], "uid": old["metadata"]["uid"]}
    status = {"state": "Ready", "members": 3, "proposal": None}
    patch = {"metadata": metadata, "spec": {"paused": True}, "status": status}
    new = await server.api.merge(path(GROUPS, namespace, "a", "status"), patch)
    assert new["status"] == {"state": "Ready", "members": 3}
    assert new["spec"] == old["spec"]
    assert new["metadata"].keys() == old["metadata"].keys()
    assert new["metadata"]["generation"] == 1
    assert version(new) > version(old)
    another = {"metadata": {"uid": "x"}, "status": {"members": None}}  # a merge does not ask which object of that name it is
    new = await server.api.merge(path(GROUPS, namespace, "a", "status"), another)
    assert new["status"] == {"state": "Ready"}
    again = await server.api.merge(path(GROUPS, namespace, "a", "status"), {"status": {"state": "Ready"}})
    assert version(again) == version(new)


async def test_a_status_is_replaced_only_for_the_intended_object(server: Server, namespace: str) -> None:
    uid = (await made(server, GROUPS, namespace))["metadata"]["uid"]
    where = path(GROUPS, namespace, "a")
    await server.api.replace_status(where, uid, lambda: {"state": "Ready", "members": 3})
    new = await server.api.replace_status(where, uid, lambda: {"state": "Paused"})
    assert new["status"] == {"state": "Paused"}
    assert version(await server.api.replace_status(where, uid, lambda: {"state": "Paused"})) == version(new)
    error = await refused(server.api.replace_status(where, "another", lambda: {"state": "Ready"}))
    assert (type(error), error.status) == (ConflictError, 422)
    assert (await server.api.get(where))["status"] == {"state": "Paused"}
    error = await refused(server.api.replace_status(path(GROUPS, namespace, "b"), uid, lambda: {"state": "Ready"}))
    assert (type(error), error.message) == (NotFoundError, 'consumergroups.baton.dev "b" not found')


@pytest.mark.parametrize("kind", [GROUPS, QUEUES], ids=lambda kind: kind.plural)
async def test_the_generation_counts_changes_of_the_spec_only(server: Server, namespace: str, kind: Kind) -> None:
    await made(server, kind, namespace)
    labelled = await server.api.merge(path(kind, namespace, "a"), {"metadata": {"labels": {"b": "c"}}})
    assert labelled["metadata"]["generation"] == 1
    changed = await server.api.merge(path(kind, namespace, "a"), {"spec": {"rebalance": {"delaySeconds": 7}}})
    assert changed["metadata"]["generation"] == 2


async def test_a_pods_status_is_written_to_its_own_path(server: Server, namespace: str) -> None:
    await made(server, PODS, namespace)
    ready = {"type": "Ready", "status": "True", "lastTransitionTime": "2026-01-01T00:00:00Z"}
    status: Json = {"phase": "Running", "conditions": [ready]}
    ignored = await server.api.merge(path(PODS, namespace, "a"), {"status": status})
    assert ignored["status"]["phase"] == "Pending"
    new = await server.api.merge(path(PODS, namespace, "a", "status"), {"status": status})
    assert new["status"]["phase"] == "Running"
    assert new["status"]["conditions"][0].items() >= ready.items()
    assert new["metadata"]["generation"] == 1


async def test_a_groups_size_is_read_and_written_through_its_scale(server: Server, namespace: str) -> None:
    old = await made(server, GROUPS, namespace, spec={"queues": [{"name": "orders"}], "replicas": 2, "scale": {"mode": "Spark"}})
    await server.api.merge(path(GROUPS, namespace, "a", "status"), {"status": {"replicas": 1, "selector": "x=y"}})
    where = path(GROUPS, namespace, "a", "scale")
    scale = await server.api.get(where)
    assert (scale["kind"], scale["apiVersion"]) == ("Scale", "autoscaling/v1")
    assert (scale["spec"], scale["status"]) == ({"replicas": 2}, {"replicas": 1, "selector": "x=y"})
    new = await server.api.merge(where, {"spec": {"replicas": 5}})
    assert new["spec"] == {"replicas": 5}
    assert (await server.api.get(path(GROUPS, namespace, "a")))["spec"]["replicas"] == 5
    assert (await server.api.get(path(GROUPS, namespace, "a")))["metadata"]["generation"] == 2
    stale = {"metadata": {"resourceVersion": old["metadata"]["resourceVersion"]}, "spec": {"replicas": 6}}
    assert (await refused(server.api.merge(where, stale))).reason == "Conflict"


async def test_a_deployments_size_is_read_and_written_through_its_scale(server: Server, namespace: str) -> None:
    await made(server, DEPLOYMENTS, namespace)
    where = path(DEPLOYMENTS, namespace, "a", "scale")
    scale = await server.api.get(where)
    assert (scale["spec"].get("replicas", 0), scale["status"]["replicas"], scale["status"]["selector"]) == (0, 0, "app=a")
    assert (await server.api.merge(where, {"spec": {"replicas": 1}}))["spec"] == {"replicas": 1}
    assert (await server.api.get(path(DEPLOYMENTS, namespace, "a")))["spec"]["replicas"] == 1
    error = await refused(server.api.get(path(DEPLOYMENTS, namespace, "b", "scale")))
    assert error.message == 'deployments.apps "b" not found'


async def test_a_group_without_replicas_has_no_scale(server: Server, namespace: str) -> None:
    await made(server, GROUPS, namespace)
    with pytest.raises(UnavailableError, match="spec replicas field"):
        await server.api.get(path(GROUPS, namespace, "a", "scale"))
