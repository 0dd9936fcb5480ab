"""How a driver finds its namespace, its pod's name and its UID."""

from pathlib import Path
from typing import Any

import pytest

import baton.spark
from baton.consumer.api_server import ApiConnection, ApiRefused
from baton.spark import settings
from baton.spark.driver_pod import DRIVER_POD, NAMESPACE, OUTSIDE, DriverPod, EndedDrivers, submitted
from baton.spark.jar_file import SOURCES
from baton.spark.rights import needed, sentence

INSIDE = {"KUBERNETES_SERVICE_HOST": "10.96.0.1", "KUBERNETES_SERVICE_PORT": "443"}
SPARK = {NAMESPACE: "shop", DRIVER_POD: "orders-1-driver"}
NOBODY = ApiConnection.from_environment({"BATON_API_SERVER": "http://127.0.0.1:1"})


def pod(tmp_path: Path, environment: dict[str, str], configuration: dict[str, str] | None = None) -> DriverPod:
    return DriverPod(environment, configuration, account=tmp_path, hostname=lambda: "from-hostname")


def test_the_drivers_name_comes_first_from_the_environment(tmp_path: Path) -> None:
    found = pod(tmp_path, {"POD_NAMESPACE": "shop", "POD_NAME": "a", "POD_UID": "u-a", "POD_IP": "10.1.2.3", **INSIDE})
    assert (found.namespace, found.name, found.address, found.uid(NOBODY)) == ("shop", "a", "10.1.2.3", "u-a")


def test_the_drivers_name_comes_next_from_sparks_settings(tmp_path: Path) -> None:
    found = pod(tmp_path, INSIDE, SPARK)
    assert (found.namespace, found.name) == ("shop", "orders-1-driver")


def test_the_drivers_name_comes_last_from_its_account_and_hostname(tmp_path: Path) -> None:
    (tmp_path / "namespace").write_text("shop\n")
    found = pod(tmp_path, INSIDE)
    assert (found.namespace, found.name) == ("shop", "from-hostname")


def test_a_missing_namespace_is_one_error_with_the_cure(tmp_path: Path) -> None:
    with pytest.raises(
        ValueError, match="the driver's namespace cannot be found: set POD_NAMESPACE, POD_NAME and POD_UID with the downward API"
    ):
        _ = pod(tmp_path, INSIDE).namespace


def test_a_missing_uid_is_one_error_with_the_cure(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"the UID of the driver's pod shop/orders-1-driver cannot be found .*POD_UID"):
        pod(tmp_path, INSIDE, SPARK).uid(NOBODY)


@pytest.mark.parametrize(
    ("environment", "words"),
    [({"POD_NAMESPACE": "other"}, "share one namespace"), ({"POD_NAME": "other"}, "owned by orders-1-driver")],
)
def test_an_environment_that_contradicts_spark_is_rejected(tmp_path: Path, environment: dict[str, str], words: str) -> None:
    found = pod(tmp_path, {**INSIDE, **environment}, SPARK)
    with pytest.raises(ValueError, match=words):
        _ = (found.namespace, found.name)


def test_outside_a_cluster_there_is_no_pod(tmp_path: Path) -> None:
    found = pod(tmp_path, {})
    assert (found.namespace, found.name, found.address, found.uid(NOBODY)) == ("default", None, None, None)
    assert submitted({}) == {}


class Pods:
    """A fake API server with these pods, by name, which records requests."""

    def __init__(self) -> None:
        self.pods: dict[str, Any] = {}
        self.asked: list[str] = []

    def put(self, name: str, uid: str, phase: str = "Running") -> None:
        self.pods[name] = {"metadata": {"name": name, "uid": uid}, "status": {"phase": phase}}

    def list(self, path: str) -> Any:
        self.asked.append(path)
        return {"items": list(self.pods.values())}

    def request(self, method: str, path: str) -> Any:
        self.asked.append(path)
        try:
            return self.pods[path.rpartition("/")[2]]
        except KeyError:
            raise ApiRefused(404, "not found") from None

    def ended(self) -> EndedDrivers:
        api: Any = self
        return EndedDrivers(api, "shop")


ALL = "/api/v1/namespaces/shop/pods"


def test_pods_are_listed_once_per_driver() -> None:
    server = Pods()
    server.put("a", "u-a")
    server.put("b", "u-b")
    ended = server.ended()
    assert [ended("u-a") for _ in range(3)] == [False] * 3
    assert not ended("u-b")
    assert server.asked == [ALL, *[f"{ALL}/a"] * 3, ALL, f"{ALL}/b"]


@pytest.mark.parametrize("phase", ["Succeeded", "Failed"])
def test_a_driver_has_ended_when_its_containers_have(phase: str) -> None:
    server = Pods()
    server.put("a", "u-a")
    ended = server.ended()
    assert not ended("u-a")
    server.put("a", "u-a", phase)
    assert ended("u-a")


def test_a_driver_has_ended_if_its_pod_is_gone_or_replaced() -> None:
    server = Pods()
    assert server.ended()("u-a"), "it was gone before it was asked for"
    server.put("a", "u-a")
    ended = server.ended()
    assert not ended("u-a")
    server.put("a", "u-next")
    assert ended("u-a")
    server.pods.clear()
    assert ended("u-a")


def test_an_api_server_that_rejects_leaves_it_open_whether_a_driver_ended() -> None:
    class Forbidding(Pods):
        def request(self, method: str, path: str) -> Any:
            raise ApiRefused(403, "no")

    server = Forbidding()
    server.put("a", "u-a")
    with pytest.raises(ApiRefused):
        server.ended()("u-a")


def test_a_driver_outside_the_cluster_counts_as_alive() -> None:
    server = Pods()
    assert not server.ended()(f"{OUTSIDE}1")
    assert server.asked == []


# -- What is told of rights that a driver lacks.


def test_missing_rights_are_one_line_with_account_and_cure() -> None:
    lacking = [right for right in needed("orders") if right.resource == "leases" or right.verb == "create"]
    assert sentence("system:serviceaccount:shop:default", "shop", lacking) == (
        "the account system:serviceaccount:shop:default lacks rights in namespace shop (pods: create; configmaps: create; "
        "leases.coordination.k8s.io: create, get, update): bind a Role with these rights to it, as rbac.yaml of "
        "manifests/examples/spark does"
    )


def test_rights_name_the_ledger_and_the_lease() -> None:
    assert {right.name for right in needed("orders")} == {"", "orders-assignments", "orders-driver"}


# --


def test_another_spark_version_is_rejected_with_the_cure() -> None:
    settings.check_spark("4.3.1")
    for other in ("4.2.0", "4.30.0", "5.0.0"):
        with pytest.raises(RuntimeError, match=rf"supports Spark 4\.3\.x, and this is Spark {other}: install pyspark 4\.3\.x"):
            settings.check_spark(other)


def test_conf_rejects_another_spark_version(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(settings, "SPARK", "4.2.")
    with pytest.raises(RuntimeError, match=r"supports Spark 4\.2\.x"):
        baton.spark.conf("orders", image="orders", template="executor.yaml", namespace="shop")


def test_java_checks_for_the_same_spark_version() -> None:
    source = (SOURCES / "dev" / "baton" / "spark" / "BatonSource.java").read_text(encoding="utf-8")
    assert f'SPARK = "{settings.SPARK}"' in source
