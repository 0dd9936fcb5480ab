"""The API server as JSON over HTTP.

Of the kubernetes client, only configuration, authentication and connection pool are used: filling its generated classes takes
longer than the requests, and they do not know custom resources.
"""

import asyncio
import json
import re
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from functools import lru_cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any, cast
from urllib.parse import quote
from urllib.request import getproxies

import aiohttp

from baton.kube.clock import ServerTime
from baton.kube.errors import NotFoundError, PageTooLargeError, UnavailableError, failure, refusal
from baton.kube.namespace_turns import NamespaceTurns, Order
from baton.model.times import from_http_text

if TYPE_CHECKING:  # takes a second to import, and `baton dev` never needs it
    from kubernetes.aio import client

Json = dict[str, Any]

Body = Json | list[Json] | Callable[[], Json | list[Json]]
"""Body of a request. A function is called when the request gets its turn, which may be much later, and its result is sent."""

REQUEST_TIMEOUT = 10.0
"""Seconds after which a request without an answer fails."""

AT_ONCE = 32
"""Most requests under way; others wait for their turn, and their timeout starts with it. Without a limit, a thousand groups that
start together would slow each other down until all requests timed out and were retried."""

LATE = 1.0
"""Seconds after which a request no longer keeps other namespaces waiting."""

MERGE = "application/merge-patch+json"
JSON_PATCH = "application/json-patch+json"
JSON = "application/json"
METADATA = "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1"

PAGE = 250
"""Objects in a page of a list. A page is parsed in one go, which blocks the event loop."""

LARGEST_PAGE = 8 * 2**20
"""Most bytes of a page. An object may have 1.5 MiB, so a few hundred of one tenant would otherwise stop all others."""


DEEPEST = 50
"""Levels of JSON to keep of an answer that has too many for Python's parser."""

_BRACKET = re.compile(rb'(?:[^"\[\]{}]++|"[^"\\]*+(?:\\.[^"\\]*+)*+")*+([\[\]{}])', re.DOTALL)
"""The next bracket outside of strings."""


