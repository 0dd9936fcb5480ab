import re

from baton.spark import conf
from baton.spark.executors import POD_NAME_PREFIX
from baton.spark.settings import Settings

POD = {"POD_NAMESPACE": "shop", "POD_IP": "10.1.2.3", "POD_NAME": "driver-abc"}


def settings(executor_timeout: float = 10.0) -> Settings:
    return conf("orders", image="i", template="t", environment=POD, executor_timeout=executor_timeout)


def test_in_a_pod_the_driver_s_address_name_and_namespace_come_from_its_environment() -> None:
    found = settings()
    assert found["spark.kubernetes.namespace"] == "shop"
    assert found["spark.driver.host"] == found["spark.driver.bindAddress"] == "10.1.2.3"
    assert found["spark.kubernetes.driver.pod.name"] == "driver-abc"


def test_outside_the_cluster_the_driver_owns_no_pods() -> None:
    found = conf("orders", image="i", template="t", environment={}, namespace="dev", master="k8s://https://10.0.0.1:6443")
    assert "spark.kubernetes.driver.pod.name" not in found
    assert (found["spark.master"], found["spark.kubernetes.namespace"]) == ("k8s://https://10.0.0.1:6443", "dev")


def test_every_run_names_its_executors_again() -> None:
    first, second = settings()[POD_NAME_PREFIX], settings()[POD_NAME_PREFIX]
    assert first != second
    assert re.fullmatch(r"orders-[0-9a-f]{6}", str(first))


def test_a_long_group_name_leaves_room_for_the_executor_s_number() -> None:
    found = conf("a-group-with-a-name-that-is-far-too-long-for-pods", image="i", template="t", environment=POD)
    assert len(str(found[POD_NAME_PREFIX])) <= 47


def test_an_executor_is_waited_for_longer_than_it_takes_between_heartbeats() -> None:
    found = settings(executor_timeout=6.5)
    assert found["spark.storage.blockManagerHeartbeatTimeoutMs"] == "6500"
    assert found["spark.executor.heartbeatInterval"] == "1s"


def test_spark_does_not_scale_the_fleet_by_itself() -> None:
    assert settings()["spark.dynamicAllocation.enabled"] == "false"
