"""The driver's Lease and its view of the ledger, on a real API server."""

import json
import time
import uuid
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest

from baton.consumer.api_server import ApiConnection, KubernetesLease
from baton.model import Epoch, MemberId, QueueName, Uid
from baton.model.ledger import MemberEntry
from baton.model.names import driver_lease_name
from baton.model.session import Release
from baton.spark.ledger import WatchedLedger
from baton.spark.session import DriverSession
from cluster import Cluster
from tests.ids import by_queue, epochs
from tests.integration.spark.world import wait_for
from tests.network import Network
from tests.waiting import HOUR

NAMESPACE = "default"


@pytest.fixture
def api(control_plane: Cluster) -> ApiConnection:
    return ApiConnection.from_kubeconfig(str(control_plane.kubeconfig))


@pytest.fixture
def group() -> str:
    return f"orders-{uuid.uuid4().hex[:6]}"


@pytest.fixture
def sessions(api: ApiConnection, group: str) -> Iterator[list[DriverSession]]:
    made: list[DriverSession] = []
    yield made
    for session in made:
        session.close()


def driver(api: ApiConnection, group: str, holder: str, duration: float = 15.0, every: float = 3.0) -> DriverSession:
    return DriverSession(KubernetesLease(api, NAMESPACE, driver_lease_name(group)), group, holder, duration, every)


def entry(member: str, owned: Mapping[int, int]) -> MemberEntry:
    queues = by_queue({"orders": epochs(owned)})
    return MemberEntry("default/orders", MemberId(member), Uid(f"uid-{member}"), 1, True, queues)


def lease(control_plane: Cluster, group: str) -> dict[str, Any]:
    found: dict[str, Any] = control_plane.get("lease", f"{group}-driver", "-n", NAMESPACE)
    return found


def test_the_lease_has_the_drivers_status(
    control_plane: Cluster, api: ApiConnection, group: str, sessions: list[DriverSession]
) -> None:
    session = driver(api, group, "driver-1", duration=2 * HOUR, every=HOUR)  # a release does not wait for the next renewal
    sessions.append(session)
    session.update(app="spark-1", executors=("1", "2"))
    session.acquire()
    found = lease(control_plane, group)
    assert found["metadata"]["labels"] == {"baton.dev/group": group}
    assert found["spec"]["holderIdentity"] == "driver-1"
    assert found["metadata"]["annotations"]["baton.dev/executors"] == "1,2"

    def said(what: str) -> str:
        return str(lease(control_plane, group)["metadata"]["annotations"][f"baton.dev/{what}"])

    session.update(releases=frozenset({Release(Uid("u"), QueueName("orders"), 5, Epoch(12))}), trouble="Redis does not answer")
    wait_for(lambda: json.loads(said("releases")) == {"u": {"orders": "5@12"}}, "the release is told")
    assert said("trouble") == "Redis does not answer"
    session.update(trouble="")
    wait_for(lambda: said("trouble") == "", "the trouble is over")


def test_a_stopped_driver_gives_the_group_up_at_once(
    control_plane: Cluster, api: ApiConnection, group: str, sessions: list[DriverSession]
) -> None:
    first, second = (driver(api, group, name, duration=HOUR) for name in ("driver-1", "driver-2"))
    sessions += [first, second]
    first.update(executors=("1",))
    first.acquire()
    first.close()
    given_up = lease(control_plane, group)
    assert not given_up["spec"].get("holderIdentity")
    assert given_up["metadata"]["annotations"]["baton.dev/executors"] == ""
    second.acquire()
    assert lease(control_plane, group)["spec"]["holderIdentity"] == "driver-2"


