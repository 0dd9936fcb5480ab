"""The rights used at the API server: those of the person who started the console, or of each viewer's own token."""

import asyncio
import secrets
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from copy import copy
from dataclasses import dataclass
from hashlib import sha256
from typing import Any

from baton.console.guard import RefusedRequestError, bearer, check_token
from baton.kube.api import Api, connected

MOST_TOKENS = 256
"""The most viewers at the same time."""


@dataclass(eq=False, slots=True)
class Viewer:
    """A viewer with the rights of `api`."""

    api: Api
    key: str
    """A hash of the token; equal for equal tokens."""


class OnePerson:
    """The console of one person. The token of its URL grants the rights of that person's kubeconfig."""

    def __init__(self, api: Api) -> None:
        self.token: str | None = secrets.token_urlsafe(32)
        self._viewer = Viewer(api, "")

    @asynccontextmanager
    async def of(self, authorization: str) -> AsyncIterator[Viewer]:
        """The viewer with this Authorization header, for one request. Raises RefusedRequestError."""
        check_token(bearer(authorization), self.token or "")
        yield self._viewer


class OwnRights:
    """The console of many viewers. Each has a token, which is sent to the API server and kept nowhere else."""

    token: str | None = None
    """There is no token of the console."""

    def __init__(self, settings: Any, connect: Callable[[Any], AbstractAsyncContextManager[Api]] = connected) -> None:
        """`settings`: of the API server. Their credentials are not used."""
        self._settings, self._connect = settings, connect
        self._opening = asyncio.Lock()
        self._open: dict[str, tuple[Viewer, AsyncExitStack]] = {}
        self._users: dict[str, int] = {}

    @asynccontextmanager
    async def of(self, authorization: str) -> AsyncIterator[Viewer]:
        """See `OnePerson.of`. A viewer's connections stay open while it has a request."""
        token = bearer(authorization)
        key = sha256(token.encode()).hexdigest()
        async with self._opening:
            if key not in self._open:
                if len(self._open) >= MOST_TOKENS:
                    raise RefusedRequestError(503, "this console has too many viewers: try again later")
                stack = AsyncExitStack()
                api = await stack.enter_async_context(self._connect(self._as(token)))
                self._open[key], self._users[key] = (Viewer(api, key), stack), 0
            viewer, stack = self._open[key]
            self._users[key] += 1
        try:
            yield viewer
        finally:
            self._users[key] -= 1
            if not self._users[key]:
                del self._users[key], self._open[key]
                await stack.aclose()

    def _as(self, token: str) -> Any:
        settings = copy(self._settings)
        settings.api_key = {"BearerToken": f"Bearer {token}"}
        settings.api_key_prefix = {}
        settings.refresh_api_key_hook = None
        settings.username = settings.password = settings.cert_file = settings.key_file = None
        return settings


Viewers = OnePerson | OwnRights
