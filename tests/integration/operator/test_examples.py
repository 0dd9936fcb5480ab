"""The examples as a user applies them: nothing in them is unknown to the API server, and it accepts every object."""

from pathlib import Path

import pytest

from cluster.cluster import Cluster
from tests.e2e.spark import spark_operator
from tests.integration.operator.world import World

EXAMPLES = Path(__file__).parents[3] / "manifests" / "examples"
STARTED = {"deployment.apps", "statefulset.apps", "job.batch", "sparkapplication.sparkoperator.k8s.io"}
REPLACED = ("poddisruptionbudget.policy/", "statefulset.apps/redis ")
"""kubectl sends the selector of the one, and the claims of the other, whole with every apply, and says \"configured\"."""
FOLDERS = sorted(file.parent for file in EXAMPLES.glob("*/kustomization.yaml"))


@pytest.fixture(scope="module")
def machine(control_plane: Cluster) -> Cluster:
    """It knows SparkApplications."""
    spark_operator.define(control_plane)
    return control_plane


@pytest.mark.parametrize("folder", FOLDERS, ids=[folder.name for folder in FOLDERS])
async def test_an_example_can_be_applied_and_applied_again(empty: World, machine: Cluster, folder: Path) -> None:
    arguments = ("apply", "-k", str(folder), "-n", empty.namespace, "--validate=strict")
    first = machine.kubectl(*arguments).splitlines()
    kinds = {line.split("/")[0] for line in first}
    assert kinds >= {"partitionedqueue.baton.dev", "consumergroup.baton.dev"}
    assert kinds & STARTED
    assert [line for line in first if not line.endswith(" created")] == []
    again = machine.kubectl(*arguments).splitlines()
    assert [line for line in again if not line.endswith(" unchanged") and not line.startswith(REPLACED)] == []
