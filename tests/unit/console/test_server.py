"""The console's answers to unknown and unauthorized viewers."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
from aiohttp.test_utils import TestClient, TestServer
from kubernetes.aio import client as kubernetes

from baton.console import viewers as viewers_module
from baton.console.guard import LOOPBACK, RefusedRequestError, bearer, check_source, check_token
from baton.console.server import ConsoleOptions, ConsoleServer
from baton.console.viewers import OnePerson, OwnRights
from baton.kube.api import Api, Json
from baton.kube.errors import ApiError
from tests.waiting import PATIENCE


class Refusing(Api):
    """Refuses all requests."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(None)
        self._error = ApiError(status, "", message)

    async def page(self, *_: Any, **__: Any) -> tuple[Json, str]:
        raise self._error

    async def get(self, path: str, **query: str) -> Json:
        raise self._error


EXPIRED = Refusing(401, "Unauthorized")
WITHOUT_RIGHTS = Refusing(403, 'consumergroups.baton.dev "orders" is forbidden: User "x" cannot list')


def viewers_of(api: Api) -> OwnRights:
    """Return viewers who all get this answer to their own token."""

    @asynccontextmanager
    async def known(_: object) -> AsyncIterator[Api]:
        yield api

    return OwnRights(kubernetes.Configuration(), known)


@pytest.mark.parametrize("path", ["/api/groups", "/api/what-if?namespace=shop&name=orders&pods=2"])
async def test_expired_credentials_are_not_a_wrong_console_token(path: str) -> None:
    viewers = OnePerson(EXPIRED)
    application = ConsoleServer(viewers, ConsoleOptions(LOOPBACK)).application()
    async with TestClient(TestServer(application)) as client:
        answer = await client.get(path, headers={"Authorization": f"Bearer {viewers.token}"})
        said = await answer.text()
        assert answer.status == 502 or 'event: refused\ndata: {"status": 502' in said
        assert "the API server rejects the credentials of your kubeconfig" in said
        assert (await client.get(path, headers={"Authorization": "Bearer other"})).status == 401


@pytest.mark.parametrize("path", ["/api/group?namespace=shop&name=orders", "/api/what-if?namespace=shop&name=orders&pods=2"])
@pytest.mark.parametrize(
    ("api", "said"),
    [(EXPIRED, "create another: kubectl create token"), (WITHOUT_RIGHTS, "you lack a right: consumergroups.baton.dev")],
    ids=["expired", "without rights"],
)
async def test_a_viewer_with_an_insufficient_token_gets_the_cure(path: str, api: Api, said: str) -> None:
    application = ConsoleServer(viewers_of(api), ConsoleOptions(LOOPBACK)).application()
    async with TestClient(TestServer(application)) as client:
        answer = await client.get(path, headers={"Authorization": "Bearer mine"})
        assert said in await answer.text()


async def test_a_slow_approval_takes_no_viewers_place(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(viewers_module, "MOST_TOKENS", 1)
    application = ConsoleServer(viewers_of(EXPIRED), ConsoleOptions(LOOPBACK, may_approve=True)).application()
    begun, ending = asyncio.Event(), asyncio.Event()

    async def slowly() -> AsyncIterator[bytes]:
        yield b'{"namespace":'
        begun.set()
        await ending.wait()
        yield b'"shop"'

    async with TestClient(TestServer(application)) as client:
        slow = {"Authorization": "Bearer slow"}
        sent = asyncio.create_task(client.post("/api/approve", data=slowly(), headers=slow, expect100=True))
        await asyncio.wait_for(begun.wait(), PATIENCE)  # the server has said that it goes on
        answer = await client.get("/api/what-if?namespace=shop&name=orders&pods=2", headers={"Authorization": "Bearer other"})
        assert answer.status == 401, "as the API server says, and not that too many look"
        ending.set()
        assert (await sent).status == 400


# -- Which requests are answered.


@pytest.mark.parametrize("host", ["127.0.0.1:8080", "localhost:1", "LOCALHOST", "[::1]:8080", "[::1]"])
def test_loopback_answers_by_its_names(host: str) -> None:
    check_source(host, None, None, LOOPBACK)
    check_source(host, f"http://{host}", "same-origin", LOOPBACK)


@pytest.mark.parametrize(
    "host", ["", "evil.example.org", "localhost.evil.example.org:80", "127.0.0.1.nip.example:80", ":80", "[::2]:80"]
)
def test_another_name_is_refused(host: str) -> None:
    with pytest.raises(RefusedRequestError) as refused:
        check_source(host, None, None, LOOPBACK)
    assert refused.value.status == 421


@pytest.mark.parametrize(
    ("origin", "site"),
    [
        ("http://evil.example.org", None),
        ("http://[", None),
        ("null", None),
        ("http://localhost:81", None),
        (None, "cross-site"),
        (None, "same-site"),
    ],
)
def test_another_page_is_refused(origin: str | None, site: str | None) -> None:
    with pytest.raises(RefusedRequestError):
        check_source("localhost:80", origin, site, LOOPBACK)


@pytest.mark.parametrize(
    "header", ["", "Bearer", "Bearer ", "Basic abc", "Bearer a b", "Bearer a\r\nHost: x", f"Bearer {'a' * 16385}"]
)
def test_a_malformed_token_is_refused(header: str) -> None:
    with pytest.raises(RefusedRequestError):
        bearer(header)


def test_only_the_known_token_is_accepted() -> None:
    check_token(bearer("Bearer abc"), "abc")
    for given in ("abd", "", "ä"):
        with pytest.raises(RefusedRequestError):
            check_token(given, "abc")
