"""Where a driver finds its namespace, its pod's name and its UID."""

from pathlib import Path

import pytest

from baton.consumer.api_server import ApiConnection
from baton.spark.driver_pod import DRIVER_POD, NAMESPACE, DriverPod, submitted

INSIDE = {"KUBERNETES_SERVICE_HOST": "10.96.0.1", "KUBERNETES_SERVICE_PORT": "443"}
SPARK = {NAMESPACE: "shop", DRIVER_POD: "orders-1-driver"}
NOBODY = ApiConnection.from_environment({"BATON_API_SERVER": "http://127.0.0.1:1"})


def pod(tmp_path: Path, environment: dict[str, str], configuration: dict[str, str] | None = None) -> DriverPod:
    return DriverPod(environment, configuration, account=tmp_path, hostname=lambda: "from-hostname")


def test_what_the_environment_says_goes_first(tmp_path: Path) -> None:
    found = pod(tmp_path, {"POD_NAMESPACE": "shop", "POD_NAME": "a", "POD_UID": "u-a", "POD_IP": "10.1.2.3", **INSIDE})
    assert (found.namespace, found.name, found.address, found.uid(NOBODY)) == ("shop", "a", "10.1.2.3", "u-a")


def test_spark_s_own_settings_are_next(tmp_path: Path) -> None:
    found = pod(tmp_path, INSIDE, SPARK)
    assert (found.namespace, found.name) == ("shop", "orders-1-driver")


def test_the_pod_s_account_and_hostname_are_last(tmp_path: Path) -> None:
    (tmp_path / "namespace").write_text("shop\n")
    found = pod(tmp_path, INSIDE)
    assert (found.namespace, found.name) == ("shop", "from-hostname")


def test_a_namespace_that_cannot_be_found_is_one_error_with_the_cure(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="the driver's namespace cannot be found: let the downward API set POD_NAMESPACE"):
        _ = pod(tmp_path, INSIDE).namespace


def test_a_uid_that_cannot_be_found_is_one_error_with_the_cure(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"the UID of the driver's pod shop/orders-1-driver cannot be found .*POD_UID"):
        pod(tmp_path, INSIDE, SPARK).uid(NOBODY)


@pytest.mark.parametrize(
    ("environment", "words"),
    [({"POD_NAMESPACE": "other"}, "share one namespace"), ({"POD_NAME": "other"}, "owned by orders-1-driver")],
)
def test_an_environment_that_contradicts_spark_is_refused(tmp_path: Path, environment: dict[str, str], words: str) -> None:
    found = pod(tmp_path, {**INSIDE, **environment}, SPARK)
    with pytest.raises(ValueError, match=words):
        _ = (found.namespace, found.name)


def test_outside_a_cluster_there_is_no_pod(tmp_path: Path) -> None:
    found = pod(tmp_path, {})
    assert (found.namespace, found.name, found.address, found.uid(NOBODY)) == ("default", None, None, None)


def test_a_program_that_spark_submit_did_not_start_has_no_submitted_settings() -> None:
    assert submitted({}) == {}
