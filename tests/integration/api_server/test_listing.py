"""What a list shows."""

from typing import Any

import pytest

from baton.kube.errors import NotFoundError
from tests.integration.api_server.objects import body, path
from tests.integration.api_server.servers import Server, refused
from tests.simulation.api_server.kinds import CONFIG_MAPS, GROUPS, LEASES, PODS, QUEUES, Kind

Json = dict[str, Any]


async def labelled(server: Server, kind: Kind, namespace: str, **labels: Json) -> None:
    for name, held in labels.items():
        await server.api.create(path(kind, namespace), body(kind, name, metadata={"name": name, "labels": held}))


def names(answer: Json) -> list[str]:
    return [item["metadata"]["name"] for item in answer["items"] or ()]


@pytest.mark.parametrize("kind", [PODS, CONFIG_MAPS, LEASES, GROUPS, QUEUES], ids=lambda kind: kind.plural)
async def test_a_list_has_its_kind_and_version(server: Server, namespace: str, kind: Kind) -> None:
    await labelled(server, kind, namespace, a={"x": "1"})
    made = await server.api.create(path(CONFIG_MAPS, namespace), body(CONFIG_MAPS, "z"))
    answer = await server.api.get(path(kind, namespace), labelSelector="x")
    assert (answer["kind"], answer["apiVersion"]) == (f"{kind.name}List", kind.group_version)
    assert int(answer["metadata"]["resourceVersion"]) >= int(made["metadata"]["resourceVersion"])
    one = await server.api.get(path(kind, namespace, "a"))
    known = () if kind.custom else ("kind", "apiVersion")  # which the items of others do not say again
    assert answer["items"] == [{field: value for field, value in one.items() if field not in known}]


async def test_a_list_of_metadata_has_nothing_else_and_null_if_empty(server: Server, namespace: str) -> None:
    await labelled(server, CONFIG_MAPS, namespace, a={"x": "1"})
    answer, _ = await server.api.page(path(CONFIG_MAPS, namespace), {"labelSelector": "x"}, metadata=True)
    assert (answer["kind"], answer["apiVersion"]) == ("PartialObjectMetadataList", "meta.k8s.io/v1")
    one = await server.api.get(path(CONFIG_MAPS, namespace, "a"))
    named = {"kind": "PartialObjectMetadata", "apiVersion": "meta.k8s.io/v1"}
    assert answer["items"] == [{**named, "metadata": one["metadata"]}]
    assert int(answer["metadata"]["resourceVersion"]) >= int(one["metadata"]["resourceVersion"])
    for kind in (CONFIG_MAPS, GROUPS):
        none, _ = await server.api.page(path(kind, namespace), {"labelSelector": "y"}, metadata=True)
        assert none["items"] is None


async def test_a_label_selector_narrows_a_list(server: Server, namespace: str) -> None:
    await labelled(server, LEASES, namespace, a={"baton.dev/group": "orders"}, b={"baton.dev/group": ""}, c={"tier": "1"})
    assert names(await server.api.get(path(LEASES, namespace), labelSelector="baton.dev/group")) == ["a", "b"]


async def test_a_list_of_all_namespaces_is_complete(server: Server, namespace: str) -> None:
    other = await server.namespace()
    label = {namespace: ""}
    await labelled(server, GROUPS, namespace, b=label)
    await labelled(server, GROUPS, other, a=label)
    found = (await server.api.get(path(GROUPS, None), labelSelector=namespace))["items"]
    assert {(item["metadata"]["namespace"], item["metadata"]["name"]) for item in found} == {(namespace, "b"), (other, "a")}


async def test_the_server_lists_its_resources(server: Server) -> None:
    found = await server.api.get("/apis/baton.dev/v1alpha1")
    assert {"consumergroups", "consumergroups/scale", "consumergroups/status", "partitionedqueues"} <= {
        one["name"] for one in found["resources"]
    }
    apps = (await server.api.get("/apis/apps/v1"))["resources"]
    assert [one["kind"] for one in apps if one["name"] in ("deployments", "deployments/scale")] == ["Deployment", "Scale"]


async def test_an_unknown_resource_is_not_found(server: Server, namespace: str) -> None:
    own = f"/apis/baton.dev/v1alpha1/namespaces/{namespace}"
    for where in ("/apis/example.com/v1", f"{own}/others", "/apis/example.com/v1/things"):
        error = await refused(server.api.get(where))
        assert (type(error), error.status) == (NotFoundError, 404)
        assert error.message in ("404 page not found\n", "the server could not find the requested resource")
    assert type(await refused(server.api.get(f"{own}/partitionedqueues/a/scale"))) is NotFoundError


async def pages(server: Server, where: str, limit: int, **query: str) -> list[Json]:
    """All parts of a list."""
    found, token = [], ""
    while True:
        asked = {**query, "limit": str(limit), **({"continue": token} if token else {})}
        found.append(await server.api.get(where, **asked))
        token = found[-1]["metadata"].get("continue", "")
        if not token:
            return found


async def test_a_list_is_sorted_by_name_and_can_be_read_in_pages(server: Server, namespace: str) -> None:
    await labelled(server, LEASES, namespace, c={}, a={}, b={}, e={}, d={})
    found = await pages(server, path(LEASES, namespace), 2)
    assert [names(page) for page in found] == [["a", "b"], ["c", "d"], ["e"]]
    assert [page["metadata"].get("remainingItemCount") for page in found] == [3, 1, None]
    assert len({page["metadata"]["resourceVersion"] for page in found}) == 1
    whole = await pages(server, path(LEASES, namespace), 5)
    assert [names(page) for page in whole] == [["a", "b", "c", "d", "e"]]


async def test_all_pages_of_a_list_have_the_version_of_the_first(server: Server, namespace: str) -> None:
    await labelled(server, GROUPS, namespace, a={}, b={}, c={}, d={})
    first = await server.api.get(path(GROUPS, namespace), limit="2")
    await server.delete(path(GROUPS, namespace, "c"))
    changed = await server.api.merge(path(GROUPS, namespace, "d"), {"metadata": {"labels": {"x": "1"}}})
    await labelled(server, GROUPS, namespace, e={})
    second = await server.api.get(path(GROUPS, namespace), limit="9", **{"continue": first["metadata"]["continue"]})
    assert names(first) + names(second) == ["a", "b", "c", "d"]
    assert "labels" not in second["items"][1]["metadata"]
    assert second["metadata"]["resourceVersion"] == first["metadata"]["resourceVersion"]
    assert int(changed["metadata"]["resourceVersion"]) > int(first["metadata"]["resourceVersion"])


async def test_pages_contain_only_selected_objects(server: Server, namespace: str) -> None:
    one: Json = {"x": "1"}
    await labelled(server, CONFIG_MAPS, namespace, a=one, b={}, c=one, d={}, e=one, f={})
    for limit in (1, 2, 3, 4):
        found = await pages(server, path(CONFIG_MAPS, namespace), limit, labelSelector="x")
        assert [name for page in found for name in names(page)] == ["a", "c", "e"]
        assert all(len(names(page)) <= limit for page in found)
        assert all("remainingItemCount" not in page["metadata"] for page in found)


async def test_an_invalid_continue_token_is_refused(server: Server, namespace: str) -> None:
    error = await refused(server.api.get(path(GROUPS, namespace), limit="2", **{"continue": "anything"}))
    assert (error.status, error.reason) == (400, "BadRequest")
    assert "continue key is not valid: " in error.message
