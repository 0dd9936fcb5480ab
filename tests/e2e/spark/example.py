"""The examples of manifests/examples as they stand, on a cluster without a registry and without storage.

What is changed: the pods ask for less CPU than they should on a machine of two. What is added: the image, built by the example's
Dockerfile, and a volume for the example's claim.
"""

import json
import shutil
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import yaml

from cluster import Cluster

EXAMPLES = Path(__file__).resolve().parents[3] / "manifests" / "examples"
_TEMPLATES = ("executor.yaml", "driver-template.yaml")

Object = dict[str, Any]


class Example:
    """A folder of the examples, rendered by kustomize for a namespace."""

    def __init__(self, cluster: Cluster, folder: str, namespace: str) -> None:
        self._cluster, self._namespace = cluster, namespace
        text = cluster.kubectl("kustomize", str(EXAMPLES / folder))
        self.written = list(yaml.safe_load_all(text))
        """Apply the example, as a user does."""
        smaller = text.replace("200m", "50m").replace("150m", "50m")
        self.objects: list[Object] = [self._adapted(one) for one in yaml.safe_load_all(smaller)]

    def apply(self, *, without: Iterable[str] = ()) -> None:
        """All objects, except those of some kinds."""
        self._cluster.apply(*(one for one in self.objects if one["kind"] not in set(without)))

    def one(self, kind: str, name: str = "") -> Object:
        """The object of this kind and name."""
        (found,) = (one for one in self.objects if one["kind"] == kind and name in ("", one["metadata"]["name"]))
        return found

    def pods(self) -> Iterator[Object]:
        """The pods that the objects describe, as a user would create them."""
        for one in self.written:
            if one["kind"] in ("Deployment", "Job"):
                yield one["spec"]["template"]
            elif one["kind"] == "ConfigMap":
                yield from (yaml.safe_load(one["data"][name]) for name in _TEMPLATES if name in one["data"])
            elif one["kind"] == "SparkApplication":
                yield from (one["spec"][role]["template"] for role in ("driver", "executor"))

    def provide_volume(self, claim: str = "orders-data") -> Path:
        """Provide storage for the example's claim: a folder on this machine, which is also the node. Returns the folder."""
        name = f"{self._namespace}-{claim}"
        self._cluster.kubectl("delete", "persistentvolume", name, "--ignore-not-found", "--timeout=60s")
        folder = self._cluster.folder / name
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir()
        folder.chmod(0o777)  # no fsGroup is applied to a hostPath
        spec = {
            "capacity": {"storage": "10Gi"},
            "accessModes": ["ReadWriteMany"],
            "persistentVolumeReclaimPolicy": "Retain",
            "hostPath": {"path": str(folder), "type": "Directory"},
            "claimRef": {"namespace": self._namespace, "name": claim},
        }
        self._cluster.apply({"apiVersion": "v1", "kind": "PersistentVolume", "metadata": {"name": name}, "spec": spec})
        return folder

    def refused_by_restricted(self) -> list[str]:
        """Why the Pod Security profile `restricted` rejects some of the pods; empty if it does not."""
        name = f"{self._namespace}-restricted"
        labels = {"pod-security.kubernetes.io/enforce": "restricted"}
        self._cluster.apply({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name, "labels": labels}})
        refused = []
        for number, pod in enumerate(self.pods()):
            containers = [{"image": "none", **one} for one in pod["spec"]["containers"]]
            spec = {**pod["spec"], "containers": containers, "serviceAccountName": "default", "restartPolicy": "Always"}
            made = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": f"pod-{number}", "namespace": name}, "spec": spec}
            try:
                self._cluster.kubectl("create", "--dry-run=server", "-f", "-", text=json.dumps(made))
            except Exception as error:  # kubectl's words are the answer
                refused.append(str(error))
        self._cluster.kubectl("delete", "namespace", name, "--wait=false")
        return refused

    def _adapted(self, one: Object) -> Object:
        one["metadata"]["namespace"] = self._namespace
        for subject in one.get("subjects", ()):
            subject.setdefault("namespace", self._namespace)
        return one
