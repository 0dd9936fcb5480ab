"""Both ways to install bring an operator that works: it becomes available, one replica leads, and a group gets its members."""

import json
from collections.abc import Iterator
from contextlib import closing
from http.client import HTTPConnection
from pathlib import Path

import pytest

from charts.render import ROOT
from cluster import Cluster, built_images
from tests.e2e import installing
from tests.e2e.installing import NAMESPACE, leader, namespace
from tests.waiting import PATIENCE, until


@pytest.fixture
def installed_by_helm(node: Cluster, tmp_path: Path) -> Iterator[Cluster]:
    with installing.installed_by_helm(node, tmp_path, console={"enabled": True}) as cluster:
        yield cluster


@pytest.fixture
def installed_by_kubectl(node: Cluster) -> Iterator[Cluster]:
    node.load_built_image(built_images.OPERATOR)
    manifest = ROOT / "manifests" / "install.yaml"
    node.kubectl("apply", "-f", str(manifest))
    node.kubectl("--namespace", NAMESPACE, "rollout", "status", "deployment/baton", "--timeout=300s")
    yield node
    node.kubectl("delete", "-f", str(manifest), "--timeout=300s")


def test_helm_install_brings_a_working_operator(installed_by_helm: Cluster) -> None:
    leads_and_reconciles(installed_by_helm, "by-helm")
    installed_by_helm.helm("test", "baton", "--namespace", NAMESPACE, "--timeout", "300s")
    with namespace(installed_by_helm, "looked-at"):
        a_console_shows_what_each_viewers_token_may_see(installed_by_helm, "looked-at")


def test_kubectl_apply_brings_a_working_operator(installed_by_kubectl: Cluster) -> None:
    leads_and_reconciles(installed_by_kubectl, "by-kubectl")


def leads_and_reconciles(cluster: Cluster, name: str) -> None:
    until(lambda: len(replicas(cluster)) == 2 and any(name in leader(cluster) for name in replicas(cluster)))
    with namespace(cluster, name):
        cluster.kubectl("apply", "--namespace", name, "-f", str(Path(__file__).with_name("install-group.yaml")))
        try:
            ledger = until(lambda: assigned(cluster, name))
            assert json.loads(ledger["reader"])["owned"] == {"numbers": "0-5@1"}
            members = "jsonpath={.status.members}"  # the status follows the ledger
            until(lambda: cluster.kubectl("--namespace", name, "get", "consumergroup/readers", "-o", members) == "1")
            for pod in replicas(cluster):
                assert "getpwuid" not in cluster.logs(pod, namespace=NAMESPACE)
        finally:  # while there is an operator that lets the group go
            cluster.kubectl("--namespace", name, "delete", "consumergroup/readers", "partitionedqueue/numbers", "--timeout=300s")


def a_console_shows_what_each_viewers_token_may_see(cluster: Cluster, name: str) -> None:
    found = cluster.kubectl("--namespace", NAMESPACE, "get", "pods", "-l", "app.kubernetes.io/component=console", "-o", "json")
    (pod,) = json.loads(found)["items"]
    address = pod["status"]["podIP"]
    for account in ("viewer", "stranger"):
        cluster.kubectl("create", "serviceaccount", account, "--namespace", name)
    allowed = ("--clusterrole=view", f"--serviceaccount={name}:viewer")
    cluster.kubectl("create", "rolebinding", "viewer", "--namespace", name, *allowed)

    def told(account: str) -> str:
        """The kind of the first message."""
        token = cluster.kubectl("create", "token", account, "--namespace", name).strip()
        headers = {"Host": "localhost", "Authorization": f"Bearer {token}"}
        with closing(HTTPConnection(address, 8080, timeout=PATIENCE)) as connection:
            connection.request("GET", f"/api/groups?namespace={name}", headers=headers)
            return connection.getresponse().readline().decode().strip()

    until(lambda: told("viewer") == "event: page")
    assert told("stranger") == "event: refused"


def replicas(cluster: Cluster) -> list[str]:
    """The operator's pods, without those of an earlier installation that are still ending."""
    found = cluster.kubectl("--namespace", NAMESPACE, "get", "pods", "-l", "app.kubernetes.io/component=operator", "-o", "json")
    pods = json.loads(found)["items"]
    return [pod["metadata"]["name"] for pod in pods if "deletionTimestamp" not in pod["metadata"]]


def assigned(cluster: Cluster, name: str) -> dict[str, str] | None:
    found = cluster.kubectl("--namespace", name, "get", "configmap/readers-assignments", "--ignore-not-found", "-o", "json")
    data: dict[str, str] = json.loads(found or "{}").get("data") or {}
    return data if "reader" in data and "@" in data["reader"] else None
