"""/metrics, /healthz and /readyz, on a thread of their own: they answer also when the event loop does not."""

import threading
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.exposition import CONTENT_TYPE_PLAIN_0_0_4

Check = Callable[[], str | None]
"""None: fine; else what is wrong."""


class PortTaken(Exception):  # noqa: N818 -- what is wrong, for the user
    """Somebody else listens there."""


class HealthServer:
    """Serves until closed."""

    def __init__(self, address: str, port: int, registry: CollectorRegistry, alive: Check, ready: Check) -> None:
        """Port 0 takes a free one. Raises PortTaken."""

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                match self.path.partition("?")[0]:
                    case "/metrics":
                        self._answer(200, CONTENT_TYPE_PLAIN_0_0_4, generate_latest(registry))
                    case "/healthz":
                        self._check(alive())
                    case "/readyz":
                        self._check(ready())
                    case _:
                        self._answer(404, "text/plain", b"/metrics, /healthz, /readyz\n")

            def _check(self, problem: str | None) -> None:
                self._answer(200 if problem is None else 503, "text/plain", f"{problem or 'ok'}\n".encode())

            def _answer(self, status: int, kind: str, body: bytes) -> None:
                self.send_response(status)
                self.send_header("Content-Type", kind)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, format: str, *args: object) -> None:  # noqa: A002 -- the base class' name
                """Probes are no news."""

        try:
            self._server = ThreadingHTTPServer((address, port), Handler)
        except OSError as error:
            raise PortTaken(f"cannot serve on port {port} of {address or 'all addresses'}: {error}") from None
        self._server.daemon_threads = True
        self._thread = threading.Thread(target=self._server.serve_forever, name="health", daemon=True)

    @property
    def port(self) -> int:
        return int(self._server.server_address[1])

    def start(self) -> None:
        self._thread.start()

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()
