"""`baton doctor` of a real API server: what is as it should be, what is not, and what may not be read."""

import json
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import yaml

from baton.api.crd import crds
from baton.cli.doctor import OLDEST_KUBERNETES, OPERATORS
from baton.kube.api import core_path, group_path
from cluster import Cluster
from tests.integration.operator.accounts import of_token
from tests.integration.operator.baton_command import baton
from tests.integration.operator.test_rights import rendered
from tests.integration.operator.world import Operator, World

ROOT = Path(__file__).parents[3]


@pytest.fixture(scope="module")
def kubeconfig() -> Iterator[Path]:
    """Of an API server for this file only: `doctor` looks at the operators of all namespaces."""
    with Cluster(node=False) as cluster:
        yield cluster.kubeconfig


async def doctor(kubeconfig: Path, *arguments: str) -> tuple[int, list[dict[str, str]], str]:
    """The exit code, what it found, and what it said besides."""
    done = await baton("doctor", "--kubeconfig", kubeconfig, "-o", "json", *arguments)
    return done.returncode, json.loads(done.stdout) if done.stdout else [], done.stderr


def said(found: list[dict[str, str]], verdict: str) -> dict[str, str]:
    """What is said of each thing with this verdict."""
    told: dict[str, str] = {}
    for one in found:
        if one["verdict"] == verdict:
            told[one["about"]] = "; ".join(filter(None, [told.get(one["about"]), one["says"]]))
    return told


async def test_a_namespace_in_which_all_is_well_and_one_in_which_it_is_not(
    empty: World, start: Callable[..., Operator], kubeconfig: Path
) -> None:
    await start(empty, "looks").leads()
    here = empty.namespace
    await empty.external("fine", partitions=2)
    await empty.group("fine")
    await empty.pod("fine-a", "fine")
    await empty.spread("fine", 2)
    await empty.told("fine", "Ready")
    code, found, _ = await doctor(kubeconfig, "-n", here)
    assert (code, said(found, "Failed")) == (0, {}), found
    good = said(found, "OK")
    assert {"Kubernetes", f"group {here}/fine", f"queue {here}/fine", f"leader {here}/operator"} <= good.keys()
    assert {f"CRD {one['metadata']['name']}" for one in crds()} <= good.keys()
    assert "Fenced is False: NotEnforced" in said(found, "Warning")[f"group {here}/fine"]

    await empty.group("lost", queues=["nowhere"])
    await empty.told("lost", "QueueNotFound")
    await empty.pod("stray", "nobody", ready=False)
    await empty.pod("odd", "fine", ready=False, annotations={"baton.dev/capacity": "\x1b[31mmuch"})
    code, found, _ = await doctor(kubeconfig, "-n", here)
    failed, warned = said(found, "Failed"), said(found, "Warning")
    assert code == 1 and "QueueNotFound" in failed[f"group {here}/lost"]
    assert "there is no such group" in failed[f"pod {here}/stray"] and "capacity" in warned[f"pod {here}/odd"]
    assert warned[f"pods of {here}/fine"] == "odd is not Ready"
    assert all(one["cure"] for one in found if one["verdict"] in ("Failed", "Warning")), found

    deployments = group_path("apps/v1", here, "deployments")
    labels = {"app.kubernetes.io/part-of": "baton", "app.kubernetes.io/component": "operator"}
    labels |= {"app.kubernetes.io/name": "mine", "app.kubernetes.io/version": "0.0.9"}  # as nameOverride has it
    template = {
        "metadata": {"labels": labels},
        "spec": {"containers": [{"name": "c", "image": "none"}], "serviceAccountName": "weak"},
    }
    spec = {"replicas": 1, "selector": {"matchLabels": labels}, "template": template}
    await empty.api.create(
        deployments, {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "old", "labels": labels}, "spec": spec}
    )
    containers = [{"name": "c", "image": "none", "args": ["operator", "--namespace=elsewhere"]}]
    elsewhere = {"template": {"spec": {"containers": containers}}}
    try:
        _, found, _ = await doctor(kubeconfig, "-n", here)
        await empty.api.merge(f"{deployments}/old", {"spec": elsewhere})
        _, found_elsewhere, _ = await doctor(kubeconfig, "-n", here)
    finally:
        await empty.api.delete(f"{deployments}/old")
    assert "is release 0.0.9" in said(found, "Warning")[f"operator {here}/old"]
    assert said(found, "Failed")[f"operator {here}/old"] == "none of 1 pod is Ready"
    assert f"system:serviceaccount:{here}:weak may not" in said(found, "Failed")["the operator's rights"]
    assert "the operator's rights" not in said(found_elsewhere, "Failed")


async def test_who_may_only_look_is_told_what_is_not_known(empty: World, kubeconfig: Path, tmp_path: Path) -> None:
    """The chart's role for people who look, and Kubernetes' own."""
    here = empty.namespace
    await empty.external("seen", partitions=1)
    await empty.group("seen")
    account = {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "viewer"}}
    await empty.api.create(core_path(here, "serviceaccounts"), account)
    rules = [
        {"apiGroups": ["baton.dev"], "resources": ["consumergroups", "partitionedqueues"], "verbs": ["get", "list"]},
        {"apiGroups": [""], "resources": ["configmaps", "pods", "events"], "verbs": ["get", "list"]},
    ]
    rbac = "rbac.authorization.k8s.io/v1"
    await empty.api.create(
        group_path(rbac, here, "roles"), {"apiVersion": rbac, "kind": "Role", "metadata": {"name": "viewer"}, "rules": rules}
    )
    binding = {
        "apiVersion": rbac,
        "kind": "RoleBinding",
        "metadata": {"name": "viewer"},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "viewer"},
        "subjects": [{"kind": "ServiceAccount", "name": "viewer", "namespace": here}],
    }
    await empty.api.create(group_path(rbac, here, "rolebindings"), binding)
    request = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {"expirationSeconds": 3600}}
    token = (await empty.api.create(core_path(here, "serviceaccounts", "viewer") + "/token", request))["status"]["token"]
    code, found, error = await doctor(of_token(kubeconfig, token, tmp_path / "viewer"), "-n", here)
    assert {"CRDs", "operator"} <= said(found, "Unknown").keys(), (found, error)
    rights = [one["says"] for one in found if one["about"] == "your rights"]
    assert any("patch consumergroups.baton.dev" in one for one in rights) and not any("list pods" in one for one in rights)
    assert code == 1 and "no operator" in said(found, "Failed")[f"group {here}/seen"]


@pytest.mark.parametrize("verb_and_what", [(verb, what) for verb, what, _ in OPERATORS], ids=" ".join)
def test_what_the_operator_is_to_be_allowed_the_chart_allows(verb_and_what: tuple[str, str]) -> None:
    verb, what = verb_and_what
    name, _, sub = what.partition("/")
    resource, _, group = name.partition(".")
    wanted = f"{resource}/{sub}" if sub else resource
    rules = [rule for one in rendered("rights-doctor") if one["kind"] in ("Role", "ClusterRole") for rule in one["rules"]]
    assert any(verb in rule["verbs"] and wanted in rule["resources"] and group in rule["apiGroups"] for rule in rules)


def test_the_oldest_kubernetes_is_the_charts() -> None:
    chart = yaml.safe_load((ROOT / "charts" / "baton" / "Chart.yaml").read_text())
    assert chart["kubeVersion"] == f">={'.'.join(map(str, OLDEST_KUBERNETES))}.0-0"
