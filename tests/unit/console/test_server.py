"""What the console answers when the API server does not know whoever asks."""

from typing import Any

import pytest
from aiohttp.test_utils import TestClient, TestServer

from baton.console.guard import LOOPBACK
from baton.console.server import ConsoleOptions, ConsoleServer
from baton.console.viewers import OnePerson
from baton.kube.api import Api, Json
from baton.kube.errors import ApiError


class Expired(Api):
    """The token is none any more."""

    async def page(self, *_: Any, **__: Any) -> tuple[Json, str]:
        raise ApiError(401, "Unauthorized", "Unauthorized")

    async def get(self, path: str, **query: str) -> Json:
        raise ApiError(401, "Unauthorized", "Unauthorized")


@pytest.mark.parametrize("path", ["/api/groups", "/api/what-if?namespace=shop&name=orders&pods=2"])
async def test_credentials_that_have_expired_are_not_taken_for_the_consoles_own_token(path: str) -> None:
    viewers = OnePerson(Expired(None))
    application = ConsoleServer(viewers, ConsoleOptions(LOOPBACK)).application()
    async with TestClient(TestServer(application)) as client:
        answer = await client.get(path, headers={"Authorization": f"Bearer {viewers.token}"})
        said = await answer.text()
        assert answer.status == 502 or 'event: refused\ndata: {"status": 502' in said
        assert "the API server does not take your kubeconfig's credentials" in said
        assert (await client.get(path, headers={"Authorization": "Bearer other"})).status == 401
