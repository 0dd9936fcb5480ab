"""The examples let nodes go. Their PodDisruptionBudgets let a drain go on, whatever size the other examples give a fleet; and the
cluster autoscaler may take their nodes."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.cluster_autoscaler import keeps_its_node

EXAMPLES = Path(__file__).parents[2] / "manifests" / "examples"
BUDGETS = sorted(EXAMPLES.glob("*/disruption.yaml"))


def read(path: Path, kind: str) -> Any:
    (found,) = (one["spec"] for one in yaml.safe_load_all(path.read_text()) if one and one["kind"] == kind)
    return found


@pytest.mark.parametrize("path", [path for path in BUDGETS if path.parent.name != "spark"], ids=lambda path: path.parent.name)
def test_pods_of_a_deployment_go_one_after_the_other(path: Path) -> None:
    spec = read(path, "PodDisruptionBudget")
    assert (spec["maxUnavailable"], "minAvailable" in spec) == (1, False)


def test_an_executor_can_be_evicted_at_the_smallest_fleet_size() -> None:
    """Only the driver knows the desired size, so the budget says how many stay."""
    kept = read(EXAMPLES / "spark" / "disruption.yaml", "PodDisruptionBudget")["minAvailable"]
    assert read(EXAMPLES / "spark" / "queue.yaml", "ConsumerGroup")["replicas"] > kept
    assert read(EXAMPLES / "autoscaling" / "keda-spark.yaml", "ScaledObject")["minReplicaCount"] > kept


def executors() -> list[Any]:
    """Their templates, with the scratch space that Spark adds."""
    template = yaml.safe_load((EXAMPLES / "spark" / "executor.yaml").read_text())
    application = yaml.safe_load((EXAMPLES / "spark-operator" / "application.yaml").read_text())
    pods = [template, application["spec"]["executor"]["template"]]
    for pod in pods:
        pod["spec"]["volumes"].append({"name": "spark-local-dir-1", "emptyDir": {}})
    return pods


def test_the_cluster_autoscaler_may_take_an_executors_node() -> None:
    """Else it would keep it for two reasons: an executor belongs to a pod, its driver, and has scratch space."""
    for pod in executors():
        assert keeps_its_node(pod, "Pod") == ""
        del pod["metadata"]["annotations"]
        assert (keeps_its_node(pod, "Pod"), keeps_its_node(pod, "ReplicaSet")) == ("NotReplicated", "LocalStorageRequested")


def pods_with_a_controller() -> Iterator[tuple[Path, str, Any]]:
    owners = {"Deployment": "ReplicaSet", "StatefulSet": "StatefulSet", "Job": "Job"}
    for path in sorted(EXAMPLES.parent.rglob("*.yaml")):
        for found in yaml.safe_load_all(path.read_text()):
            if found and found.get("kind") in owners and "template" in found["spec"]:
                yield path, owners[found["kind"]], found["spec"]["template"]


def test_the_cluster_autoscaler_may_take_the_node_of_any_other_pod() -> None:
    """The operator's included (manifests/install.yaml), which has an `emptyDir`."""
    found = list(pods_with_a_controller())
    assert {path.parent.name for path, _, _ in found} >= {"manifests", "kafka-consumer", "redis-consumer", "spark"}
    assert [path for path, owner, pod in found if keeps_its_node(pod, owner)] == []
