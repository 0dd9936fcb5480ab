"""Requests of a user with few rights."""

import time
from typing import Any

import pytest

from baton.kube.api import Api
from tests.integration.api_server.objects import body, path
from tests.integration.api_server.servers import Server, refused
from tests.simulation.api_server.access import Rule
from tests.simulation.api_server.kinds import CONFIG_MAPS, GROUPS, LEASES, Kind

USER = "system:serviceaccount:baton:{}"


@pytest.fixture
async def operator(server: Server, namespace: str) -> Api:
    """May read and patch groups, and read and make ConfigMaps, in this namespace."""
    return await server.user(
        USER.format(namespace),
        Rule("baton.dev", ["consumergroups"], ["get", "list", "patch"], namespace),
        Rule("", ["configmaps"], ["get", "create", "update"], namespace),
    )


async def test_granted_requests_are_allowed(server: Server, operator: Api, namespace: str) -> None:
    await server.api.create(path(GROUPS, namespace), body(GROUPS, "a"))
    await operator.get(path(GROUPS, namespace, "a"))
    await operator.get(path(GROUPS, namespace))
    await operator.merge(path(GROUPS, namespace, "a"), {"metadata": {"labels": {"b": "c"}}})
    assert await operator.find(path(CONFIG_MAPS, namespace, "a")) is None
    made = await operator.create(path(CONFIG_MAPS, namespace), body(CONFIG_MAPS, "a"))
    await operator.replace(path(CONFIG_MAPS, namespace, "a"), {**made, "data": {}})


@pytest.mark.parametrize(
    ("request_", "verb", "kind", "of", "where", "name"),
    [
        (lambda api, here: api.merge(path(GROUPS, here, "a", "status"), {}), "patch", GROUPS, "/status", "", "a"),
        (lambda api, here: api.create(path(GROUPS, here), body(GROUPS, "b")), "create", GROUPS, "", "", ""),
        (lambda api, here: api.replace(path(GROUPS, here, "a"), body(GROUPS, "a")), "update", GROUPS, "", "", "a"),
        (lambda api, here: api.page(path(CONFIG_MAPS, here), {}, metadata=True), "list", CONFIG_MAPS, "", "", ""),
        (lambda api, here: api.get(path(CONFIG_MAPS, "kube-system", "a")), "get", CONFIG_MAPS, "", "kube-system", "a"),
        (lambda api, here: api.get(path(GROUPS, "nowhere")), "list", GROUPS, "", "nowhere", ""),
        (lambda api, here: api.get(path(GROUPS, None)), "list", GROUPS, "", None, ""),
    ],
)
async def test_other_requests_are_forbidden_whether_the_object_exists_or_not(
    operator: Api, namespace: str, request_: Any, verb: str, kind: Kind, of: str, where: str | None, name: str
) -> None:
    error = await refused(request_(operator, namespace))
    assert (error.status, error.reason) == (403, "Forbidden")
    place = "at the cluster scope" if where is None else f'in the namespace "{where or namespace}"'
    what = f'cannot {verb} resource "{kind.plural}{of}" in API group "{kind.group}"'
    named = f'{kind.qualified} "{name}"' if name else kind.qualified
    assert error.message == f'{named} is forbidden: User "{USER.format(namespace)}" {what} {place}'


# -- What an answer says of the time.


def agrees(api: Api, since: float) -> bool:
    """The last answer told the time in whole seconds; both servers are on this machine."""
    told, api.server_time = api.server_time, None
    return told is not None and told.seconds % 1 == 0 and since - 1 < told.seconds <= time.time() and told.asked <= told.answered


async def test_every_answer_and_refusal_tells_the_servers_time(server: Server, namespace: str) -> None:
    since, where, api = time.time(), path(LEASES, namespace), server.api
    made = await api.create(where, body(LEASES, "a", namespace=namespace))
    assert agrees(api, since)
    for request in (api.get(f"{where}/a"), api.replace(f"{where}/a", made), api.page(where, {}), refused(api.get(f"{where}/b"))):
        await request
        assert agrees(api, since)
