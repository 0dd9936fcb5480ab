"""Another version of operator and CRDs over a fleet under load, and the operator's back: no partition moves, nothing is lost."""

from copy import deepcopy
from pathlib import Path
from typing import Any

import pytest
import yaml

from charts.render import ROOT
from cluster import Cluster, built_images
from tests.e2e.installing import CHART, NAMESPACE, installed_by_helm
from tests.e2e.loaded_fleet import under_load
from tests.e2e.plain_fleet import GROUP

NEXT = "0.2.0"
CRDS = ROOT / "crds"


@pytest.mark.long
def test_an_upgrade_and_a_rollback_under_load_move_nothing_and_lose_nothing(node: Cluster, tmp_path: Path) -> None:
    repository = node.load_built_image(built_images.OPERATOR, tag=NEXT).rpartition(":")[0]
    node.helm("package", CHART, "--version", NEXT, "--app-version", NEXT, "--destination", str(tmp_path))
    with installed_by_helm(node, tmp_path), under_load(node, "upgraded") as fleet:
        owners, moves = fleet.owned(), fleet.group()["status"]["moves"]

        with_another_version(tmp_path / "crds")
        node.kubectl("apply", "--server-side", "--force-conflicts", "-f", str(tmp_path / "crds"))
        upgrade = ["--namespace", NAMESPACE, "--reset-then-reuse-values", "--wait", "--timeout", "300s"]
        node.helm("upgrade", "baton", str(tmp_path / f"baton-{NEXT}.tgz"), *upgrade, "--set", f"image.tag={NEXT}")
        assert images_of(node) == {f"{repository}:{NEXT}"}
        fleet.settled(members=3)
        assert (fleet.owned(), fleet.group()["status"]["moves"]) == (owners, moves)

        served = node.kubectl("-n", fleet.namespace, "get", f"consumergroups.v1alpha2.baton.dev/{GROUP}", "-o", "yaml")
        assert yaml.safe_load(served)["status"]["moves"] == moves
        fleet.scale(4)  # what has been upgraded works
        fleet.settled(members=4)
        owners, moves = fleet.owned(), fleet.group()["status"]["moves"]

        node.helm("rollback", "baton", "--namespace", NAMESPACE, "--wait", "--timeout", "300s")  # the CRDs stay as they are
        assert images_of(node) == {built_images.OPERATOR.name}
        fleet.settled(members=4)
        assert (fleet.owned(), fleet.group()["status"]["moves"]) == (owners, moves)
        fleet.scale(2)
        fleet.settled(members=2)


def images_of(node: Cluster) -> set[str]:
    """Of the operator's pods that are not ending."""
    pods = yaml.safe_load(node.kubectl("--namespace", NAMESPACE, "get", "pods", "-o", "yaml"))["items"]
    return {pod["spec"]["containers"][0]["image"] for pod in pods if "deletionTimestamp" not in pod["metadata"]}


def with_another_version(folder: Path) -> None:
    """The CRDs, which serve v1alpha2, too: as it is converted without a webhook, it has the same fields."""
    folder.mkdir()
    for path in CRDS.glob("*.yaml"):
        crd: dict[str, Any] = yaml.safe_load(path.read_text())
        added = deepcopy(crd["spec"]["versions"][0]) | {"name": "v1alpha2", "storage": False}
        crd["spec"]["versions"].append(added)
        (folder / path.name).write_text(yaml.safe_dump(crd))
