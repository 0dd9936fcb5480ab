"""/metrics, /healthz and /readyz."""

import json
import socket
import threading
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass, field
from typing import Any

import pytest
from prometheus_client import CollectorRegistry, Gauge

from baton.api import Condition, ConditionStatus, ConsumerGroupStatus, PartitionedQueueSpec, ShownState
from baton.controller.backlog import Backlog
from baton.controller.group_observation import QueueFacts, QueueSight
from baton.controller.health import HealthServer, LagPage, PortTaken
from baton.controller.metrics import Metrics, Snapshot
from baton.kube.clock import ApiServerClock
from baton.kube.objects import QueueView
from baton.model.ids import QueueName
from baton.queues.protocol import QueueCheck
from tests.waiting import PATIENCE


@dataclass
class Served:
    clock: ApiServerClock = field(default_factory=ApiServerClock)
    metrics: Metrics = field(init=False)
    trouble: str | None = None
    leads: bool = True
    leader: str = ""
    port: int = 0

    def __post_init__(self) -> None:
        self.metrics = Metrics(self.clock)

    def get(self, path: str) -> tuple[int, str]:
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{self.port}{path}", timeout=PATIENCE) as answer:
                return answer.status, answer.read().decode()
        except urllib.error.HTTPError as error:
            return error.code, error.read().decode()


@pytest.fixture
def served() -> Iterator[Served]:
    one = Served()
    page = LagPage(one.metrics, lambda: one.leads, lambda: one.leader)
    server = HealthServer("127.0.0.1", 0, one.metrics.registry, alive=lambda: one.trouble, ready=lambda: "not yet", page=page)
    one.port = server.port
    server.start()
    yield one
    server.close()


@pytest.mark.parametrize("whole", [True, False], ids=["reads all of it", "hangs up"])
def test_a_client_that_reads_a_large_page_slowly_leaves_no_traceback(
    served: Served, caplog: pytest.LogCaptureFixture, whole: bool
) -> None:
    many = Gauge("many", "Many", ["name"], registry=served.metrics.registry)
    for number in range(2000):
        many.labels(f"{number:04096}").set(1)
    with socket.create_connection(("127.0.0.1", served.port), PATIENCE) as client:
        client.sendall(b"GET /metrics HTTP/1.0\r\n\r\n")
        received = len(client.recv(1))
        while whole and (more := client.recv(2**20)):
            received += len(more)
    assert received > 8_000_000 or not whole
    assert served.get("/healthz") == (200, "ok\n")
    assert "Traceback" not in caplog.text and "AttributeError" not in caplog.text


def test_health_checks_return_what_is_wrong(served: Served) -> None:
    assert served.get("/healthz") == (200, "ok\n")
    served.trouble = "stuck"
    assert served.get("/healthz") == (503, "stuck\n")
    assert served.get("/readyz") == (503, "not yet\n")
    assert served.get("/else")[0] == 404


GROWS = PartitionedQueueSpec.model_validate({"partitions": 8, "source": {"type": "Redis", "redis": {"url": "redis://r"}}})
VIEW = QueueView("shop", "orders", "u", 1, GROWS)


def sight(backlog: Backlog | None = None, partitions: int | None = None, **check: Any) -> dict[str, QueueSight]:
    """The group's only queue."""
    facts = QueueFacts(partitions, check=QueueCheck(**check))
    return {"orders": QueueSight(QueueName("orders"), True, VIEW, facts, backlog=backlog or Backlog())}


def seen(served: Served, lag: dict[int, int]) -> Backlog:
    """Twice: half a minute ago, and now, when 60 more entries were done."""
    backlog, now = Backlog(), served.clock.ticks()
    backlog.saw(QueueCheck(lag=lag, finished=100), now - 30)
    backlog.saw(QueueCheck(lag=lag, finished=160), now)
    return backlog


def test_a_group_is_scraped_until_it_is_forgotten(served: Served) -> None:
    key = ("shop", "orders")
    queues = sight(seen(served, {3: 5}), partitions=4, stale_refused={3: 2})
    ready = Condition(type="Ready", status=ConditionStatus.FALSE, reason="QueueUnreachable", last_transition_time="")
    status = ConsumerGroupStatus(state=ShownState.HOLDDOWN, members=3, standbys=1, moves=7, conditions=[ready])
    snapshot = Snapshot(status, {("orders", "Ready"): 12}, queues=queues)
    served.metrics.group(key, snapshot)
    served.metrics.pause.labels(*key).observe(0.2)
    _, page = served.get("/metrics")
    for line in (
        'baton_group_state{group="orders",namespace="shop",state="Holddown"} 1.0',
        'baton_group_state{group="orders",namespace="shop",state="Ready"} 0.0',
        'baton_group_ready{group="orders",namespace="shop",reason="QueueUnreachable"} 0.0',
        'baton_members{group="orders",namespace="shop",role="active"} 2.0',
        'baton_partitions{group="orders",namespace="shop",queue="orders",state="Ready"} 12.0',
        'baton_queue_scale_status{group="orders",namespace="shop",queue="orders",status="ScalingUp"} 1.0',
        'baton_queue_scale_status{group="orders",namespace="shop",queue="orders",status="Ready"} 0.0',
        'baton_moves_total{group="orders",namespace="shop"} 7.0',
        'baton_queue_lag{group="orders",namespace="shop",partition="3",queue="orders"} 5.0',
        'baton_group_lag{group="orders",namespace="shop"} 5.0',
        'baton_group_lag_seconds{group="orders",namespace="shop"} 2.5',
        'baton_stale_refused_total{group="orders",namespace="shop",queue="orders"} 2.0',
        'baton_pause_seconds_count{group="orders",namespace="shop"} 1.0',
    ):
        assert line in page
    served.metrics.forget(key)
    assert 'group="orders"' not in served.get("/metrics")[1]