def test_a_second_driver_waits_until_a_dead_ones_lease_has_lapsed(
    control_plane: Cluster, api: ApiConnection, group: str, sessions: list[DriverSession], caplog: pytest.LogCaptureFixture
) -> None:
    dead = {
        "apiVersion": "coordination.k8s.io/v1",
        "kind": "Lease",
        "metadata": {"name": f"{group}-driver", "namespace": NAMESPACE},
        "spec": {"holderIdentity": "driver-1", "leaseDurationSeconds": 2, "renewTime": "2026-01-01T00:00:00.000000Z"},
    }
    control_plane.apply(dead)
    second = driver(api, group, "driver-2")
    sessions.append(second)
    began = time.monotonic()
    second.acquire()
    assert time.monotonic() - began >= 2, "the clock of the other machine is not believed"
    assert "driver-1 has the group" in caplog.text
    assert lease(control_plane, group)["spec"]["leaseTransitions"] == 1


def test_a_driver_whose_group_was_taken_over_notices(
    control_plane: Cluster, api: ApiConnection, group: str, sessions: list[DriverSession]
) -> None:
    session = driver(api, group, "driver-1", every=0.2)
    sessions.append(session)
    session.acquire()
    assert session.lost() is None
    patch = json.dumps({"spec": {"holderIdentity": "driver-2"}})
    control_plane.kubectl("patch", "lease", f"{group}-driver", "-n", NAMESPACE, "--type=merge", "-p", patch)
    wait_for(lambda: session.lost() == "driver-2", "the driver has noticed")


def test_a_ledger_is_followed_before_it_exists_and_reported_once_when_deleted(
    control_plane: Cluster, api: ApiConnection, group: str, caplog: pytest.LogCaptureFixture
) -> None:
    view = WatchedLedger(api, NAMESPACE, group)
    try:
        write(control_plane, group, {"exec-1": entry("exec-1", {0: 1}).to_json()})
        wait_for(lambda: set(view.read().entries) == {"exec-1"}, "the ledger is seen")
        write(
            control_plane, group, {"exec-2": entry("exec-2", {0: 2}).to_json(), "group": '{"scale":{"replicas":3,"victims":[]}}'}
        )
        wait_for(lambda: set(view.read().entries) == {"exec-2"}, "a change is seen")
        assert view.read().scale is not None
        control_plane.kubectl("delete", "configmap", f"{group}-assignments", "-n", NAMESPACE)
        wait_for(lambda: f"apply the ConsumerGroup {group} again" in view.trouble() and not view.read().entries, "it is gone")
        assert caplog.text.count(view.trouble()) == 1
        write(control_plane, group, {})
        wait_for(lambda: not view.trouble(), "it is back")
    finally:
        view.close()


def test_the_last_ledger_stays_in_force_without_the_api_server(control_plane: Cluster, group: str, tmp_path: Path) -> None:
    server, own = urlsplit(control_plane.server), tmp_path / "kubeconfig"
    assert server.hostname and server.port
    with Network() as network:
        link = network.link(server.hostname, server.port)
        own.write_text(control_plane.kubeconfig.read_text().replace(f":{server.port}", f":{link.port}"))
        view = WatchedLedger(ApiConnection.from_kubeconfig(str(own)), NAMESPACE, group)
        try:
            write(control_plane, group, {"exec-1": entry("exec-1", {0: 1}).to_json()})
            wait_for(lambda: view.read().entries, "the ledger is seen")
            link.refuse()
            link.cut()
            write(control_plane, group, {"exec-2": entry("exec-2", {0: 2}).to_json()})
            wait_for(lambda: not link.connections, "it is away")
            assert set(view.read().entries) == {"exec-1"}
            link.heal()
            wait_for(lambda: set(view.read().entries) == {"exec-2"}, "the ledger is followed again")
        finally:
            view.close()


def write(control_plane: Cluster, group: str, data: dict[str, str]) -> None:
    """Replace the ledger."""
    ledger = {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": f"{group}-assignments", "namespace": NAMESPACE},
        "data": data,
    }
    exists = control_plane.kubectl("get", "configmap", f"{group}-assignments", "-n", NAMESPACE, "-o", "name", check=False)
    control_plane.kubectl("replace" if exists else "create", "-f", "-", text=json.dumps(ledger))
