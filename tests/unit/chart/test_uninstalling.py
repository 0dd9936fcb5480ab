"""Before `helm uninstall` a Job of the operator's image asks whether a group is left."""

import runpy
from typing import Any

from baton.kube.objects import FINALIZER
from baton.kube.releases import RELEASE_ANNOTATION
from baton.model.names import GROUP_LABEL
from charts.render import CHART
from tests.unit.chart.conftest import Objects

NAME = "baton-delete-groups-first"


def job(objects: Objects, *arguments: str) -> Any:
    made = objects(*arguments)["Job", NAME]
    annotations = made["metadata"]["annotations"]
    assert annotations["helm.sh/hook"] == "pre-delete"
    assert annotations["helm.sh/hook-output-log-policy"] == "hook-failed", "helm shows what it says"
    return made["spec"]


def test_the_job_runs_once_as_the_operator_in_its_namespaces(objects: Objects) -> None:
    arguments = ("--set", "image.tag=v7,nodeSelector.pool=ops,watchNamespaces={shop,bank}")
    spec = job(objects, *arguments)
    assert spec["backoffLimit"] == 0
    pod, operator = spec["template"]["spec"], objects(*arguments)["Deployment", "baton"]["spec"]["template"]["spec"]
    assert (pod["serviceAccountName"], pod["restartPolicy"]) == (operator["serviceAccountName"], "Never")
    assert (pod["securityContext"], pod["nodeSelector"]) == (operator["securityContext"], {"pool": "ops"})
    (container,), (other,) = pod["containers"], operator["containers"]
    assert (container["image"], container["securityContext"]) == (other["image"], other["securityContext"])
    script, release, *namespaces = container["args"]
    assert script == (CHART / "files" / "no_group_is_left.py").read_text()
    assert (release, namespaces) == ("here/baton-operator", ["shop", "bank"])
    assert job(objects)["template"]["spec"]["containers"][0]["args"] == [script, release], "all namespaces"


def test_the_job_knows_the_release_of_the_ledgers(objects: Objects) -> None:
    arguments = ("--set", "fullnameOverride=other")
    (made,) = (one for (kind, _), one in objects(*arguments).items() if kind == "Job")
    operator = objects(*arguments)["Deployment", "other"]["spec"]["template"]["spec"]["containers"][0]["args"]
    assert "--lease-name=other-operator" in operator
    assert made["spec"]["template"]["spec"]["containers"][0]["args"][1] == f"{made['metadata']['namespace']}/other-operator"


def test_the_job_looks_for_the_operators_marks(objects: Objects) -> None:
    (container,) = job(objects)["template"]["spec"]["containers"]
    for said in (f'FINALIZER = "{FINALIZER}"', f'GROUP_LABEL = "{GROUP_LABEL}"', f'RELEASE_ANNOTATION = "{RELEASE_ANNOTATION}"'):
        assert said in container["args"][0]


def test_a_deeply_nested_object_does_not_block_uninstalling() -> None:
    fields = b'{"f:a":' * 9_000 + b"{}" + b"}" * 9_000
    page = b'{"items":[{"metadata":{"name":"a","managedFields":[%s],"finalizers":["baton.dev/release"]}}]}' % fields
    found = runpy.run_path(str(CHART / "files" / "no_group_is_left.py"))["parsed"](page)
    assert found["items"][0]["metadata"]["finalizers"] == [FINALIZER]


def test_the_jobs_pod_is_not_selected_as_an_operator(objects: Objects) -> None:
    selector = objects()["Deployment", "baton"]["spec"]["selector"]["matchLabels"]
    assert not selector.items() <= job(objects)["template"]["metadata"]["labels"].items()


def test_the_jobs_name_fits_into_a_label(objects: Objects) -> None:
    names = [name for kind, name in objects("--set", f"fullnameOverride={'a' * 55}") if kind == "Job"]
    assert [len(name) for name in names] == [63]
