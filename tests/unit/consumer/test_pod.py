"""A pod's environment, whose errors name what to set, and its answers to the kubelet's probes."""

import socket
import threading
from contextlib import ExitStack
from pathlib import Path

import pytest
import urllib3

from baton.consumer import AssignmentSource, Consumer, Pod
from baton.consumer.api_server import ApiConnection
from baton.consumer.probes import ProbeServer
from baton.consumer.session import Session
from baton.model.ids import MemberId, Uid
from baton.queues import consumer_side
from baton.queues.kind import QueueKind
from baton.queues.kinds import KINDS
from cluster.ports import free_ports
from tests.in_memory_lease import InMemoryLease
from tests.unit.consumer.test_running import no_queue
from tests.waiting import until

POD = {"BATON_GROUP": "orders", "POD_NAME": "orders-0", "POD_NAMESPACE": "shop", "POD_UID": "a-uid"}


def started_with(monkeypatch: pytest.MonkeyPatch, **variables: str) -> str:
    """Return the error of a pod's consumer with these variables."""
    for name, value in (POD | variables).items():
        monkeypatch.setenv(name, value)
    with pytest.raises(ValueError) as problem:
        Consumer.from_environment()
    return str(problem.value)


@pytest.mark.parametrize(
    ("url", "said"),
    [
        ("", "set BATON_REDIS_URL or BATON_KAFKA_URL in the container's env"),
        ("redis.shop:6379", "BATON_REDIS_URL cannot be used. The queue's URL is not a Redis URL"),
        ("redis://redis/orders", "does not end with the number of a database"),
        ("redis://redis/?protocol=3", "has the unknown option protocol: use"),
        ("redis://redis/?decode_responses=true", "has the unknown option decode_responses: use"),
    ],
)
def test_an_unusable_url_is_reported_before_the_consumer_starts(url: str, said: str, monkeypatch: pytest.MonkeyPatch) -> None:
    problem = started_with(monkeypatch, BATON_REDIS_URL=url)
    assert "BATON_REDIS_URL" in problem and said in problem


def test_a_missing_variable_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    assert "set POD_UID in the container's env" in started_with(monkeypatch, POD_UID="")


def test_a_missing_service_account_names_the_cure(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv("KUBERNETES_SERVICE_HOST", raising=False)
    assert "this is no pod of a cluster" in started_with(monkeypatch, BATON_REDIS_URL="redis://redis")
    server = {"KUBERNETES_SERVICE_HOST": "fd00::1", "KUBERNETES_SERVICE_PORT": "443"}
    with pytest.raises(ValueError, match="do not set automountServiceAccountToken to false"):
        ApiConnection.in_pod(tmp_path, server)


@pytest.mark.parametrize(
    ("variable", "value", "cure"),
    [
        *(("BATON_GRACE_SECONDS", wrong, "the pod's terminationGracePeriodSeconds") for wrong in ("30s", "-5", "nan", "inf")),
        ("BATON_PRESTOP_SECONDS", "10s", "the seconds of the pod's preStop hook"),
        *(
            ("BATON_HEALTH_PORT", wrong, "the port that the pod's probes name")
            for wrong in ("http", "0", "65536", "-1", "8081/tcp")
        ),
    ],
)
def test_an_invalid_number_is_rejected_with_the_cure(variable: str, value: str, cure: str) -> None:
    with pytest.raises(ValueError, match=f"{variable} is '{value}': set it to {cure}"):
        Pod.from_environment(POD | {variable: value})


def test_numbers_have_defaults() -> None:
    assert (Pod.from_environment(POD).grace, Pod.from_environment(POD).health_port) == (30.0, None)
    given = Pod.from_environment(POD | {"BATON_GRACE_SECONDS": "5.2", "BATON_HEALTH_PORT": "8081"})
    assert (given.grace, given.health_port) == (5.2, 8081)


def test_a_pre_stop_hook_shortens_the_grace_period() -> None:
    assert Pod.from_environment(POD | {"BATON_PRESTOP_SECONDS": "10"}).grace == 20.0
    assert Pod.from_environment(POD | {"BATON_PRESTOP_SECONDS": "40"}).grace == 0.0


def test_urls_of_two_kinds_of_queue_are_rejected(monkeypatch: pytest.MonkeyPatch) -> None:
    another = QueueKind(
        name="Toy",
        about="",
        resource="",
        operator="",
        fenced=True,
        session_required=True,
        variable="BATON_TOY_URL",
        consumer="toy:Toy",
    )
    monkeypatch.setattr(consumer_side, "KINDS", (*KINDS, another))
    with pytest.raises(ValueError, match=r"BATON_REDIS_URL and BATON_TOY_URL are set .* keep the one of the group's queues"):
        consumer_side.addressed({"BATON_REDIS_URL": "redis://redis", "BATON_TOY_URL": "toy://there"})
    assert consumer_side.addressed({"BATON_REDIS_URL": "", "BATON_TOY_URL": "toy://there"}) == (another, "toy://there")
    with pytest.raises(ValueError, match="set BATON_REDIS_URL or BATON_KAFKA_URL or BATON_TOY_URL in the container's env"):
        consumer_side.addressed({})


# -- Answers to the kubelet's probes over HTTP.


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


def test_a_health_port_in_use_is_named() -> None:
    with ProbeServer(0, {}) as server, pytest.raises(RuntimeError, match=f"BATON_HEALTH_PORT {server.port} cannot be served: "):
        ProbeServer(server.port, {}).__enter__()


def test_a_consumer_is_ready_once_its_session_is_renewed(tmp_path: Path) -> None:
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


def test_concurrent_probes_share_one_check() -> None:
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


def test_a_probe_without_a_free_thread_fails_and_the_next_one_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    class NoThread(threading.Thread):
        def start(self) -> None:
            raise RuntimeError("can't start new thread")

    with ProbeServer(0, {"/healthz": lambda: ""}) as server:
        with monkeypatch.context() as full:
            full.setattr("baton.consumer.probes.Thread", NoThread)
            assert asked(server.port, "/healthz") == (503, "the check cannot begin: can't start new thread")
        assert asked(server.port, "/healthz") == (200, "ok")


def test_a_failed_check_is_reported_and_the_next_one_runs() -> None:
    failing: list[str] = ["once"]

    def check() -> str:
        if failing:
            raise ValueError(failing.pop())
        return ""

    with ProbeServer(0, {"/healthz": check}) as server:
        assert asked(server.port, "/healthz") == (503, "the check failed: ValueError('once')")
        assert asked(server.port, "/healthz") == (200, "ok")
