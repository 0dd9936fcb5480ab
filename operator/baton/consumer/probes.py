"""What the kubelet's probes ask of a consumer: whether it hangs, and whether the operator hears of it."""

import socket
from collections.abc import Callable, Mapping
from contextlib import suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from types import TracebackType
from typing import Self

Checks = Mapping[str, Callable[[], str]]
"""By path; each says what is wrong, or nothing."""


class ProbeServer:
    """Answers 200 to GET of a check's path, or 503 with what is wrong. In `with`; on all addresses of the pod."""

    def __init__(self, port: int, checks: Checks) -> None:
        self._port = port
        self._checks = checks

    def __enter__(self) -> Self:
        """Raises RuntimeError: the port cannot be had."""
        try:
            self._server = _Server(("", self._port), _handler(self._checks))
        except OSError as error:
            raise RuntimeError(f"BATON_HEALTH_PORT {self._port} cannot be served: {error.strerror}; name a free one") from None
        Thread(target=self._server.serve_forever, name="baton-health", daemon=True).start()
        return self

    def __exit__(self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None) -> None:
        self._server.shutdown()
        self._server.server_close()

    @property
    def port(self) -> int:
        """The one that was taken, where 0 was asked for."""
        return int(self._server.server_address[1])


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    address_family = socket.AF_INET6 if socket.has_dualstack_ipv6() else socket.AF_INET

    def server_bind(self) -> None:
        with suppress(OSError, AttributeError):  # a machine without IPv6, or one that separates the two
            self.socket.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0)
        super().server_bind()


def _handler(checks: Checks) -> type[BaseHTTPRequestHandler]:
    class Answers(BaseHTTPRequestHandler):
        timeout = 10  # seconds for a whole request: whoever connects and says nothing keeps no thread

        def do_GET(self) -> None:
            check = checks.get(self.path.partition("?")[0])
            status, said = (404, "not found") if check is None else ((503, wrong) if (wrong := check()) else (200, "ok"))
            body = f"{said}\n".encode()
            self.send_response(status)
            self.send_header("Content-Type", "text/plain; charset=utf-8")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - likewise
            """Nothing: a probe every few seconds is no news."""

    return Answers
