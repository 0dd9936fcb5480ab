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


async def test_a_config_map_holds_at_most_a_mebibyte_of_values(server: Server, namespace: str) -> None:
    await create(server, CONFIG_MAPS, namespace, "full", data={"a": "x" * DATA_LIMIT})
    wide = "x" * (DATA_LIMIT // 2)
    await create(server, CONFIG_MAPS, namespace, "wide", data={"a": wide, "b": "ü" * (DATA_LIMIT // 4)})
    for data in ({"a": "x" * (DATA_LIMIT + 1)}, {"a": wide, "b": "ü" * (DATA_LIMIT // 4 + 1)}):
        said = await invalid(create(server, CONFIG_MAPS, namespace, data=data))
        assert said == 'ConfigMap "a" is invalid: []: Too long: may not be more than 1048576 bytes'
    said = await invalid(server.api.merge(path(CONFIG_MAPS, namespace, "full"), {"data": {"b": "1"}}))
    assert said == 'ConfigMap "full" is invalid: []: Too long: may not be more than 1048576 bytes'


async def test_an_immutable_config_map_can_only_be_deleted(server: Server, namespace: str) -> None:
    made = await create(server, CONFIG_MAPS, namespace, immutable=True)
    where = path(CONFIG_MAPS, namespace, "a")
    for patch in ({"data": {"b": "YQ=="}}, {"immutable": False}, {"immutable": None}):
        said = await invalid(server.api.merge(where, patch))
        assert said == f'ConfigMap "a" is invalid: {next(iter(patch))}: Forbidden: field is immutable when `immutable` is set'
    await server.api.merge(where, {"metadata": {"labels": {"a": "1"}}})
    assert (await server.api.get(where))["data"] == made["data"]
    await server.delete(where)
    await create(server, CONFIG_MAPS, namespace)


@pytest.mark.parametrize("kind", [CONFIG_MAPS, LEASES, PODS, GROUPS], ids=lambda kind: kind.plural)
async def test_annotations_hold_at_most_a_quarter_of_a_mebibyte(server: Server, namespace: str, kind: Kind) -> None:
    await create(server, kind, namespace, metadata={"name": "a", "annotations": {"a": "x" * (ANNOTATIONS_LIMIT - 1)}})
    said = await invalid(server.api.merge(path(kind, namespace, "a"), {"metadata": {"annotations": {"b": "1"}}}))
    assert said.startswith(f'{of(kind)} "a" is invalid: ')
    assert "metadata.annotations: Too long: may not be more than 262144 bytes" in said


async def test_a_request_has_a_maximum_size(server: Server, namespace: str) -> None:
    error = await refused(create(server, CONFIG_MAPS, namespace, data={"a": "x" * REQUEST_LIMIT}))
    assert (error.status, error.reason) == (413, "RequestEntityTooLarge")
    assert error.message == "Request entity too large: limit is 3145728"


async def test_an_object_too_large_for_etcd_is_recognized_by_the_message(server: Server, namespace: str) -> None:
    """Its status, 500, would mean a temporary failure."""
    finalizers = [f"example.com/{number:050}" for number in range(30_000)]
    with pytest.raises(TooLargeError, match="500 : etcdserver: request is too large"):
        await create(server, GROUPS, namespace, metadata={"name": "a", "finalizers": finalizers})


def named(**metadata: Any) -> Json:
    return {"metadata": {"name": "a", **metadata}}


def label(key: str, value: object) -> Json:
    return named(labels={key: value})


OWNER = {"apiVersion": "v1", "kind": "ConfigMap", "name": "b", "uid": "c"}
POSITIVE, NOT_NEGATIVE = "must be greater than 0", "must be greater than or equal to 0"
LONG = {
    "note": ("x" * 1025, "…" * 342),
    "reason": ("x" * 129, ""),
    "action": ("x" * 129, ""),
    "reportingInstance": ("x" * 129, ""),
}
INVALID = [
    *((PODS, label("a", value), "metadata.labels: ") for value in ("x" * 64, "ä", "-a", "a b", "a/b")),
    *((PODS, label(key, "1"), "metadata.labels: ") for key in ("", "a b", "a/b/c", "-a", "A/b", "x" * 64)),
    # annotations are compared in lower case
    *((PODS, named(annotations={key: "1"}), "metadata.annotations: ") for key in ("", "a b", "a/b/c", "-a", "x" * 64)),
    *((CONFIG_MAPS, {"data": {key: "1"}}, f"data[{key}]: ") for key in ("a b", "a/b", "ä", "x" * 254)),
    *((CONFIG_MAPS, named(ownerReferences=[OWNER | {key: ""}]), f"metadata.ownerReferences.{key}: ") for key in OWNER),
    *(
        (LEASES, {"spec": {field: value}}, f"spec.{field}: Invalid value: {value}: {why}")
        for field, value, why in (
            ("leaseDurationSeconds", 0, POSITIVE),
            ("leaseDurationSeconds", -1, POSITIVE),
            ("leaseTransitions", -1, NOT_NEGATIVE),
        )
    ),
    *((EVENTS, {field: value}, "message" if field == "note" else field) for field, values in LONG.items() for value in values),
    *((EVENTS, {field: value}, field) for field, value in (("reportingController", ""), ("eventTime", None))),
]


@pytest.mark.parametrize(("kind", "content", "mistake"), INVALID)
async def test_an_invalid_object_is_refused_by_its_field(
    server: Server, namespace: str, kind: Kind, content: Json, mistake: str
) -> None:
    said = await invalid(create(server, kind, namespace, **content))
    assert mistake in said
    assert kind is EVENTS or said.startswith(f'{of(kind)} "a" is invalid: ')


@pytest.mark.parametrize("name", ["A", "a_b", "-a", "a.", "a..b", "x" * 254, "a/b"])
@pytest.mark.parametrize("kind", [CONFIG_MAPS, PODS, GROUPS], ids=lambda kind: kind.plural)
async def test_a_name_is_a_dns_subdomain(server: Server, namespace: str, kind: Kind, name: str) -> None:
    said = await invalid(create(server, kind, namespace, name))
    assert said.startswith(f'{of(kind)} "{name}" is invalid: ') and "metadata.name: " in said


async def test_the_longest_allowed_values_are_accepted(server: Server, namespace: str) -> None:
    await create(server, PODS, namespace, metadata={"name": "a", "labels": {"a": "x" * 63, "b": "", "c/d": "A_b.c-1"}})
    await create(server, EVENTS, namespace, note="x" * 1024, reason="x" * 128, action="x" * 128)


@pytest.mark.parametrize(
    ("kind", "content"),
    [
        *(
            (kind, named(labels=labels))
            for labels in ({"a": 1}, {"a": ["b"]}, {"a": {"b": "c"}}, "text", ["a"])
            for kind in (PODS, LEASES, GROUPS)
        ),
        *((CONFIG_MAPS, {"data": data}) for data in ({"a": 1}, {"a": {"b": "c"}}, ["a"])),
        *((LEASES, {"spec": {"leaseDurationSeconds": seconds}}) for seconds in (2.5, "8", 2**31)),
        *((LEASES, {"spec": spec}) for spec in ({"renewTime": "soon"}, {"holderIdentity": 1})),
    ],
)
async def test_a_field_of_another_type_is_a_bad_request(server: Server, namespace: str, kind: Kind, content: Json) -> None:
    error = await refused(create(server, kind, namespace, **content))
    assert (error.status, error.reason) == (400, "BadRequest")


async def test_a_lease_may_have_no_holder(server: Server, namespace: str) -> None:
    await create(server, LEASES, namespace)
    new = await server.api.merge(path(LEASES, namespace, "a"), {"spec": {"holderIdentity": ""}})
    assert new["spec"]["holderIdentity"] == ""


async def test_a_quota_limits_the_number_of_objects(server: Server, namespace: str) -> None:
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

    async def room() -> bool:
        return await exceeded() is None

    await eventually(room, "there is room again")
