"""The chart renders what the cluster's policies and the operator's needs ask for, and refuses values that it does not know."""

import json
import re
import tarfile
from collections.abc import Iterable, Iterator
from pathlib import Path
from subprocess import run
from typing import Any

import pytest
import yaml

import baton
from charts import render
from charts.package import package
from charts.render import CHART, ROOT, install_manifest, rendered, stale_files
from cluster import helm_binary
from cluster.programs import KUBERNETES
from tests.cluster_autoscaler import LOCAL_VOLUMES, keeps_its_node
from tests.unit.chart.conftest import Found, Objects, Template

MONITORING = ("service", "serviceMonitor", "podMonitor", "prometheusRule", "dashboard")


def test_the_project_s_helm_renders_for_the_kubernetes_of_its_cluster(helm: Path, tmp_path: Path) -> None:
    (tmp_path / "Chart.yaml").write_text("{apiVersion: v2, name: asks, version: 1.0.0}")
    (tmp_path / "templates").mkdir()
    (tmp_path / "templates" / "answer.yaml").write_text("version: {{ .Capabilities.KubeVersion.Version }}")
    done = run([helm, "template", tmp_path], capture_output=True, text=True, check=True)
    major, minor, _ = KUBERNETES.split(".")
    assert f"version: v{major}.{minor}.0" in done.stdout


