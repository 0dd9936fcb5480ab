"""The client that the operator has, over a server in memory: with latencies, and with whatever can go wrong on the way."""

import asyncio
from collections import deque
from collections.abc import AsyncGenerator, Callable, Mapping
from contextvars import Context
from typing import Any

from baton.kube.api import JSON, METADATA, REQUEST_TIMEOUT, Api
from baton.kube.errors import UnavailableError, refusal
from tests.simulation.api_server.faults import Delay, Hang, LoseAnswer, Refuse, Trouble, no_trouble
from tests.simulation.api_server.history import Subscription
from tests.simulation.api_server.manifests import Json
from tests.simulation.api_server.paths import target
from tests.simulation.api_server.refusals import Refused
from tests.simulation.api_server.server import ApiServer

_VERBS = {"POST": "create", "PUT": "update", "PATCH": "patch", "DELETE": "delete"}
_PLAIN = Delay()


class MemoryApi(Api):
    """One client of an `ApiServer`."""

    def __init__(
        self,
        server: ApiServer,
        trouble: Trouble = no_trouble,
        latency: Callable[[], float] = lambda: 0.0,
    ) -> None:
        """`latency`: seconds one way, asked twice for each request."""
        super().__init__(None)
        self.server = server
        self.trouble = trouble
        self.latency = latency
        self._watches: list[_Stream] = []

    async def delete(self, path: str, **options: Any) -> Json:
        return await self._request("DELETE", path, body=options or None)

    async def _exchange(
        self,
        method: str,
        path: str,
        query: Mapping[str, str] | None = None,
        body: Json | list[Json] | None = None,
        content_type: str = JSON,
        accept: str = JSON,
        most: int | None = None,
    ) -> Json:
        verb = _VERBS.get(method) or reading(path)
        fault = self.trouble(verb, path)
        if type(fault) is Hang:
            await asyncio.sleep(REQUEST_TIMEOUT)
            raise UnavailableError(f"{method} {path}: TimeoutError")
        slow = fault if type(fault) is Delay else _PLAIN
        asked = asyncio.get_running_loop().time()
        there = self.latency() + slow.there
        if there >= REQUEST_TIMEOUT:
            await asyncio.sleep(REQUEST_TIMEOUT)
            raise UnavailableError(f"{method} {path}: TimeoutError")
        if type(fault) is Refuse:
            await asyncio.sleep(there + self.latency())
            raise refusal(fault.status, {"reason": fault.reason, "message": fault.message})
        refused: Refused | None = None
        answer: Json = {}
        date = ""

        def request() -> Json:
            nonlocal date
            date = self.server.date
            return self.server.request(verb, path, query, body, accept == METADATA)

        try:
            answer = await _sent(there, request)
        except Refused as one:
            refused = one
        if type(fault) is LoseAnswer:
            await asyncio.sleep(REQUEST_TIMEOUT - there if fault.hang else self.latency())
            raise UnavailableError(f"{method} {path}: {'TimeoutError' if fault.hang else 'Server disconnected'}")
        back = self.latency() + slow.back
        await asyncio.sleep(min(back, REQUEST_TIMEOUT - there))
        if there + back >= REQUEST_TIMEOUT:
            raise UnavailableError(f"{method} {path}: TimeoutError")
        self._note_time(date, asked)
        if refused is not None:
            raise refusal(refused.code, refused.status)
        return answer

    async def watch(self, path: str, resource_version: str, **query: str) -> AsyncGenerator[Json, None]:
        """Events as the server tells them, until the connection ends. Raises as a request does where it cannot be opened."""
        fault = self.trouble("watch", path)
        if type(fault) in (Hang, LoseAnswer):
            await asyncio.sleep(REQUEST_TIMEOUT)
            raise UnavailableError(f"GET {path}: TimeoutError")
        await asyncio.sleep(self.latency() + (fault.there if type(fault) is Delay else 0.0))
        if type(fault) is Refuse:
            raise refusal(fault.status, {"reason": fault.reason, "message": fault.message})
        stream = _Stream(self.latency)
        try:
            subscription = self.server.watch(path, {**query, "resourceVersion": resource_version}, stream.hear, stream.end)
        except Refused as refused:
            raise refusal(refused.code, refused.status) from None
        stream.subscription = subscription
        self._watches.append(stream)
        try:
            while (event := await stream.next()) is not None:
                yield event
        finally:
            subscription.end()
            self._watches.remove(stream)

    def drop_watches(self) -> None:
        """Break the connections of all watches. Events on their way are lost; a watch from the last version that arrived gets
        them again."""
        for stream in self._watches:
            stream.drop()


async def _sent(seconds: float, request: Callable[[], Json]) -> Json:
    """The request arrives, whatever becomes meanwhile of who waits for its answer."""
    loop = asyncio.get_running_loop()
    arrived: asyncio.Future[Json] = loop.create_future()

    def arrive() -> None:
        answer: Json | Refused
        try:
            answer = request()
        except Refused as refused:
            answer = refused
        if arrived.done():
            return
        if isinstance(answer, Refused):
            arrived.set_exception(answer)
        else:
            arrived.set_result(answer)

    loop.call_later(seconds, arrive, context=Context())
    return await arrived


class _Stream:
    """Events on their way to one watch, in their order."""

    def __init__(self, latency: Callable[[], float]) -> None:
        self._latency = latency
        self._arrived: deque[Json | None] = deque()
        self._waiting: asyncio.Future[None] | None = None
        self._last = 0.0
        self._dropped = False
        self.subscription: Subscription | None = None
        self._loop = asyncio.get_running_loop()

    def hear(self, event: Json) -> None:
        self._send(event)

    def end(self) -> None:
        self._send(None)

    def drop(self) -> None:
        self._dropped = True
        if self.subscription is not None:
            self.subscription.end()
        self._arrived.clear()
        self._arrive(None)

    async def next(self) -> Json | None:
        while not self._arrived:
            self._waiting = self._loop.create_future()
            await self._waiting
        return self._arrived.popleft()

    def _send(self, event: Json | None) -> None:
        if not self._dropped:
            self._last = max(self._last, self._loop.time() + self._latency())
            self._loop.call_at(self._last, self._land, event)

    def _land(self, event: Json | None) -> None:
        if not self._dropped:
            self._arrive(event)

    def _arrive(self, event: Json | None) -> None:
        self._arrived.append(event)
        if self._waiting is not None and not self._waiting.done():
            self._waiting.set_result(None)


def reading(path: str) -> str:
    """Return the verb of a GET request: `get` or `list`."""
    try:
        about = target(path)
    except Refused:
        return "get"  # the server will say so
    return "get" if about is None or about.name else "list"
