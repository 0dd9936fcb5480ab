"""The HTTP session of kopf's watches, whose answers are no deeper than Python's parser goes (`baton.kube.deep_json`)."""

from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from typing import Any

import aiohttp
import kopf

from baton.kube.deep_json import parsed, readable
from baton.model.lines import Lines


@dataclass(frozen=True, kw_only=True)
class WatchSession(kopf.AiohttpSession):
    """Two of the same credentials are equal: by that kopf knows again those that were refused."""

    aiohttp_session: aiohttp.ClientSession = field(compare=False)
    credentials: kopf.ConnectionInfo


def session_of(credentials: kopf.ConnectionInfo) -> WatchSession:
    """Made as kopf makes its own. kopf closes it, unless it knows that these were refused: then it has never asked anything."""
    session = aiohttp.ClientSession(
        connector=aiohttp.TCPConnector(limit=0, ssl=credentials.as_ssl_context()),
        headers=credentials.as_http_headers(),
        proxy=credentials.proxy_url,
        trust_env=credentials.trust_env,
        response_class=_Answer,
    )
    return WatchSession(
        server=credentials.server,
        priority=credentials.priority,
        default_namespace=credentials.default_namespace,
        expiration=credentials.expiration,
        aiohttp_session=session,
        credentials=credentials,
    )


class _Answer(aiohttp.ClientResponse):
    """kopf reads a list by `json`, and a watch line by line from `content`."""

    async def start(self, connection: Any) -> aiohttp.ClientResponse:
        await super().start(connection)
        if self.url.query.get("watch") == "true":
            self.content = _Readable(self.content)  # type: ignore[assignment] # it is all that is asked of one
        return self

    async def json(self, **named: Any) -> Any:
        try:
            made = await super().json(**named)
        except RecursionError:
            made = await parsed(await self.read())
        for one in made.get("items") or () if isinstance(made, dict) else ():
            one["metadata"].pop("managedFields", None)  # while objects wait for their handlers
        return made


class _Readable:
    """The lines of a stream, whole, and readable."""

    def __init__(self, stream: aiohttp.StreamReader) -> None:
        self._stream = stream

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)

    async def iter_chunked(self, size: int) -> AsyncIterator[bytes]:
        lines = Lines()
        async for piece in self._stream.iter_chunked(size):
            for line in lines.ended_by(piece):
                yield readable(line) + b"\n"
        yield bytes(lines.rest)
