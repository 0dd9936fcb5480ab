"""Fleets that KEDA scales by the lag that the operator tells: from none to many and back, under load, and nothing is lost."""

import json
import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
import yaml

from charts.render import ROOT
from cluster import Cluster, keda
from tests.e2e.installing import NAMESPACE as OPERATORS
from tests.e2e.installing import installed_by_helm, leader, namespace
from tests.e2e.loaded_fleet import processed
from tests.e2e.plain_fleet import GROUP, PARTITIONS, QUEUE, Fleet
from tests.e2e.spark.shop import QUEUE as SHOP
from tests.e2e.spark.shop import Shop, checked
from tests.e2e.spark.sizes import sizes_told
from tests.load import sink
from tests.load.producer import Load
from tests.load.witness import Witness
from tests.prometheus_server import PrometheusServer
from tests.redis_server import RedisServer
from tests.waiting import until

MOST = 6
"""Pods; each has two partitions then."""
WORK = 0.05
"""Seconds that a message takes: a pod does 20 in a second."""
LONG = 600
"""Seconds for a size that an autoscaler has to come to, at its own pace and on a busy machine."""
pytestmark = [pytest.mark.long, pytest.mark.timeout(4 * LONG)]

SPARK_MOST, SPARK_LEAST = 6, 2
"""Executors."""
ROWS = {"WORK_SECONDS": "0.05", "MOST_ROWS": "240"}
"""An executor does 20 rows in a second, and a batch has so many that two need six seconds for it."""

GROUP_ITSELF = {"apiVersion": "baton.dev/v1alpha1", "kind": "ConsumerGroup", "name": GROUP}
DEPLOYMENT = {"apiVersion": "apps/v1", "kind": "Deployment", "name": "reader"}


