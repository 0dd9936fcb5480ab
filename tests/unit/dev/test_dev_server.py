"""The stand-in for the API server under `baton dev`, used by the consumer's client."""

import os
import sys
from collections.abc import Iterator

import pytest
from urllib3.exceptions import HTTPError

from baton.consumer.api_server import ApiConnection, ApiRefused, KubernetesLease
from baton.dev.server import DevServer
from tests.processes import ChildProcess

PATH = "/apis/coordination.k8s.io/v1/namespaces/dev/leases"


class Served:
    def __init__(self) -> None:
        self.changes = 0
        self.server = DevServer("dev", "orders", self._changed)

    def _changed(self) -> None:
        self.changes += 1

    def connection(self, token: str | None = None) -> ApiConnection:
        word = self.server.token if token is None else token
        return ApiConnection.from_environment({"BATON_API_SERVER": self.server.url, "BATON_API_TOKEN": word})


@pytest.fixture
def served() -> Iterator[Served]:
    made = Served()
    made.server.start()
    yield made
    made.server.close()


def test_a_lease_is_written_once_per_version(served: Served) -> None:
    lease = KubernetesLease(served.connection(), "dev", "baton-orders-1")
    assert lease.read() is None
    first = lease.write({"metadata": {}, "spec": {"holderIdentity": "a"}})
    assert first is not None and lease.read() == first
    assert lease.write({"metadata": {}, "spec": {}}) is None, "it is there"
    second = lease.write({**first, "spec": {"holderIdentity": "b"}})
    assert second is not None and served.server.leases() == [second]
    assert lease.write(first) is None, "it has changed meanwhile"
    assert served.changes == 2


def test_processes_have_unique_names_and_their_leases_go_with_them(served: Served) -> None:
    ask = served.connection().request
    first, second = ask("POST", "/processes"), ask("POST", "/processes")
    assert (first["name"], second["name"]) == ("orders-1", "orders-2") and first["uid"] != second["uid"]
    KubernetesLease(served.connection(), "dev", "baton-orders-1").write({"metadata": {}, "spec": {}})
    ask("PATCH", "/processes/orders-1")
    assert [one.ending for one in served.server.processes()] == [True, False]
    ask("DELETE", "/processes/orders-1")
    assert [one.name for one in served.server.processes()] == ["orders-2"] and served.server.leases() == []
    again = ask("POST", "/processes")
    assert again["name"] == "orders-1" and again["uid"] != first["uid"]


def test_a_process_may_choose_its_name(served: Served) -> None:
    ask = served.connection().request
    chosen = ask("POST", "/processes", {"name": "mine"})
    ask("POST", "/processes")
    lease = KubernetesLease(served.connection(), "dev", "baton-mine")
    lease.write({"metadata": {}, "spec": {"holderIdentity": chosen["uid"]}})
    ask("PATCH", "/processes/orders-1")
    served.server.ledger = {"group": "{}"}
    with pytest.raises(ApiRefused, match="409"):
        ask("POST", "/processes", {"name": "mine"})
    shown = ask("GET", "/group")
    assert [(one["name"], one["ending"], one["session"]) for one in shown["processes"]] == [
        ("mine", False, True),
        ("orders-1", True, False),
    ]
    assert shown["ledger"] == {"group": "{}"}


def test_a_killed_processs_name_is_free_again(served: Served) -> None:
    ask = served.connection().request
    ended = ChildProcess([sys.executable, "-c", ""])
    ended.wait()
    before = ask("POST", "/processes", {"name": "mine", "pid": ended.pid})
    KubernetesLease(served.connection(), "dev", "baton-mine").write({"metadata": {}, "spec": {"holderIdentity": before["uid"]}})
    again = ask("POST", "/processes", {"name": "mine", "pid": os.getpid()})
    assert again["uid"] != before["uid"] and served.server.leases() == []
    with pytest.raises(ApiRefused, match="409"):
        ask("POST", "/processes", {"name": "mine", "pid": os.getpid()})


def test_a_request_to_an_ended_baton_dev_names_the_cure() -> None:
    ended = Served()
    ended.server.start()
    ended.server.close()
    with pytest.raises(HTTPError, match="`baton dev` has ended: start it again"):
        ended.connection().request("GET", "/group")


def test_a_drivers_lease_goes_with_its_process(served: Served) -> None:
    driver = served.connection().request("POST", "/processes")
    lease = KubernetesLease(served.connection(), "dev", "orders-driver")
    lease.write({"metadata": {}, "spec": {"holderIdentity": driver["uid"]}})
    KubernetesLease(served.connection(), "dev", "baton-other").write({"metadata": {}, "spec": {"holderIdentity": "another"}})
    served.connection().request("DELETE", f"/processes/{driver['name']}")
    assert [one["metadata"]["name"] for one in served.server.leases()] == ["baton-other"]


def test_a_request_after_the_end_reports_no_change() -> None:
    """Ctrl-C at `baton dev` failed with "Event loop is closed" if a Lease was renewed at that moment."""
    late = Served()
    late.server.start()
    late.server.close()
    assert late.server.answer("POST", "/processes", {})[0] == 200
    assert late.changes == 0


@pytest.mark.parametrize("token", ["", "another"])
def test_a_request_without_the_token_is_refused(served: Served, token: str) -> None:
    with pytest.raises(ApiRefused, match="401"):
        served.connection(token).request("POST", "/processes")
    assert served.server.processes() == []


@pytest.mark.parametrize(("method", "path"), [("GET", "/api"), ("DELETE", "/processes/none"), ("PUT", f"{PATH}/none")])
def test_a_missing_path_is_404(served: Served, method: str, path: str) -> None:
    with pytest.raises(ApiRefused, match="404"):
        served.connection().request(method, path)
    assert served.changes == 0
