"""The CRDs that are checked in, and what the models make of them."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from baton.api.crd import crds
from baton.api.generate import files, text

ROOT = Path(__file__).parents[3]
KINDS = {document["spec"]["names"]["kind"]: document for document in crds()}


def test_the_files_are_what_the_models_say() -> None:
    assert [path for path, content in files(ROOT).items() if path.read_text() != content] == [], "run `make generate`"
    assert set((ROOT / "crds").glob("*.yaml")) == {path for path in files(ROOT) if path.suffix == ".yaml"}


@pytest.mark.parametrize("kind", KINDS)
def test_a_crd_fits_into_the_annotation_of_kubectl_apply(kind: str) -> None:
    assert len(text(KINDS[kind]).encode()) < 256 * 1024


@pytest.mark.parametrize("kind", KINDS)
def test_every_field_is_explained(kind: str) -> None:
    schema = KINDS[kind]["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
    silent = [path for path, field in fields(schema) if not field.get("description") and path not in IMPLIED]
    assert silent == []


@pytest.mark.parametrize("kind", KINDS)
def test_every_field_is_structural(kind: str) -> None:
    schema = KINDS[kind]["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
    for path, field in fields(schema):
        assert "type" in field, path
        assert not {"$ref", "anyOf", "oneOf", "allOf", "title", "const", "additionalProperties"} & field.keys(), path


@pytest.mark.parametrize(("kind", "short"), [("PartitionedQueue", "pq"), ("ConsumerGroup", "cg")])
def test_names_are_short_and_in_a_category(kind: str, short: str) -> None:
    names = KINDS[kind]["spec"]["names"]
    assert names["shortNames"] == [short]
    assert names["categories"] == ["baton"]


def test_a_group_can_be_scaled_and_shows_what_matters() -> None:
    version = KINDS["ConsumerGroup"]["spec"]["versions"][0]
    assert version["subresources"]["scale"] == {
        "specReplicasPath": ".spec.replicas",
        "statusReplicasPath": ".status.replicas",
        "labelSelectorPath": ".status.selector",
    }
    shown = [column["name"] for column in version["additionalPrinterColumns"] if not column.get("priority")]
    assert shown == ["State", "Ready", "Partitions", "Unowned", "Members", "Desired", "Moving", "Hold-until", "Changed", "Age"]


@pytest.mark.parametrize("kind", KINDS)
def test_a_rule_of_the_whole_names_the_field_that_it_is_about(kind: str) -> None:
    """Else the API server names it `<nil>`."""
    schema = KINDS[kind]["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
    assert all("fieldPath" in rule for rule in schema.get("x-kubernetes-validations", ()))


IMPLIED = {"apiVersion", "kind", "metadata", "metadata.name"}


def fields(schema: dict[str, Any], path: str = "") -> Iterator[tuple[str, dict[str, Any]]]:
    """All fields below, with their paths. The items of a plain list share its description."""
    for name, field in (schema.get("properties") or {}).items():
        here = f"{path}.{name}" if path else name
        yield here, field
        yield from fields(field, here)
        yield from fields(field.get("items") or {}, here)
