"""How requests take turns, with a connection that leaves them waiting."""

import asyncio
from types import SimpleNamespace
from typing import Any

import pytest

from baton.kube.api import AT_ONCE, Api, UnavailableError


class Connection:
    """Answers nothing before it is told to, and says how many wait for an answer."""

    def __init__(self) -> None:
        self.answers = asyncio.Event()
        self.waiting = 0

    async def param_serialize(self, *_: Any, **__: Any) -> tuple[()]:
        return ()

    async def call_api(self, *, _request_timeout: float) -> Any:
        self.waiting += 1
        try:
            async with asyncio.timeout(_request_timeout):
                await self.answers.wait()
        finally:
            self.waiting -= 1
        return SimpleNamespace(status=200, read=self._read)

    async def _read(self) -> bytes:
        return b"{}"


async def test_the_requests_of_many_groups_take_turns() -> None:
    connection: Any = Connection()
    api = Api(connection)
    asked = [asyncio.create_task(api.get("/api/v1/pods")) for _ in range(5 * AT_ONCE)]
    for _ in range(10):  # nothing in them waits for anything but its turn, and the answer
        await asyncio.sleep(0)
    assert connection.waiting == AT_ONCE
    connection.answers.set()
    assert await asyncio.gather(*asked) == [{}] * len(asked)


async def test_the_time_for_an_answer_begins_with_the_turn(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("baton.kube.api.REQUEST_TIMEOUT", 0.05)
    connection: Any = Connection()
    api = Api(connection)
    first = [asyncio.create_task(api.get("/api/v1/pods")) for _ in range(AT_ONCE)]
    await asyncio.sleep(0)
    second = asyncio.create_task(api.get("/api/v1/pods"))
    assert {str(answer) for answer in await asyncio.gather(*first, return_exceptions=True)} == {"GET /api/v1/pods: TimeoutError"}
    connection.answers.set()
    assert await second == {}


async def test_an_api_server_that_does_not_answer_is_said_to_be_away(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("baton.kube.api.REQUEST_TIMEOUT", 0.0)
    connection: Any = Connection()
    with pytest.raises(UnavailableError, match="GET /api/v1/pods: TimeoutError"):
        await Api(connection).get("/api/v1/pods")
