"""The two servers that have to keep the same promises, and what a test does with either."""

import json
import random
import time
from abc import ABC, abstractmethod
from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import Any
from uuid import uuid4

import pytest

from baton.kube.api import Api, core_path
from baton.kube.errors import ApiError
from tests.integration.operator.world import Cluster
from tests.simulation.api_server import ApiServer, MemoryApi
from tests.waiting import eventually

Json = dict[str, Any]


class Server(ABC):
    """An API server, used by an administrator."""

    api: Api

    async def namespace(self) -> str:
        """A new one, ready for pods."""
        name = f"promise-{uuid4().hex[:6]}"
        await self.api.create(core_path(None, "namespaces"), {"metadata": {"name": name}})
        await self._made(name)
        return name

    @abstractmethod
    async def _made(self, namespace: str) -> None:
        """Return when all that controllers put into a new namespace is there."""

    @abstractmethod
    async def delete(self, path: str, **options: Any) -> Json: ...

    @abstractmethod
    def watch(self, path: str, version: str, **query: str) -> AsyncGenerator[Json, None]: ...

    @abstractmethod
    def forget(self) -> None:
        """Compact, as far as the server can be told to. Version 1 is forgotten then."""

    # -- what both have

    async def events(self, path: str, version: str, count: int, **query: Any) -> list[Json]:
        """The first `count` events of a watch."""
        found: list[Json] = []
        async with aclosing(self.watch(path, version, **query)) as events:
            async for event in events:
                found.append(event)
                if len(found) == count:
                    break
        return found

    async def gone(self, path: str, seconds: float = 60) -> None:
        async def so() -> bool:
            return await self.api.find(path) is None

        await eventually(so, f"{path} is gone", seconds, lambda: self.api.find(path))


class InMemory(Server):
    """With controllers that are in a hurry."""

    def __init__(self) -> None:
        self.server = ApiServer(random.Random(1), time.time, pace=lambda: 0.001)
        self.api = self.client = MemoryApi(self.server)

    async def _made(self, namespace: str) -> None:
        pass  # nothing

    async def delete(self, path: str, **options: Any) -> Json:
        return await self.client.delete(path, **options)

    def watch(self, path: str, version: str, **query: str) -> AsyncGenerator[Json, None]:
        return self.client.watch(path, version, **query)

    def forget(self) -> None:
        self.server.compact()


class Real(Server):
    """A real one over HTTP."""

    def __init__(self, api: Cluster) -> None:
        self.api = self.client = api

    async def _made(self, namespace: str) -> None:
        async def so() -> bool:
            account = await self.api.find(core_path(namespace, "serviceaccounts", "default"))
            return account is not None and await self.api.find(core_path(namespace, "configmaps", "kube-root-ca.crt")) is not None

        await eventually(so, f"{namespace} has what the controllers put there")

    async def delete(self, path: str, **options: Any) -> Json:
        return await self.client._request("DELETE", path, body=options or None)

    async def watch(self, path: str, version: str, **query: str) -> AsyncGenerator[Json, None]:
        """As the server says it, line by line."""
        asked = {"watch": "true", "resourceVersion": version, **query}
        connection: Any = self.client._client
        arguments = await connection.param_serialize(
            "GET",
            path,
            query_params=list(asked.items()),
            header_params={"Accept": "application/json"},
            auth_settings=["BearerToken"],
        )
        answer = await connection.call_api(*arguments, _request_timeout=60)
        try:
            if answer.status != 200:
                said = json.loads(await answer.read())
                raise ApiError(answer.status, said["reason"], said["message"])
            while line := await answer.response.content.readline():
                yield json.loads(line)
        finally:
            answer.response.close()

    def forget(self) -> None:
        """It compacts by itself, and its cache begins where it was started."""


async def refused(request: Any) -> ApiError:
    """What a request is refused with."""
    with pytest.raises(ApiError) as caught:
        await request
    return caught.value
