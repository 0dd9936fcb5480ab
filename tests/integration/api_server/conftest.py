"""Every test here runs against both: the real API server, and the one in memory that the simulation uses."""

from collections.abc import AsyncIterator

import pytest

from baton.kube.api import connect
from tests.integration.api_server.servers import InMemory, Real, Server
from tests.integration.operator.conftest import apply_crds
from tests.integration.operator.world import Cluster


@pytest.fixture(params=["memory", "real"])
async def server(request: pytest.FixtureRequest) -> AsyncIterator[Server]:
    if request.param == "memory":
        yield InMemory()
        return
    control_plane = request.getfixturevalue("control_plane")
    async with connect(control_plane.kubeconfig) as (plain, _):
        api = Cluster(plain._client)
        await apply_crds(api)
        yield Real(api)


@pytest.fixture
async def namespace(server: Server) -> str:
    """A new one."""
    return await server.namespace()
