"""The examples, started in three ways. Rows are counted in the files that the executors wrote."""

import signal
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from cluster.node import NAME as NODE
from tests.e2e.spark import spark_operator
from tests.e2e.spark.driver_end import end_in_a_batch
from tests.e2e.spark.example import Example
from tests.e2e.spark.files import Files
from tests.e2e.spark.shop import NAMESPACE, Shop

BUSY = 480.0
"""Seconds for a busy machine: a restarted driver has taken 160 s to its first batch."""


def ready(shop: Shop) -> dict[str, str]:
    """The group's condition Ready, and its STATE."""
    status = shop.cluster.get("consumergroup", "orders", "-n", NAMESPACE).get("status") or {}
    found = next((one for one in status.get("conditions", ()) if one["type"] == "Ready"), {"status": "", "message": ""})
    assert (status.get("state") == "Ready") <= (found["status"] == "True")
    return {"status": found["status"], "message": found["message"]}


@pytest.mark.long
def test_the_example_writes_each_row_once_and_names_missing_rights(shop: Shop) -> None:
    cluster = shop.cluster
    example = shop.prepare("spark")
    assert example.refused_by_restricted() == []
    files = Files(example.provide_volume(), shop)
    role = example.one("Role", "orders-driver")
    rules, role["rules"] = role["rules"], [rule for rule in role["rules"] if "leases" not in rule["resources"]]
    example.apply()
    lacking = "leases.coordination.k8s.io: create, get, update"
    cluster.wait(lambda: lacking in ready(shop)["message"], BUSY, "the group tells which rights its driver lacks")
    role["rules"] = rules
    cluster.apply(role)
    shop.start_producing()
    cluster.wait(lambda: files.holds(1000), BUSY, "rows are in the files")

    see_the_class_archive_used(shop)
    drain_executors(shop)

    for ask in (("delete", "pod", shop.driver_pod(), "--wait=false"), ("rollout", "restart", "deployment/orders-driver")):
        end_in_a_batch(shop, files, *ask)
        first_batch(shop, files)

    for fault in ("pod", "container"):
        print(f"after the driver's {fault} was killed: {without_rows(shop, files, fault):.1f} s without rows")

    sent = shop.stop_producing()
    cluster.wait(lambda: files.holds(sent), BUSY, "all rows are in the files")
    assert files.once(sent)


def see_the_class_archive_used(shop: Shop) -> None:
    """By driver and executors; Java drops one that does not fit. It has what no training meets, too."""
    mapped = "grep -l /opt/classes/classes.jsa $(grep -l /lib/server/libjvm.so /proc/[0-9]*/maps)"
    for pod in (shop.driver_pod(), *shop.executors()):
        assert in_pod(shop, pod, mapped).startswith("/proc/"), pod
    archive = "-XX:SharedArchiveFile=/opt/classes/classes.jsa -cp $(cat /opt/classes/class-path)"
    listed = in_pod(shop, shop.driver_pod(), f"java {archive} -XX:+PrintSharedArchiveAndExit none")
    for name in ("dev.baton.spark.RangeReader", "org.apache.spark.scheduler.cluster.k8s.KubernetesExecutorBackend"):
        assert name in listed, name


def in_pod(shop: Shop, pod: str, script: str) -> str:
    """The output of the script."""
    return shop.cluster.kubectl("exec", pod, "-n", NAMESPACE, "--", "sh", "-c", f"{script} || true", check=False)


def drain_executors(shop: Shop) -> None:
    """`kubectl drain` evicts executors one by one; each hands off, and its replacement is ready before the next eviction."""
    cluster = shop.cluster
    cluster.wait(lambda: len(shop.executors()) == 2, 120, "two executors run")
    leaving, asked = set(shop.executors()), time.monotonic()
    with ThreadPoolExecutor(1) as pool:
        only = ("--pod-selector=spark-role=executor", "--delete-emptydir-data", "--timeout=480s")
        drained = pool.submit(cluster.kubectl, "drain", NODE, *only)
        try:
            cluster.wait(lambda: len(leaving & pods(shop)) < len(leaving) or drained.done(), BUSY, "the first has ended")
            print(f"the first had ended after {time.monotonic() - asked:.1f} s")
            assert len(leaving & set(shop.executors())) == 1, "the budget lets one go at a time"
        finally:
            cluster.kubectl("uncordon", NODE)  # as if there were another node
        drained.result()
    print(f"the drain took {time.monotonic() - asked:.1f} s")
    told = cluster.logs("deployment/orders-driver", namespace=NAMESPACE)
    assert all(f"{name} has handed off and ends" in told for name in leaving)
    assert "Lost task" not in told, "no task was cut off"
    cluster.wait(lambda: len(shop.executors()) == 2, 120, "they are replaced")


