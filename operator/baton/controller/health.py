"""/metrics, /healthz, /readyz and the lag pages, on a separate thread, so that they answer even if the event loop does not.

A client that reaches the port may open many connections and be silent or slow. So a connection costs no thread, has a few
seconds, and their number is bounded: a new one, which may be a probe, replaces the oldest.

`/groups/NAMESPACE/NAME/lag` returns the lag of a group as JSON, for an autoscaler without Prometheus. For `baton lag` and
`baton top`, `/groups/NAMESPACE/NAME/lag/partitions` adds each partition, and `/groups/lag` has all groups; a value that is not
known is null. Only the leader knows the lag; another replica redirects to the address on the leader's Lease.
"""

import asyncio
import json
import re
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from http import HTTPStatus
from typing import NamedTuple

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.exposition import CONTENT_TYPE_PLAIN_0_0_4

from baton.controller.backlog import Work
from baton.controller.metrics import Metrics
from baton.model.listening import listening

ASKED_WITHIN = 5.0
"""Seconds for a client to send its whole request."""
ANSWERED_WITHIN = 10.0
"""Seconds for a client to receive the answer."""
MOST_CONNECTIONS = 128
_TAKEN_AT_ONCE = 64
"""The backlog of the socket. Less than MOST_CONNECTIONS, so that a probe among many connections is read before it is replaced."""
_LONGEST = 16 * 1024
"""Most bytes of a request."""

_PATHS = b"/metrics, /healthz, /readyz, /groups/lag, /groups/NAMESPACE/NAME/lag, /groups/NAMESPACE/NAME/lag/partitions\n"

Check = Callable[[], str | None]
"""Returns None, or what is wrong."""


class WebPage(NamedTuple):
    """An answer of the server."""

    status: HTTPStatus
    body: bytes
    kind: str = "text/plain"
    location: str | None = None
    """The address to which a redirect leads."""


Pages = Callable[[str], WebPage | None]
"""Returns the page of a path; None: no such page."""


class PortTaken(Exception):  # noqa: N818 -- what is wrong, for the user
    """Another process listens on the port."""


