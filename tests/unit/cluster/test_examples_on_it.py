"""What `make cluster-load` builds, and that what the examples ask for is there on a machine of two cores."""

import re
from pathlib import Path
from typing import Any

import pytest
import yaml
from click.testing import CliRunner

from cluster import built_images
from cluster.__main__ import main
from cluster.built_images import EXAMPLES
from cluster.faults import ClusterError

ROOT = Path(__file__).parents[3]
FOLDER = ROOT / "manifests" / "examples"
DOCKERFILES = [path for path in sorted(FOLDER.glob("*/Dockerfile")) if "ARG PYTHON=" in path.read_text()]
"""Of images that stand on Python, and not on the operator's image."""


@pytest.mark.parametrize("word", EXAMPLES)
def test_an_examples_image_is_named_alike_everywhere(word: str) -> None:
    image = EXAMPLES[word]
    name = image.name.removeprefix("docker.io/library/")
    assert f"-t {name} ." in image.dockerfile.read_text()
    assert any(f"image: {name} " in one.read_text() for one in image.dockerfile.parent.glob("*.yaml"))


def test_every_example_image_can_be_loaded_and_has_a_unique_name() -> None:
    assert {image.dockerfile for image in EXAMPLES.values()} == set(DOCKERFILES)
    assert len({image.name for image in EXAMPLES.values()}) == len(EXAMPLES)


def test_the_cluster_page_lists_all_example_images() -> None:
    page = (ROOT / "docs" / "development" / "cluster.md").read_text()
    rows = dict(re.findall(r"^\| `(\w+)` \| `([\w:-]+)` \|", page, re.MULTILINE))
    assert rows == {word: image.name.rpartition("/")[2] for word, image in EXAMPLES.items()}


@pytest.mark.parametrize(
    ("tag", "name"),
    [
        ("mine:1", "docker.io/library/mine:1"),
        ("team/mine:1", "docker.io/team/mine:1"),
        ("registry.example.org/mine:1", "registry.example.org/mine:1"),
        ("localhost/mine:1", "localhost/mine:1"),
        ("localhost:5000/mine:1", "localhost:5000/mine:1"),
    ],
)
def test_a_custom_image_is_named_as_kubernetes_does(tag: str, name: str) -> None:
    assert built_images.complete(tag) == name


@pytest.mark.parametrize("tag", ["mine", "mine:latest", "localhost:5000/mine", ":1"])
def test_a_tag_that_kubernetes_would_pull_is_refused(tag: str) -> None:
    with pytest.raises(ClusterError, match="give it one that Kubernetes does not fetch"):
        built_images.complete(tag)


@pytest.mark.parametrize(
    "arguments",
    [
        ("--tag", "mine:1"),
        ("--dockerfile", __file__),
        ("--context", str(ROOT)),
        ("--only", "redis", "--dockerfile", __file__, "--tag", "mine:1"),
        ("--only", "nothing"),
    ],
)
def test_conflicting_options_are_refused_before_building(arguments: tuple[str, ...]) -> None:
    assert CliRunner().invoke(main, ["load", *arguments]).exit_code == 2


def test_four_executors_of_the_spark_example_have_room_on_a_node_of_two_cpus() -> None:
    """Beside the operator, and beside kind's own pods (950m)."""
    (driver,) = yaml.safe_load_all((FOLDER / "spark" / "driver.yaml").read_text())
    (container,) = driver["spec"]["template"]["spec"]["containers"]
    executor = next(one["value"] for one in container["env"] if one["name"] == "EXECUTOR_CPU")
    chart = yaml.safe_load((ROOT / "charts" / "baton" / "values.yaml").read_text())
    operator = chart["replicas"] * millis(chart["resources"]["requests"]["cpu"])
    (scaled,) = re.findall(r"kubectl scale consumergroup orders --replicas=(\d+)", (ROOT / "docs/tutorials/spark.md").read_text())
    asked = millis(container["resources"]["requests"]["cpu"]) + int(scaled) * millis(executor) + operator
    assert asked + 950 <= 2000


def test_the_spark_examples_ask_for_the_same() -> None:
    driver = (FOLDER / "spark" / "driver.yaml").read_text()
    application = yaml.safe_load((FOLDER / "spark-operator" / "application.yaml").read_text())["spec"]
    submit = (FOLDER / "spark-submit" / "submit.yaml").read_text()
    asked: list[Any] = [
        (re.findall(r"requests: {cpu: (\w+)", driver), re.findall(r"EXECUTOR_CPU, value: (\w+)", driver)),
        ([application["driver"]["coreRequest"]], [application["executor"]["coreRequest"]]),
        tuple(re.findall(rf"kubernetes.{role}.request.cores=(\w+)", submit) for role in ("driver", "executor")),
    ]
    assert asked[1:] == asked[:1] * 2


def millis(quantity: str) -> int:
    assert quantity.endswith("m")
    return int(quantity.removesuffix("m"))
