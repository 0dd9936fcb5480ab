"""The examples let nodes go. Their PodDisruptionBudgets let a drain go on, whatever size the other examples give a fleet; and the
cluster autoscaler may take the nodes of executors."""

from pathlib import Path
from typing import Any

import pytest
import yaml

EXAMPLES = Path(__file__).parents[2] / "manifests" / "examples"
BUDGETS = sorted(EXAMPLES.glob("*/disruption.yaml"))


def read(path: Path, kind: str) -> Any:
    (found,) = (one["spec"] for one in yaml.safe_load_all(path.read_text()) if one and one["kind"] == kind)
    return found


@pytest.mark.parametrize("path", [path for path in BUDGETS if path.parent.name != "spark"], ids=lambda path: path.parent.name)
def test_pods_of_a_deployment_go_one_after_the_other(path: Path) -> None:
    spec = read(path, "PodDisruptionBudget")
    assert (spec["maxUnavailable"], "minAvailable" in spec) == (1, False)


def test_an_executor_can_be_evicted_at_the_smallest_size_of_its_fleet() -> None:
    """Nobody but the driver knows how many there are to be, so the budget names how many stay."""
    kept = read(EXAMPLES / "spark" / "disruption.yaml", "PodDisruptionBudget")["minAvailable"]
    assert read(EXAMPLES / "spark" / "queue.yaml", "ConsumerGroup")["replicas"] > kept
    assert read(EXAMPLES / "autoscaling" / "keda-spark.yaml", "ScaledObject")["minReplicaCount"] > kept


def test_the_cluster_autoscaler_may_take_an_executors_node() -> None:
    """It leaves a pod alone that belongs to no controller that it knows, or has an `emptyDir`, unless the pod says so."""
    template = yaml.safe_load((EXAMPLES / "spark" / "executor.yaml").read_text())
    application = yaml.safe_load((EXAMPLES / "spark-operator" / "application.yaml").read_text())
    for one in (template, application["spec"]["executor"]["template"]):
        assert one["metadata"]["annotations"] == {"cluster-autoscaler.kubernetes.io/safe-to-evict": "true"}
