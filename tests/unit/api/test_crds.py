"""The CRDs that are checked in, and what the models make of them."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from baton.api import ConsumerGroupStatus, PartitionedQueueStatus
from baton.api.crd import crds
from baton.api.generate import files, text
from baton.api.reading import LONGEST_MISTAKE, read_what_can_be

ROOT = Path(__file__).parents[3]
KINDS = {document["spec"]["names"]["kind"]: document for document in crds()}


def test_the_crd_files_are_generated_from_the_models() -> None:
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
def test_a_rule_of_a_whole_spec_names_its_field(kind: str) -> None:
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


# -- Statuses that another release or client has written: valid parts are read, invalid ones are named.


READY = {"type": "Ready", "status": "True", "reason": "Ready", "lastTransitionTime": "2026-11-22T12:00:00Z"}
MOVE = {"queue": "orders", "partition": 1, "from": "a", "to": "b", "epoch": 2}
WORDS = ["state", "members", "conditions", "type", "status", "handoffs", "queue", "proposal", "members", "id", "moves"]
WORDS += ["Ready", "x"]
ANYTHING = st.recursive(
    st.none() | st.booleans() | st.integers() | st.sampled_from(WORDS) | st.sampled_from([READY, MOVE]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(WORDS), inner, max_size=4),
    max_leaves=12,
)


@given(raw=ANYTHING)
@pytest.mark.parametrize("model", [ConsumerGroupStatus, PartitionedQueueStatus])
def test_any_status_is_read_as_far_as_possible(model: type[ConsumerGroupStatus], raw: Any) -> None:
    status, mistake = read_what_can_be(model, raw, "status")
    assert isinstance(status, model)
    assert mistake is None or (mistake.startswith("status") and len(mistake) <= LONGEST_MISTAKE)


def test_only_invalid_items_of_a_list_are_left_out() -> None:
    raw = {
        "members": "many",
        "handoffs": [{**MOVE, "epoch": "x", "from": 3}, MOVE, {}, {**MOVE, "partition": 2}],
        "conditions": [READY],
    }
    status, mistake = read_what_can_be(ConsumerGroupStatus, raw, "status")
    assert mistake == "status.members: expected a whole number, found 'many'"
    assert [move.partition for move in status.handoffs] == [1, 2]
    assert [one.type for one in status.conditions] == ["Ready"] and "members" not in status.model_fields_set


def test_an_invalid_list_or_object_is_left_out() -> None:
    status, mistake = read_what_can_be(ConsumerGroupStatus, {"conditions": 3, "proposal": {"id": "1"}, "moves": 4}, "status")
    assert mistake is not None and "conditions" not in status.model_fields_set
    assert status.proposal is None and status.moves == 4
