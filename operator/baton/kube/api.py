"""The API server as JSON over HTTP.

The client's generated classes cost more time to fill than the answers take to arrive, and know nothing of custom resources; so
only its configuration, authentication and connection pool are used.
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

if TYPE_CHECKING:  # it takes a second to import, and what never connects (`baton dev`) does without it
    from kubernetes.aio import client

Json = dict[str, Any]

Body = Json | list[Json] | Callable[[], Json | list[Json]]
"""Of a request. A function is called when the request has its turn, for which it may wait long: what it returns is sent."""

REQUEST_TIMEOUT = 10.0
"""Seconds. No request may hold up a loop for longer."""

AT_ONCE = 32
"""Requests under way. A thousand groups that begin together would make each other's slower until all of them took too long,
and were tried again; the others wait for their turn, and the time in which a request is to be answered begins with it."""

LATE = 1.0
"""Seconds after which a request keeps no other namespace waiting."""

MERGE = "application/merge-patch+json"
JSON_PATCH = "application/json-patch+json"
JSON = "application/json"
METADATA = "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1"

PAGE = 250
"""Objects of a list that are read at once: JSON is parsed in one go, and nothing else happens meanwhile."""

LARGEST_PAGE = 8 * 2**20
"""Bytes of a page. An object may have 1.5 MiB, so that a tenant with a few hundred of them would stop all others."""


DEEPEST = 50
"""Levels of JSON that are kept where an answer has too many for Python's parser."""

_BRACKET = re.compile(rb'(?:[^"\[\]{}]++|"[^"\\]*+(?:\\.[^"\\]*+)*+")*+([\[\]{}])', re.DOTALL)
"""The next one that is in no string."""


class Api:
    """JSON in, JSON out. Every method may raise ApiError, NotFoundError, ConflictError or UnavailableError."""

    def __init__(self, connection: "client.ApiClient | None") -> None:
        """None: for one that answers by itself."""
        self._client: Any = connection  # its types end where the HTTP begins
        self.turns = NamespaceTurns(AT_ONCE, LATE)
        self.told: ServerTime | None = None
        """By the last answer that did; in the event loop's time."""

    @property
    def settings(self) -> "client.Configuration":
        """Of the connection: the server, and as whom it is asked."""
        made: client.Configuration = self._client.configuration
        return made

    async def get(self, path: str, **query: str) -> Json:
        return await self._request("GET", path, query)

    async def page(
        self, path: str, query: Mapping[str, str], token: str = "", metadata: bool = False, limit: int = PAGE
    ) -> tuple[Json, str]:
        """The next objects of a list, and the token for those after them ("": that is all). All pages are as of the same
        version. Raises ApiError (410) where the rest is not to be had any more, and PageTooLargeError where `limit` is to be
        less; 1 is always taken. `metadata`: only theirs are told."""
        asked = {**query, "limit": str(limit), **({"continue": token} if token else {})}
        most = LARGEST_PAGE if limit > 1 else None
        async with self.turns.take(*_turn_of("GET", path)):
            answer = await self._exchange("GET", path, asked, accept=METADATA if metadata else JSON, most=most)
        return answer, str(answer["metadata"].get("continue") or "")

    async def relayed(self, path: str, most: int) -> Json:
        """What a pod says by the API server's proxy, of `most` bytes. Raises PageTooLargeError. It waits for no turn."""
        return await self._exchange("GET", path, most=most)

    async def find(self, path: str) -> Json | None:
        """The object, or None where there is none."""
        try:
            return await self.get(path)
        except NotFoundError:
            return None

    async def create(self, path: str, body: Json) -> Json:
        return await self._request("POST", path, body=body)

    async def replace(self, path: str, body: Json) -> Json:
        """A body with a resourceVersion is a compare-and-swap: ConflictError where the object has another."""
        return await self._request("PUT", path, body=body)

    async def merge(self, path: str, patch: Json | Callable[[], Json]) -> Json:
        """A JSON merge patch. With metadata.uid in it: ConflictError where the object is another of that name; but the API server
        does not look at the metadata in a patch of a custom resource's /status."""
        return await self._request("PATCH", path, body=patch, content_type=MERGE)

    async def replace_status(self, path: str, uid: str, status: Callable[[], Json]) -> Json:
        """The whole status of the custom resource at this path. ConflictError where it is another of that name."""

        def patch() -> list[Json]:
            test: Json = {"op": "test", "path": "/metadata/uid", "value": uid}
            return [test, {"op": "add", "path": "/status", "value": status()}]

        return await self._request("PATCH", f"{path}/status", body=patch, content_type=JSON_PATCH)

    @asynccontextmanager
    async def stream(self, path: str, query: Mapping[str, str], silence: float) -> AsyncIterator[AsyncIterator[bytes]]:
        """The bytes of an answer that goes on, such as that of a watch, as they come. It waits for no turn. UnavailableError also
        after so many seconds of `silence`, and where the answer breaks off."""
        try:
            arguments = await self._client.param_serialize(
                "GET", path, query_params=list(query.items()), header_params={"Accept": JSON}, auth_settings=["BearerToken"]
            )
            timeout = aiohttp.ClientTimeout(total=None, sock_connect=REQUEST_TIMEOUT, sock_read=silence)
            answer = await self._client.call_api(*arguments, _request_timeout=timeout)
            async with answer.response as response:
                if not 200 <= response.status <= 299:
                    raise refusal(response.status, await _said(await response.read()))
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
        """In its turn."""
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
        """At once. `most`: bytes of the answer, beyond which it is not read to its end."""
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
            self._hear(answer.headers.get("Date"), asked)
            data = await (answer.read() if most is None else _read_at_most(answer.response, most))
        except (aiohttp.ClientError, TimeoutError, OSError) as error:
            raise _unavailable(method, path, error) from None
        if 200 <= answer.status <= 299:
            return await _read(method, path, data)
        raise refusal(answer.status, await _said(data))

    def _hear(self, date: str | None, asked: float) -> None:
        if (seconds := from_http_text(date or "")) is not None:
            self.told = ServerTime(seconds, asked, asyncio.get_running_loop().time())