def test_the_chart_passes_helm_lint(helm: Path) -> None:
    done = run([helm, "lint", "--strict", CHART], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize(
    ("setting", "complaint"),
    [
        ("replica=3", "additional properties 'replica' not allowed"),
        ("image.pullpolicy=Never", "additional properties 'pullpolicy' not allowed"),
        ("logLevel=loud", "value must be one of 'debug', 'info', 'warning', 'error'"),
        ("replicas=0", "minimum: got 0, want 1"),
        ("image.tag=0.1.0@sha256:ab", "does not match pattern"),
        ("image.digest=sha256:ab", "does not match pattern"),
        (
            "podDisruptionBudget.minAvailable=1,podDisruptionBudget.maxUnavailable=1",
            "podDisruptionBudget: minAvailable and maxUnavailable",
        ),
        *(
            (f"{one}=64 MB", "does not match pattern")
            for one in ("tmpSizeLimit", "resources.limits.memory", "console.resources.requests.cpu")
        ),
        ("watchNamespaces={Shop}", "does not match pattern"),
        ("fullnameOverride=a.b", "does not match pattern"),  # a Service's name has no dots
        (f"fullnameOverride={'a' * 56}", "maxLength: got 56, want 55"),
        ("livenessProbe.successThreshold=2", "value must be 1"),
        ("podLabels.team=the orders", "does not match pattern"),
        ("metrics.prometheusRule.labels.-=a", "does not match pattern"),
        ("metrics=null", "missing property 'metrics'"),
        ("metrics.service=null", "missing property 'service'"),
        ("rbac=null", "missing property 'rbac'"),
        ("livenessProbe=null", "missing property 'livenessProbe'"),
        ("networkPolicy=null", "missing property 'networkPolicy'"),
        ("networkPolicy.form=x", "additional properties 'form' not allowed"),
        ("podSecurityContext.runAsUser=0", "minimum: got 0, want 1"),
        ("serviceAccount.create=false", "serviceAccount.name: name the account that the operator is to be"),
        ("commonLabels.app\\.kubernetes\\.io/name=mine", "commonLabels: the chart sets app.kubernetes.io/name itself"),
        ("podLabels.app\\.kubernetes\\.io/name=mine", "podLabels: the chart sets app.kubernetes.io/name itself"),
    ],
)
def test_an_unknown_or_wrong_value_is_refused_by_its_name(template: Template, setting: str, complaint: str) -> None:
    done = template("--set", setting)
    assert done.returncode != 0
    assert complaint in done.stderr


def test_every_default_value_is_known_to_the_schema() -> None:
    schema = yaml.safe_load((CHART / "values.schema.json").read_text())
    values = yaml.safe_load((CHART / "values.yaml").read_text())
    assert set(values) == set(schema["properties"]) - {"global"}


@pytest.mark.parametrize(
    "arguments",
    [("--set", f"fullnameOverride={'a' * 55}"), ("--set", f"nameOverride={'a' * 63}"), ("--set", f"nameOverride={'a-' * 31}a")],
)
def test_names_of_services_and_labels_fit(objects: Objects, arguments: tuple[str, ...]) -> None:
    on = ("console.enabled", "metrics.service.enabled", "metrics.dashboard.enabled", "networkPolicy.enabled")
    found = objects(*arguments, "--set", ",".join(f"{one}=true" for one in on))
    services = [name for kind, name in found if kind == "Service"]
    assert len(services) == len(set(services)) == 3
    assert [name for name in services if not re.fullmatch(r"[a-z]([-a-z0-9]{0,61}[a-z0-9])?", name)] == []
    labels = {value for one in found.values() for value in one["metadata"].get("labels", {}).values()}
    assert [value for value in labels if not re.fullmatch(r"[A-Za-z0-9]([-\w.]{0,61}[A-Za-z0-9])?", value)] == []


def test_a_digest_pins_the_image_of_every_pod(template: Template) -> None:
    digest = f"sha256:{'0a' * 32}"
    text = template("--set", f"console.enabled=true,image.digest={digest}").stdout
    images = re.findall(r"image: (.*)", text)
    assert len(images) == 4 and set(images) == {f'"baton-operator:{baton.__version__}@{digest}"'}


def test_common_labels_are_on_every_object_and_pod_and_in_no_selector(objects: Objects) -> None:
    on = ",".join(f"{one}.enabled=true" for one in ("console", "console.ingress", *(f"metrics.{one}" for one in MONITORING)))
    found = objects("--set", f"{on},console.hosts={{baton.example.org}},commonLabels.team=orders,podLabels.team=other")
    without = [name for name, one in found.items() if one["metadata"].get("labels", {}).get("team") != "orders"]
    assert [name for name in without if name[0] != "CustomResourceDefinition"] == []
    pods = [one["spec"]["template"] for (kind, _), one in found.items() if kind in ("Deployment", "Job")]
    assert [pod["metadata"]["labels"]["team"] for pod in pods] == ["orders"] * 3
    assert "team" not in found["Deployment", "baton"]["spec"]["selector"]["matchLabels"]


def test_a_spread_constraint_counts_the_pods_of_its_own_deployment(objects: Objects) -> None:
    found = objects("--set", "console.enabled=true,topologySpreadConstraints[0].topologyKey=zone")
    for name in ("baton", "baton-console"):
        spec = found["Deployment", name]["spec"]
        [constraint] = spec["template"]["spec"]["topologySpreadConstraints"]
        assert constraint == {"topologyKey": "zone", "labelSelector": spec["selector"]}


@pytest.mark.parametrize(
    ("setting", "budget"),
    [
        ("", {"maxUnavailable": 1}),
        ("minAvailable=1", {"minAvailable": 1}),
        ("maxUnavailable=50%", {"maxUnavailable": "50%"}),
        ("unhealthyPodEvictionPolicy=AlwaysAllow", {"maxUnavailable": 1, "unhealthyPodEvictionPolicy": "AlwaysAllow"}),
    ],
)
def test_a_disruption_budget_is_as_its_values_say(objects: Objects, setting: str, budget: dict[str, Any]) -> None:
    spec = objects("--set", f"podDisruptionBudget.{setting or 'enabled=true'}")["PodDisruptionBudget", "baton"]["spec"]
    assert {name: value for name, value in spec.items() if name != "selector"} == budget


def test_nothing_is_looked_up_in_the_cluster() -> None:
    """`helm template` and Argo CD, which have none, render what `helm install` does."""
    assert [path for path in CHART.rglob("*") if path.is_file() and "lookup" in path.read_text()] == []


def test_the_pods_meet_the_restricted_profile(objects: Objects) -> None:
    pod = objects()["Deployment", "baton"]["spec"]["template"]["spec"]
    (container,) = pod["containers"]
    assert pod["securityContext"]["runAsNonRoot"] is True
    assert pod["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
    assert container["securityContext"] == {
        "allowPrivilegeEscalation": False,
        "readOnlyRootFilesystem": True,
        "capabilities": {"drop": ["ALL"]},
    }


def test_a_cluster_that_gives_each_namespace_its_user_chooses_the_pods_user(objects: Objects) -> None:
    mine = "podSecurityContext"
    pod = objects("--set", f"{mine}.runAsUser=null,{mine}.runAsGroup=null,{mine}.fsGroup=null")["Deployment", "baton"]["spec"][
        "template"
    ]["spec"]
    assert pod["securityContext"] == {"runAsNonRoot": True, "seccompProfile": {"type": "RuntimeDefault"}}


def test_a_network_policy_follows_its_values(objects: Objects, tmp_path: Path) -> None:
    assert ("NetworkPolicy", "baton") not in objects("--set", "networkPolicy.enabled=false")
    default = objects()["NetworkPolicy", "baton"]["spec"]
    assert (default["policyTypes"], default["ingress"]) == (["Ingress"], [{"ports": [{"port": "http"}]}])
    values = tmp_path / "values.yaml"
    peers: list[Any] = [{"podSelector": {}}]
    rules = [{"ports": [{"port": 443}]}]
    values.write_text(yaml.safe_dump({"networkPolicy": {"enabled": True, "from": peers, "egress": rules}}))
    bounded = objects("--values", str(values))["NetworkPolicy", "baton"]["spec"]
    assert (bounded["policyTypes"], bounded["egress"]) == (["Ingress", "Egress"], rules)
    assert bounded["ingress"] == [{"ports": [{"port": "http"}], "from": peers}]
    pods = objects()["Deployment", "baton"]["spec"]["template"]["metadata"]["labels"]
    assert bounded["podSelector"]["matchLabels"].items() <= pods.items()


def test_no_service_of_the_namespace_sets_an_option_of_the_operator(objects: Objects) -> None:
    """baton-metrics would: BATON_METRICS_PORT, as tcp://ADDRESS:8080."""
    assert objects()["Deployment", "baton"]["spec"]["template"]["spec"]["enableServiceLinks"] is False


def documents(template: Template, *arguments: str) -> list[Any]:
    """All that the chart renders; in several namespaces there may be some of one name."""
    done = template(*arguments)
    assert done.returncode == 0, done.stderr
    return [document for document in yaml.safe_load_all(done.stdout) if document]


def rights(found: list[Any], namespace: str | None) -> dict[str, list[dict[str, Any]]]:
    """What the operator's account may do by RBAC in a namespace (None: in all), by resource."""
    where = "RoleBinding" if namespace else "ClusterRoleBinding"
    bound = [
        one["roleRef"]
        for one in found
        if one["kind"] == where and one["metadata"].get("namespace") == namespace and one["subjects"][0]["name"] == "baton"
    ]
    roles = [
        one
        for one in found
        if {"kind": one["kind"], "name": one["metadata"]["name"], "apiGroup": "rbac.authorization.k8s.io"} in bound
        and one["metadata"].get("namespace") == namespace
    ]
    assert len(roles) == len(bound)
    by: dict[str, list[dict[str, Any]]] = {}
    for role in roles:
        for rule in role["rules"]:
            for resource in rule["resources"]:
                by.setdefault(resource, []).append(rule)
    return by


def verbs(rules: list[dict[str, Any]]) -> set[str]:
    return {verb for rule in rules for verb in rule["verbs"]}


def test_two_replicas_share_a_lease_in_their_namespace(objects: Objects, template: Template) -> None:
    assert objects()["Deployment", "baton"]["spec"]["replicas"] == 2
    found = documents(template)
    assert rights(found, "here")["leases"] == [
        {
            "apiGroups": ["coordination.k8s.io"],
            "resources": ["leases"],
            "verbs": ["get", "update"],
            "resourceNames": ["baton-operator"],
        },
        {"apiGroups": ["coordination.k8s.io"], "resources": ["leases"], "verbs": ["create"]},
    ]
    assert verbs(rights(found, None)["leases"]) == {"get", "list", "watch"}


def test_no_rule_asks_for_more_than_the_floor(template: Template) -> None:
    found = documents(template)
    rules = [rule for one in found if one["kind"] in ("Role", "ClusterRole") for rule in one["rules"]]
    assert not [rule for rule in rules if "*" in (*rule["verbs"], *rule["resources"], *rule["apiGroups"])]
    everywhere = rights(found, None)
    assert "secrets" not in everywhere
    assert verbs(everywhere["pods"]) == {"get", "list", "watch", "patch"}
    assert verbs(everywhere["configmaps"]) == {"get", "list", "create", "update"}
    assert not [resource for resource, of in everywhere.items() if "delete" in verbs(of)]


def test_only_named_secrets_can_be_read(template: Template) -> None:
    assert not [name for name in [None, "here"] if "secrets" in rights(documents(template), name)]
    found = documents(template, "--set", "rbac.secrets.shop={orders-redis,mail-redis}", "--set", "rbac.secrets.bank={*}")
    (shop,), (bank,) = rights(found, "shop")["secrets"], rights(found, "bank")["secrets"]
    assert (shop["verbs"], shop["resourceNames"]) == (["get"], ["orders-redis", "mail-redis"])
    assert bank["verbs"] == ["get"] and "resourceNames" not in bank
    assert "secrets" not in rights(found, None)


@pytest.mark.parametrize(
    "value", ["rbac.secrets.shop={}", "rbac.secrets.shop={Orders}", "rbac.secrets.Shop={a}", "rbac.secrets={a}"]
)
def test_invalid_names_of_secrets_are_refused(template: Template, value: str) -> None:
    assert template("--set", value).returncode != 0


def test_an_operator_of_some_namespaces_has_no_cluster_rights(template: Template) -> None:
    found = documents(template, "--set", "watchNamespaces={shop,bank}")
    assert not [one["kind"] for one in found if one["kind"] in ("ClusterRole", "ClusterRoleBinding")]
    everywhere = rights(documents(template), None)
    assert rights(found, "shop") == rights(found, "bank") == everywhere
    assert rights(found, "here").keys() == {"leases"}
    args = next(one for one in found if one["kind"] == "Deployment")["spec"]["template"]["spec"]["containers"][0]["args"]
    assert "--namespace=shop" in args and "--namespace=bank" in args


def test_roles_for_people_are_aggregated_or_to_be_bound(template: Template) -> None:
    def of_people(*arguments: str) -> set[tuple[str, str, str | None]]:
        return {
            (one["kind"], one["metadata"]["name"], one["metadata"].get("namespace"))
            for one in documents(template, *arguments)
            if one["kind"] in ("Role", "ClusterRole") and one["metadata"]["name"].endswith(("-view", "-edit", "-join"))
        }

    of_cluster = {("ClusterRole", f"baton-{name}", None) for name in ("view", "edit", "join")}
    assert of_people() == of_cluster
    assert of_people("--set", "rbac.aggregate=false") == set()
    named = ("--set", "watchNamespaces={shop,bank}")
    assert of_people(*named) == {("Role", f"baton-{name}", where) for name in ("view", "edit") for where in ("shop", "bank")}
    assert of_people(*named, "--set", "rbac.aggregate=true") == of_cluster


def test_roles_to_be_bound_have_the_aggregated_rights(template: Template) -> None:
    aggregated = [
        one["rules"] for one in documents(template) if one["kind"] == "ClusterRole" and one["metadata"]["name"] != "baton"
    ]
    (to_bind,) = [
        one["rules"]
        for one in documents(template, "--set", "watchNamespaces={shop}")
        if one["kind"] == "Role" and one["metadata"]["name"] == "baton-edit"
    ]
    assert sorted(map(str, to_bind)) == sorted(str(rule) for rules in aggregated for rule in rules)


def test_finishing_deletions_takes_one_more_right(objects: Objects) -> None:
    named = ("--set", "watchNamespaces={shop}")
    assert ("ClusterRole", "baton-deletions") not in objects(*named)
    made = objects(*named, "--set", "rbac.finishDeletions=true")
    rules = made["ClusterRole", "baton-deletions"]["rules"]
    assert rules == [{"apiGroups": ["baton.dev"], "resources": ["consumergroups"], "verbs": ["get", "list", "watch", "patch"]}]
    assert made["ClusterRoleBinding", "baton-deletions"]["subjects"][0]["namespace"] == "here"
    assert ("ClusterRole", "baton-deletions") not in objects("--set", "rbac.finishDeletions=true"), "all namespaces are served"


def pods(made: Iterable[Any]) -> Iterator[Any]:
    """The specs of all pods that these objects are or make."""
    for one in made:
        if one["kind"] == "Pod":
            yield one["spec"]
        elif "template" in one.get("spec", {}):
            yield one["spec"]["template"]["spec"]


def test_image_volumes_are_in_all_pods_and_extra_volumes_in_the_operators(objects: Objects, tmp_path: Path) -> None:
    values = tmp_path / "values.yaml"
    python, ca = {"name": "python", "hostPath": {"path": "/usr"}}, {"name": "ca", "configMap": {"name": "ca"}}
    mounted = [{"name": "python", "mountPath": "/usr", "readOnly": True}, {"name": "ca", "mountPath": "/etc/baton/tls"}]
    volumes = {"imageVolumes": [python], "imageVolumeMounts": mounted[:1], "extraVolumes": [ca], "extraVolumeMounts": mounted[1:]}
    proxy = {"name": "HTTPS_PROXY", "value": "proxy:3128"}
    values.write_text(yaml.safe_dump({"console": {"enabled": True}, "extraEnv": [proxy], **volumes}))
    found = list(pods(objects("--values", str(values)).values()))
    assert {pod["containers"][0]["name"] for pod in found} == {"operator", "console", "test", "uninstall"}
    for pod in found:
        (container,) = pod["containers"]
        assert python in pod["volumes"] and mounted[0] in container["volumeMounts"], container["name"]
        extra = (ca in pod["volumes"], mounted[1] in container["volumeMounts"], proxy in container.get("env", ()))
        assert extra == (container["name"] == "operator",) * 3
        assert {one["name"] for one in container["volumeMounts"]} == {one["name"] for one in pod["volumes"]}


def test_no_pod_keeps_its_node_for_its_scratch_space(objects: Objects) -> None:
    found = objects("--set", "console.enabled=true")
    for name in ("baton", "baton-console"):
        assert keeps_its_node(found["Deployment", name]["spec"]["template"], "ReplicaSet") == ""


def test_extra_volumes_keep_the_node_unless_annotated(objects: Objects, tmp_path: Path) -> None:
    mine = {"extraVolumes": [{"name": "mine", "emptyDir": {}}]}
    values = tmp_path / "values.yaml"
    for annotations, kept in (({}, "LocalStorageRequested"), ({LOCAL_VOLUMES: "tmp,mine"}, "")):
        values.write_text(yaml.safe_dump({**mine, "podAnnotations": annotations}))
        pod = objects("--values", str(values))["Deployment", "baton"]["spec"]["template"]
        assert keeps_its_node(pod, "ReplicaSet") == kept


def test_a_single_replica_has_no_disruption_budget_that_would_block_a_drain(objects: Objects) -> None:
    assert ("PodDisruptionBudget", "baton") in objects()
    assert ("PodDisruptionBudget", "baton") not in objects("--set", "replicas=1")


POLICIES = {f"baton-{name}" for name in ("sessions", "ledgers", "members", "workloads", "cronjobs", "bindings")}
POLICIES |= {f"baton-operator-{name}" for name in ("ledgers", "pods", "scales")}
"""Of others, and of the operator itself."""


def policies(found: Found, kind: str = "ValidatingAdmissionPolicy") -> set[str]:
    return {name for of, name in found if of == kind}


def told(found: Found) -> str:
    """The operator's argument about the policies."""
    arguments: list[str] = found["Deployment", "baton"]["spec"]["template"]["spec"]["containers"][0]["args"]
    (flag,) = [argument for argument in arguments if "admission" in argument]
    return flag


def test_the_admission_policies_are_on_by_default(objects: Objects) -> None:
    found = objects()
    assert policies(found) == policies(found, "ValidatingAdmissionPolicyBinding") == POLICIES
    assert all(found["ValidatingAdmissionPolicyBinding", name]["spec"]["validationActions"] == ["Deny"] for name in POLICIES)
    assert told(found) == "--admission-policy=on"


@pytest.mark.parametrize("arguments", [("--set", "admissionPolicy.enabled=false"), ("--kube-version", "1.29.14")])
def test_the_operator_knows_when_admission_policies_are_off(objects: Objects, arguments: tuple[str, ...]) -> None:
    found = objects(*arguments)
    assert policies(found) == policies(found, "ValidatingAdmissionPolicyBinding") == set()
    assert told(found) == "--admission-policy=off"


def test_the_policies_hold_in_the_served_namespaces(objects: Objects) -> None:
    found = objects("--set", "watchNamespaces={shop,bank}")
    for name in POLICIES:
        (expression,) = found["ValidatingAdmissionPolicyBinding", name]["spec"]["matchResources"]["namespaceSelector"][
            "matchExpressions"
        ]
        assert (expression["key"], expression["values"]) == ("kubernetes.io/metadata.name", ["shop", "bank"])


def test_editors_may_join_groups_and_only_the_operator_writes_ledgers(objects: Objects, template: Template) -> None:
    found = objects()
    granted = {name: [rule["verbs"] for rule in role["rules"]] for (kind, name), role in found.items() if kind == "ClusterRole"}
    assert [name for name, those in granted.items() if ["join"] in those] == ["baton-join"]
    assert "rbac.authorization.k8s.io/aggregate-to-edit" in found["ClusterRole", "baton-join"]["metadata"]["labels"]
    writers = [
        one["metadata"]["name"]
        for one in documents(template)
        if one["kind"] in ("Role", "ClusterRole")
        for rule in one["rules"]
        if "consumergroups/ledger" in rule["resources"]
    ]
    assert writers == ["baton"]


def test_names_of_digits_stay_strings(helm: Path) -> None:
    """Namespaces of numbered tenants have such names."""
    named = ("serviceAccount.name", "fullnameOverride", "nameOverride", "priorityClassName")
    lists = {"watchNamespaces": ["77001"], "rbac.secrets": {"77001": ["77001"]}, "console.hosts": ["77001"]}
    metrics = ("service", "serviceMonitor", "podMonitor", "prometheusRule", "dashboard")
    parts = ("console", "networkPolicy", *(f"metrics.{one}" for one in metrics))
    command = render.template(
        helm,
        "77001",
        "--set-string",
        ",".join(f"{name}=77001" for name in named),
        *(word for name, value in lists.items() for word in ("--set-json", f"{name}={json.dumps(value)}")),
        "--set",
        ",".join(f"{part}.enabled=true" for part in parts),
    )
    command[command.index("baton")] = "77001"
    objects = [one for one in yaml.safe_load_all(run(command, capture_output=True, text=True, check=True).stdout) if one]
    assert {one["metadata"].get("namespace") for one in objects} >= {"77001"}
    assert [one["kind"] for one in objects if 77001 in _scalars(one)] == []


def _scalars(value: Any) -> Iterator[object]:
    if isinstance(value, dict | list):
        for one in value.values() if isinstance(value, dict) else value:
            yield from _scalars(one)
    else:
        yield value


# -- What is generated is what stands in the repository.


def test_generated_files_are_up_to_date(helm: Path) -> None:
    stale = [
        str(path.relative_to(ROOT)) for path, text in rendered(helm).items() if not path.exists() or path.read_text() != text
    ]
    stale += [str(path.relative_to(ROOT)) for path in stale_files()]
    assert stale == [], "run `make generate`"


def test_the_install_manifest_begins_with_namespace_and_crds(helm: Path) -> None:
    found = list(yaml.safe_load_all(install_manifest(helm)))
    kinds = [document["kind"] for document in found]
    assert kinds[0] == "Namespace"
    assert kinds.count("CustomResourceDefinition") == 2
    assert kinds.index("Deployment") > max(index for index, kind in enumerate(kinds) if kind == "CustomResourceDefinition")


def test_the_install_manifest_has_no_pod_or_job_of_helm(helm: Path) -> None:
    assert {"Pod", "Job"}.isdisjoint(one["kind"] for one in yaml.safe_load_all(install_manifest(helm)))


def test_the_install_manifest_does_not_claim_that_helm_manages_it(helm: Path) -> None:
    assert "Helm" not in install_manifest(helm)


# -- The chart as a release has it.


def test_the_chart_is_packaged_with_its_crds(tmp_path: Path) -> None:
    archive = package(helm_binary(), tmp_path)
    assert archive.name == f"baton-{baton.__version__}.tgz"
    with tarfile.open(archive) as packed:
        names = packed.getnames()
    assert {"baton/Chart.yaml", "baton/values.schema.json", "baton/crds/baton.dev_consumergroups.yaml"} <= set(names)
