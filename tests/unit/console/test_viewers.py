"""Concurrent viewers, and connections that fail."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
from kubernetes.aio import client

from baton.console.viewers import OwnRights
from baton.kube.api import Api
from tests.waiting import PATIENCE

HEADER = "Bearer one-token"


class SlowConnections:
    """Connections become ready when `ready` is set."""

    def __init__(self) -> None:
        self.asked, self.ready = asyncio.Event(), asyncio.Event()
        self.fails = False
        self.made: list[Any] = []
        self.open = 0

    @asynccontextmanager
    async def connect(self, settings: Any) -> AsyncIterator[Api]:
        self.made.append(settings)
        self.asked.set()
        await self.ready.wait()
        if self.fails:
            raise OSError("no connection")
        self.open += 1
        yield Api(None)
        self.open -= 1


async def test_concurrent_requests_of_one_token_share_a_connection() -> None:
    connections = SlowConnections()
    viewers = OwnRights(client.Configuration(), connections.connect)
    entered: list[Api] = []
    all_in = asyncio.Barrier(3)

    async def request() -> None:
        async with viewers.of(HEADER) as viewer:
            entered.append(viewer.api)
            await all_in.wait()

    async with asyncio.TaskGroup() as requests:
        for _ in range(3):
            requests.create_task(request())
        await asyncio.wait_for(connections.asked.wait(), PATIENCE)
        assert entered == [], "none goes on without a connection"
        connections.ready.set()
    assert len(entered) == 3
    assert len({id(api) for api in entered}) == len(connections.made) == 1
    assert connections.open == 0, "the last one closes it"


async def test_a_failed_connection_is_retried_by_the_next_request() -> None:
    connections = SlowConnections()
    viewers = OwnRights(client.Configuration(), connections.connect)
    connections.ready.set()
    connections.fails = True
    with pytest.raises(OSError, match="no connection"):
        async with viewers.of(HEADER):
            pass
    connections.fails = False
    async with viewers.of(HEADER) as viewer:
        assert viewer.api is not None
    assert connections.open == 0


async def test_the_consoles_credentials_are_not_passed_on() -> None:
    connections = SlowConnections()
    connections.ready.set()
    settings: Any = client.Configuration()
    settings.username, settings.password, settings.cert_file = "console", "secret", "/console.crt"
    async with OwnRights(settings, connections.connect).of(HEADER):
        (used,) = connections.made
    assert used.api_key == {"BearerToken": HEADER}
    assert (used.username, used.password, used.cert_file, used.key_file) == (None, None, None, None)
