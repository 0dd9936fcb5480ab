"""Requests take turns on a connection that leaves them waiting, and large answers are not read to their end."""

import asyncio
import json
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from aiohttp import web
from hypothesis import given
from hypothesis import strategies as st
from kubernetes.aio import client

from baton.kube.api import AT_ONCE, DEEPEST, PAGE, Api, connected, core_path, parsed, shallow
from baton.kube.errors import PageTooLargeError, UnavailableError
from baton.kube.following import follow


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


# -- A pod that answers through the API server's proxy cannot redirect the client with its token, or send too much.


POD = "/api/v1/namespaces/baton/pods/operator:8080/proxy/groups/lag"


@asynccontextmanager
async def _api(answer: Callable[[], web.StreamResponse], asked: list[str], token: str = "Bearer secret") -> AsyncIterator[Api]:
    """Client of a loopback server with this answer. `token` "": without a token."""

    async def handle(request: web.Request) -> web.StreamResponse:
        assert request.headers.get("Authorization", "") == token
        asked.append(request.path)
        return answer()

    application = web.Application()
    application.router.add_route("*", "/{path:.*}", handle)
    runner = web.AppRunner(application)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    settings = client.Configuration()
    settings.host = f"http://127.0.0.1:{runner.addresses[0][1]}"
    settings.api_key = {"BearerToken": token} if token else {}
    try:
        async with connected(settings) as api:
            yield api
    finally:
        await runner.cleanup()


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
async def test_a_redirect_is_not_followed(status: int) -> None:
    asked: list[str] = []
    headers = {"Location": "/api/v1/namespaces/kube-system/secrets"}
    async with _api(lambda: web.Response(status=status, headers=headers), asked) as api:
        with pytest.raises(UnavailableError, match="is a redirect"):
            await api.relayed(POD, 100)
        with pytest.raises(UnavailableError, match="is a redirect"):
            await api.get(POD)
        with pytest.raises(UnavailableError, match="is a redirect"):
            async with api.stream(POD, {}, silence=10):
                pass
    assert asked == [POD] * 3


async def test_no_password_of_the_user_is_sent_to_the_api_server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    netrc = tmp_path / "netrc"
    netrc.write_text("machine 127.0.0.1 login ann password hunter2\n")
    monkeypatch.setenv("NETRC", str(netrc))
    asked: list[str] = []
    async with _api(lambda: web.json_response({}), asked, token="") as api:
        await api.get(POD)
    assert asked == [POD]


async def test_a_pods_answer_is_read_up_to_the_requested_size() -> None:
    async with _api(lambda: web.json_response({"said": "x" * 200}), []) as api:
        with pytest.raises(PageTooLargeError):
            await api.relayed(POD, 100)


# -- Objects of any depth are read, together with the others of their list.


LEVELS = 9_000
"""Levels: an API server accepts ten thousand, which Python's parser cannot read."""

DEEP = b'{"f:a}":[' * LEVELS + b'"\\"]"' + b"]}" * LEVELS


def pod(name: str, fields: bytes = b"{}") -> bytes:
    metadata = b'{"namespace":"shop","name":"%s","resourceVersion":"7","managedFields":%s}' % (name.encode(), fields)
    return b'{"metadata":%s,"status":{"phase":"Run\\"ni[ng"}}' % metadata


LIST = b'{"metadata":{"resourceVersion":"7"},"items":[%s]}' % b",".join([pod("a"), pod("deep", DEEP), pod("b")])


def names(those: list[dict[str, Any]]) -> list[str]:
    assert {one["status"]["phase"] for one in those} == {'Run"ni[ng'}
    return [one["metadata"]["name"] for one in those]


class Answers:
    """An API server with the same answer to every request."""

    def __init__(self, status: int, body: bytes, events: bytes = b"") -> None:
        self._status, self._body, self._events = status, body, events

    async def param_serialize(self, *_: Any, query_params: list[tuple[str, str]], **__: Any) -> tuple[Mapping[str, str]]:
        return (dict(query_params),)

    async def call_api(self, query: Mapping[str, str], *, _request_timeout: object) -> Any:
        if "watch" in query:
            return SimpleNamespace(response=self._watch())
        content = SimpleNamespace(iter_any=self._pieces)
        return SimpleNamespace(status=self._status, headers={}, read=self._read, response=SimpleNamespace(content=content))

    @asynccontextmanager
    async def _watch(self) -> AsyncIterator[Any]:
        yield SimpleNamespace(status=200, content=SimpleNamespace(iter_any=self._told))

    async def _told(self) -> AsyncIterator[bytes]:
        yield self._events
        await asyncio.Event().wait()

    async def _read(self) -> bytes:
        return self._body

    async def _pieces(self) -> AsyncIterator[bytes]:
        yield self._body


async def test_a_list_with_an_object_that_is_too_deep_is_read_completely() -> None:
    connection: Any = Answers(200, LIST)
    page, _ = await Api(connection).page("/api/v1/pods", {})
    assert names(page["items"]) == ["a", "deep", "b"]
    assert names((await Api(connection).get("/api/v1/pods"))["items"]) == ["a", "deep", "b"]


async def test_a_refusal_that_is_too_deep_is_a_refusal() -> None:
    connection: Any = Answers(503, b'{"message":"no","details":%s}' % DEEP)
    with pytest.raises(UnavailableError, match="503 : no"):
        await Api(connection).get("/api/v1/pods")


async def test_a_followed_object_may_be_too_deep() -> None:
    connection: Any = Answers(200, LIST, b'{"type":"ADDED","object":%s}\n' % pod("deeper", DEEP))
    seen = follow(Api(connection), "/api/v1/pods")
    assert len(await anext(seen)) == 3
    assert ("shop", "deeper") in await anext(seen)


@pytest.mark.parametrize("text", [LIST[:-1], LIST + b"]", LIST[: len(LIST) // 2], DEEP + b","])
async def test_text_that_is_no_json_stays_invalid(text: bytes) -> None:
    with pytest.raises(json.JSONDecodeError):
        await parsed(text)


@given(st.recursive(st.none() | st.text() | st.integers(), lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner)))
def test_shallow_text_is_not_changed(value: object) -> None:
    text = json.dumps(value, ensure_ascii=False).encode(errors="replace")
    assert shallow(text) == text


def test_values_that_are_too_deep_become_null() -> None:
    text = b"[" * (DEEPEST + 1) + b"]," + b"7" + b"]" * DEEPEST
    assert shallow(text) == b"[" * DEEPEST + b"null,7" + b"]" * DEEPEST
