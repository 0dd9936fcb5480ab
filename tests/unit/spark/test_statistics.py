"""The tasks' reports, and the driver's counts."""

import json
import socket
from collections.abc import Iterator
from urllib.error import URLError
from urllib.request import urlopen

import pytest

from baton.model.ids import QueueName
from baton.spark.metrics import MetricsServer
from baton.spark.statistics import Counts, FleetView, How, RangeReport, Statistics, outcomes, parse_reports
from tests.ids import a_partition
from tests.waiting import PATIENCE

P0, P1 = (a_partition("orders", number) for number in range(2))


def report(how: How, partition: int = 0, end: int = 9) -> RangeReport:
    return RangeReport(a_partition("orders", partition), end, how, 5, 50)


def test_reports_of_the_jvm_are_parsed() -> None:
    text = """[{"queue":"orders","partition":1,"end":9,"how":"lent","rows":5,"bytes":50},
              {"queue":"orders","partition":0,"end":9,"how":"refused"}]"""
    lent, refused = parse_reports(text)
    assert lent == RangeReport(P1, 9, How.LENT, 5, 50)
    assert (refused.how, refused.rows) == (How.REFUSED, 0)


def test_a_borrowed_range_does_not_count_as_read_by_its_owner() -> None:
    assert outcomes({P0: 9}, [report(How.OWNER), report(How.LENT), report(How.OWNER)]) == {P0: How.LENT}


def test_a_rejected_read_decides_no_outcome() -> None:
    assert outcomes({P0: 9, P1: 9}, [report(How.REFUSED), report(How.OWNER), report(How.REFUSED, 1)]) == {P0: How.OWNER}


def test_reports_of_another_batch_are_ignored() -> None:
    assert outcomes({P0: 9}, [report(How.LENT, end=5)]) == {}


def test_a_failed_read_counts_neither_as_read_nor_as_rejected() -> None:
    assert outcomes({P0: 9}, [report(How.FAILED)]) == {}
    counts = Counts()
    counts.batch(1, {}, [report(How.FAILED), report(How.REFUSED)])
    assert counts.statistics().reads_refused == 1


def test_the_share_of_ranges_read_on_their_owner() -> None:
    counts = Counts()
    reports = [RangeReport(P0, 9, How.OWNER, 7, 70), RangeReport(P1, 9, How.REFUSED, 0, 0), RangeReport(P1, 9, How.LENT, 3, 30)]
    counts.batch(3, {P0: How.OWNER, P1: How.LENT}, reports)
    found = counts.statistics()
    assert (found.batches, found.ranges_planned, found.ranges_read_on_owner, found.ranges_lent) == (1, 3, 1, 1)
    assert (found.rows, found.bytes, found.reads_refused) == (10, 100, 1)
    assert json.loads(found.to_json())["owner_share"] == 0.333333


def test_a_batch_without_ranges_is_not_counted() -> None:
    counts = Counts()
    counts.batch(0, {}, [])
    assert counts.statistics() == Statistics()
    assert Statistics().owner_share == 1.0


def test_steps_are_timed() -> None:
    counts = Counts()
    for _ in range(2):
        with counts.step("log"):
            pass
    assert counts.step_seconds().keys() == {"log"}


# -- What a fleet's driver serves to Prometheus.


class Counted:
    """A fleet with these counts."""

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


def test_counts_are_served_as_metrics_with_the_group(fleet: Counted, server: MetricsServer) -> None:
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
    fleet.batches = 8
    assert 'baton_fleet_batches_total{group="orders"} 8.0' in scraped(server.port), "each scrape asks again"


def test_metrics_are_served_on_ipv4_and_ipv6(server: MetricsServer) -> None:
    for address in ("127.0.0.1", *(["::1"] if socket.has_dualstack_ipv6() else [])):
        socket.create_connection((address, server.port), PATIENCE).close()


def test_a_closed_metrics_server_answers_no_request(fleet: Counted) -> None:
    made = MetricsServer(0, "orders", fleet)
    made.close()
    with pytest.raises(URLError):
        scraped(made.port)


def test_a_metrics_port_in_use_is_rejected(fleet: Counted, server: MetricsServer) -> None:
    with pytest.raises(RuntimeError, match="in use"):
        MetricsServer(server.port, "payments", fleet)
