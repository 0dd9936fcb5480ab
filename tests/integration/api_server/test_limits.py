"""What is too large, no name, or more than there may be."""

from typing import Any

import pytest

from baton.kube.errors import ApiError, TooLargeError
from tests.integration.api_server.objects import body, path
from tests.integration.api_server.servers import Server, refused
from tests.simulation.api_server.kinds import CONFIG_MAPS, EVENTS, GROUPS, LEASES, PODS, QUOTAS, Kind
from tests.simulation.api_server.validation import ANNOTATIONS_LIMIT, DATA_LIMIT, REQUEST_LIMIT
from tests.waiting import eventually

Json = dict[str, Any]


async def create(server: Server, kind: Kind, namespace: str, name: str = "a", **content: Any) -> Json:
    return await server.api.create(path(kind, namespace), body(kind, name, namespace=namespace, **content))


async def invalid(request: Any) -> str:
    error = await refused(request)
    assert (error.status, error.reason) == (422, "Invalid")
    return error.message


def of(kind: Kind) -> str:
    return f"{kind.name}.{kind.group}" if kind.group else kind.name


async def test_a_config_map_holds_a_mebibyte_of_values_and_no_more(server: Server, namespace: str) -> None:
    await create(server, CONFIG_MAPS, namespace, "full", data={"a": "x" * DATA_LIMIT})
    wide = "x" * (DATA_LIMIT // 2)
    await create(server, CONFIG_MAPS, namespace, "wide", data={"a": wide, "b": "ü" * (DATA_LIMIT // 4)})
    for data in ({"a": "x" * (DATA_LIMIT + 1)}, {"a": wide, "b": "ü" * (DATA_LIMIT // 4 + 1)}):
        said = await invalid(create(server, CONFIG_MAPS, namespace, data=data))
        assert said == 'ConfigMap "a" is invalid: []: Too long: may not be more than 1048576 bytes'
    said = await invalid(server.api.merge(path(CONFIG_MAPS, namespace, "full"), {"data": {"b": "1"}}))
    assert said == 'ConfigMap "full" is invalid: []: Too long: may not be more than 1048576 bytes'


@pytest.mark.parametrize("kind", [CONFIG_MAPS], ids=lambda kind: kind.plural)
async def test_what_was_declared_immutable_can_only_be_deleted(server: Server, namespace: str, kind: Kind) -> None:
    made = await create(server, kind, namespace, immutable=True)
    where = path(kind, namespace, "a")
    for patch, field in (
        ({"data": {"b": "YQ=="}}, "data"),
        ({"immutable": False}, "immutable"),
        ({"immutable": None}, "immutable"),
    ):
        said = await invalid(server.api.merge(where, patch))
        assert said == f'{of(kind)} "a" is invalid: {field}: Forbidden: field is immutable when `immutable` is set'
    await server.api.merge(where, {"metadata": {"labels": {"a": "1"}}})
    assert (await server.api.get(where))["data"] == made["data"]
    await server.delete(where)
    await create(server, kind, namespace)


@pytest.mark.parametrize("kind", [CONFIG_MAPS, LEASES, PODS, GROUPS], ids=lambda kind: kind.plural)
async def test_annotations_hold_a_quarter_of_a_mebibyte(server: Server, namespace: str, kind: Kind) -> None:
    await create(server, kind, namespace, metadata={"name": "a", "annotations": {"a": "x" * (ANNOTATIONS_LIMIT - 1)}})
    said = await invalid(server.api.merge(path(kind, namespace, "a"), {"metadata": {"annotations": {"b": "1"}}}))
    assert said.startswith(f'{of(kind)} "a" is invalid: ')
    assert "metadata.annotations: Too long: may not be more than 262144 bytes" in said


async def test_a_request_has_an_end(server: Server, namespace: str) -> None:
    error = await refused(create(server, CONFIG_MAPS, namespace, data={"a": "x" * REQUEST_LIMIT}))
    assert (error.status, error.reason) == (413, "RequestEntityTooLarge")
    assert error.message == "Request entity too large: limit is 3145728"


async def test_what_is_too_large_to_be_stored_is_refused_in_words_alone(server: Server, namespace: str) -> None:
    """By its status it would pass."""
    finalizers = [f"example.com/{number:050}" for number in range(30_000)]
    with pytest.raises(TooLargeError, match="500 : etcdserver: request is too large"):
        await create(server, GROUPS, namespace, metadata={"name": "a", "finalizers": finalizers})


@pytest.mark.parametrize("value", ["x" * 64, "ä", "-a", "a b", "a/b"])
async def test_a_label_is_short_and_plain(server: Server, namespace: str, value: str) -> None:
    await create(server, PODS, namespace, "full", metadata={"name": "full", "labels": {"a": "x" * 63, "b": "", "c/d": "A_b.c-1"}})
    said = await invalid(create(server, PODS, namespace, metadata={"name": "a", "labels": {"a": value}}))
    assert said.startswith('Pod "a" is invalid: metadata.labels: ')


@pytest.mark.parametrize("key", ["", "a b", "a/b/c", "-a", "A/b", "x" * 64])
async def test_a_labels_key_is_short_and_plain(server: Server, namespace: str, key: str) -> None:
    for field in ("labels", "annotations"):
        if (key, field) == ("A/b", "annotations"):
            continue  # annotations are compared in lower case
        said = await invalid(create(server, PODS, namespace, metadata={"name": "a", field: {key: "1"}}))
        assert said.startswith('Pod "a" is invalid: ')
        assert f"metadata.{field}: " in said


@pytest.mark.parametrize("name", ["A", "a_b", "-a", "a.", "a..b", "x" * 254, "a/b"])
@pytest.mark.parametrize("kind", [CONFIG_MAPS, PODS, GROUPS], ids=lambda kind: kind.plural)
async def test_a_name_is_one_of_a_domain(server: Server, namespace: str, kind: Kind, name: str) -> None:
    said = await invalid(create(server, kind, namespace, name))
    assert said.startswith(f'{of(kind)} "{name}" is invalid: ')
    assert "metadata.name: " in said


@pytest.mark.parametrize("labels", [{"a": 1}, {"a": ["b"]}, {"a": {"b": "c"}}, "text", ["a"]])
async def test_a_label_is_a_text(server: Server, namespace: str, labels: Any) -> None:
    for kind in (PODS, LEASES, GROUPS):
        error = await refused(create(server, kind, namespace, metadata={"name": "a", "labels": labels}))
        assert (error.status, error.reason) == (400, "BadRequest")


@pytest.mark.parametrize("data", [{"a": 1}, {"a": {"b": "c"}}, ["a"]])
async def test_a_config_maps_values_are_texts(server: Server, namespace: str, data: Any) -> None:
    error = await refused(create(server, CONFIG_MAPS, namespace, data=data))
    assert (error.status, error.reason) == (400, "BadRequest")


@pytest.mark.parametrize("key", ["a b", "a/b", "ä", "x" * 254])
async def test_a_config_maps_keys_are_plain(server: Server, namespace: str, key: str) -> None:
    said = await invalid(create(server, CONFIG_MAPS, namespace, data={key: "1"}))
    assert said.startswith(f'ConfigMap "a" is invalid: data[{key}]: ')


@pytest.mark.parametrize(
    ("spec", "mistake"),
    [
        ({"leaseDurationSeconds": 0}, "spec.leaseDurationSeconds: Invalid value: 0: must be greater than 0"),
        ({"leaseDurationSeconds": -1}, "spec.leaseDurationSeconds: Invalid value: -1: must be greater than 0"),
        ({"leaseTransitions": -1}, "spec.leaseTransitions: Invalid value: -1: must be greater than or equal to 0"),
    ],
)
async def test_a_leases_numbers_are_possible(server: Server, namespace: str, spec: Json, mistake: str) -> None:
    assert await invalid(create(server, LEASES, namespace, spec=spec)) == f'Lease.coordination.k8s.io "a" is invalid: {mistake}'


@pytest.mark.parametrize(
    "spec",
    [
        {"leaseDurationSeconds": 2.5},
        {"leaseDurationSeconds": "8"},
        {"leaseDurationSeconds": 2**31},
        {"renewTime": "soon"},
        {"holderIdentity": 1},
    ],
)
async def test_a_leases_fields_have_their_types(server: Server, namespace: str, spec: Json) -> None:
    error = await refused(create(server, LEASES, namespace, spec=spec))
    assert (error.status, error.reason) == (400, "BadRequest")


async def test_a_lease_may_have_no_holder(server: Server, namespace: str) -> None:
    await create(server, LEASES, namespace)
    new = await server.api.merge(path(LEASES, namespace, "a"), {"spec": {"holderIdentity": ""}})
    assert new["spec"]["holderIdentity"] == ""


@pytest.mark.parametrize("field", ["apiVersion", "kind", "name", "uid"])
async def test_an_owner_is_named_whole(server: Server, namespace: str, field: str) -> None:
    owner = {"apiVersion": "v1", "kind": "ConfigMap", "name": "b", "uid": "c", field: ""}
    said = await invalid(create(server, CONFIG_MAPS, namespace, metadata={"name": "a", "ownerReferences": [owner]}))
    assert f"metadata.ownerReferences.{field}: " in said


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("note", "x" * 1025),
        ("note", "…" * 342),
        ("reason", "x" * 129),
        ("reason", ""),
        ("action", "x" * 129),
        ("action", ""),
        ("reportingInstance", "x" * 129),
        ("reportingInstance", ""),
        ("reportingController", ""),
        ("eventTime", None),
    ],
)
async def test_an_event_is_short_and_whole(server: Server, namespace: str, field: str, value: Any) -> None:
    await create(server, EVENTS, namespace, "full", note="x" * 1024, reason="x" * 128, action="x" * 128)
    said = await invalid(create(server, EVENTS, namespace, "a", **{field: value}))
    assert {"note": "message"}.get(field, field) in said


async def test_a_quota_bounds_how_many_there_are(server: Server, namespace: str) -> None:
    there = len((await server.api.get(path(CONFIG_MAPS, namespace)))["items"])
    quota = {"hard": {"count/configmaps": str(there + 1), "count/consumergroups.baton.dev": "1"}}
    await create(server, QUOTAS, namespace, "few", spec=quota)
    await create(server, CONFIG_MAPS, namespace)

    async def exceeded() -> ApiError | None:
        try:
            await create(server, CONFIG_MAPS, namespace, "b")
        except ApiError as error:
            return error
        await server.delete(path(CONFIG_MAPS, namespace, "b"))
        return None

    error = await eventually(exceeded, "the quota is in force")
    assert error is not None
    assert (error.status, error.reason) == (403, "Forbidden")
    counted = f"requested: count/configmaps=1, used: count/configmaps={there + 1}, limited: count/configmaps={there + 1}"
    assert error.message == f'configmaps "b" is forbidden: exceeded quota: few, {counted}'
    await server.api.merge(path(CONFIG_MAPS, namespace, "a"), {"data": {"a": "2"}})  # what is there may be changed
    refusal = await refused(create(server, CONFIG_MAPS, namespace))
    assert (refusal.status, refusal.reason) == (403, "Forbidden"), "also where it would have been refused as being there already"
    await server.delete(path(CONFIG_MAPS, namespace, "a"))

    async def made() -> bool:
        try:
            await create(server, CONFIG_MAPS, namespace, "c")
        except ApiError:
            return False
        return True

    await eventually(made, "there is room again")
