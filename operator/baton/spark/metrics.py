"""A fleet's metrics for Prometheus. Needs prometheus-client (the extra `metrics` of baton-consumer)."""

import socket
from collections.abc import Iterator
from typing import Protocol

from baton.model.extras import extra
from baton.spark.statistics import FleetView, Statistics

with extra("metrics"):
    from prometheus_client import CollectorRegistry, start_http_server
    from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric


class Measured(Protocol):
    """The methods of `Fleet` that metrics are made of."""

    def statistics(self) -> Statistics: ...

    def view(self) -> FleetView: ...


class FleetMetrics:
    """Collector for a registry of prometheus-client: `registry.register(FleetMetrics("orders", fleet))`."""

    def __init__(self, group: str, fleet: Measured) -> None:
        """`group`: value of the label `group`."""
        self._group, self._fleet = group, fleet

    def describe(self) -> Iterator[Metric]:
        """Describe no metrics, so that registration does not query the queues."""
        return iter(())

    def collect(self) -> Iterator[Metric]:
        """Collect the metrics, at each scrape, on the server's thread."""
        yield from self._counted(self._fleet.statistics())
        yield from self._seen(self._fleet.view())

    def _counted(self, counts: Statistics) -> Iterator[Metric]:
        for name, text, value in (
            ("batches", "Finished batches that had rows.", counts.batches),
            ("rows", "Rows that tasks read, including those of repeated attempts.", counts.rows),
            ("bytes", "Bytes of these rows.", counts.bytes),
            ("ranges_planned", "Ranges of finished batches: one for each partition in a batch.", counts.ranges_planned),
            ("ranges_finished", "Ranges finished at their queue.", counts.ranges_finished),
            ("finishes_refused", "Ranges that could not be finished, because a later query has them.", counts.finishes_refused),
            ("reads_refused", "Attempts to read that the queue rejected.", counts.reads_refused),
            ("positions_lost", "Positions skipped because their entries are gone.", counts.positions_lost),
            ("releases", "Partitions released.", counts.releases),
            ("executors_ended", "Executors killed because they held up a batch.", counts.executors_ended),
            ("query_failures", "Queries that failed and were restarted.", counts.query_failures),
        ):
            family = CounterMetricFamily(f"baton_fleet_{name}", text, labels=["group"])
            family.add_metric([self._group], value)
            yield family
        read = CounterMetricFamily("baton_fleet_ranges_read", "Ranges read, by where.", labels=["group", "where"])
        read.add_metric([self._group, "owner"], counts.ranges_read_on_owner)
        read.add_metric([self._group, "lent"], counts.ranges_lent)
        yield read

    def _seen(self, view: FleetView) -> Iterator[Metric]:
        partitions = GaugeMetricFamily("baton_fleet_partitions", "Partitions, by state.", labels=["group", "state"])
        for state, count in (
            ("owned", view.partitions_owned),
            ("waiting", view.partitions_waiting),
            ("revoking", view.partitions_revoking),
        ):
            partitions.add_metric([self._group, state], count)
        yield partitions
        lag = GaugeMetricFamily("baton_fleet_lag", "Entries that the query has not finished reading.", labels=["group", "queue"])
        for queue, entries in view.lag.items():
            lag.add_metric([self._group, queue], entries)
        yield lag
        steps = CounterMetricFamily(
            "baton_fleet_step_seconds", "Seconds that the driver spent on steps of batches.", labels=["group", "step"]
        )
        for step, seconds in view.step_seconds.items():
            steps.add_metric([self._group, step], seconds)
        yield steps


class MetricsServer:
    """Serves `/metrics` on a port, in its own thread."""

    def __init__(self, port: int, group: str, fleet: Measured) -> None:
        """`port` 0: any free port. Raises RuntimeError if the port is in use."""
        registry = CollectorRegistry()
        registry.register(FleetMetrics(group, fleet))
        address = "::" if socket.has_dualstack_ipv6() else "0.0.0.0"  # both IPv4 and IPv6 if possible
        try:
            self._server, self._thread = start_http_server(port, addr=address, registry=registry)
        except OSError as error:
            raise RuntimeError(f"cannot listen on metrics_port {port}: {error.strerror}: choose another port") from None

    @property
    def port(self) -> int:
        return self._server.server_port

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()
