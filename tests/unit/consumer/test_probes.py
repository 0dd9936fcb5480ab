"""A consumer's answers to the kubelet's probes over HTTP."""

import socket
import threading
from contextlib import ExitStack, suppress
from pathlib import Path

import pytest
import urllib3

from baton.consumer import AssignmentSource, Consumer
from baton.consumer.pod import Pod
from baton.consumer.probes import LONGEST_REQUEST, MOST_REQUESTS, ProbeServer
from baton.consumer.session import Session
from baton.model.ids import MemberId, Uid
from cluster.ports import free_ports
from tests.in_memory_lease import InMemoryLease
from tests.unit.consumer.test_environment import POD
from tests.unit.consumer.test_running import no_queue
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
    with Consumer(no_queue, source, Uid("u"), session, health_port=port):
        assert asked(port, "/healthz") == (200, "ok")
        assert asked(port, "/readyz") == (503, "the session is not renewed: see the consumer's log")
        server.away = False
        until(lambda: asked(port, "/readyz") == (200, "ok"))
    with pytest.raises(urllib3.exceptions.HTTPError):
        asked(port, "/healthz")


def test_whoever_sends_a_request_bit_by_bit_or_none_keeps_nobody_else_out() -> None:
    with ProbeServer(0, {"/healthz": lambda: ""}) as server, ExitStack() as stack:
        threads, slow = threading.active_count(), []
        for _ in range(4 * MOST_REQUESTS):
            slow.append(stack.enter_context(socket.create_connection(("127.0.0.1", server.port), timeout=30)))
            slow[-1].sendall(b"GET /healthz HTTP/1.1\r\nX-A")
        assert asked(server.port, "/healthz") == (200, "ok")
        assert threading.active_count() <= threads + 1  # that of the check may be about to end
        with suppress(ConnectionError):
            assert slow[0].recv(1) == b""  # the oldest have been closed


def test_whoever_asks_while_a_check_is_under_way_waits_for_the_same_one() -> None:
    begun, may_end = [], threading.Event()

    def check() -> str:
        begun.append(1)
        may_end.wait()
        return ""

    with ProbeServer(0, {"/healthz": check}) as server, ExitStack() as stack:
        asking = [stack.enter_context(socket.create_connection(("127.0.0.1", server.port), timeout=30)) for _ in range(4)]
        for connection in asking:
            connection.sendall(b"GET /healthz HTTP/1.1\r\n\r\n")
        assert asked(server.port, "/other") == (404, "not found")  # it came after them, so they are all being answered
        may_end.set()
        assert all(b"200 OK" in connection.recv(4096) for connection in asking)
    assert len(begun) == 1


def test_a_check_for_which_no_thread_can_be_started_is_answered_and_the_next_one_begins(monkeypatch: pytest.MonkeyPatch) -> None:
    class NoThread(threading.Thread):
        def start(self) -> None:
            raise RuntimeError("can't start new thread")

    with ProbeServer(0, {"/healthz": lambda: ""}) as server:
        with monkeypatch.context() as full:
            full.setattr("baton.consumer.probes.Thread", NoThread)
            assert asked(server.port, "/healthz") == (503, "the check cannot begin: can't start new thread")
        assert asked(server.port, "/healthz") == (200, "ok")


def test_a_check_that_fails_is_answered_and_the_next_one_begins() -> None:
    failing: list[str] = ["once"]

    def check() -> str:
        if failing:
            raise ValueError(failing.pop())
        return ""

    with ProbeServer(0, {"/healthz": check}) as server:
        assert asked(server.port, "/healthz") == (503, "the check failed: ValueError('once')")
        assert asked(server.port, "/healthz") == (200, "ok")


@pytest.mark.parametrize(
    ("request_", "status"),
    [
        (b"POST /healthz HTTP/1.1\r\n\r\n", b"405"),
        (b"nonsense\r\n\r\n", b"404"),
        (b"\xff\xfe\r\n\r\n", b"404"),
        (b"GET /healthz HTTP/1.1\r\nX: " + b"x" * LONGEST_REQUEST + b"\r\n\r\n", b""),
    ],
)
def test_an_odd_request_is_answered_or_closed(request_: bytes, status: bytes) -> None:
    with ProbeServer(0, {"/healthz": lambda: ""}) as server:
        with socket.create_connection(("127.0.0.1", server.port), timeout=30) as connection, suppress(ConnectionError):
            connection.sendall(request_)
            assert connection.recv(4096).partition(b" ")[2][:3] == status
        assert asked(server.port, "/healthz") == (200, "ok")
