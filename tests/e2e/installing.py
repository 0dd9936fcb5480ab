"""The operator in a cluster, installed as a user would."""

import json
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from charts.render import ROOT

from tests.cluster import Cluster

NAMESPACE = "baton-system"


@contextmanager
def installed_by_helm(node: Cluster, folder: Path) -> Iterator[Cluster]:
    """From the chart, with the image of this checkout; uninstalled afterwards."""
    repository, _, tag = node.load_operator_image().rpartition(":")
    volumes, mounts = node.host_volumes()
    values = folder / "values.json"
    image = {"repository": repository, "tag": tag, "pullPolicy": "Never"}
    values.write_text(json.dumps({"image": image, "extraVolumes": volumes, "extraVolumeMounts": mounts}))
    chart = str(ROOT / "charts" / "baton")
    node.helm("install", "baton", chart, "--namespace", NAMESPACE, "--create-namespace", "--values", str(values), "--wait")
    try:
        yield node
    finally:
        # Bounded: without its operator a group that a failed test left waits for ever with its finalizer.
        node.helm("uninstall", "baton", "--namespace", NAMESPACE, "--wait", "--timeout", "60s")
        node.kubectl("delete", "namespace", NAMESPACE, "--timeout=60s")
        node.kubectl("delete", "crd", "consumergroups.baton.dev", "partitionedqueues.baton.dev", "--timeout=30s")


def eventually(look: Callable[[], Any], seconds: float = 60.0) -> Any:
    """The first answer of `look` that is true; AssertionError with the last one otherwise."""
    end = time.monotonic() + seconds
    while not (found := look()):
        assert time.monotonic() < end, f"not within {seconds} s: {found!r}"
        time.sleep(0.2)
    return found


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