def _unavailable(method: str, path: str, error: Exception) -> UnavailableError:
    return UnavailableError(f"{method} {path}: {failure(error)}")


def _turn_of(method: str, path: str) -> tuple[str, Order]:
    """The namespace of a request ("": none), and what it comes before."""
    _, _, rest = path.partition("/namespaces/")
    namespace, resource, *more = (*rest.split("/"), "")
    if method == "GET" or not resource:
        return namespace if resource else "", Order.READ
    if more[1:2] == ["status"]:
        return namespace, Order.STATUS
    return namespace, {"events": Order.EVENT, "pods": Order.ANNOTATION}.get(resource, Order.LEDGER)


async def _read(method: str, path: str, data: bytes) -> Json:
    try:
        made = await parsed(data)
    except ValueError:
        made = None
    if not isinstance(made, dict):
        raise UnavailableError(f"{method} {path}: the answer is no JSON object, so it is not the API server's")
    return made


async def parsed(text: bytes) -> Any:
    """Raises ValueError where it is no JSON. What lies deeper than anything that is looked at becomes null, if need be: users may
    give an object metadata.managedFields of ten thousand levels, which the API server takes, and Python's parser gives up at a
    thousand. One such object would hide all others that are listed or watched with it."""
    try:
        return json.loads(text)
    except RecursionError:
        return json.loads(await asyncio.to_thread(shallow, text))  # some MiB of brackets take seconds


def shallow(text: bytes) -> bytes:
    """The same, with null for each object and list that lies too deep. What is no JSON does not become any."""
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
            response.close()  # the rest of it is nothing that the next request wants to find
            raise PageTooLargeError
    return bytes(data)


async def _said(data: bytes) -> Json:
    try:
        said = await parsed(data)
    except ValueError:
        said = None
    return said if isinstance(said, dict) else {"message": data[:200].decode(errors="replace")}


@asynccontextmanager
async def connect(kubeconfig: Path | None, context: str | None = None) -> AsyncIterator["tuple[Api, client.Configuration]"]:
    """An Api for this kubeconfig and context (None: the current one). Without a kubeconfig: by the pod's own service account.

    Raises ConfigException, which says what is missing.
    """
    from kubernetes.aio import client
    from kubernetes.aio.config import incluster_config, kube_config

    settings, library = client.Configuration(), cast(Any, kube_config)  # its functions have no types
    async with AsyncExitStack() as stack:
        if kubeconfig is None:
            cast(Any, incluster_config).load_incluster_config(client_configuration=settings)
            api = await stack.enter_async_context(connected(settings))
        else:
            # Read at once: a process that is killed would leave the private key there.
            with TemporaryDirectory(prefix="baton-") as folder:
                try:
                    await library.load_kube_config(str(kubeconfig), context, settings, temp_file_path=folder)
                    _read_authority(settings, folder)
                    api = await stack.enter_async_context(connected(settings))
                finally:  # the library would take files that are gone for written
                    written = library._temp_files
                    library._temp_files = {data: path for data, path in written.items() if not Path(path).is_relative_to(folder)}
        yield api, settings


def _read_authority(settings: Any, folder: str) -> None:
    """Other clients may be made with these settings when the folder is gone. Comments between certificates may be in any
    encoding, but `ssl` takes a text in ASCII only."""
    file = settings.ssl_ca_cert
    if file is not None and Path(file).is_relative_to(folder):
        settings.ca_cert_data, settings.ssl_ca_cert = Path(file).read_text(encoding="ascii", errors="ignore"), None


@asynccontextmanager
async def connected(settings: "client.Configuration") -> AsyncIterator[Api]:
    """An Api for the server, and as the user, that these settings name."""
    from kubernetes.aio import client

    settings.trace_configs = [_no_redirects()]
    # Else each request would look for a proxy and for ~/.netrc, on two threads; the latter's passwords are not for this server.
    settings.client_session_kwargs = {"trust_env": bool(getproxies())}
    settings.connection_pool_maxsize = 0  # else requests would wait for a connection behind those that hang
    async with client.ApiClient(configuration=settings) as connection:
        yield Api(connection)


def _no_redirects() -> aiohttp.TraceConfig:
    """Any pod may answer by the API server's proxy. It must not lead the client, with its token, elsewhere."""

    async def refuse(*_: object) -> None:
        raise aiohttp.ClientError("the answer leads elsewhere, so it is not the API server's")

    made = aiohttp.TraceConfig()
    made.on_request_redirect.append(refuse)
    return made


def core_path(namespace: str | None, plural: str, name: str = "") -> str:
    """A path below /api/v1; namespace None: all of them."""
    return _path("/api/v1", namespace, plural, name)


def group_path(group_version: str, namespace: str | None, plural: str, name: str = "") -> str:
    """A path below /apis/<group>/<version>."""
    return _path(f"/apis/{group_version}", namespace, plural, name)


@lru_cache(maxsize=4096)  # the same few again and again
def _path(root: str, namespace: str | None, plural: str, name: str) -> str:
    within = f"/namespaces/{quote(namespace, safe='')}" if namespace is not None else ""
    return f"{root}{within}/{plural}" + (f"/{quote(name, safe='')}" if name else "")