class HealthServer:
    """Serves /healthz, /readyz and /metrics until it is closed."""

    def __init__(
        self,
        address: str,
        port: int,
        registry: CollectorRegistry,
        alive: Check,
        ready: Check,
        page: Pages = lambda path: None,
        *,
        asked_within: float = ASKED_WITHIN,
    ) -> None:
        """Port 0 takes a free port. `page`: returns all other pages. Raises PortTaken."""
        self._registry = registry
        self._page = page
        self._checks = {"/healthz": alive, "/readyz": ready}
        self._asked_within = asked_within
        self._connections: dict[asyncio.Task[object], None] = {}
        """Oldest first."""
        self._metrics_thread = ThreadPoolExecutor(1, "metrics")
        """Makes the page of metrics, which takes long, while probes are answered."""
        try:
            self._socket = listening(address, port)
        except OSError as error:
            raise PortTaken(f"cannot serve on port {port} of {address or 'all addresses'}: {error}") from None
        self._loop = asyncio.new_event_loop()
        self._stop = asyncio.Event()
        self._thread = threading.Thread(target=self._run, name="health", daemon=True)

    @property
    def port(self) -> int:
        return int(self._socket.getsockname()[1])

    def start(self) -> None:
        self._thread.start()

    def close(self) -> None:
        self._loop.call_soon_threadsafe(self._stop.set)
        self._thread.join()
        self._metrics_thread.shutdown(cancel_futures=True)
        self._socket.close()

    def _run(self) -> None:
        with asyncio.Runner(loop_factory=lambda: self._loop) as runner:
            runner.run(self._serve())

    async def _serve(self) -> None:
        async with await asyncio.start_server(self._connected, sock=self._socket, limit=_LONGEST, backlog=_TAKEN_AT_ONCE):
            await self._stop.wait()
            for connection in tuple(self._connections):  # a server waits for its connections, from Python 3.12 on
                connection.cancel()

    async def _connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Serve one connection. asyncio runs this in a task, and logs its failures."""
        if len(self._connections) >= MOST_CONNECTIONS:
            oldest = next(iter(self._connections))
            del self._connections[oldest]
            oldest.cancel()
        connection = asyncio.current_task()
        assert connection is not None
        self._connections[connection] = None
        with suppress(asyncio.CancelledError, TimeoutError, OSError, asyncio.IncompleteReadError, asyncio.LimitOverrunError):
            try:
                await self._converse(reader, writer)
            except BaseException:
                writer.transport.abort()  # only here: abort() fails on a closed transport with a buffered page
                raise
            finally:
                self._connections.pop(connection, None)

    async def _converse(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        async with asyncio.timeout(self._asked_within):
            request = await reader.readuntil(b"\r\n\r\n")
        async with asyncio.timeout(ANSWERED_WITHIN):
            writer.write(await self._answer(request))
            writer.close()
            await writer.wait_closed()

    async def _answer(self, request: bytes) -> bytes:
        method, _, rest = request.partition(b" ")
        path = rest.partition(b" ")[0].partition(b"?")[0].decode(errors="replace")
        if method != b"GET":
            return _response(WebPage(HTTPStatus.METHOD_NOT_ALLOWED, b"GET\n"))
        if path == "/metrics":
            page = await self._loop.run_in_executor(self._metrics_thread, generate_latest, self._registry)
            return _response(WebPage(HTTPStatus.OK, page, CONTENT_TYPE_PLAIN_0_0_4))
        if check := self._checks.get(path):
            problem = check()
            status = HTTPStatus.OK if problem is None else HTTPStatus.SERVICE_UNAVAILABLE
            return _response(WebPage(status, f"{problem or 'ok'}\n".encode()))
        return _response(self._page(path) or WebPage(HTTPStatus.NOT_FOUND, _PATHS))


def _response(answer: WebPage) -> bytes:
    status, body, kind, location = answer
    fields = {"Content-Type": kind, "Content-Length": len(body), **({"Location": location} if location is not None else {})}
    head = "".join(f"{name}: {value}\r\n" for name, value in fields.items())
    return f"HTTP/1.0 {status.value} {status.phrase}\r\n{head}\r\n".encode() + body


_PATH = re.compile(r"/groups/([a-z0-9.-]{1,253})/([a-z0-9.-]{1,253})/lag(/partitions)?")
_ALL = "/groups/lag"
_ADDRESS = re.compile(r"(\[[0-9a-fA-F:.]{2,45}\]|[a-zA-Z0-9.-]{1,253}):[0-9]{1,5}")
_JSON = "application/json"


class LagPage:
    """The pages about lag. May be called on any thread."""

    def __init__(self, metrics: Metrics, leads: Callable[[], bool], leader: Callable[[], str]) -> None:
        """`leader`: returns HOST:PORT of the leading replica; empty: not known."""
        self._metrics, self._leads, self._leader = metrics, leads, leader

    def __call__(self, path: str) -> WebPage | None:
        """Return the page; None: the path is not about lag."""
        found = _PATH.fullmatch(path)
        if found is None and path != _ALL:
            return None
        if not self._leads():
            leader = self._leader()
            if not _ADDRESS.fullmatch(leader):
                return _refused(HTTPStatus.SERVICE_UNAVAILABLE, "this replica does not lead, and the leader's address is unknown")
            there = f"http://{leader}{path}"
            return WebPage(HTTPStatus.TEMPORARY_REDIRECT, f"{there}\n".encode(), location=there)
        if found is None:
            groups = [_lag_of(*key, work) for key, work in self._metrics.works().items()]
            return WebPage(HTTPStatus.OK, f"{json.dumps({'groups': groups})}\n".encode(), _JSON)
        return self._of_group(*found.groups())

    def _of_group(self, namespace: str, name: str, each: str | None) -> WebPage:
        try:
            work = self._metrics.work((namespace, name))
        except KeyError:
            return _refused(HTTPStatus.NOT_FOUND, f"there is no ConsumerGroup {namespace}/{name} that this operator serves")
        if each:
            checks = sorted(self._metrics.checks((namespace, name)).items())
            lags = {queue: None if check is None else dict(check.lag) for queue, check in checks}
            unfinished = {queue: dict(check.unfinished) for queue, check in checks if check is not None and check.unfinished}
            found = _lag_of(namespace, name, work) | {"queues": lags, "unfinished": unfinished}
            return WebPage(HTTPStatus.OK, f"{json.dumps(found)}\n".encode(), _JSON)
        if work is None:
            return _refused(HTTPStatus.SERVICE_UNAVAILABLE, f"the lag of {namespace}/{name} is not known: look at its queues")
        return WebPage(HTTPStatus.OK, f"{json.dumps(_lag_of(namespace, name, work))}\n".encode(), _JSON)


def _lag_of(namespace: str, name: str, work: Work | None) -> dict[str, object]:
    lag, seconds, waiting, partitions = work or (None, None, None, None)
    found = {"namespace": namespace, "group": name, "lag": lag, "lagSeconds": seconds}
    return {**found, "waitingSeconds": waiting, "partitionsWithLag": partitions}


def _refused(status: HTTPStatus, why: str) -> WebPage:
    return WebPage(status, f"{json.dumps({'error': why})}\n".encode(), _JSON)
