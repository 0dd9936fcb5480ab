"""Requests take turns on a connection that leaves them waiting, and large answers are not read to their end."""

import asyncio
from collections.abc import AsyncIterator
from functools import partial
from types import SimpleNamespace
from typing import Any

import pytest
from kubernetes.aio import client

from baton.kube.api import AT_ONCE, PAGE, Api, connected, core_path
from baton.kube.errors import PageTooLargeError, UnavailableError


class Connection:
    """Answers only when told to, and counts the requests that wait."""

    def __init__(self) -> None:
        self.answers = asyncio.Event()
        self.headers: dict[str, str] = {}
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
        return SimpleNamespace(status=200, headers=self.headers, read=self._read)

    async def _read(self) -> bytes:
        return b"{}"


async def test_the_requests_of_many_groups_take_turns() -> None:
    connection: Any = Connection()
    api = Api(connection)
    asked = [asyncio.create_task(api.get(core_path(f"shop-{number % 9}", "pods"))) for number in range(5 * AT_ONCE)]
    for _ in range(10):  # nothing in them waits for anything but its turn, and the answer
        await asyncio.sleep(0)
    assert 0.9 * AT_ONCE <= connection.waiting <= AT_ONCE
    connection.answers.set()
    assert await asyncio.gather(*asked) == [{}] * len(asked)


async def test_a_refused_connection_is_reported_without_the_clients_details() -> None:
    settings = client.Configuration(host="https://127.0.0.1:1")
    async with connected(settings) as api:
        with pytest.raises(UnavailableError, match=r"^GET /version: Connection refused$"):
            await api.get("/version")


async def test_the_timeout_begins_with_the_turn(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("baton.kube.api.REQUEST_TIMEOUT", 0.05)
    connection: Any = Connection()
    api = Api(connection)
    first = [asyncio.create_task(api.get("/api/v1/pods")) for _ in range(AT_ONCE // 2)]
    await asyncio.sleep(0)
    second = asyncio.create_task(api.get("/api/v1/pods"))
    answers = await asyncio.gather(*first, return_exceptions=True)
    assert {str(answer) for answer in answers} == {"GET /api/v1/pods: no answer in time"}
    connection.answers.set()
    assert await second == {}


async def test_an_api_server_that_does_not_answer_is_unavailable(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("baton.kube.api.REQUEST_TIMEOUT", 0.0)
    connection: Any = Connection()
    with pytest.raises(UnavailableError, match="GET /api/v1/pods: no answer in time"):
        await Api(connection).get("/api/v1/pods")


class Pages:
    """An API server whose objects have a MiB each; `sent` counts the bytes read of its answers."""

    def __init__(self) -> None:
        self.limits: list[int] = []
        self.sent = 0
        self.closed = 0

    async def param_serialize(self, *_: Any, query_params: list[tuple[str, str]], **__: Any) -> tuple[int]:
        return (int(dict(query_params)["limit"]),)

    async def call_api(self, limit: int, *, _request_timeout: float) -> Any:
        self.limits.append(limit)
        response = SimpleNamespace(content=SimpleNamespace(iter_any=lambda: self._chunks(limit)), close=self._close)
        return SimpleNamespace(status=200, headers={}, response=response, read=partial(self._all, limit))

    async def _chunks(self, limit: int) -> AsyncIterator[bytes]:
        yield b'{"metadata":{},"items":["'
        for _ in range(limit):
            self.sent += 1
            yield b"x" * 2**20
        yield b'"]}'

    async def _all(self, limit: int) -> bytes:
        return b"".join([chunk async for chunk in self._chunks(limit)])

    def _close(self) -> None:
        self.closed += 1


async def test_a_page_that_is_too_large_is_not_read_to_its_end() -> None:
    connection: Any = Pages()
    with pytest.raises(PageTooLargeError):
        await Api(connection).page("/api/v1/pods", {})
    assert (connection.limits, connection.sent, connection.closed) == ([PAGE], 8, 1)
    page, token = await Api(connection).page("/api/v1/pods", {}, limit=4)
    assert (len(page["items"][0]), token) == (4 * 2**20, "")


async def test_a_single_object_is_read_whatever_its_size(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("baton.kube.api.LARGEST_PAGE", 1000)
    page, _ = await Api(Pages()).page("/api/v1/pods", {}, limit=1)  # type: ignore[arg-type]
    assert len(page["items"][0]) == 2**20


@pytest.mark.parametrize(
    ("date", "told"),
    [
        ("Sat, 21 Nov 2026 09:48:00 GMT", 1_795_254_480),
        ("yesterday", None),
        ("Sat, 21 Nov 99999 09:48:00 GMT", None),
        (None, None),
    ],
)
async def test_an_answer_tells_the_servers_time(date: str | None, told: float | None) -> None:
    connection: Any = Connection()
    connection.answers.set()
    connection.headers = {} if date is None else {"Date": date}
    api = Api(connection)
    before = asyncio.get_running_loop().time()
    await api.get("/api/v1/pods")
    if told is None:
        assert api.server_time is None
    else:
        assert api.server_time is not None
        assert api.server_time.seconds == told
        assert before <= api.server_time.asked <= api.server_time.answered <= asyncio.get_running_loop().time()
