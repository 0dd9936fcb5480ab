"""What finds the operator by its labels finds it under every name that the values may give it."""

import re
from typing import Any

import pytest
import yaml

from baton.model.names import OPERATOR_SELECTOR
from charts.render import ROOT
from tests.unit.chart.conftest import Objects

EXAMPLES = ROOT / "manifests" / "examples"
PAGES = [*sorted((ROOT / "docs").rglob("*.md")), ROOT / "README.md"]
SELECTORS = sorted({found for page in PAGES for found in re.findall(r"-l (app\.kubernetes\.io/\S+?)[`\s]", page.read_text())})
"""Of the commands that the pages tell people to run."""

Labels = dict[str, str]


@pytest.fixture(params=["", "nameOverride=mine", "fullnameOverride=mine", "podLabels.team=orders"])
def deployment(request: pytest.FixtureRequest, objects: Objects) -> Any:
    set_to = ("--set", request.param) if request.param else ()
    found = objects("--set", "console.enabled=true", *set_to)
    (made,) = (
        one
        for (kind, name), one in found.items()
        if kind == "Deployment" and matches(OPERATOR_SELECTOR, one["metadata"]["labels"])
    )
    assert made["spec"]["template"]["spec"]["containers"][0]["name"] == "operator"
    return made


def matches(selector: str, labels: Labels) -> bool:
    return dict(one.split("=") for one in selector.split(",")).items() <= labels.items()


def pod_labels(deployment: Any) -> Labels:
    labels: Labels = deployment["spec"]["template"]["metadata"]["labels"]
    return labels


def test_so_do_the_commands_of_the_guides(deployment: Any) -> None:
    assert OPERATOR_SELECTOR in SELECTORS
    assert [one for one in SELECTORS if not matches(one, pod_labels(deployment))] == []


def test_so_do_the_network_policies_of_the_example(deployment: Any) -> None:
    policies = yaml.safe_load_all((EXAMPLES / "network-policies" / "fleet.yaml").read_text())
    (redis,) = (one for one in policies if one["metadata"]["name"] == "redis")
    (peers,) = (rule["from"] for rule in redis["spec"]["ingress"])
    (operator,) = (peer for peer in peers if "namespaceSelector" in peer)
    assert operator["podSelector"]["matchLabels"].items() <= pod_labels(deployment).items()


def test_so_does_prometheus_by_the_examples_configuration(deployment: Any) -> None:
    scrape = yaml.safe_load((EXAMPLES / "prometheus" / "scrape.yaml").read_text())
    (keep,) = (rule for rule in scrape["relabel_configs"] if rule.get("action") == "keep")
    labels = {re.sub(r"\W", "_", name): value for name, value in pod_labels(deployment).items()}
    meta = {f"__meta_kubernetes_pod_label_{name}": value for name, value in labels.items()}
    meta["__meta_kubernetes_pod_container_port_name"] = "http"
    assert re.fullmatch(keep["regex"], ";".join(meta.get(name, "") for name in keep["source_labels"]))
