"""What the chart brings for the Prometheus Operator and for Grafana, where it is asked to."""

import json
import re
from typing import Any

import pytest
import yaml

from baton.engine.step import SIZE_LIMIT
from baton.model.names import GROUP_LABEL, OPERATOR_SELECTOR
from charts.render import CHART, ROOT
from tests.unit.chart.conftest import Objects

KINDS = {
    "serviceMonitor": ("ServiceMonitor", "baton"),
    "podMonitor": ("PodMonitor", "baton-fleets"),
    "prometheusRule": ("PrometheusRule", "baton"),
    "dashboard": ("ConfigMap", "baton-dashboard"),
}


@pytest.mark.parametrize("value", KINDS)
def test_a_monitoring_object_is_there_if_enabled_with_its_labels(objects: Objects, value: str) -> None:
    assert KINDS[value] not in objects()
    found = objects("--set", f"metrics.{value}.enabled=true,metrics.{value}.labels.release=monitoring")[KINDS[value]]
    labels = found["metadata"]["labels"]
    assert labels["release"] == "monitoring"
    assert labels["app.kubernetes.io/name"] == "baton"
    assert found["metadata"]["namespace"] == "here"


def test_a_service_monitor_comes_with_its_service(objects: Objects) -> None:
    found = objects("--set", "metrics.serviceMonitor.enabled=true")
    spec = found["ServiceMonitor", "baton"]["spec"]
    service = found["Service", "baton-metrics"]
    assert spec["selector"]["matchLabels"].items() <= service["metadata"]["labels"].items()
    (endpoint,) = spec["endpoints"]
    assert endpoint == {"port": service["spec"]["ports"][0]["name"], "honorLabels": True}


def test_a_pod_monitor_selects_members_in_served_namespaces(objects: Objects) -> None:
    def spec(*arguments: str) -> Any:
        return objects("--set", "metrics.podMonitor.enabled=true", *arguments)["PodMonitor", "baton-fleets"]["spec"]

    assert spec()["namespaceSelector"] == {"any": True}
    assert spec("--set", "watchNamespaces={shop,bank}")["namespaceSelector"] == {"matchNames": ["shop", "bank"]}
    assert spec()["selector"]["matchExpressions"] == [{"key": GROUP_LABEL, "operator": "Exists"}]
    (endpoint,) = spec()["podMetricsEndpoints"]
    driver = yaml.safe_load((ROOT / "manifests" / "examples" / "spark" / "driver.yaml").read_text())["spec"]["template"]
    assert GROUP_LABEL in driver["metadata"]["labels"]
    assert endpoint["port"] in [port["name"] for port in driver["spec"]["containers"][0]["ports"]]


def test_the_rules_are_those_of_the_file(objects: Objects) -> None:
    found = objects("--set", "metrics.prometheusRule.enabled=true")["PrometheusRule", "baton"]
    assert found["spec"] == yaml.safe_load((CHART / "files" / "alerts.yaml").read_text())


def test_the_alert_for_full_ledgers_names_the_limit() -> None:
    assert f"of {SIZE_LIMIT:,} bytes" in (CHART / "files" / "alerts.yaml").read_text()


def test_the_dashboard_is_passed_to_grafana_unchanged(objects: Objects) -> None:
    found = objects("--set", "metrics.dashboard.enabled=true")["ConfigMap", "baton-dashboard"]
    assert found["metadata"]["labels"]["grafana_dashboard"] == "1"
    assert json.loads(found["data"]["baton.json"]) == json.loads((CHART / "files" / "dashboard.json").read_text())


def test_panels_have_unique_ids_and_do_not_overlap() -> None:
    panels = json.loads((CHART / "files" / "dashboard.json").read_text())["panels"]
    assert len({panel["id"] for panel in panels}) == len(panels)
    covered = [
        (x, y)
        for place in (panel["gridPos"] for panel in panels)
        for x in range(place["x"], place["x"] + place["w"])
        for y in range(place["y"], place["y"] + place["h"])
    ]
    assert len(set(covered)) == len(covered)
    assert max(x for x, _ in covered) < 24


# -- What finds the operator by its labels finds it under every name that the values may give it.


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


def test_the_commands_of_the_guides_select_the_operator(deployment: Any) -> None:
    assert OPERATOR_SELECTOR in SELECTORS
    assert [one for one in SELECTORS if not matches(one, pod_labels(deployment))] == []


def test_the_example_network_policies_select_the_operator(deployment: Any) -> None:
    policies = yaml.safe_load_all((EXAMPLES / "network-policies" / "fleet.yaml").read_text())
    (redis,) = (one for one in policies if one["metadata"]["name"] == "redis")
    (peers,) = (rule["from"] for rule in redis["spec"]["ingress"])
    (operator,) = (peer for peer in peers if "namespaceSelector" in peer)
    assert operator["podSelector"]["matchLabels"].items() <= pod_labels(deployment).items()


def test_the_example_scrape_configuration_selects_the_operator(deployment: Any) -> None:
    scrape = yaml.safe_load((EXAMPLES / "prometheus" / "scrape.yaml").read_text())
    (keep,) = (rule for rule in scrape["relabel_configs"] if rule.get("action") == "keep")
    labels = {re.sub(r"\W", "_", name): value for name, value in pod_labels(deployment).items()}
    meta = {f"__meta_kubernetes_pod_label_{name}": value for name, value in labels.items()}
    meta["__meta_kubernetes_pod_container_port_name"] = "http"
    assert re.fullmatch(keep["regex"], ";".join(meta.get(name, "") for name in keep["source_labels"]))