@pytest.fixture(scope="module")
def with_keda(node: Cluster, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    keda.install(node)
    try:
        with installed_by_helm(node, tmp_path_factory.mktemp("helm"), metrics={"service": {"enabled": True}}):
            yield node
    finally:
        keda.uninstall(node)


@pytest.mark.parametrize(
    ("mode", "target"), [("Workload", GROUP_ITSELF), ("External", DEPLOYMENT)], ids=["the group", "its Deployment"]
)
def test_a_fleet_follows_its_lag_from_none_to_many_and_back(with_keda: Cluster, mode: str, target: dict[str, str]) -> None:
    name = f"keda-{mode.lower()}"
    with RedisServer(bind=with_keda.address) as server, namespace(with_keda, name):
        queue = f"{name}/{QUEUE}"
        fleet = Fleet(with_keda, name, server.url, delay=5, scale=mode, work=WORK)
        fleet.deploy(replicas=2)
        fleet.settled(members=2)
        quick = {"scaleTargetRef": target, "maxReplicaCount": MOST, "cooldownPeriod": 20}
        with (
            scaled_by_keda(with_keda, "keda.yaml", f"{name}/{GROUP}", 20, quick),
            Witness(server.url, queue, PARTITIONS) as witness,
        ):
            until(lambda: asleep(fleet), "nothing waits, and there is no pod", LONG)
            with Load(server.url, queue, rate=70) as load:
                until(lambda: fleet.pods(), "the first messages wake the fleet", LONG)
                until(lambda: len(fleet.pods()) == MOST, "the lag has brought all the pods that there may be", LONG)
                fleet.settled(members=MOST)
                load.pause()
                until(lambda: processed(server, queue) >= load.total, "all is done", LONG)
                until(lambda: asleep(fleet), "nothing waits any more, and there is no pod", LONG)
                status = fleet.group()["status"]
                assert status["moves"] == status["lowerBound"], "each partition moves once for each size that it settles at"
                load.resume()
                until(lambda: fleet.pods(), "the first message wakes the fleet again", LONG)
                load.pause()
                until(lambda: processed(server, queue) >= load.total, "what came meanwhile is done", LONG)
            rows = sink.rows(server.client(), queue)
        fleet.delete()
    sink.judged(load.produced, rows, witness)


def test_a_fleet_wakes_from_none_by_the_seconds_of_its_lag_alone(with_keda: Cluster) -> None:
    """By KEDA's trigger `prometheus`, with nothing but what it has to be given."""
    name = "keda-seconds"
    pod = json.loads(with_keda.kubectl("-n", OPERATORS, "get", "pod", leader(with_keda), "-o", "json"))
    with (
        RedisServer(bind=with_keda.address) as server,
        PrometheusServer(honor_labels=True, address=with_keda.address) as prometheus,
        namespace(with_keda, name),
    ):
        prometheus.scrape([f"{pod['status']['podIP']}:8080"])
        queue, seconds = f"{name}/{QUEUE}", f'baton_group_lag_seconds{{namespace="{name}",group="{GROUP}"}}'
        fleet = Fleet(with_keda, name, server.url, scale="Workload")
        fleet.deploy(replicas=0)
        fleet.scale(0)
        until(lambda: asleep(fleet) and prometheus.values(seconds) == [0.0], "nothing waits, and there is no pod", LONG)
        trigger = {"serverAddress": prometheus.url, "query": seconds, "threshold": "60"}
        spec = {"scaleTargetRef": GROUP_ITSELF, "triggers": [{"type": "prometheus", "metadata": trigger}]}
        scaled = {"apiVersion": "keda.sh/v1alpha1", "kind": "ScaledObject", "metadata": {"name": GROUP}, "spec": spec}
        with_keda.kubectl("-n", name, "apply", "-f", "-", text=json.dumps(scaled))
        try:
            with_keda.kubectl("-n", name, "wait", f"scaledobject/{GROUP}", "--for=condition=Ready", "--timeout=300s")
            with Witness(server.url, queue, PARTITIONS) as witness, Load(server.url, queue, rate=20) as load:
                until(lambda: fleet.pods(), "the first messages wake the fleet", LONG)
                load.pause()
                until(lambda: processed(server, queue) >= load.total, "all is done", LONG)
        finally:  # while there is an operator of KEDA that lets it go
            with_keda.kubectl("-n", name, "delete", "scaledobject", GROUP, "--timeout=300s")
        rows = sink.rows(server.client(), queue)
        fleet.delete()
    sink.judged(load.produced, rows, witness)


def test_a_spark_fleet_follows_its_lag_from_few_to_many_and_back(with_keda: Cluster) -> None:
    with RedisServer(bind=with_keda.address) as server:
        shop = Shop(with_keda, server)
        try:
            shop.apply_example(executors=SPARK_LEAST, delay=10, handoff=30, **ROWS)
            until(lambda: shop.balanced(SPARK_LEAST), "two executors own all partitions", LONG)
            with scaled_by_keda(with_keda, "keda-spark.yaml", SHOP, 50, {"maxReplicaCount": SPARK_MOST}), sizes_told(shop):
                shop.start_producing(rate=50)
                until(lambda: shop.waiting() > 300, "the lag grows", LONG)
                until(lambda: shop.balanced(SPARK_MOST), "the lag has brought all the executors that there may be", LONG)
                grown = shop.waiting()
                until(lambda: shop.waiting() < grown / 2, "they work it off, though there comes more", LONG)
                sent = shop.stop_producing()
                until(lambda: shop.balanced(SPARK_LEAST) and len(shop.executors()) == SPARK_LEAST, "the others have gone", LONG)
                until(lambda: shop.processed() == sent, "all is done", LONG)
            status, results = shop.group()["status"], shop.results()
        finally:
            print(shop.story())
            shop.remove()
    assert checked(results, sent).clean
    assert len(results) == sent, "nothing was read again"
    assert not any(one.redelivered for one in results)
    assert status["moves"] == status["lowerBound"], "each partition moves once for each size that it settles at"
    assert status["deadlineMisses"] == 0


@contextmanager
def scaled_by_keda(cluster: Cluster, example: str, group: str, target: int, quick: dict[str, object]) -> Iterator[None]:
    """As the example has it, only quicker. `group`: namespace/name; `target`: entries for each pod."""
    name = group.partition("/")[0]
    shipped = yaml.safe_load((ROOT / "manifests" / "examples" / "autoscaling" / example).read_text())
    trigger = shipped["spec"]["triggers"][0]["metadata"]
    trigger |= {"url": re.sub(r"(?<=/groups/)[^/]+/[^/]+", group, trigger["url"]), "targetValue": str(target)}
    spec: dict[str, Any] = {**shipped["spec"], "pollingInterval": 2, **quick}
    spec["advanced"]["horizontalPodAutoscalerConfig"]["behavior"]["scaleDown"] = {"stabilizationWindowSeconds": 5}
    cluster.kubectl("-n", name, "apply", "-f", "-", text=json.dumps({**shipped, "spec": spec}))
    try:
        yield
    finally:  # while there is an operator of KEDA that lets it go
        cluster.kubectl("-n", name, "delete", "scaledobject", shipped["metadata"]["name"], "--timeout=300s")


def asleep(fleet: Fleet) -> bool:
    return fleet.group().get("status", {}).get("state") == "ScaledToZero" and not fleet.pods()
