"""A session's Lease: renewals, releases, an unreachable API server, one driver at a time, and a silent watch."""

import socket
import threading
import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from functools import partial
from types import SimpleNamespace
from typing import Any

import pytest
import urllib3

from baton.consumer import LeaseStore, Session
from baton.consumer.api_server import WATCH_FOR, ApiConnection, session_of
from baton.consumer.session import renewed
from baton.dev.server import DevServer
from baton.model.ids import Epoch, QueueName, Uid
from baton.model.lease import Manifest
from baton.model.names import GROUP_LABEL, TROUBLE_ANNOTATION
from baton.model.session import Release
from tests.in_memory_lease import InMemoryLease
from tests.listener import Listener
from tests.waiting import HOUR, PATIENCE, until

ORDERS = QueueName("orders")
NOW = datetime(2026, 11, 21, 9, 48, 0, tzinfo=UTC)


def release(partition: int, epoch: int = 1) -> Release:
    return Release(Uid("uid-0"), ORDERS, partition, Epoch(epoch))


@pytest.fixture
def server() -> InMemoryLease:
    return InMemoryLease()


@pytest.fixture
def session(server: InMemoryLease) -> Iterator[Session]:
    session = Session(server, holder="uid-0", group="orders", duration=15, every=HOUR)
    yield session
    session.close()


def test_the_lease_names_the_pod_its_group_and_its_length(server: InMemoryLease, session: Session) -> None:
    session.start()
    until(lambda: server.lease is not None)
    assert server.lease is not None
    assert server.lease["metadata"]["labels"] == {GROUP_LABEL: "orders"}
    assert server.lease["spec"]["holderIdentity"] == "uid-0"
    assert server.lease["spec"]["leaseDurationSeconds"] == 15
    assert not session.lapsed()


def test_a_fractional_lease_duration_is_rounded_up() -> None:
    """Otherwise the operator would reassign its partitions before the consumer knows that its Lease has expired."""
    told = renewed(None, "uid-0", "orders", 2.4, datetime.now(UTC), {})
    assert told["spec"]["leaseDurationSeconds"] == 3


def test_each_renewal_is_one_request(server: InMemoryLease) -> None:
    session = Session(server, holder="uid-0", group="orders", every=0.02)
    session.start()
    until(lambda: len(server.writes) > 10)
    session.close()
    assert server.requests <= len(server.writes) + 2
    renewals = [lease["spec"]["renewTime"] for lease in server.writes]
    assert renewals == sorted(set(renewals))
    assert len({lease["spec"]["acquireTime"] for lease in server.writes}) == 1


def test_releases_are_written_at_once_and_together(server: InMemoryLease, session: Session) -> None:
    session.start()
    until(lambda: server.lease is not None)
    server.gate = threading.Event()
    before = len(server.writes)
    for partition in range(20):
        session.release([release(number) for number in range(partition + 1)])
    server.gate.set()
    until(lambda: len(server.releases()) == 20)
    assert len(server.writes) - before <= 2


def test_an_unchanged_release_writes_nothing(server: InMemoryLease, session: Session) -> None:
    session.start()
    session.release([release(1), release(2)])
    until(lambda: server.lease is not None and len(server.releases()) == 2)
    count = len(server.writes)
    session.release([release(2), release(1)])
    session.release([release(2)])
    until(lambda: len(server.releases()) == 1)
    assert len(server.writes) == count + 1


def test_a_session_outlives_an_api_server_that_is_away(server: InMemoryLease) -> None:
    session = Session(server, holder="uid-0", group="orders", duration=0.2, every=0.05)
    server.away = True
    session.start()
    session.release([release(3)])
    until(session.lapsed)
    server.away = False
    until(lambda: not session.lapsed())
    assert server.releases() == {release(3)}
    session.close()


def test_a_deleted_or_changed_lease_is_written_again(server: InMemoryLease) -> None:
    session = Session(server, holder="uid-0", group="orders", every=0.02)
    session.start()
    until(lambda: server.lease is not None)
    server.delete()
    until(lambda: server.lease is not None)
    assert server.lease is not None
    server.lease["metadata"]["annotations"]["of-another-client"] = "kept"
    server.lease["metadata"]["resourceVersion"] = "changed"
    count = len(server.writes)
    until(lambda: len(server.writes) > count)
    assert server.lease["metadata"]["annotations"]["of-another-client"] == "kept"
    session.close()


def test_a_pod_takes_the_lease_of_an_earlier_pod_of_its_name(server: InMemoryLease, session: Session) -> None:
    server.write(renewed(None, "the one before", "orders", 15, NOW, {}))
    session.start()
    until(lambda: server.holder() == "uid-0")
    assert server.lease is not None
    assert server.lease["spec"]["leaseTransitions"] == 1


def test_trouble_of_an_earlier_process_is_cleared(server: InMemoryLease, session: Session) -> None:
    """A process was killed while its queue was unreachable. The new process reaches the queue, so the group is Ready again."""
    server.write(renewed(None, "uid-0", "orders", 15, NOW, {TROUBLE_ANNOTATION: "Redis does not answer"}))
    session.start()
    until(lambda: len(server.writes) > 1)
    assert not server.writes[-1]["metadata"]["annotations"][TROUBLE_ANNOTATION]


