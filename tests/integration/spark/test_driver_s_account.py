"""How a driver finds its own pod, and the rights of its account, on a real API server."""

import os
import re
import shutil
import subprocess
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyspark
import pytest
import yaml

from baton.consumer.api_server import ApiConnection
from baton.spark import conf, rights
from baton.spark.driver_pod import DRIVER_POD, NAMESPACE, DriverPod
from baton.spark.rights import WatchedRights
from cluster import Cluster
from tests.integration.spark.world import wait_for
from tests.service_account import mounted

EXAMPLE = Path(__file__).resolve().parents[3] / "manifests" / "examples" / "spark"
INSIDE = {"KUBERNETES_SERVICE_HOST": "10.96.0.1"}


@pytest.fixture
def shop(control_plane: Cluster) -> Iterator[str]:
    """A new namespace."""
    name = f"shop-{uuid.uuid4().hex[:6]}"
    control_plane.kubectl("create", "namespace", name)
    yield name
    control_plane.kubectl("delete", "namespace", name, "--wait=false")


def account(cluster: Cluster, shop: str, name: str, folder: Path) -> ApiConnection:
    return mounted(cluster.kubeconfig, folder, cluster.kubectl("create", "token", name, "-n", shop).strip())


def test_a_driver_without_a_uid_reads_it_from_its_pod(control_plane: Cluster, shop: str) -> None:
    spec = {"containers": [{"name": "driver", "image": "none"}]}
    metadata = {"name": "orders-1-driver", "namespace": shop}
    control_plane.apply({"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec})
    api = ApiConnection.from_kubeconfig(str(control_plane.kubeconfig))
    uid = control_plane.get("pod", "orders-1-driver", "-n", shop)["metadata"]["uid"]
    assert DriverPod(INSIDE, {NAMESPACE: shop, DRIVER_POD: "orders-1-driver"}).uid(api) == uid
    with pytest.raises(ValueError, match=rf"pod {shop}/another cannot be found \(404"):
        DriverPod(INSIDE, {NAMESPACE: shop, DRIVER_POD: "another"}).uid(api)


def test_missing_rights_are_named_and_the_examples_account_lacks_none(
    control_plane: Cluster, shop: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for one in yaml.safe_load_all((EXAMPLE / "rbac.yaml").read_text()):
        control_plane.apply({**one, "metadata": {**one["metadata"], "namespace": shop}})
    rights.require(account(control_plane, shop, "orders-driver", tmp_path / "driver"), shop, "orders")
    control_plane.kubectl("create", "serviceaccount", "nobody", "-n", shop)
    bare = account(control_plane, shop, "nobody", tmp_path / "nobody")
    with pytest.raises(rights.MissingRights) as told:
        rights.require(bare, shop, "orders", patience=0)
    assert str(told.value) == rights.sentence(f"system:serviceaccount:{shop}:nobody", shop, rights.needed("orders"))
    monkeypatch.setattr(rights, "_PATIENCE", 0.0)
    monkeypatch.setattr(ApiConnection, "in_pod", lambda environment: bare)
    with pytest.raises(rights.MissingRights, match="lacks rights"):  # before Spark does, with a trace of Java
        conf("orders", image="i", template="t", environment={**INSIDE, "POD_NAMESPACE": shop})


def test_rights_revoked_while_a_driver_runs_are_reported_until_restored(
    control_plane: Cluster, shop: str, tmp_path: Path
) -> None:
    objects = list(yaml.safe_load_all((EXAMPLE / "rbac.yaml").read_text()))
    for one in objects:
        control_plane.apply({**one, "metadata": {**one["metadata"], "namespace": shop}})
    [role] = (one for one in objects if one["kind"] == "Role" and one["metadata"]["name"] == "orders-driver")
    driver = account(control_plane, shop, "orders-driver", tmp_path)
    rights.require(driver, shop, "orders")
    watched = WatchedRights(driver, shop, "orders", every=0.1)
    try:
        role["metadata"]["namespace"] = shop
        control_plane.apply({**role, "rules": []})
        all_of_them = rights.sentence(f"system:serviceaccount:{shop}:orders-driver", shop, rights.needed("orders"))
        wait_for(lambda: watched.missing() == all_of_them, "what is missing is told")
        control_plane.apply(role)
        wait_for(lambda: not watched.missing(), "it is over")
    finally:
        watched.close()


def test_the_examples_driver_pod_is_deleted_with_its_job(control_plane: Cluster, shop: str, tmp_path: Path) -> None:
    """The Job's command, run here instead of in its pod."""
    submit = EXAMPLE.parent / "spark-submit"
    for file in (submit / "driver-template.yaml", EXAMPLE / "executor.yaml"):
        shutil.copy(file, tmp_path)
    text = f"{(submit / 'submit.yaml').read_text()}---\n{(EXAMPLE / 'rbac.yaml').read_text()}"
    places = {
        "/opt/spark": str(Path(pyspark.__file__).parent),
        "/tmp/": f"{tmp_path}/",
        "/app/": f"{tmp_path}/",
        "https://kubernetes.default.svc": control_plane.server,
        "$(POD_NAMESPACE)": shop,
    }
    text = re.sub("|".join(map(re.escape, places)), lambda written: places[written[0]], text)
    objects = [{**one, "metadata": {**one["metadata"], "namespace": shop}} for one in yaml.safe_load_all(text)]
    (job,) = (one for one in objects if one["kind"] == "Job")
    control_plane.apply(*objects)

    def pods(selector: str) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = control_plane.get("pods", "-n", shop, "-l", selector)["items"]
        return found

    wait_for(lambda: pods("job-name=orders-submit"), "the Job has its pod")
    (pod,) = pods("job-name=orders-submit")
    kubeconfig = yaml.safe_load(control_plane.kubeconfig.read_text())
    for user in kubeconfig["users"]:
        user["user"] = {"token": control_plane.kubectl("create", "token", "orders-submit", "-n", shop).strip()}
    (tmp_path / "kubeconfig").write_text(yaml.safe_dump(kubeconfig))
    environment = {
        "KUBECONFIG": str(tmp_path / "kubeconfig"),
        "JOB_UID": pod["metadata"]["labels"]["batch.kubernetes.io/controller-uid"],
    }
    (container,) = job["spec"]["template"]["spec"]["containers"]
    command = [*container["args"]]
    command.insert(-1, "--conf=spark.kubernetes.submission.waitAppCompletion=false")
    done = subprocess.run(command, check=False, env={**os.environ, **environment}, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, "\n".join(line for line in done.stderr.splitlines() if not line.startswith("\tat"))
    assert len(pods("spark-role=driver")) == 1
    control_plane.kubectl("delete", "job", "orders-submit", "-n", shop)
    wait_for(lambda: not pods("spark-role=driver"), "the driver's pod has gone")
