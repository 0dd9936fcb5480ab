"""A pod that answers through the API server's proxy cannot redirect the client with its token, or send too much."""

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from aiohttp import web
from kubernetes.aio import client

from baton.kube.api import Api, connected
from baton.kube.errors import PageTooLargeError, UnavailableError

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
