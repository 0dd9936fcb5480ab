"""The reference pages name all that there is."""

import re
from pathlib import Path

from baton.controller.event_reasons import EventReason
from baton.controller.metrics import Metrics, QueueSnapshot, Snapshot
from baton.controller.problems import Reason

REFERENCE = Path(__file__).parents[3] / "docs" / "reference"


def test_every_reason_is_explained() -> None:
    page = (REFERENCE / "conditions.md").read_text()
    assert [reason for reason in Reason if f"`{reason}`" not in page] == []


def test_every_event_is_explained_and_no_other() -> None:
    page = (REFERENCE / "events.md").read_text().partition("## What a partition")[0]
    explained = set(re.findall(r"^\| `(\w+)` \|", page, re.MULTILINE))
    assert explained == {reason.value for reason in EventReason}


def test_every_metric_is_explained() -> None:
    page = (REFERENCE / "metrics.md").read_text()
    metrics = Metrics()
    metrics.group(
        ("shop", "orders"),
        Snapshot("Ready", 2, 1, {}, 0, 0, 3, 3, 0, 900, 1, 0, 0.0, {"orders": QueueSnapshot(True, {0: 1}, 2, 0, "Ready")}),
    )
    names = {family.name + ("_total" if family.type == "counter" else "") for family in metrics.registry.collect()}
    assert len(names) > 15
    assert [name for name in sorted(names) if f"`{name}`" not in page] == []
