"""The operator in a cluster, installed as a user would."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from charts.render import ROOT
from cluster import Cluster, built_images

NAMESPACE = "baton-system"
CHART = str(ROOT / "charts" / "baton")


def chart_values(node: Cluster) -> dict[str, Any]:
    """With which the chart brings that image."""
    repository, _, tag = node.load_built_image(built_images.OPERATOR).rpartition(":")
    return {"image": {"repository": repository, "tag": tag, "pullPolicy": "Never"}}


@contextmanager
def installed_by_helm(node: Cluster, folder: Path, **values_of_chart: Any) -> Iterator[Cluster]:
    """From the chart, with the image that its Dockerfile makes; uninstalled afterwards."""
    values = folder / "values.json"
    values.write_text(json.dumps({**chart_values(node), **values_of_chart}))
    install(node, values)
    try:
        yield node
    finally:
        # Also from groups that a failed test left. Bounded: without its operator such a group waits for ever with its finalizer.
        uninstall(node, "--no-hooks", "--ignore-not-found")
        node.kubectl("delete", "namespace", NAMESPACE, "--timeout=300s")
        node.kubectl("delete", "crd", "consumergroups.baton.dev", "partitionedqueues.baton.dev", "--timeout=300s")


def install(node: Cluster, values: Path) -> None:
    where = ("--namespace", NAMESPACE, "--create-namespace")
    node.helm("install", "baton", CHART, *where, "--values", str(values), "--wait", "--timeout", "300s")


def uninstall(node: Cluster, *options: str) -> None:
    node.helm("uninstall", "baton", "--namespace", NAMESPACE, "--wait", "--timeout", "300s", *options)


@contextmanager
def namespace(cluster: Cluster, name: str) -> Iterator[str]:
    """A namespace for one test."""
    cluster.kubectl("create", "namespace", name)
    try:
        yield name
    finally:
        cluster.kubectl("delete", "namespace", name, "--wait=false")


def leader(cluster: Cluster) -> str:
    """The name of the operator's pod that leads; empty: none does."""
    leases = json.loads(cluster.kubectl("--namespace", NAMESPACE, "get", "leases", "-o", "json"))["items"]
    return next((holder for lease in leases if (holder := lease["spec"].get("holderIdentity"))), "")
