"""The reference pages name all that there is."""

import json
import re
from functools import partial
from pathlib import Path
from typing import Any
from unittest.mock import MagicMock, Mock

import pytest
import yaml
from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import Metric

from baton.api import Condition, ConditionStatus, ConsumerGroupStatus
from baton.consumer.metrics import ConsumerMetrics
from baton.controller.adapters import open_queue
from baton.controller.backlog import Backlog
from baton.controller.event_loop import EventLoopStalls
from baton.controller.metrics import Metrics, ProcessMetrics, Snapshot
from baton.controller.operator_replica import Options, Replica
from baton.controller.problems import EventReason, Reason
from baton.kube.clock import ApiServerClock
from baton.kube.elector import Terms
from baton.kube.objects import GroupView
from baton.model.ids import QueueName
from baton.queues.protocol import QueueCheck
from tests.unit.controller.test_health import sight
from tests.unit.kube.memory_api import ShopApi

ROOT = Path(__file__).parents[3]
REFERENCE, CHART = ROOT / "docs" / "reference", ROOT / "charts" / "baton"


def test_every_reason_is_explained() -> None:
    page = (REFERENCE / "conditions.md").read_text()
    assert [reason for reason in Reason if f"`{reason}`" not in page] == []


def test_every_event_is_explained_and_no_other() -> None:
    page = (REFERENCE / "events.md").read_text().partition("## What a partition")[0]
    explained = set(re.findall(r"^\| `(\w+)` \|", page, re.MULTILINE))
    assert explained == {reason.value for reason in EventReason}


def new_replica() -> Replica:
    return Replica(
        ShopApi(),
        ShopApi(),
        ApiServerClock(),
        partial(open_queue, ShopApi()),
        Options(identity="one", lease_namespace="baton", lease_name="operator", terms=Terms(), namespaces=["shop"]),
    )


def consumer_metrics(registry: CollectorRegistry) -> None:
    """Of a consumer that has opened its queue."""
    ConsumerMetrics(registry).around(lambda queue: Mock(), MagicMock())(QueueName("orders"))


def collected(registry: CollectorRegistry) -> dict[str, Metric]:
    return {family.name + ("_total" if family.type == "counter" else ""): family for family in registry.collect()}


def families() -> dict[str, set[str]]:
    """Every metric of the operator that there is, with its labels."""
    replica = new_replica()
    metrics = replica.metrics
    backlog, now = Backlog(), replica.clock.ticks()
    for ago in (30, 0):
        backlog.saw(QueueCheck(lag={0: 1}, finished=100 - ago), now - ago)
    queues = sight(backlog, partitions=4, stale_refused={0: 2}, dead_letters={}, vanished=0)
    ready = Condition(type="Ready", status=ConditionStatus.TRUE, reason="Ready", last_transition_time="")
    status = ConsumerGroupStatus(conditions=[ready], moves=0, lower_bound=0, deadline_misses=0)
    metrics.group(("shop", "orders"), Snapshot(status, {("orders", "Ready"): 1}, queues=queues))
    metrics.without_group({("shop", "ordres"): 1})
    for lister in replica.relists.listers:
        lister.begun = 0.0
        lister.failures["403"] += 1
    replica.capacity.book(("shop", "orders"), 4)
    replica.capacity.wait(("shop", "orders"), 1)
    replica.group_loops.other_releases.stand_back(GroupView("shop", "orders", "u", 1, None), "other/operator")
    metrics.registry.register(ProcessMetrics(EventLoopStalls()))
    found = collected(metrics.registry)
    return {name: labels(metrics.registry, family) for name, family in found.items()}


def labels(registry: CollectorRegistry, family: Metric) -> set[str]:
    """Also of one without a sample."""
    names = [getattr(one, "_labelnames", ()) for one in (family, registry._names_to_collectors.get(family.name))]
    return {label for sample in family.samples for label in sample.labels}.union(*names)


def test_every_metric_is_explained() -> None:
    page = (REFERENCE / "metrics.md").read_text()
    names = families().keys()
    assert len(names) > 15
    assert [name for name in sorted(names) if f"`{name}`" not in page] == []


def test_every_histogram_is_served_as_it_is_explained() -> None:
    metrics = Metrics(ApiServerClock())
    for histogram in (metrics.pause, metrics.holddown, metrics.ready_to_ledger):
        histogram.labels("shop", "orders").observe(0.1)
    served = generate_latest(metrics.registry).decode()
    names = set(re.findall(r"^# TYPE (\w+)", served, re.MULTILINE))
    page = (REFERENCE / "metrics.md").read_text()
    assert "baton_pause_seconds" in names
    assert [name for name in sorted(names) if f"`{name}`" not in page] == []


def consumer_families() -> dict[str, set[str]]:
    """Likewise of a consumer, with the namespace that Prometheus adds."""
    consumer_metrics(registry := CollectorRegistry())
    found = collected(registry)
    return {name: labels(registry, family) | {"namespace"} for name, family in found.items()}


ALERTS = yaml.safe_load((CHART / "files" / "alerts.yaml").read_text())["groups"][0]["rules"]


@pytest.mark.parametrize("rule", ALERTS, ids=[rule["alert"] for rule in ALERTS])
def test_alerts_use_only_metrics_and_labels_that_exist(rule: dict[str, Any]) -> None:
    known, said = families() | consumer_families(), rule["expr"]
    used = set(re.findall(r"baton_\w+", said))
    assert used and used <= known.keys()
    there = set.union(*(known[name] for name in used))
    summed = re.findall(r"by \(([^)]*)\)", said)
    kept = {name.strip() for names in summed for name in names.split(",")} if summed else there
    assert kept | set(re.findall(r"(\w+)=~?\"", said)) <= there | {"instance"}  # which Prometheus adds
    assert set(re.findall(r"\$labels\.(\w+)", rule["annotations"]["summary"])) <= kept


def test_the_page_names_every_alert() -> None:
    page = (REFERENCE / "metrics.md").read_text()
    assert [rule["alert"] for rule in ALERTS if f"`{rule['alert']}`" not in page] == []


PANELS = json.loads((CHART / "files" / "dashboard.json").read_text())["panels"]
GROWN = sorted(
    {
        name
        for expression in (
            *(rule["expr"] for rule in ALERTS),
            *(target["expr"] for panel in PANELS for target in panel.get("targets", ())),
        )
        for name in re.findall(r"(?:rate|increase)\((baton_\w+)", expression)
    }
)
"""Of which an alert or a panel asks how much they grew."""


@pytest.mark.parametrize("name", GROWN)
def test_a_counter_used_for_its_growth_has_a_sample_before_it_grows(name: str) -> None:
    """Prometheus takes the first value that it sees for no increase."""
    replica = new_replica()
    status = ConsumerGroupStatus(moves=0, lower_bound=0, deadline_misses=0)
    queues = sight(stale_refused={}, dead_letters={}, vanished=0)
    replica.metrics.group(("shop", "orders"), Snapshot(status, queues=queues))
    consumer_metrics(registry := CollectorRegistry())
    samples = [
        sample.value
        for family in (*replica.metrics.registry.collect(), *registry.collect())
        for sample in family.samples
        if sample.name == name
    ]
    assert samples and not any(samples)
