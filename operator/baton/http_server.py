"""A small HTTP server for probes and metrics, on a separate thread, so that it answers even if the rest of the process does not.

A client that reaches the port may open many connections and be silent or slow. So a connection costs no thread, has a few
seconds, and their number is bounded: a new one, which may be a probe, replaces the oldest.
"""

import asyncio
import errno
import socket
import threading
from collections.abc import Awaitable, Callable
from contextlib import suppress
from http import HTTPStatus
from typing import NamedTuple

EVERYWHERE = ("", "0.0.0.0", "::")
"""Addresses that stand for all addresses, of IPv4 and IPv6."""

REQUEST_WITHIN = 5.0
"""Seconds for a client to send its whole request."""
ANSWER_WITHIN = 10.0
"""Seconds to make the answer, and for the client to receive it."""
MOST_CONNECTIONS = 128
LONGEST_REQUEST = 16 * 1024
"""Most bytes of a request."""
_BACKLOG = 64
"""Less than MOST_CONNECTIONS, so that a probe among many connections is read before it is replaced."""


def listening(address: str, port: int, backlog: int | None = None) -> socket.socket:
    """Return a listening socket, for IPv4 and IPv6, as a pod may have addresses of either or both. Port 0: any free port. Raises
    OSError."""
    if address not in EVERYWHERE:
        family = socket.AF_INET6 if ":" in address else socket.AF_INET
        return socket.create_server((address, port), family=family, backlog=backlog)
    if socket.has_dualstack_ipv6():
        try:
            return socket.create_server(("", port), family=socket.AF_INET6, dualstack_ipv6=True, backlog=backlog)
        except OSError as error:
            if error.errno not in (errno.EADDRNOTAVAIL, errno.EAFNOSUPPORT):
                raise  # with these two errors, IPv6 is disabled on this machine
    return socket.create_server(("", port), family=socket.AF_INET, backlog=backlog)


class WebPage(NamedTuple):
    """An answer of the server."""

    status: HTTPStatus
    body: bytes
    kind: str = "text/plain; charset=utf-8"
    location: str | None = None
    """The address to which a redirect leads."""


class HttpServer:
    """Answers GET until it is closed."""

    def __init__(
        self,
        address: str,
        port: int,
        page: Callable[[str], Awaitable[WebPage]],
        thread: str,
        *,
        request_within: float = REQUEST_WITHIN,
    ) -> None:
        """`page`: returns the answer for a path without its query; it runs on the server's thread, called `thread`. Port 0 takes
        a free port. Raises OSError."""
        self._page = page
        self._request_within = request_within
        self._connections: dict[asyncio.Task[object], None] = {}
        """Oldest first."""
        self._socket = listening(address, port, _BACKLOG)
        self._loop = asyncio.new_event_loop()
        self._stop = asyncio.Event()
        self._thread = threading.Thread(target=self._run, name=thread, daemon=True)

    @property
    def port(self) -> int:
        return int(self._socket.getsockname()[1])

    def start(self) -> None:
        self._thread.start()

    def close(self) -> None:
        self._loop.call_soon_threadsafe(self._stop.set)
        self._thread.join()
        self._socket.close()

    def _run(self) -> None:
        with asyncio.Runner(loop_factory=lambda: self._loop) as runner:
            runner.run(self._serve())

    async def _serve(self) -> None:
        async with await asyncio.start_server(self._connected, sock=self._socket, limit=LONGEST_REQUEST, backlog=_BACKLOG):
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
        async with asyncio.timeout(self._request_within):
            request = await reader.readuntil(b"\r\n\r\n")
        async with asyncio.timeout(ANSWER_WITHIN):
            writer.write(_response(await self._answer(request)))
            writer.close()
            await writer.wait_closed()

    async def _answer(self, request: bytes) -> WebPage:
        method, _, rest = request.partition(b" ")
        if method != b"GET":
            return WebPage(HTTPStatus.METHOD_NOT_ALLOWED, b"only GET is answered\n")
        return await self._page(rest.partition(b" ")[0].partition(b"?")[0].decode(errors="replace"))


def _response(answer: WebPage) -> bytes:
    status, body, kind, location = answer
    fields = {"Content-Type": kind, "Content-Length": len(body), **({"Location": location} if location is not None else {})}
    head = "".join(f"{name}: {value}\r\n" for name, value in fields.items())
    return f"HTTP/1.0 {status.value} {status.phrase}\r\n{head}\r\n".encode() + body
