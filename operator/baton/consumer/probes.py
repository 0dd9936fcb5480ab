"""The HTTP server for the kubelet's probes: whether the consumer hangs, and whether its session is renewed.

Anything that can reach the pod can open connections. So a request takes no thread and has a timeout, and too many requests
close the oldest: the kubelet sends its requests at once and still gets an answer.
"""

import asyncio
from collections.abc import Callable, Mapping
from contextlib import suppress
from http import HTTPStatus
from threading import Thread
from types import TracebackType
from typing import Self

from baton.model.listening import listening

Checks = Mapping[str, Callable[[], str]]
"""Checks by path. Each returns a problem, or an empty string, and may take seconds."""

WITHIN = 10.0
"""Maximum seconds of a request, including the answer."""

MOST_REQUESTS = 64
"""Maximum number of concurrent requests."""

LONGEST_REQUEST = 8 * 1024
"""Maximum bytes of a request's head."""


class ProbeServer:
    """Answers GET of a check's path with 200, or with 503 and the problem, on all addresses of the pod. A context manager."""

    def __init__(self, port: int, checks: Checks) -> None:
        self._port = port
        self._checks = checks
        self._ended = asyncio.Event()
        self._open: dict[asyncio.StreamWriter, None] = {}
        self._asked: dict[str, asyncio.Future[str]] = {}

    def __enter__(self) -> Self:
        """Raises RuntimeError if the port cannot be bound."""
        try:
            self._socket = listening("", self._port, MOST_REQUESTS)
        except OSError as error:
            raise RuntimeError(
                f"BATON_HEALTH_PORT {self._port} cannot be served: {error.strerror}; set it to a free port"
            ) from None
        self._loop = asyncio.new_event_loop()
        self._thread = Thread(target=self._run, name="baton-health", daemon=True)
        self._thread.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None) -> None:
        self._loop.call_soon_threadsafe(self._ended.set)
        self._thread.join()
        self._loop.close()

    @property
    def port(self) -> int:
        """The bound port, also if port 0 was given."""
        return int(self._socket.getsockname()[1])

    def _run(self) -> None:
        self._loop.run_until_complete(self._serve())

    async def _serve(self) -> None:
        server = await asyncio.start_server(self._answer, sock=self._socket, limit=LONGEST_REQUEST)
        await self._ended.wait()
        server.close()
        for writer in self._open:
            writer.transport.abort()

    async def _answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if len(self._open) >= MOST_REQUESTS:
            oldest = next(iter(self._open))
            del self._open[oldest]
            oldest.transport.abort()
        self._open[writer] = None
        try:
            async with asyncio.timeout(WITHIN):
                status, text = await self._result(await reader.readuntil(b"\r\n\r\n"))
                body = f"{text}\n".encode()
                head = f"HTTP/1.1 {status} {status.phrase}\r\nContent-Type: text/plain; charset=utf-8\r\n"
                writer.write(f"{head}Content-Length: {len(body)}\r\nConnection: close\r\n\r\n".encode() + body)
                await writer.drain()
        except (TimeoutError, OSError, asyncio.IncompleteReadError, asyncio.LimitOverrunError):
            pass  # the client has gone, or its request is too large or too slow
        finally:
            self._open.pop(writer, None)
            writer.close()

    async def _result(self, head: bytes) -> tuple[HTTPStatus, str]:
        method, _, rest = head.decode("latin-1").partition(" ")
        path = rest.partition(" ")[0].partition("?")[0]
        if path not in self._checks:
            return HTTPStatus.NOT_FOUND, "not found"
        if method != "GET":
            return HTTPStatus.METHOD_NOT_ALLOWED, "only GET is answered"
        wrong = await asyncio.shield(self._check(path))
        return (HTTPStatus.SERVICE_UNAVAILABLE, wrong) if wrong else (HTTPStatus.OK, "ok")

    def _check(self, path: str) -> asyncio.Future[str]:
        """Run the check, or join its running call: requests that come meanwhile get the same answer."""
        asked = self._asked.get(path)
        if asked is None or asked.done():
            asked = self._asked[path] = self._loop.create_future()
            try:
                Thread(target=self._run_check, args=(path, asked), name="baton-check", daemon=True).start()
            except RuntimeError as error:
                asked.set_result(f"the check cannot begin: {error}")
        return asked

    def _run_check(self, path: str, asked: asyncio.Future[str]) -> None:
        try:
            wrong = self._checks[path]()
        except Exception as error:
            wrong = f"the check failed: {error!r}"
        with suppress(RuntimeError):  # the server has ended meanwhile
            self._loop.call_soon_threadsafe(asked.set_result, wrong)
