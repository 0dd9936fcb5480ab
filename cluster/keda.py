"""KEDA on a cluster with a node: its operator and metrics adapter, built from its Go module, and that module's manifests."""

import base64
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import yaml

from cluster import images
from cluster.cluster import Cluster
from cluster.pki import Authority
from cluster.programs import KEDA_ADAPTER, KEDA_MODULE, KEDA_OPERATOR, go_source

NAMESPACE = "keda"
_CERTIFICATES = "kedaorg-certs"
_SERVICES = ("keda-operator", "keda-metrics-apiserver")
_IMAGE = "localhost/keda:test"
_PROGRAM = "/program"
_USER = 1000
_WITHOUT = {"keda-admission", "keda-admission-webhooks"}
"""KEDA's webhooks, which only validate ScaledObjects."""


def install(cluster: Cluster) -> None:
    """Install KEDA, and wait until its metrics are served. Raises ClusterError."""
    source = go_source(KEDA_OPERATOR, KEDA_MODULE)
    documents = list(yaml.safe_load_all(cluster.kubectl("kustomize", str(source / "config" / "default"))))
    secret, authority = _certificates(cluster.folder / "keda-pki")
    made = [_fitted(cluster, document, authority) for document in documents if not _left_out(document)]
    made.sort(key=lambda document: document["kind"] not in ("Namespace", "CustomResourceDefinition"))
    text = yaml.safe_dump_all([*made, secret])
    cluster.kubectl("apply", "--server-side", "-f", "-", text=text)
    for name in _SERVICES:
        cluster.kubectl("-n", NAMESPACE, "rollout", "status", f"deployment/{name}", "--timeout=300s")
    cluster.kubectl("wait", "apiservice/v1beta1.external.metrics.k8s.io", "--for=condition=Available", "--timeout=120s")


def uninstall(cluster: Cluster) -> None:
    """Uninstall KEDA. Delete its ScaledObjects first: they have a finalizer of its operator."""
    cluster.kubectl("delete", "apiservice/v1beta1.external.metrics.k8s.io", "--ignore-not-found")
    cluster.kubectl("delete", "namespace", NAMESPACE, "--timeout=300s")


def _left_out(document: dict[str, Any]) -> bool:
    return document["metadata"]["name"] in _WITHOUT


def _fitted(cluster: Cluster, document: dict[str, Any], authority: bytes) -> dict[str, Any]:
    """The manifest, with programs of this machine instead of a registry's image."""
    if document["kind"] == "APIService":
        document["spec"]["caBundle"] = base64.b64encode(authority).decode()
    if document["kind"] == "Deployment":
        pod = document["spec"]["template"]["spec"]
        container = pod["containers"][0]
        operator = document["metadata"]["name"] == "keda-operator"
        program = (KEDA_OPERATOR if operator else KEDA_ADAPTER).path()
        pod["volumes"].append({"name": "program", "hostPath": {"path": str(program.parent), "type": "Directory"}})
        pod["securityContext"] = {"runAsNonRoot": True, "runAsUser": _USER}
        container["volumeMounts"].append({"name": "program", "mountPath": _PROGRAM, "readOnly": True})
        container |= {"image": cluster.load(_IMAGE, _image), "imagePullPolicy": "Never"}
        container["command"] = [f"{_PROGRAM}/{program.name}"]
        container["args"] = list(_arguments(container["args"]))
        del container["resources"]
    return document


def _image(name: str) -> Path:
    """Write a nearly empty image: the program is mounted from the cache."""
    return images.archive(name, {}, entrypoint=[_PROGRAM], user=_USER)


def _arguments(given: Iterable[str]) -> Iterable[str]:
    """Arguments without rotation of certificates, which are created beforehand: KEDA's would take a minute to be mounted."""
    return (argument for argument in given if argument not in ("--enable-cert-rotation=true", "--leader-elect"))


def _certificates(folder: Path) -> tuple[dict[str, Any], bytes]:
    """The Secret that both programs mount, and the authority's certificate."""
    authority = Authority(folder)
    places = [f"{name}.{NAMESPACE}.svc{zone}" for name in _SERVICES for zone in ("", ".cluster.local")]
    authority.issue("tls", "keda", hosts=["localhost", *places])
    files = {name: (folder / name).read_bytes() for name in ("ca.crt", "tls.crt", "tls.key")}
    data = {name: base64.b64encode(content).decode() for name, content in files.items()}
    metadata = {"name": _CERTIFICATES, "namespace": NAMESPACE}
    return {"apiVersion": "v1", "kind": "Secret", "metadata": metadata, "data": data}, files["ca.crt"]
