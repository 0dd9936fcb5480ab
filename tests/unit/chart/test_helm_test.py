"""`helm test`: a pod of the operator's image asks the replicas whether one of them leads."""

import re
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from prometheus_client import CollectorRegistry, Gauge

from baton.controller.health import HealthServer
from tests.unit.chart.conftest import Objects
from tests.unit.controller.test_reference_pages import new_replica


def hook(objects: Objects, kind: str, *arguments: str) -> Any:
    made = objects(*arguments)[kind, "baton-test"]
    assert made["metadata"]["annotations"]["helm.sh/hook"] == "test"
    return made


def asked(container: Any, port: int) -> subprocess.CompletedProcess[str]:
    """What the container does, but of this server and not for long."""
    script, url, _ = container["args"]
    assert container["command"] == ["python3", "-c"]
    assert re.fullmatch(r"http://baton-test\.[a-z.-]+:8080", url), "the Service, and not the pod itself, whose host name that is"
    command = [sys.executable, "-c", script, f"http://127.0.0.1:{port}", "0"]
    return subprocess.run(command, capture_output=True, text=True, check=False)


@pytest.fixture
def container(objects: Objects) -> Any:
    (made,) = hook(objects, "Pod")["spec"]["containers"]
    return made


@contextmanager
def served(registry: CollectorRegistry) -> Iterator[int]:
    """At this port of the loopback address."""
    server = HealthServer("127.0.0.1", 0, registry, alive=lambda: None, ready=lambda: None)
    server.start()
    yield server.port
    server.close()


def test_helm_test_passes_if_a_replica_leads(container: Any) -> None:
    registry = CollectorRegistry()
    Gauge("baton_leader", "1 where this replica leads", ["release"], registry=registry).labels("baton-system/baton").set(1)
    with served(registry) as port:
        done = asked(container, port)
    assert done.returncode == 0, done.stderr


def test_helm_test_fails_if_no_replica_leads(container: Any) -> None:
    with served(new_replica().metrics.registry) as port:
        done = asked(container, port)
    assert (done.returncode, "none leads" in done.stderr) == (1, True), done


def test_helm_test_fails_if_no_replica_answers(container: Any) -> None:
    done = asked(container, 1)
    assert (done.returncode, len(done.stderr.splitlines()), "no replica answers" in done.stderr) == (1, 1, True), done


def test_the_test_service_selects_only_the_operator(objects: Objects) -> None:
    labels = objects()["Deployment", "baton"]["spec"]["template"]["metadata"]["labels"]
    selector = hook(objects, "Service")["spec"]["selector"]
    assert selector.items() <= labels.items()
    assert not selector.items() <= hook(objects, "Pod")["metadata"]["labels"].items()


def test_the_test_pod_has_the_operators_image_and_no_rights(objects: Objects) -> None:
    arguments = ("--set", "image.tag=v7,nodeSelector.pool=ops")
    spec = hook(objects, "Pod", *arguments)["spec"]
    operator = objects(*arguments)["Deployment", "baton"]["spec"]["template"]["spec"]
    assert (spec["automountServiceAccountToken"], spec["securityContext"]) == (False, operator["securityContext"])
    (container,), (other,) = spec["containers"], operator["containers"]
    assert (container["image"], container["securityContext"]) == (other["image"], other["securityContext"])
    assert spec["nodeSelector"] == {"pool": "ops"}