class Api:
    """Client of the API server: JSON in, JSON out. Every method may raise ApiError, NotFoundError, ConflictError or
    UnavailableError."""

    def __init__(self, connection: "client.ApiClient | None") -> None:
        """`connection` None: for subclasses that answer requests themselves."""
        self._client: Any = connection  # its types end where the HTTP begins
        self.turns = NamespaceTurns(AT_ONCE, LATE)
        self.server_time: ServerTime | None = None
        """Time in the last answer that had a Date header."""

    @property
    def settings(self) -> "client.Configuration":
        """Settings of the connection: server and credentials."""
        made: client.Configuration = self._client.configuration
        return made

    async def get(self, path: str, **query: str) -> Json:
        return await self._request("GET", path, query)

    async def page(
        self, path: str, query: Mapping[str, str], token: str = "", metadata: bool = False, limit: int = PAGE
    ) -> tuple[Json, str]:
        """The next page of a list, and the token for the page after it ("": this is the last). All pages are as of the same
        version. `metadata`: ask for the objects' metadata only.

        Raises ApiError (410) if the token has expired, and PageTooLargeError if `limit` must be smaller. A page with limit 1 may
        have any size."""
        asked = {**query, "limit": str(limit), **({"continue": token} if token else {})}
        most = LARGEST_PAGE if limit > 1 else None
        async with self.turns.take(*_turn_of("GET", path)):
            answer = await self._exchange("GET", path, asked, accept=METADATA if metadata else JSON, most=most)
        return answer, str(answer["metadata"].get("continue") or "")

    async def relayed(self, path: str, most: int) -> Json:
        """The answer of a pod through the API server's proxy, without waiting for a turn. Raises PageTooLargeError if it has more
        than `most` bytes."""
        return await self._exchange("GET", path, most=most)

    async def find(self, path: str) -> Json | None:
        """The object, or None if it does not exist."""
        try:
            return await self.get(path)
        except NotFoundError:
            return None

    async def create(self, path: str, body: Json) -> Json:
        return await self._request("POST", path, body=body)

    async def replace(self, path: str, body: Json) -> Json:
        """Replace an object. A resourceVersion in the body makes this a compare-and-swap: ConflictError if the object has another
        version."""
        return await self._request("PUT", path, body=body)

    async def merge(self, path: str, patch: Json | Callable[[], Json]) -> Json:
        """Send a JSON merge patch. If it has metadata.uid: ConflictError if the object of that name has another UID. The API
        server ignores metadata in a patch of a custom resource's /status."""
        return await self._request("PATCH", path, body=patch, content_type=MERGE)

    async def replace_status(self, path: str, uid: str, status: Callable[[], Json]) -> Json:
        """Replace the whole status of the custom resource at this path. ConflictError if the resource has another UID."""

        def patch() -> list[Json]:
            test: Json = {"op": "test", "path": "/metadata/uid", "value": uid}
            return [test, {"op": "add", "path": "/status", "value": status()}]

        return await self._request("PATCH", f"{path}/status", body=patch, content_type=JSON_PATCH)

    @asynccontextmanager
    async def stream(self, path: str, query: Mapping[str, str], silence: float) -> AsyncIterator[AsyncIterator[bytes]]:
        """The bytes of a streamed answer, such as a watch, without waiting for a turn. UnavailableError also if nothing arrives
        for `silence` seconds, or if the connection breaks."""
        try:
            arguments = await self._client.param_serialize(
                "GET", path, query_params=list(query.items()), header_params={"Accept": JSON}, auth_settings=["BearerToken"]
            )
            timeout = aiohttp.ClientTimeout(total=None, sock_connect=REQUEST_TIMEOUT, sock_read=silence)
            answer = await self._client.call_api(*arguments, _request_timeout=timeout)
            async with answer.response as response:
                if not 200 <= response.status <= 299:
                    raise refusal(response.status, await _error_body(await response.read()))
                yield response.content.iter_any()
        except (aiohttp.ClientError, TimeoutError, OSError) as error:
            raise _unavailable("GET", path, error) from None

    async def _request(
        self,
        method: str,
        path: str,
        query: Mapping[str, str] | None = None,
        body: Body | None = None,
        content_type: str = JSON,
    ) -> Json:
        """Send a request when it gets its turn."""
        async with self.turns.take(*_turn_of(method, path)):
            return await self._exchange(method, path, query, body() if callable(body) else body, content_type)

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
        """Send a request at once. Raises PageTooLargeError if the answer has more than `most` bytes."""
        try:
            arguments = await self._client.param_serialize(
                method,
                path,
                query_params=list((query or {}).items()),
                header_params={"Accept": accept, "Content-Type": content_type},
                body=body,
                auth_settings=["BearerToken"],
            )
            asked = asyncio.get_running_loop().time()
            answer = await self._client.call_api(*arguments, _request_timeout=REQUEST_TIMEOUT)
            self._note_time(answer.headers.get("Date"), asked)
            data = await (answer.read() if most is None else _read_at_most(answer.response, most))
        except (aiohttp.ClientError, TimeoutError, OSError) as error:
            raise _unavailable(method, path, error) from None
        if not 200 <= answer.status <= 299:
            raise refusal(answer.status, await _error_body(data))
        if (made := await _parsed_object(data)) is None:
            raise UnavailableError(f"{method} {path}: the answer is not a JSON object, so it is not from the API server")
        return made

    def _note_time(self, date: str | None, asked: float) -> None:
        if (seconds := from_http_text(date or "")) is not None:
            self.server_time = ServerTime(seconds, asked, asyncio.get_running_loop().time())


def _unavailable(method: str, path: str, error: Exception) -> UnavailableError:
    return UnavailableError(f"{method} {path}: {failure(error)}")


def _turn_of(method: str, path: str) -> tuple[str, Order]:
    """Namespace of a request ("": none) and its priority."""
    _, _, rest = path.partition("/namespaces/")
    namespace, resource, *more = (*rest.split("/"), "")
    if method == "GET" or not resource:
        return namespace if resource else "", Order.READ
    if more[1:2] == ["status"]:
        return namespace, Order.STATUS
    return namespace, {"events": Order.EVENT, "pods": Order.ANNOTATION}.get(resource, Order.LEDGER)


async def _parsed_object(data: bytes) -> Json | None:
    try:
        made = await parsed(data)
    except ValueError:
        return None
    return made if isinstance(made, dict) else None


async def parsed(text: bytes) -> Any:
    """Parse JSON. Raises ValueError if it is malformed.

    The API server accepts metadata.managedFields of ten thousand levels, and Python's parser fails at a thousand: one such object
    would hide all others in its list or watch. So if parsing is too deep, values below DEEPEST levels become null."""
    try:
        return json.loads(text)
    except RecursionError:
        return json.loads(await asyncio.to_thread(shallow, text))  # a few MiB of brackets take seconds


