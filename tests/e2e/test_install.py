"""Both ways to install bring an operator that works: it becomes available, one replica leads, and a group gets its members."""

import json
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import yaml
from charts.render import ROOT
from tests.cluster import Cluster

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(240)]

NAMESPACE = "baton-system"


def eventually(look: Callable[[], Any], seconds: float = 60.0) -> Any:
    """The first answer of `look` that is true; AssertionError with the last one otherwise."""
    end = time.monotonic() + seconds
    while not (found := look()):
        assert time.monotonic() < end, f"not within {seconds} s: {found!r}"
        time.sleep(0.2)
    return found


@pytest.fixture
def installed_by_helm(node: Cluster, tmp_path: Path) -> Iterator[Cluster]:
    repository, _, tag = node.load_operator_image().rpartition(":")
    volumes, mounts = node.host_volumes()
    values = tmp_path / "values.json"
    image = {"repository": repository, "tag": tag, "pullPolicy": "Never"}
    values.write_text(json.dumps({"image": image, "extraVolumes": volumes, "extraVolumeMounts": mounts}))
    chart = str(ROOT / "charts" / "baton")
    node.helm("install", "baton", chart, "--namespace", NAMESPACE, "--create-namespace", "--values", str(values), "--wait")
    yield node
    node.helm("uninstall", "baton", "--namespace", NAMESPACE, "--wait")
    node.kubectl("delete", "namespace", NAMESPACE)
    node.kubectl("delete", "crd", "consumergroups.baton.dev", "partitionedqueues.baton.dev")


@pytest.fixture
def installed_by_kubectl(node: Cluster, tmp_path: Path) -> Iterator[Cluster]:
    manifest = tmp_path / "install.yaml"
    manifest.write_text(runnable_here(node))
    node.kubectl("apply", "-f", str(manifest))
    node.kubectl("--namespace", NAMESPACE, "rollout", "status", "deployment/baton", "--timeout=90s")
    yield node
    node.kubectl("delete", "-f", str(manifest), "--wait")


def runnable_here(node: Cluster) -> str:
    """install.yaml with the local image. That mounts its content from the host, which the restricted profile does not allow."""
    documents = list(yaml.safe_load_all((ROOT / "manifests" / "install.yaml").read_text()))
    image = node.load_operator_image()
    volumes, mounts = node.host_volumes()
    for document in documents:
        if document["kind"] == "Namespace":
            document["metadata"]["labels"]["pod-security.kubernetes.io/enforce"] = "privileged"
        if document["kind"] == "Deployment":
            pod = document["spec"]["template"]["spec"]
            pod["volumes"] += volumes
            pod["containers"][0]["volumeMounts"] += mounts
            pod["containers"][0] |= {"image": image, "imagePullPolicy": "Never"}
    return yaml.safe_dump_all(documents)


def test_helm_install_brings_a_working_operator(installed_by_helm: Cluster) -> None:
    leads_and_reconciles(installed_by_helm)


def test_kubectl_apply_brings_a_working_operator(installed_by_kubectl: Cluster) -> None:
    leads_and_reconciles(installed_by_kubectl)


def leads_and_reconciles(cluster: Cluster) -> None:
    with namespace(cluster, "installed") as name:
        lease = eventually(lambda: leader(cluster))
        pods = json.loads(cluster.kubectl("--namespace", NAMESPACE, "get", "pods", "-o", "json"))["items"]
        assert len(pods) == 2
        assert any(pod["metadata"]["name"] in lease for pod in pods)
        cluster.kubectl("apply", "--namespace", name, "-f", str(Path(__file__).with_name("install-group.yaml")))
        ledger = eventually(lambda: assigned(cluster, name))
        assert json.loads(ledger["reader"])["owned"] == {"numbers": "0-5@1"}
        group = json.loads(cluster.kubectl("--namespace", name, "get", "consumergroup/readers", "-o", "json"))
        assert group["status"]["members"] == 1
        cluster.kubectl("--namespace", name, "delete", "consumergroup/readers", "partitionedqueue/numbers", "--timeout=30s")


def leader(cluster: Cluster) -> str:
    leases = json.loads(cluster.kubectl("--namespace", NAMESPACE, "get", "leases", "-o", "json"))["items"]
    return next((holder for lease in leases if (holder := lease["spec"].get("holderIdentity"))), "")


def assigned(cluster: Cluster, name: str) -> dict[str, str] | None:
    found = cluster.kubectl("--namespace", name, "get", "configmap/readers-assignments", "--ignore-not-found", "-o", "json")
    data: dict[str, str] = json.loads(found or "{}").get("data") or {}
    return data if "reader" in data and "@" in data["reader"] else None


@contextmanager
def namespace(cluster: Cluster, name: str) -> Iterator[str]:
    cluster.kubectl("create", "namespace", name)
    try:
        yield name
    finally:
        cluster.kubectl("delete", "namespace", name, "--wait=false")
