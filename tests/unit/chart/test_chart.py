"""The chart renders what the cluster's policies and the operator's needs ask for, and refuses values that it does not know."""

import re
from pathlib import Path
from subprocess import run
from typing import Any

import pytest
import yaml
from charts.render import CHART, ROOT


def test_the_chart_passes_helm_lint(helm: Path) -> None:
    done = run([helm, "lint", "--strict", CHART], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize(
    ("setting", "complaint"),
    [
        ("replica=3", "additional properties 'replica' not allowed"),
        ("image.pullpolicy=Never", "additional properties 'pullpolicy' not allowed"),
        ("logLevel=loud", "value must be one of 'debug', 'info', 'warning', 'error'"),
        ("replicas=-1", "minimum: got -1, want 0"),
        ("watchNamespaces={Shop}", "does not match pattern"),
        ("fullnameOverride=a.b", "does not match pattern"),  # a Service's name has no dots
        ("metrics=null", "missing property 'metrics'"),
        ("metrics.service=null", "missing property 'service'"),
        ("rbac=null", "missing property 'rbac'"),
        ("livenessProbe=null", "missing property 'livenessProbe'"),
    ],
)
def test_a_value_that_is_unknown_or_wrong_is_refused_by_its_name(template, setting: str, complaint: str) -> None:
    done = template("--set", setting)
    assert done.returncode != 0
    assert complaint in done.stderr


def test_every_default_value_is_known_to_the_schema() -> None:
    schema = yaml.safe_load((CHART / "values.schema.json").read_text())
    values = yaml.safe_load((CHART / "values.yaml").read_text())
    assert set(values) == set(schema["properties"]) - {"global"}


def test_every_value_is_in_the_guide() -> None:
    values = yaml.safe_load((CHART / "values.yaml").read_text())
    page = (ROOT / "docs" / "guides" / "install.md").read_text()
    table = page.partition("| value | default | |")[2].partition("\n\n")[0]
    assert [name for name in values if not re.search(rf"`{name}[.`]", table)] == []


def test_the_pods_meet_the_restricted_profile(objects) -> None:
    pod = objects()["Deployment", "baton"]["spec"]["template"]["spec"]
    (container,) = pod["containers"]
    assert pod["securityContext"]["runAsNonRoot"] is True
    assert pod["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
    assert container["securityContext"] == {
        "allowPrivilegeEscalation": False,
        "readOnlyRootFilesystem": True,
        "capabilities": {"drop": ["ALL"]},
    }


def test_two_replicas_lead_by_a_lease_that_they_may_write_in_their_own_namespace_only(objects) -> None:
    found = objects()
    assert found["Deployment", "baton"]["spec"]["replicas"] == 2
    leader = found["Role", "baton-leader"]
    assert leader["metadata"]["namespace"] == "here"
    assert [rule["resources"] for rule in leader["rules"]] == [["leases"]]
    everywhere = {resource: rule["verbs"] for rule in found["ClusterRole", "baton"]["rules"] for resource in rule["resources"]}
    assert everywhere["leases"] == ["get", "list", "watch"]


def test_no_rule_asks_for_more_than_the_floor(objects) -> None:
    rules = objects()["ClusterRole", "baton"]["rules"]
    assert not [rule for rule in rules if "*" in (*rule["verbs"], *rule["resources"], *rule["apiGroups"])]
    verbs = {resource: set(rule["verbs"]) for rule in rules for resource in rule["resources"]}
    assert verbs["secrets"] == {"get"}
    assert verbs["pods"] == {"get", "list", "watch", "patch"}
    assert not [resource for resource, allowed in verbs.items() if "delete" in allowed]


def test_without_read_secrets_no_secret_can_be_read(objects) -> None:
    rules = objects("--set", "rbac.readSecrets=false")["ClusterRole", "baton"]["rules"]
    assert "secrets" not in [resource for rule in rules for resource in rule["resources"]]


def test_named_namespaces_are_bound_one_by_one_and_the_cluster_is_not(objects, template) -> None:
    found = objects("--set", "watchNamespaces={shop,bank}")
    assert not [name for name in found if name[0] == "ClusterRoleBinding"]
    bindings = [document for document in yaml.safe_load_all(template("--set", "watchNamespaces={shop,bank}").stdout) if document]
    for role in ("baton", "baton-ledger"):
        assert [
            document["metadata"]["namespace"]
            for document in bindings
            if document["kind"] == "RoleBinding"
            and document["roleRef"] | {"apiGroup": ""} == {"apiGroup": "", "kind": "ClusterRole", "name": role}
        ] == ["shop", "bank"]
    args = found["Deployment", "baton"]["spec"]["template"]["spec"]["containers"][0]["args"]
    assert "shop" in str(args) and "bank" in str(args)


def test_deletions_in_named_namespaces_are_finished_by_one_right_more_if_asked_for(objects) -> None:
    named = ("--set", "watchNamespaces={shop}")
    assert ("ClusterRole", "baton-deletions") not in objects(*named)
    made = objects(*named, "--set", "rbac.finishDeletions=true")
    rules = made["ClusterRole", "baton-deletions"]["rules"]
    assert rules == [{"apiGroups": ["baton.dev"], "resources": ["consumergroups"], "verbs": ["get", "list", "watch", "patch"]}]
    assert made["ClusterRoleBinding", "baton-deletions"]["subjects"][0]["namespace"] == "here"
    assert ("ClusterRole", "baton-deletions") not in objects("--set", "rbac.finishDeletions=true"), "all namespaces are served"


def test_extra_volumes_and_variables_reach_the_container(objects, tmp_path: Path) -> None:
    values = tmp_path / "values.yaml"
    values.write_text(
        yaml.safe_dump(
            {
                "extraVolumes": [{"name": "usr", "hostPath": {"path": "/usr"}}],
                "extraVolumeMounts": [{"name": "usr", "mountPath": "/usr", "readOnly": True}],
                "extraEnv": [{"name": "HTTPS_PROXY", "value": "proxy:3128"}],
            }
        )
    )
    pod = objects("--values", str(values))["Deployment", "baton"]["spec"]["template"]["spec"]
    assert {"name": "usr", "hostPath": {"path": "/usr"}} in pod["volumes"]
    assert {"name": "usr", "mountPath": "/usr", "readOnly": True} in pod["containers"][0]["volumeMounts"]
    assert {"name": "HTTPS_PROXY", "value": "proxy:3128"} in pod["containers"][0]["env"]


def test_a_single_replica_has_no_disruption_budget_that_would_block_a_drain(objects) -> None:
    assert ("PodDisruptionBudget", "baton") in objects()
    assert ("PodDisruptionBudget", "baton") not in objects("--set", "replicas=1")


def test_the_version_is_the_packages_own() -> None:
    import tomllib

    version = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"]
    chart = yaml.safe_load((CHART / "Chart.yaml").read_text())
    assert (chart["version"], chart["appVersion"]) == (version, version)


POLICIES = {"baton-sessions", "baton-ledgers", "baton-members", "baton-workloads", "baton-cronjobs"}


def policies(found: dict[tuple[str, str], Any], kind: str = "ValidatingAdmissionPolicy") -> set[str]:
    return {name for of, name in found if of == kind}


def told(found: dict[tuple[str, str], Any]) -> str:
    """What the operator is told of the policies."""
    (flag,) = [
        arg for arg in found["Deployment", "baton"]["spec"]["template"]["spec"]["containers"][0]["args"] if "admission" in arg
    ]
    return flag


def test_the_admission_policies_are_on_by_default_and_bound_and_the_operator_is_told(objects) -> None:
    found = objects()
    assert policies(found) == policies(found, "ValidatingAdmissionPolicyBinding") == POLICIES
    assert all(found["ValidatingAdmissionPolicyBinding", name]["spec"]["validationActions"] == ["Deny"] for name in POLICIES)
    assert told(found) == "--admission-policy=on"


@pytest.mark.parametrize("arguments", [("--set", "admissionPolicy.enabled=false"), ("--kube-version", "1.29.14")])
def test_without_them_the_operator_is_told_so(objects, arguments: tuple[str, ...]) -> None:
    found = objects(*arguments)
    assert policies(found) == policies(found, "ValidatingAdmissionPolicyBinding") == set()
    assert told(found) == "--admission-policy=off"


def test_the_policies_hold_where_this_operator_serves(objects) -> None:
    found = objects("--set", "watchNamespaces={shop,bank}")
    for name in POLICIES:
        (expression,) = found["ValidatingAdmissionPolicyBinding", name]["spec"]["matchResources"]["namespaceSelector"][
            "matchExpressions"
        ]
        assert (expression["key"], expression["values"]) == ("kubernetes.io/metadata.name", ["shop", "bank"])


def test_who_may_edit_a_namespace_may_join_its_groups_and_nobody_but_the_operator_writes_ledgers(objects) -> None:
    found = objects()
    verbs = {name: [rule["verbs"] for rule in role["rules"]] for (kind, name), role in found.items() if kind == "ClusterRole"}
    assert [name for name, those in verbs.items() if ["join"] in those] == ["baton-join"]
    assert "rbac.authorization.k8s.io/aggregate-to-edit" in found["ClusterRole", "baton-join"]["metadata"]["labels"]
    assert found["ClusterRoleBinding", "baton-ledger"]["subjects"] == [
        {"kind": "ServiceAccount", "name": "baton", "namespace": "here"}
    ]
