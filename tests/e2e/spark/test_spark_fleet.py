"""A real fleet: custom resources, operator, ledger, Spark executors in pods, and a queue in Redis."""

import signal

from cluster import Cluster
from tests.e2e.spark.shop import NAMESPACE, Shop, checked


def test_a_fleet_that_grows_shrinks_and_is_killed_under_load_loses_nothing(shop: Shop) -> None:
    cluster = shop.cluster
    shop.apply_example(executors=2)
    cluster.wait(lambda: shop.balanced(2), 240, "two executors own the six partitions")
    shop.start_producing()
    cluster.wait(lambda: shop.processed() > 200, 180, "entries are processed")

    scale(cluster, 3)
    cluster.wait(lambda: shop.balanced(3), 180, "three executors share the partitions")

    victim = next(iter(shop.executors()))
    cluster.signal_container(victim, signal.SIGKILL, NAMESPACE)
    cluster.wait(lambda: victim not in shop.members(), 90, "the killed executor is no member")
    cluster.wait(lambda: shop.balanced(3), 180, "its replacement has its share")

    scale(cluster, 2)
    cluster.wait(lambda: shop.balanced(2) and len(shop.executors()) == 2, 180, "one executor has handed off and gone")

    before = shop.executor_uids()
    cluster.signal_container(shop.driver_pod(), signal.SIGKILL, NAMESPACE)
    cluster.wait(lambda: not before & shop.executor_uids(), 180, "the driver's death ends its executors")
    cluster.wait(lambda: shop.balanced(2), 240, "a new driver has brought new ones")
    cluster.wait(lambda: shop.share_on_owner(newest=1000) > 0.9, 180, "ranges are read where they are owned")

    sent = shop.stop_producing()
    cluster.wait(lambda: shop.processed() == sent, 180, "everything is processed")
    report = checked(shop.results(), sent)
    assert report.clean, report


def scale(cluster: Cluster, replicas: int) -> None:
    cluster.kubectl("scale", "consumergroups/orders", "-n", NAMESPACE, f"--replicas={replicas}")
