"""The console in the chart: off by default, without any right, and only by the names that are given."""

from pathlib import Path

import pytest
import yaml
from click.testing import CliRunner

from baton.cli.main import main
from tests.unit.chart.conftest import Objects, Template

ON = ("--set", "console.enabled=true")
KINDS = ("Deployment", "Service", "NetworkPolicy", "ServiceAccount")


def test_the_console_is_off_by_default(objects: Objects) -> None:
    assert [name for _, name in objects() if "console" in name] == []
    assert {kind for kind, name in objects(*ON) if name == "baton-console"} == set(KINDS)


def test_the_consoles_account_has_no_rights_and_no_token(objects: Objects) -> None:
    found = objects(*ON)
    pod = found["Deployment", "baton-console"]["spec"]["template"]["spec"]
    assert pod["serviceAccountName"] == "baton-console"
    assert pod["automountServiceAccountToken"] is False
    assert found["ServiceAccount", "baton-console"]["automountServiceAccountToken"] is False
    bound = [subject["name"] for one in found.values() for subject in one.get("subjects", [])]
    assert bound and "baton-console" not in bound


def test_the_consoles_pods_meet_the_restricted_profile(objects: Objects) -> None:
    found = objects(*ON)
    pod, other = (found["Deployment", name]["spec"]["template"]["spec"] for name in ("baton-console", "baton"))
    assert pod["securityContext"] == other["securityContext"]
    (container,), (operator,) = pod["containers"], other["containers"]
    assert container["securityContext"] == operator["securityContext"]
    assert container["image"] == operator["image"]
    assert {"startupProbe", "livenessProbe", "readinessProbe", "resources"} <= container.keys()


def test_values_for_pods_apply_to_the_console(objects: Objects, tmp_path: Path) -> None:
    counted = {"matchLabels": {"team": "orders"}}
    zone = {"topologyKey": "zone", "maxSkew": 1, "whenUnsatisfiable": "ScheduleAnyway", "labelSelector": counted}
    term = {"matchExpressions": [{"key": "pool", "operator": "In", "values": ["ops"]}]}
    scheduling = {
        "affinity": {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [term]}}},
        "topologySpreadConstraints": [zone],
        "priorityClassName": "ops",
        "nodeSelector": {"disk": "ssd"},
        "tolerations": [{"key": "ops", "operator": "Exists"}],
    }
    values = tmp_path / "values.yaml"
    values.write_text(yaml.safe_dump({**scheduling, "podLabels": {"team": "orders"}, "podAnnotations": {"mesh": "off"}}))
    found = objects(*ON, "--values", str(values))
    for name in ("baton", "baton-console"):
        pod = found["Deployment", name]["spec"]["template"]
        assert {key: pod["spec"][key] for key in scheduling} == scheduling
        assert pod["metadata"]["labels"]["team"] == "orders" and pod["metadata"]["annotations"]["mesh"] == "off"


def test_the_consoles_pod_has_no_affinity(objects: Objects) -> None:
    assert "affinity" not in objects(*ON)["Deployment", "baton-console"]["spec"]["template"]["spec"]


def test_no_selector_matches_the_pods_of_the_other(objects: Objects) -> None:
    found = objects(*ON, "--set", "networkPolicy.enabled=true,metrics.service.enabled=true")
    pods = {name: found["Deployment", name]["spec"]["template"]["metadata"]["labels"] for name in ("baton", "baton-console")}
    for (kind, name), made in found.items():
        selector = {
            "Deployment": lambda spec: spec["selector"]["matchLabels"],
            "PodDisruptionBudget": lambda spec: spec["selector"]["matchLabels"],
            "NetworkPolicy": lambda spec: spec["podSelector"]["matchLabels"],
            "Service": lambda spec: spec["selector"],
        }.get(kind)
        if selector is not None:
            taken = [pod for pod, labels in pods.items() if selector(made["spec"]).items() <= labels.items()]
            assert taken == ["baton-console" if name == "baton-console" else "baton"], (kind, name)


def test_the_consoles_arguments_are_valid(objects: Objects, tmp_path: Path) -> None:
    found = objects(*ON, "--set", "console.hosts={baton.example.org},console.allowApprove=true")
    arguments = found["Deployment", "baton-console"]["spec"]["template"]["spec"]["containers"][0]["args"]
    assert "--host=baton.example.org" in arguments and "--allow-approve" in arguments
    ca = tmp_path / "ca.crt"
    ca.touch()
    there = [one.replace("/etc/baton/api-server/ca.crt", str(ca)) for one in arguments]
    said = CliRunner().invoke(main, there, env={"KUBERNETES_SERVICE_HOST": ""})
    assert "KUBERNETES_SERVICE_HOST is not set: use --kubeconfig instead" in said.output


def test_the_console_is_read_only_by_default(objects: Objects) -> None:
    arguments = objects(*ON)["Deployment", "baton-console"]["spec"]["template"]["spec"]["containers"][0]["args"]
    assert "--allow-approve" not in arguments


@pytest.mark.parametrize(
    ("setting", "complaint"),
    [
        ("console.host=x", "additional properties 'host' not allowed"),
        ("console.hosts={https://baton.example.org}", "does not match pattern"),
        ("console.hosts={baton.example.org:80}", "does not match pattern"),
        ("console.enabled=true,console.ingress.enabled=true", "console.hosts: name the host of console.ingress"),
        ("console=null", "missing property 'console'"),
        ("console.allowApprove=yes", "got string, want boolean"),
    ],
)
def test_an_invalid_value_of_the_console_is_refused(template: Template, setting: str, complaint: str) -> None:
    done = template("--set", setting)
    assert done.returncode != 0
    assert complaint in done.stderr


def test_an_ingress_routes_its_hosts_to_the_console(objects: Objects) -> None:
    settings = "enabled=true,console.ingress.className=nginx,console.ingress.tlsSecretName=tls,console.hosts={a.org,b.org}"
    found = objects(*ON, "--set", f"console.ingress.{settings}")
    spec = found["Ingress", "baton-console"]["spec"]
    backend = {"service": {"name": "baton-console", "port": {"name": "http"}}}
    path = {"path": "/", "pathType": "Prefix", "backend": backend}
    assert spec == {
        "ingressClassName": "nginx",
        "rules": [{"host": host, "http": {"paths": [path]}} for host in ("a.org", "b.org")],
        "tls": [{"secretName": "tls", "hosts": ["a.org", "b.org"]}],
    }
    assert [port["name"] for port in found["Service", "baton-console"]["spec"]["ports"]] == ["http"]


def test_the_consoles_network_policy_names_its_peers(objects: Objects, tmp_path: Path) -> None:
    peers = [{"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "ingress"}}}]
    values = tmp_path / "values.yaml"
    values.write_text(yaml.safe_dump({"console": {"enabled": True, "networkPolicy": {"from": peers}}}))
    spec = objects("--values", str(values))["NetworkPolicy", "baton-console"]["spec"]
    assert (spec["policyTypes"], spec["ingress"]) == (["Ingress"], [{"ports": [{"port": "http"}], "from": peers}])
