"""/metrics, /healthz, /readyz and the lag pages.

`/groups/NAMESPACE/NAME/lag` returns the lag of a group as JSON, for an autoscaler without Prometheus. For `baton lag` and
`baton top`, `/groups/NAMESPACE/NAME/lag/partitions` adds each partition, and `/groups/lag` has all groups; a value that is not
known is null. Only the leader knows the lag; another replica redirects to the address on the leader's Lease.
"""

import asyncio
import json
import re
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from http import HTTPStatus

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.exposition import CONTENT_TYPE_PLAIN_0_0_4

from baton.controller.backlog import Work
from baton.controller.metrics import Metrics
from baton.http_server import REQUEST_WITHIN, HttpServer, WebPage

_PATHS = b"/metrics, /healthz, /readyz, /groups/lag, /groups/NAMESPACE/NAME/lag, /groups/NAMESPACE/NAME/lag/partitions\n"

Check = Callable[[], str | None]
"""Returns None, or what is wrong."""
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
        request_within: float = REQUEST_WITHIN,
    ) -> None:
        """Port 0 takes a free port. `page`: returns all other pages. Raises PortTaken."""
        self._registry = registry
        self._page = page
        self._checks = {"/healthz": alive, "/readyz": ready}
        self._metrics_thread = ThreadPoolExecutor(1, "metrics")
        """Makes the page of metrics, which takes long, while probes are answered."""
        try:
            self._server = HttpServer(address, port, self._answer, "health", request_within=request_within)
        except OSError as error:
            raise PortTaken(f"cannot serve on port {port} of {address or 'all addresses'}: {error}") from None

    @property
    def port(self) -> int:
        return self._server.port

    def start(self) -> None:
        self._server.start()

    def close(self) -> None:
        self._server.close()
        self._metrics_thread.shutdown(cancel_futures=True)

    async def _answer(self, path: str) -> WebPage:
        if path == "/metrics":
            loop = asyncio.get_running_loop()
            metrics = await loop.run_in_executor(self._metrics_thread, generate_latest, self._registry)
            return WebPage(HTTPStatus.OK, metrics, CONTENT_TYPE_PLAIN_0_0_4)
        if check := self._checks.get(path):
            problem = check()
            status = HTTPStatus.OK if problem is None else HTTPStatus.SERVICE_UNAVAILABLE
            return WebPage(status, f"{problem or 'ok'}\n".encode())
        return self._page(path) or WebPage(HTTPStatus.NOT_FOUND, _PATHS)


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
