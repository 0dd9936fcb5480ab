"""A fleet that a HorizontalPodAutoscaler scales by its lag, under load: to many pods and back, and nothing is lost."""

import json
from pathlib import Path
from typing import Any

import yaml

from charts.render import ROOT
from cluster import Cluster
from tests.e2e.installing import installed_by_helm, namespace
from tests.e2e.lag_adapter import external_lag
from tests.e2e.loaded_fleet import processed
from tests.e2e.plain_fleet import GROUP, PARTITIONS, QUEUE, Fleet
from tests.load import sink
from tests.load.producer import Load
from tests.load.witness import Witness
from tests.redis_server import RedisServer
from tests.waiting import until

MOST = 6
"""Pods; each has two partitions then."""
WORK = 0.05
"""Seconds that a message takes: a pod does 20 in a second."""
LONG = 300
"""Seconds for a size that an autoscaler has to come to, at its own pace."""


def test_a_fleet_follows_its_lag_and_loses_nothing(node: Cluster, tmp_path: Path) -> None:
    name = "hpa"
    with (
        installed_by_helm(node, tmp_path),
        external_lag(node, tmp_path / "pki"),
        RedisServer(bind=node.address) as server,
        namespace(node, name),
    ):
        queue = f"{name}/{QUEUE}"
        fleet = Fleet(node, name, server.url, delay=5, scale="Workload", work=WORK)
        fleet.deploy(replicas=1)
        fleet.settled(members=1)
        node.kubectl("-n", name, "apply", "-f", "-", text=json.dumps(autoscaler()))
        with Witness(server.url, queue, PARTITIONS) as witness:
            with Load(server.url, queue, rate=70) as load:
                until(lambda: len(fleet.pods()) == MOST, "the lag has brought all the pods that there may be", LONG)
                fleet.settled(members=MOST)
                load.pause()
                until(lambda: processed(server, queue) >= load.total, "all is done", LONG)
                until(lambda: len(fleet.pods()) == 1, "one pod is left", LONG)
                fleet.settled(members=1)
                status = fleet.group()["status"]
            rows = sink.rows(server.client(), queue)
        fleet.delete()
    assert status["moves"] == status["lowerBound"], "each partition moves once for each size that it settles at"
    sink.judged(load.produced, rows, witness)


def autoscaler() -> dict[str, Any]:
    """The example's, only quicker."""
    shipped: dict[str, Any] = yaml.safe_load((ROOT / "manifests" / "examples" / "autoscaling" / "hpa.yaml").read_text())
    spec = shipped["spec"]
    spec["scaleTargetRef"]["name"], spec["maxReplicas"] = GROUP, MOST
    [metric] = spec["metrics"]
    metric["external"]["metric"]["selector"] = {"matchLabels": {"group": GROUP}}
    metric["external"]["target"]["averageValue"] = "20"
    spec["behavior"]["scaleDown"] = {"stabilizationWindowSeconds": 5}
    return shipped
