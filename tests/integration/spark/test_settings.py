import re
import shutil
from pathlib import Path
from typing import Any

import pytest

from baton.spark import conf, jar_file
from baton.spark.executors import POD_NAME_PREFIX
from baton.spark.settings import ALLOCATOR, Settings

POD = {"POD_NAMESPACE": "shop", "POD_IP": "10.1.2.3", "POD_NAME": "driver-abc"}


def settings(executor_timeout: float = 10.0) -> Settings:
    return conf("orders", image="i", template="t", environment=POD, executor_timeout=executor_timeout)


def test_in_a_pod_the_drivers_settings_come_from_its_environment() -> None:
    found = settings()
    assert found["spark.kubernetes.namespace"] == "shop"
    assert found["spark.driver.host"] == found["spark.driver.bindAddress"] == "10.1.2.3"
    assert found["spark.kubernetes.driver.pod.name"] == "driver-abc"
    assert found["spark.dynamicAllocation.enabled"] == "false"


def test_outside_the_cluster_the_driver_has_no_pod() -> None:
    found = conf("orders", image="i", template="t", environment={}, namespace="dev", master="k8s://https://10.0.0.1:6443")
    assert "spark.kubernetes.driver.pod.name" not in found
    assert (found["spark.master"], found["spark.kubernetes.namespace"]) == ("k8s://https://10.0.0.1:6443", "dev")


def test_every_run_gives_its_executors_new_names() -> None:
    first, second = settings()[POD_NAME_PREFIX], settings()[POD_NAME_PREFIX]
    assert first != second
    assert re.fullmatch(r"orders-[0-9a-f]{6}", str(first))


def test_a_long_group_name_leaves_room_for_the_executor_s_number() -> None:
    found = conf("a-group-with-a-name-that-is-far-too-long-for-pods", image="i", template="t", environment=POD)
    assert len(str(found[POD_NAME_PREFIX])) <= 47


def test_the_executor_timeout_exceeds_the_heartbeat_interval() -> None:
    found = settings(executor_timeout=6.5)
    assert found["spark.storage.blockManagerHeartbeatTimeoutMs"] == "6500"
    assert found["spark.executor.heartbeatInterval"] == "1s"


def test_the_jar_is_sent_to_executors_unless_spark_has_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    jar = jar_file.path()
    assert settings()["spark.jars"] == str(jar)
    monkeypatch.setattr(jar_file, "spark_jars", lambda: tmp_path)
    (tmp_path / "baton-spark.jar").write_text("of another version")
    assert settings()["spark.jars"] == str(jar)
    shutil.copy(jar, tmp_path / "baton-spark.jar")
    assert settings()["spark.jars"] == ""


SUBMITTED = {
    "spark.master": "k8s://https://10.0.0.1:6443",
    "spark.kubernetes.namespace": "shop",
    "spark.kubernetes.container.image": "orders-spark:1",
    "spark.kubernetes.executor.podTemplateFile": "/opt/spark/pod-template/pod-spec-template.yml",
    "spark.kubernetes.driver.pod.name": "orders-1-driver",
    "spark.driver.host": "orders-1-driver-svc.shop.svc",
}


def test_submitted_settings_are_kept_unless_given() -> None:
    found = conf("orders", environment={"KUBERNETES_SERVICE_HOST": "10.96.0.1"}, submitted=SUBMITTED)
    assert {name: found[name] for name in SUBMITTED if name != "spark.driver.host"}.items() <= SUBMITTED.items()
    assert "spark.driver.host" not in found
    assert conf("orders", image="mine", environment={}, submitted=SUBMITTED)["spark.kubernetes.container.image"] == "mine"


def test_a_missing_setting_is_one_error() -> None:
    with pytest.raises(ValueError, match="template is not given, and spark-submit did not set"):
        conf("orders", image="i", environment=POD, submitted={})


@pytest.mark.parametrize("allocator", ["statefulset", "deployment", "com.example.Allocator"])
def test_an_allocator_that_cannot_end_a_single_executor_is_rejected(allocator: str) -> None:
    with pytest.raises(ValueError, match=f"{ALLOCATOR} is {allocator}, and a fleet needs `direct`"):
        conf("orders", image="i", template="t", environment=POD, submitted={ALLOCATOR: allocator})


DEV = {"BATON_API_SERVER": "http://127.0.0.1:1", "BATON_API_TOKEN": "t", "POD_NAME": "orders-1"}


def test_under_baton_dev_conf_gives_local_executors() -> None:
    found = conf("orders", image="i", template="t", executors=3, executor_cores=2, executor_memory="2g", environment=DEV)
    assert found["spark.master"] == "local-cluster[3,2,2048]"
    assert found["spark.executor.memory"] == "2048m"
    assert not [name for name in found if name.startswith("spark.kubernetes.")]
    assert found["spark.storage.blockManagerHeartbeatTimeoutMs"] == "10000", "as in a cluster"


def test_an_invalid_memory_size_is_rejected() -> None:
    with pytest.raises(ValueError, match="executor_memory is 'lots'"):
        conf("orders", executor_memory="lots", environment=DEV)


@pytest.mark.parametrize(
    ("numbers", "why"),
    [
        ({"executors": 0}, "executors is 0: set it to 1 or more"),
        ({"executors": "10s"}, "executors is '10s': set it to a whole number, 1 or more"),
        ({"executor_cores": -1}, "executor_cores is -1: set it to 1 or more"),
        ({"executor_timeout": 0.5}, r"executor_timeout is 0.5: set it to 2.0 to 86,400"),
        ({"executor_timeout": "10s"}, r"executor_timeout is '10s': set it to a number, 2.0 to 86,400"),
        ({"executor_grace": 0}, "executor_grace is 0: set it to 1 to 86,400"),
        ({"executor_grace": float("inf")}, "executor_grace is inf: set it to 1 to 86,400"),
    ],
)
def test_an_invalid_number_is_rejected_by_its_name(numbers: dict[str, Any], why: str) -> None:
    with pytest.raises((TypeError, ValueError), match=f"^{why}$"):
        conf("orders", image="i", template="t", environment=POD, **numbers)
