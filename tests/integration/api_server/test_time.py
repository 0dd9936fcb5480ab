"""What an answer says of the time."""

import time

from baton.kube.api import Api
from tests.integration.api_server.objects import body, path
from tests.integration.api_server.servers import Server, refused
from tests.simulation.api_server.kinds import LEASES


def agrees(api: Api, since: float) -> bool:
    """The last answer told the time in whole seconds; both servers are on this machine."""
    told, api.told = api.told, None
    return told is not None and told.seconds % 1 == 0 and since - 1 < told.seconds <= time.time() and told.asked <= told.answered


async def test_every_answer_tells_the_servers_time(server: Server, namespace: str) -> None:
    since = time.time()
    await server.api.create(path(LEASES, namespace), body(LEASES, "a", namespace=namespace))
    assert agrees(server.api, since)
    found = await server.api.get(path(LEASES, namespace, "a"))
    assert agrees(server.api, since)
    await server.api.replace(path(LEASES, namespace, "a"), found)
    assert agrees(server.api, since)
    await server.api.page(path(LEASES, namespace), {})
    assert agrees(server.api, since)


async def test_a_refusal_tells_it_too(server: Server, namespace: str) -> None:
    since = time.time()
    await refused(server.api.get(path(LEASES, namespace, "none")))
    assert agrees(server.api, since)
