"""The answers to the kubelet's probes: whether a restart would help the consumer, and whether its session is renewed."""

import asyncio
from collections.abc import Callable, Mapping
from contextlib import suppress
from http import HTTPStatus
from threading import Thread
from types import TracebackType
from typing import Self

from baton.http_server import HttpServer, WebPage

Checks = Mapping[str, Callable[[], str]]
"""Checks by path. Each returns a problem, or an empty string, and may take seconds."""


class ProbeServer:
    """Answers GET of a check's path with 200, or with 503 and the problem, on all addresses of the pod. A context manager."""

    def __init__(self, port: int, checks: Checks) -> None:
        self._port = port
        self._checks = checks
        self._running: dict[str, asyncio.Future[str]] = {}

    def __enter__(self) -> Self:
        """Raises RuntimeError if the port cannot be bound."""
        try:
            self._server = HttpServer("", self._port, self._page, "baton-health")
        except OSError as error:
            raise RuntimeError(
                f"BATON_HEALTH_PORT {self._port} cannot be served: {error.strerror}; set it to a free port"
            ) from None
        self._server.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None) -> None:
        self._server.close()

    @property
    def port(self) -> int:
        """The bound port, also if port 0 was given."""
        return self._server.port

    async def _page(self, path: str) -> WebPage:
        if path not in self._checks:
            return WebPage(HTTPStatus.NOT_FOUND, b"not found\n")
        wrong = await asyncio.shield(self._check(path))
        return WebPage(HTTPStatus.SERVICE_UNAVAILABLE if wrong else HTTPStatus.OK, f"{wrong or 'ok'}\n".encode())

    def _check(self, path: str) -> asyncio.Future[str]:
        """Run the check, or join its running call: requests that come meanwhile get the same answer."""
        running = self._running.get(path)
        if running is None or running.done():
            loop = asyncio.get_running_loop()
            running = self._running[path] = loop.create_future()
            try:
                Thread(target=self._run_check, args=(path, loop, running), name="baton-check", daemon=True).start()
            except RuntimeError as error:
                running.set_result(f"the check cannot begin: {error}")
        return running

    def _run_check(self, path: str, loop: asyncio.AbstractEventLoop, answer: asyncio.Future[str]) -> None:
        try:
            wrong = self._checks[path]()
        except Exception as error:
            wrong = f"the check failed: {error!r}"
        with suppress(RuntimeError):  # the server has ended meanwhile
            loop.call_soon_threadsafe(answer.set_result, wrong)