def pods(shop: Shop) -> set[str]:
    """All pods of the namespace, including terminating ones."""
    return {pod["metadata"]["name"] for pod in shop.cluster.get("pods", "-n", NAMESPACE)["items"]}


def without_rows(shop: Shop, files: Files, fault: str) -> float:
    """Kill the driver's container, or its pod. Returns the seconds until the next driver has finished its first batch."""
    cluster, before, began = shop.cluster, driver_started(shop), time.monotonic()
    if fault == "container":
        cluster.signal_container(shop.driver_pod(), signal.SIGKILL, NAMESPACE)
    else:
        cluster.kubectl("delete", "pod", shop.driver_pod(), "-n", NAMESPACE, "--grace-period=0", "--force")
    cluster.wait(lambda: driver_started(shop) not in ("", before), BUSY, "another driver has started")
    return first_batch(shop, files) - began


def first_batch(shop: Shop, files: Files) -> float:
    """Wait until the next driver has finished a batch and continues, and return when (monotonic)."""
    cluster, held, first = shop.cluster, files.count(), "the first batch is done"
    command = ("logs", "-n", NAMESPACE, "deployment/orders-driver")
    cluster.wait(lambda: first in cluster.kubectl(*command, check=False), BUSY, "the driver has done a batch")
    done = time.monotonic()
    print(next(line for line in cluster.kubectl(*command).splitlines() if first in line))
    cluster.wait(lambda: files.count() > held, BUSY, "there are rows again")
    return done


def driver_started(shop: Shop) -> str:
    """The start time of the running driver's container; empty if none runs."""
    pods = shop.cluster.get("pods", "-n", NAMESPACE, "-l", "app=orders-driver")["items"]
    states = [one["state"] for pod in pods for one in pod["status"].get("containerStatuses", ())]
    return max((state["running"]["startedAt"] for state in states if "running" in state), default="")


@pytest.mark.long
@pytest.mark.parametrize("folder", ["spark-submit", "spark-operator"])
def test_the_driver_runs_in_cluster_mode(shop: Shop, folder: str, tmp_path: Path) -> None:
    cluster = shop.cluster
    example = shop.prepare(folder)
    assert example.refused_by_restricted() == []
    files = Files(example.provide_volume(), shop)
    if folder == "spark-operator":
        spark_operator.define(cluster)
    if folder == "spark-submit":
        see_an_allocator_refused(shop, example)
    example.apply()
    if folder == "spark-operator":
        spark_operator.submit(cluster, cluster.get("sparkapplication", "orders", "-n", NAMESPACE), tmp_path)
    shop.start_producing()
    cluster.wait(lambda: files.holds(1000), BUSY, "rows are in the files")
    end_in_a_batch(shop, files, "delete", "pod", shop.driver_pod(), "--wait=false")
    sent = shop.stop_producing()
    assert files.once(sent - shop.waiting()), "each is in the files or in the queue"


def see_an_allocator_refused(shop: Shop, example: Example) -> None:
    """The driver ends with one line, which the group's condition shows."""
    cluster, setting = shop.cluster, "spark.kubernetes.allocation.pods.allocator"
    arguments = example.one("Job")["spec"]["template"]["spec"]["containers"][0]["args"]
    at = arguments.index("--deploy-mode=cluster")
    arguments.insert(at, f"--conf={setting}=statefulset")
    example.apply()
    cluster.wait(lambda: f"{setting} is statefulset: a fleet needs `direct`" in ready(shop)["message"], BUSY, "the group says it")
    assert shop.executors() == {}
    cluster.kubectl("delete", "job", "orders-submit", "-n", NAMESPACE, "--wait=true")
    cluster.kubectl("delete", "pods", "-n", NAMESPACE, "--all", "--grace-period=0", "--force")
    arguments.pop(at)
