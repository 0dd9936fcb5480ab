"""A new kind of queue takes a folder and a line: the resource, the operator and consumers then know it."""

import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.unit.queues.toy_tree import ROOT, run_in, tree_with_the_toy

PROGRAM = Path(__file__).with_name("toy_program.py")


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, Any]]:
    """The folder of the CRDs, and the program's report of the group."""
    folder = tmp_path_factory.mktemp("tree")
    found: dict[str, Any] = json.loads(run_in(tree_with_the_toy(folder), PROGRAM, folder / "generated").splitlines()[-1])
    return folder / "generated", found


def test_a_new_kind_works_with_operator_and_consumer(made: tuple[Path, dict[str, Any]]) -> None:
    _, found = made
    assert (found["type"], found["server"], found["sessions"], found["most"]) == ("Toy", "one", True, 8)
    assert len(found["owned"]) == 2
    assert found["handled"] == [str(number) for number in found["owned"]]
    assert found["done"] == found["owned"]


def test_a_new_kind_only_adds_its_fields_and_rules(made: tuple[Path, dict[str, Any]]) -> None:
    folder, _ = made
    name = "crds/baton.dev_partitionedqueues.yaml"
    ours, theirs = _spec(folder / name), _spec(ROOT / name)
    source, spec = ours["properties"]["source"], ours
    assert source["properties"]["type"]["enum"] == ["Redis", "Kafka", "External", "Toy"]
    assert source["properties"].pop("toy")["properties"]["server"]["description"] == "Its name."
    source["properties"]["type"]["enum"].remove("Toy")
    new = [rule["message"] for part in (source, spec) for rule in _without_the_toys(part)]
    assert new == [
        "spec.source.toy is missing: spec.source.type Toy needs spec.source.toy.server",
        "spec.source.toy belongs to spec.source.type Toy only: remove it, or change the type (one queue has one source)",
        "spec.partitions: a Toy queue has at most 8 partitions",
        *(
            f"spec.{limit} has no effect for Toy: remove it (it is for Redis, Kafka)"
            for limit in ("maxDeliveredUnacked", "maxRedeliveries")
        ),
    ]
    assert ours == theirs


def _spec(path: Path) -> dict[str, Any]:
    document = yaml.safe_load(path.read_text())
    spec: dict[str, Any] = document["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"]
    return spec


def _without_the_toys(part: dict[str, Any]) -> list[dict[str, str]]:
    """Remove the rules of the toy kind, and return them."""
    rules = part["x-kubernetes-validations"]
    own = [rule for rule in rules if "Toy" in rule["message"]]
    part["x-kubernetes-validations"] = [rule for rule in rules if rule not in own]
    return own
