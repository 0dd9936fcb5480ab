"""The time that an answer states."""

import time

from baton.kube.api import Api
from tests.integration.api_server.objects import body, path
from tests.integration.api_server.servers import Server, refused
from tests.simulation.api_server.kinds import LEASES


def agrees(api: Api, since: float) -> bool:
    """True if the last answer stated the time in whole seconds; both servers are on this machine."""
    told, api.server_time = api.server_time, None
    return told is not None and told.seconds % 1 == 0 and since - 1 < told.seconds <= time.time() and told.asked <= told.answered


async def test_every_answer_and_refusal_tells_the_servers_time(server: Server, namespace: str) -> None:
    since, where, api = time.time(), path(LEASES, namespace), server.api
    made = await api.create(where, body(LEASES, "a", namespace=namespace))
    assert agrees(api, since)
    for request in (api.get(f"{where}/a"), api.replace(f"{where}/a", made), api.page(where, {}), refused(api.get(f"{where}/b"))):
        await request
        assert agrees(api, since)
