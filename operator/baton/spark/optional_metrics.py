"""A fleet's metrics, where they are asked for: nothing else needs prometheus-client."""

from typing import TYPE_CHECKING, Protocol

from baton.spark.source_metrics import FleetView
from baton.spark.statistics import Statistics

if TYPE_CHECKING:
    from baton.spark.metrics import MetricsServer


class Measured(Protocol):
    """What a fleet says of itself."""

    def statistics(self) -> Statistics: ...

    def view(self) -> FleetView: ...


class OptionalMetrics:
    """Serves `/metrics` while it is open, if there is a port."""

    def __init__(self, port: int | None, group: str, fleet: Measured) -> None:
        self._port, self._group, self._fleet = port, group, fleet
        self._server: MetricsServer | None = None

    def serve(self) -> None:
        """Raises RuntimeError where the port is taken, and ImportError, with what to install, without prometheus-client."""
        if self._port is None:
            return
        from baton.spark.metrics import MetricsServer

        self.close()
        try:
            self._server = MetricsServer(self._port, self._group, self._fleet)
        except OSError as error:
            raise RuntimeError(f"metrics_port {self._port} cannot be served: {error.strerror}: name another one") from None

    def close(self) -> None:
        server, self._server = self._server, None
        if server is not None:
            server.close()
