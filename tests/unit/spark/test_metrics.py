"""What a fleet's driver serves to Prometheus."""

import socket
from collections.abc import Iterator
from urllib.error import URLError
from urllib.request import urlopen

import pytest

from baton.model.ids import QueueName
from baton.spark.metrics import MetricsServer
from baton.spark.statistics import FleetView, Statistics
from tests.waiting import PATIENCE


class Counted:
    """A fleet that has done so much."""

    def __init__(self) -> None:
        self.batches = 0

    def statistics(self) -> Statistics:
        return Statistics(batches=self.batches, rows=70, ranges_planned=7, ranges_read_on_owner=6, ranges_lent=1)

    def view(self) -> FleetView:
        return FleetView(4, 2, 1, {QueueName("orders"): 12}, {"ahead": 0.5, "log": 0.25})


@pytest.fixture
def fleet() -> Counted:
    return Counted()


@pytest.fixture
def server(fleet: Counted) -> Iterator[MetricsServer]:
    made = MetricsServer(0, "orders", fleet)
    yield made
    made.close()


def scraped(port: int) -> list[str]:
    with urlopen(f"http://127.0.0.1:{port}/metrics") as answer:
        return str(answer.read().decode()).splitlines()


def test_counts_and_what_the_driver_sees_are_served_with_the_group(fleet: Counted, server: MetricsServer) -> None:
    fleet.batches = 3
    lines = scraped(server.port)
    for line in (
        'baton_fleet_batches_total{group="orders"} 3.0',
        'baton_fleet_rows_total{group="orders"} 70.0',
        'baton_fleet_ranges_read_total{group="orders",where="owner"} 6.0',
        'baton_fleet_ranges_read_total{group="orders",where="lent"} 1.0',
        'baton_fleet_partitions{group="orders",state="waiting"} 2.0',
        'baton_fleet_lag{group="orders",queue="orders"} 12.0',
        'baton_fleet_step_seconds_total{group="orders",step="ahead"} 0.5',
    ):
        assert line in lines


def test_it_serves_addresses_of_both_kinds(server: MetricsServer) -> None:
    for address in ("127.0.0.1", *(["::1"] if socket.has_dualstack_ipv6() else [])):
        socket.create_connection((address, server.port), PATIENCE).close()


def test_each_scrape_asks_again(fleet: Counted, server: MetricsServer) -> None:
    scraped(server.port)
    fleet.batches = 8
    assert 'baton_fleet_batches_total{group="orders"} 8.0' in scraped(server.port)


def test_nobody_is_served_after_the_end(fleet: Counted) -> None:
    made = MetricsServer(0, "orders", fleet)
    made.close()
    with pytest.raises(URLError):
        scraped(made.port)


def test_two_on_one_port_are_refused(fleet: Counted, server: MetricsServer) -> None:
    with pytest.raises(RuntimeError, match="in use"):
        MetricsServer(server.port, "payments", fleet)