def shallow(text: bytes) -> bytes:
    """Replace each object and list below DEEPEST levels by null. Malformed JSON stays malformed."""
    kept: list[bytes] = []
    begin = depth = 0
    for bracket in _BRACKET.finditer(text):
        place = bracket.start(1)
        if text[place] in b"[{":
            depth += 1
            if depth == DEEPEST + 1:
                kept += [text[begin:place], b"null"]
        else:
            if depth == DEEPEST + 1:
                begin = place + 1
            depth -= 1
    if depth <= DEEPEST:
        kept.append(text[begin:])
    return b"".join(kept)


async def _read_at_most(response: aiohttp.ClientResponse, most: int) -> bytes:
    data = bytearray()
    async for chunk in response.content.iter_any():
        data += chunk
        if len(data) > most:
            response.close()  # the connection cannot be reused: the rest of the answer is still unread
            raise PageTooLargeError
    return bytes(data)


async def _error_body(data: bytes) -> Json:
    made = await _parsed_object(data)
    return {"message": data[:200].decode(errors="replace")} if made is None else made


@asynccontextmanager
async def connect(kubeconfig: Path | None, context: str | None = None) -> AsyncIterator["tuple[Api, client.Configuration]"]:
    """An Api for this kubeconfig and context (None: the current one). Without a kubeconfig: for the pod's service account.

    Raises ConfigException with what is missing.
    """
    from kubernetes.aio import client
    from kubernetes.aio.config import incluster_config, kube_config

    settings, library = client.Configuration(), cast(Any, kube_config)  # its functions have no types
    async with AsyncExitStack() as stack:
        if kubeconfig is None:
            cast(Any, incluster_config).load_incluster_config(client_configuration=settings)
            api = await stack.enter_async_context(connected(settings))
        else:
            # A temporary folder that is removed at once: a killed process would leave the private key behind.
            with TemporaryDirectory(prefix="baton-") as folder:
                try:
                    await library.load_kube_config(str(kubeconfig), context, settings, temp_file_path=folder)
                    _read_authority(settings, folder)
                    api = await stack.enter_async_context(connected(settings))
                finally:  # the library remembers the files that it wrote, and would use them again
                    written = library._temp_files
                    library._temp_files = {data: path for data, path in written.items() if not Path(path).is_relative_to(folder)}
        yield api, settings


def _read_authority(settings: Any, folder: str) -> None:
    """Read the CA file into the settings: other clients may be made with them after the folder is removed. Comments between
    certificates may have any encoding, but `ssl` accepts only ASCII text."""
    file = settings.ssl_ca_cert
    if file is not None and Path(file).is_relative_to(folder):
        settings.ca_cert_data, settings.ssl_ca_cert = Path(file).read_text(encoding="ascii", errors="ignore"), None


@asynccontextmanager
async def connected(settings: "client.Configuration") -> AsyncIterator[Api]:
    """An Api with these settings."""
    from kubernetes.aio import client

    settings.trace_configs = [_no_redirects()]
    # Otherwise each request would look for a proxy and ~/.netrc on two threads, and send passwords of the latter.
    settings.client_session_kwargs = {"trust_env": bool(getproxies())}
    settings.connection_pool_maxsize = 0  # unlimited: requests must not wait for connections that hang
    async with client.ApiClient(configuration=settings) as connection:
        yield Api(connection)


def _no_redirects() -> aiohttp.TraceConfig:
    """Refuse redirects: a pod that answers through the API server's proxy could send the client, with its token, elsewhere."""

    async def refuse(*_: object) -> None:
        raise aiohttp.ClientError("the answer is a redirect, so it is not from the API server")

    made = aiohttp.TraceConfig()
    made.on_request_redirect.append(refuse)
    return made


def core_path(namespace: str | None, plural: str, name: str = "") -> str:
    """A path below /api/v1; namespace None: all of them."""
    return _path("/api/v1", namespace, plural, name)


def group_path(group_version: str, namespace: str | None, plural: str, name: str = "") -> str:
    """A path below /apis/<group>/<version>."""
    return _path(f"/apis/{group_version}", namespace, plural, name)


@lru_cache(maxsize=4096)
def _path(root: str, namespace: str | None, plural: str, name: str) -> str:
    within = f"/namespaces/{quote(namespace, safe='')}" if namespace is not None else ""
    return f"{root}{within}/{plural}" + (f"/{quote(name, safe='')}" if name else "")
