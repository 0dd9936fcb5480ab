"""What a consumer answers to the kubelet's probes, by real HTTP."""

from pathlib import Path

import pytest
import urllib3

from baton.consumer import AssignmentSource, Consumer
from baton.consumer.pod import Pod
from baton.consumer.probes import ProbeServer
from baton.consumer.session import Session
from baton.model.ids import MemberId, Uid
from cluster.ports import free_ports
from tests.in_memory_lease import InMemoryLease
from tests.unit.consumer.test_environment import POD
from tests.unit.consumer.test_waiter import EmptyQueue
from tests.waiting import until


def asked(port: int, path: str) -> tuple[int, str]:
    answer = urllib3.request("GET", f"http://127.0.0.1:{port}{path}", retries=False, timeout=30)
    return answer.status, answer.data.decode().strip()


def test_a_check_answers_200_or_503_with_what_is_wrong() -> None:
    wrong = {"said": ""}
    with ProbeServer(0, {"/healthz": lambda: wrong["said"]}) as server:
        assert asked(server.port, "/healthz") == (200, "ok")
        assert asked(server.port, "/healthz?verbose") == (200, "ok")
        assert asked(server.port, "/other") == (404, "not found")
        wrong["said"] = "the loop – hangs"
        assert asked(server.port, "/healthz") == (503, "the loop – hangs")


def test_a_port_that_is_taken_is_named() -> None:
    with ProbeServer(0, {}) as server, pytest.raises(RuntimeError, match=f"BATON_HEALTH_PORT {server.port} cannot be served: "):
        ProbeServer(server.port, {}).__enter__()


@pytest.mark.parametrize("port", ["http", "0", "65536", "-1", "8081/tcp"])
def test_a_port_that_is_none_is_named(port: str) -> None:
    with pytest.raises(ValueError, match=f"BATON_HEALTH_PORT is '{port}': set it to the port that the pod's probes name"):
        Pod.from_environment(POD | {"BATON_HEALTH_PORT": port})
    assert Pod.from_environment(POD | {"BATON_HEALTH_PORT": "8081"}).health_port == 8081
    assert Pod.from_environment(POD).health_port is None


def test_a_consumer_is_ready_when_the_operator_hears_of_it_and_answers_while_it_runs(tmp_path: Path) -> None:
    server, port = InMemoryLease(), next(free_ports())
    server.away = True
    session = Session(server, holder="u", group="orders")
    source = AssignmentSource(tmp_path, MemberId("pod"), Uid("u"))
    with Consumer(lambda name: EmptyQueue(), source, Uid("u"), session, health_port=port):
        assert asked(port, "/healthz") == (200, "ok")
        assert asked(port, "/readyz") == (503, "the session is not renewed: see the consumer's log")
        server.away = False
        until(lambda: asked(port, "/readyz") == (200, "ok"))
    with pytest.raises(urllib3.exceptions.HTTPError):
        asked(port, "/healthz")
