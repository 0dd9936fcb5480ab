"""The API server is unreachable for longer than the driver's Lease lasts: on a real Spark and a real Redis, under load."""

import signal
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from pyspark.sql import SparkSession

from baton import consumer
from baton.consumer.api_server import ApiConnection, KubernetesLease
from baton.dev.server import DevServer
from baton.model.lease import holder_of
from baton.model.names import EXECUTORS_ANNOTATION, driver_lease_name
from baton.spark import Directory, Fleet
from baton.spark.session import DriverSession
from tests.file_sink import written
from tests.integration.spark.world import Worlds, wait_for
from tests.network import Link, Network

TERM = 1.0
"""Seconds of the driver's Lease."""


@pytest.fixture
def api() -> Iterator[DevServer]:
    server = DevServer("default", "orders", lambda: None)
    server.start()
    yield server
    server.close()


@pytest.fixture
def link(api: DevServer) -> Iterator[Link]:
    """The link between drivers and the API server."""
    at = urlsplit(api.url)
    assert at.hostname and at.port
    with Network() as network:
        yield network.link(at.hostname, at.port)


def lease(api: DevServer, link: Link, group: str) -> KubernetesLease:
    where = {"BATON_API_SERVER": f"http://127.0.0.1:{link.port}", "BATON_API_TOKEN": api.token}
    return KubernetesLease(ApiConnection.from_environment(where), "default", driver_lease_name(group))


def named(api: DevServer) -> str:
    """The executors in the driver's Lease."""
    [found] = api.leases()
    return str(found["metadata"]["annotations"][EXECUTORS_ANNOTATION])


class WatchedSession(DriverSession):
    asked = 0
    """How often a query asked whether the Lease has lapsed."""

    def lapsed(self) -> bool:
        self.asked += 1
        return super().lapsed()


def test_a_query_that_begins_without_the_api_server_waits_for_it(
    world: Worlds, spark: SparkSession, api: DevServer, link: Link, tmp_path: Path
) -> None:
    """Another driver may have taken the Lease, and a new query number would end that driver's query."""
    orders = world(2)
    session = WatchedSession(lease(api, link, orders.name), orders.name, "driver-1", TERM, TERM / 8)
    environment = Directory(orders.ledger, session=session)
    with Fleet(spark, group=orders.name, queues={orders.name: orders.url}, environment=environment):
        wait_for(lambda: named(api).count(",") == 1, "the fleet is at work")
        link.refuse()
        link.cut()
        wait_for(session._session.lapsed, "its Lease has lapsed")
        query = orders.to_files(tmp_path / "table")
        orders.send(*map(str, range(200)))
        wait_for(lambda: session.asked > 2, "the query asks again and again")
        assert query.isActive and query.lastProgress is None
        link.heal()
        wait_for(orders.committed, "all is read")
    assert len(written(tmp_path / "table")) == 200


def test_batches_continue_without_the_api_server_and_hand_offs_wait(
    world: Worlds, spark: SparkSession, api: DevServer, link: Link, tmp_path: Path
) -> None:
    orders = world(2)
    table, sent = tmp_path / "table", 0

    def send(partition: int) -> None:
        nonlocal sent
        orders.send_to(partition, *map(str, range(200)))
        sent += 200

    session = DriverSession(lease(api, link, orders.name), orders.name, "driver-1", TERM, TERM / 8)
    environment = Directory(orders.ledger, session=session)
    with Fleet(spark, group=orders.name, queues={orders.name: orders.url}, environment=environment, grace=60.0) as fleet:
        orders.to_files(table)
        send(0)
        wait_for(lambda: orders.committed() and named(api).count(",") == 1, "the fleet is at work")

        link.refuse()
        link.cut()
        wait_for(session._session.lapsed, "its Lease has lapsed")
        [before] = api.leases()  # not sooner: a renewal may have been on its way
        send(0)
        send(1)
        wait_for(orders.committed, "batches go on")
        other = consumer.Session(lease(api, link, orders.name), holder="driver-2", group=orders.name, exclusive=True)
        assert other.acquire(timeout=0) is not None, "no other driver gets the group"

        victim, survivor = orders.owner(0), orders.owner(1)
        orders.signal(victim, signal.SIGKILL)
        wait_for(lambda: fleet.view().partitions_waiting == 1 and len(orders.ids()) == 2, "Spark has replaced it")
        send(0)
        send(1)
        wait_for(lambda: not orders.lag()[1], "the partition of the other executor is read")
        assert orders.lag()[0] == 200, "that of the dead one waits for an owner: the new executor is not announced"
        assert api.leases() == [before]

        link.heal()
        wait_for(lambda: victim not in named(api).split(","), "the operator hears of it")
        [after] = api.leases()
        assert holder_of(after) == "driver-1"
        orders.give({0: survivor})
        wait_for(orders.committed, "all is read")
    rows = written(table)
    assert len(rows) == sent
    assert set(rows.values()) == {1}
