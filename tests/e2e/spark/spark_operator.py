"""What the Kubeflow Spark operator does with a SparkApplication: it runs spark-submit with these arguments.

Its controller is not to be had as a Go module, so this follows `internal/controller/sparkapplication/submission.go` of its
version 2.5 for the fields that the example uses, and refuses others. It has an account of its name, with the rights of its chart.
"""

import json
import os
import subprocess
from pathlib import Path
from typing import Any

import yaml

from cluster import Cluster
from cluster.images import VENV

_FIELDS = {
    "type",
    "mode",
    "sparkVersion",
    "image",
    "imagePullPolicy",
    "mainApplicationFile",
    "restartPolicy",
    "driver",
    "executor",
}
_POD_FIELDS = {"cores", "coreRequest", "memory", "serviceAccount", "template", "instances"}

NAMESPACE, ACCOUNT = "spark-operator", "spark-operator-controller"
_READ, _WRITE = ["get", "list", "watch"], ["create", "update", "patch"]
_RULES = [
    {"apiGroups": [""], "resources": ["pods"], "verbs": [*_READ, "create", "update", "delete"]},
    {"apiGroups": [""], "resources": ["configmaps"], "verbs": [*_READ, *_WRITE]},
    {"apiGroups": [""], "resources": ["services"], "verbs": [*_READ, *_WRITE, "delete"]},
]
"""`spark-operator.controller.policyRules` of the operator's chart, as far as spark-submit needs them."""


def define(cluster: Cluster) -> None:
    """Create the kind SparkApplication, with any fields, and the controller's account."""
    schema = {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}}
    version = {"name": "v1beta2", "served": True, "storage": True, "schema": schema}
    names = {"kind": "SparkApplication", "plural": "sparkapplications", "singular": "sparkapplication"}
    name = "sparkapplications.sparkoperator.k8s.io"
    approved = {"api-approved.kubernetes.io": "https://github.com/kubeflow/spark-operator/pull/1298"}
    spec = {"group": "sparkoperator.k8s.io", "scope": "Namespaced", "names": names, "versions": [version]}
    metadata = {"name": name, "annotations": approved}
    kind = {"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition"}
    cluster.apply({**kind, "metadata": metadata, "spec": spec})
    cluster.kubectl("wait", "--for=condition=Established", f"crd/{name}", "--timeout=30s")
    account = {"name": ACCOUNT, "namespace": NAMESPACE}
    rbac, group = "rbac.authorization.k8s.io/v1", "rbac.authorization.k8s.io"
    role = {"apiGroup": group, "kind": "ClusterRole", "name": ACCOUNT}
    cluster.apply(
        {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}},
        {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": account},
        {"apiVersion": rbac, "kind": "ClusterRole", "metadata": {"name": ACCOUNT}, "rules": _RULES},
        {
            "apiVersion": rbac,
            "kind": "ClusterRoleBinding",
            "metadata": {"name": ACCOUNT},
            "roleRef": role,
            "subjects": [{"kind": "ServiceAccount", **account}],
        },
    )


def submit(cluster: Cluster, application: dict[str, Any], folder: Path) -> None:
    """Run spark-submit for an application at the API server, as the controller does in its pod."""
    home = next((VENV / "lib").glob("python3*/site-packages/pyspark"))
    kubeconfig = yaml.safe_load(cluster.kubeconfig.read_text())
    for user in kubeconfig["users"]:
        user["user"] = {"token": cluster.kubectl("create", "token", ACCOUNT, "-n", NAMESPACE).strip()}
    (folder / "kubeconfig").write_text(yaml.safe_dump(kubeconfig))
    environment = {**os.environ, "SPARK_HOME": str(home), "KUBECONFIG": str(folder / "kubeconfig")}
    command = [str(home / "bin" / "spark-submit"), "--master", f"k8s://{cluster.server}", *arguments(application, folder)]
    done = subprocess.run(command, check=False, env=environment, capture_output=True, text=True)
    if done.returncode != 0:
        raise RuntimeError(done.stderr[-3000:])


def arguments(application: dict[str, Any], folder: Path) -> list[str]:
    """`buildSparkSubmitArgs`, in the same order."""
    name, namespace, spec = application["metadata"]["name"], application["metadata"]["namespace"], application["spec"]
    driver, executor = spec["driver"], spec["executor"]
    assert spec.keys() <= _FIELDS, spec.keys()
    assert driver.keys() | executor.keys() <= _POD_FIELDS
    labels = {"sparkoperator.k8s.io/app-name": name, "sparkoperator.k8s.io/launched-by-spark-operator": "true"}
    settings = {
        "spark.kubernetes.namespace": namespace,
        "spark.kubernetes.container.image": spec["image"],
        "spark.kubernetes.container.image.pullPolicy": spec["imagePullPolicy"],
        "spark.kubernetes.submission.waitAppCompletion": "false",
        "spark.kubernetes.driver.pod.name": f"{name}-driver",
        **{f"spark.kubernetes.driver.label.{label}": value for label, value in labels.items()},
        "spark.kubernetes.driver.container.image": spec["image"],
        "spark.driver.cores": driver["cores"],
        "spark.kubernetes.driver.request.cores": driver["coreRequest"],
        "spark.driver.memory": driver["memory"],
        "spark.kubernetes.authenticate.driver.serviceAccountName": driver["serviceAccount"],
        **{f"spark.kubernetes.executor.label.{label}": value for label, value in labels.items()},
        "spark.executor.instances": executor["instances"],
        "spark.kubernetes.executor.container.image": spec["image"],
        "spark.executor.cores": executor["cores"],
        "spark.kubernetes.executor.request.cores": executor["coreRequest"],
        "spark.executor.memory": executor["memory"],
        "spark.kubernetes.driver.podTemplateFile": _template(application, driver["template"], folder / "driver.yaml", True),
        "spark.kubernetes.driver.podTemplateContainerName": "spark-kubernetes-driver",
        "spark.kubernetes.executor.podTemplateFile": _template(
            application, executor["template"], folder / "executor.yaml", False
        ),
        "spark.kubernetes.executor.podTemplateContainerName": "spark-kubernetes-executor",
    }
    configured = [word for setting, value in settings.items() for word in ("--conf", f"{setting}={value}")]
    return ["--deploy-mode", spec["mode"], "--name", name, *configured, spec["mainApplicationFile"]]


def _template(application: dict[str, Any], template: dict[str, Any], path: Path, controller: bool) -> str:
    """The application owns the pods, and is the controller of the driver's only."""
    owner = {"name": application["metadata"]["name"], "uid": application["metadata"]["uid"]}
    owner |= {"apiVersion": application["apiVersion"], "kind": application["kind"]}
    extra = {"controller": True, "blockOwnerDeletion": True} if controller else {}
    made = json.loads(json.dumps(template))
    made["metadata"]["ownerReferences"] = [{**owner, **extra}]
    path.write_text(yaml.safe_dump({"apiVersion": "v1", "kind": "Pod", **made}))
    return str(path)