def test_the_last_release_is_written_before_the_end(server: InMemoryLease, session: Session) -> None:
    session.start()
    until(lambda: server.lease is not None)
    session.release([release(7)])
    session.close()
    assert server.releases() == {release(7)}
    assert server.holder() == "uid-0", "the pod is still there: its releases count"


def test_a_suspended_node_is_a_gap_of_the_session() -> None:
    """Meanwhile its monotonic clock stands still, and only the API server's answers show how long."""
    suspended = [0.0]
    server = DevServer("dev", "orders", lambda: None, lambda: time.time() + suspended[0])
    server.start()
    api = ApiConnection.from_environment({"BATON_API_SERVER": server.url, "BATON_API_TOKEN": server.token})
    pod: Any = SimpleNamespace(name="orders-0", uid="uid-0", namespace="dev", group="orders")
    session = session_of(pod, api)
    try:
        session.start()
        for why in ("started", "renewed", "suspended", "renewed again"):
            suspended[0] += HOUR * (why == "suspended")
            session.trouble(why)
            until(partial(told, server, why))
        session.close()
        assert session.gaps == 2, "with the one of its start"
    finally:
        server.close()


def told(server: DevServer, why: str) -> bool:
    return [lease["metadata"]["annotations"][TROUBLE_ANNOTATION] for lease in server.leases()] == [why]


class Way:
    """One driver's connection to the API server, which can be cut."""

    def __init__(self, server: InMemoryLease) -> None:
        self._server = server
        self.cut = False

    def read(self) -> Manifest | None:
        self._pass()
        return self._server.read()

    def write(self, lease: Manifest) -> Manifest | None:
        self._pass()
        return self._server.write(lease)

    def _pass(self) -> None:
        if self.cut:
            raise ConnectionError("no route to host")


def driver(server: LeaseStore, name: str, duration: float = 15, gone: Callable[[str], bool] | None = None) -> Session:
    return Session(server, holder=name, group="orders", duration=duration, every=0.05, exclusive=True, gone=gone)


def test_a_second_driver_is_told_who_has_the_group(server: InMemoryLease) -> None:
    first, second = driver(server, "first"), driver(server, "second")
    assert first.acquire(1) is None
    assert second.acquire(0) == "first"
    assert second.acquire(given_up=lambda: True) == "first"
    assert server.holder() == "first"
    first.close(give_up=True)
    assert second.acquire(PATIENCE) is None
    assert server.holder() == "second"
    second.close()


def test_a_driver_takes_over_from_a_silent_one_which_notices(server: InMemoryLease) -> None:
    way = Way(server)
    first, second = driver(way, "first", duration=1), driver(server, "second", duration=1)
    assert first.acquire(1) is None
    way.cut = True
    assert second.acquire(PATIENCE) is None
    assert first.lapsed()
    way.cut = False
    until(lambda: first.lost() == "second")
    assert server.holder() == "second"
    first.close()
    second.close()


def forbidden(holder: str) -> bool:
    raise PermissionError("403")


@pytest.mark.parametrize(
    ("name", "gone", "holder"),
    [
        ("before", None, None),
        ("next", lambda holder: holder == "before", None),
        ("next", lambda holder: False, "before"),
        ("next", forbidden, "before"),
    ],
    ids=["restarted", "its pod is gone", "its pod is there", "unknown"],
)
def test_the_lease_of_an_ended_driver_is_free_at_once_if_its_pod_is_gone_or_the_same(
    server: InMemoryLease, name: str, gone: Callable[[str], bool] | None, holder: str | None
) -> None:
    for one, expected in ((driver(server, "before"), None), (driver(server, name, gone=gone), holder)):
        assert one.acquire(0) == expected
        one.close()


def test_no_driver_starts_while_the_api_server_is_away(server: InMemoryLease) -> None:
    server.away = True
    assert driver(server, "first").acquire(0) == "an unknown holder (the API server does not answer)"


# -- A watch whose connection died silently.


EVENT = b'{"type":"MODIFIED","object":{}}\n'
ANSWER = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n%x\r\n%s\r\n" % (len(EVENT), EVENT)


@pytest.fixture
def silent() -> Iterator[Listener]:
    """A server that sends one event and then stays silent."""
    kept: list[socket.socket] = []

    def taken(connection: socket.socket) -> None:
        kept.append(connection)
        connection.sendall(ANSWER)

    listener = Listener(taken)
    yield listener
    listener.close()
    for connection in kept:
        connection.close()


def test_a_watch_silent_for_longer_than_it_lasts_fails(silent: Listener) -> None:
    url = silent.url.replace("redis", "http").removesuffix("/0")
    api = ApiConnection(url, urllib3.PoolManager(), lambda: None)
    heard: list[object] = []
    with api.watch("/api/v1/configmaps", seconds=0.2) as watch, pytest.raises(urllib3.exceptions.ReadTimeoutError):
        heard.extend(watch)
    assert heard == [{"type": "MODIFIED", "object": {}}]
    assert WATCH_FOR <= 30, "what a driver does not hear of for so long, its executors do not work on"