def totals(served: Served) -> set[str]:
    """Of the queues and of the ledger, as they are scraped."""
    counted = ("stale_refused", "dead_letters", "vanished", "moves", "moves_lower_bound", "deadline_misses")
    lines = served.get("/metrics")[1].splitlines()
    return {line for line in lines if line.startswith(tuple(f"baton_{one}_total{{" for one in counted))}


def test_unknown_totals_have_no_sample(served: Served) -> None:
    """As after a failover: a 0 before the total would look like an increase by all of it."""
    ready = Condition(type="Ready", status=ConditionStatus.FALSE, reason="LedgerRefused", last_transition_time="")
    halted = ConsumerGroupStatus(state=ShownState.NOT_READY, conditions=[ready])
    served.metrics.group(("shop", "orders"), Snapshot(halted, queues=sight()))
    assert totals(served) == set()
    status = ConsumerGroupStatus(moves=7, lower_bound=6, deadline_misses=0)
    queues = sight(stale_refused={0: 0}, dead_letters={0: 1, 1: 2}, vanished=299)
    served.metrics.group(("shop", "orders"), Snapshot(status, queues=queues))
    of = 'group="orders",namespace="shop"'
    assert totals(served) == {
        f'baton_stale_refused_total{{{of},queue="orders"}} 0.0',
        f'baton_dead_letters_total{{{of},queue="orders"}} 3.0',
        f'baton_vanished_total{{{of},queue="orders"}} 299.0',
        f"baton_moves_total{{{of}}} 7.0",
        f"baton_moves_lower_bound_total{{{of}}} 6.0",
        f"baton_deadline_misses_total{{{of}}} 0.0",
    }


def test_the_leader_serves_the_lag_of_a_group(served: Served) -> None:
    path = "/groups/shop/orders/lag"
    assert served.get(path)[0] == 404
    served.metrics.group(("shop", "orders"), Snapshot(queues=sight()))
    code, told = served.get(path)
    assert (code, json.loads(told)) == (503, {"error": "the lag of shop/orders is not known: look at its queues"})
    served.metrics.group(("shop", "orders"), Snapshot(queues=sight(seen(served, {0: 30, 1: 10}))))
    code, told = served.get(path)
    assert (code, json.loads(told)) == (
        200,
        {"namespace": "shop", "group": "orders", "lag": 40, "lagSeconds": 20.0, "waitingSeconds": None, "partitionsWithLag": 2},
    )
    served.leads = False
    assert served.get(path)[0] == 503, "no leader is known"
    served.leader = "10.0.0.1:8080\r\nSet-Cookie: a=b"
    assert served.get(path)[0] == 503, "no address"


def test_a_follower_redirects_to_the_leader(served: Served) -> None:
    served.metrics.group(("shop", "orders"), Snapshot(queues=sight(seen(served, {0: 7}))))
    page = LagPage(Metrics(served.clock), lambda: False, lambda: f"127.0.0.1:{served.port}")
    follower = HealthServer("127.0.0.1", 0, CollectorRegistry(), alive=lambda: None, ready=lambda: None, page=page)
    follower.start()
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{follower.port}/groups/shop/orders/lag", timeout=PATIENCE) as answer:
            assert json.load(answer)["lag"] == 7
    finally:
        follower.close()


def test_probes_are_answered_while_one_page_at_a_time_is_made() -> None:
    registry, going_on, making = CollectorRegistry(), threading.Event(), []

    def look() -> float:
        making.append(threading.current_thread().name)
        begun.set()
        assert going_on.wait(PATIENCE)
        return 1.0

    begun = threading.Event()
    Gauge("slow", "Takes its time", registry=registry).set_function(look)
    server = HealthServer("127.0.0.1", 0, registry, lambda: None, lambda: None)
    server.start()
    with ExitStack() as stack:
        asking = [connected(stack, server.port) for _ in range(3)]
        for one in asking:
            one.sendall(b"GET /metrics HTTP/1.1\r\n\r\n")
        assert begun.wait(PATIENCE)
        assert Served(port=server.port).get("/healthz") == (200, "ok\n")
        assert len(making) == 1
        going_on.set()
        assert all(one.recv(100).startswith(b"HTTP/1.0 200 OK\r\n") for one in asking)
    assert len(set(making)) == 1
    server.close()


def connected(stack: ExitStack, port: int) -> socket.socket:
    return stack.enter_context(socket.create_connection(("127.0.0.1", port), timeout=PATIENCE))


def test_a_port_in_use_is_named(served: Served) -> None:
    with pytest.raises(PortTaken, match=str(served.port)):
        HealthServer("127.0.0.1", served.port, served.metrics.registry, alive=lambda: None, ready=lambda: None)
