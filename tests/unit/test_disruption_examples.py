"""The examples' PodDisruptionBudgets let a drain go on, whatever size the other examples give a fleet."""

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
