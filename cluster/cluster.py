"""The life of a cluster, and operations on it for the demo and tests."""

import itertools
import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from cluster import built_images, images, packages, runs
from cluster.controlplane import ControlPlane
from cluster.faults import ClusterError
from cluster.network import ADDRESS, make_bridge
from cluster.node import NAME, Node
from cluster.processes import Registry, start_time
from cluster.programs import KUBE, helm_binary
from cluster.progress import shown_progress
from cluster.waiting import PATIENCE, wait_until

OPERATOR_NAMESPACE = "baton-system"
_CONTROL_PLANES = itertools.count(1)


class Cluster:
    """`with Cluster(node=True) as cluster:` runs a Kubernetes until the end of the block, even if it raises.

    Without a node there is an API server with its controllers, but no pods run. There can be one cluster with a node at a time
    (its network has fixed addresses), and any number without.
    """

    address = ADDRESS
    """The bridge's address: programs that listen here can be reached only from pods and this machine."""

    def __init__(self, *, node: bool = True) -> None:
        # An existing folder belongs to a cluster that an earlier process with this pid left running.
        places = (runs.RUNS / f"control-{os.getpid()}-{number}" for number in _CONTROL_PLANES)
        self.folder = runs.RUNS / runs.NODE if node else next(place for place in places if not place.exists())
        self._registry = Registry(self.folder)
        self._control = ControlPlane(self.folder, self._registry, node=node)
        self._node = Node(self.folder, self._registry) if node else None
        self._built: set[str] = set()
        """Names of images loaded into the node."""

    @property
    def kubeconfig(self) -> Path:
        """An administrator's kubeconfig."""
        return self.folder / "kubeconfig"

    @property
    def server(self) -> str:
        """The API server's URL on this machine."""
        return self._control.server

    def __enter__(self) -> Self:
        self.up()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.down()

    def up(self, owner: int | None = None) -> None:
        """Start the cluster, after removing leftovers of abandoned ones, and wait until it is ready. Raises ClusterError, after
        removing it again.

        `owner`: the process whose end also ends the cluster; default: this one.
        """
        if self._node is not None:
            if os.geteuid() != 0:
                raise ClusterError(
                    "a node needs containers, mounts and a bridge: run this as root, or use a cluster without a node"
                )
            packages.require(*packages.NODE)
        KUBE.path()
        owner = os.getpid() if owner is None else owner
        runs.claim(self.folder, owner)
        try:
            self._start(owner)
        except BaseException:
            self.down()
            raise

    def down(self) -> None:
        """Stop the cluster and remove everything. Safe to repeat."""
        if self.folder.exists():
            runs.sweep(self.folder)

    def keep(self) -> None:
        """Leave the cluster running after this process, until `make cluster-down`. Do not call `down` afterwards."""
        self._registry.stop("guard", grace=0)
        runs.keep(self.folder)

    def _start(self, owner: int) -> None:
        guard = [sys.executable, "-m", "cluster", "guard", str(self.folder), str(owner), str(start_time(owner))]
        self._registry.start("guard", guard, {"PYTHONPATH": str(images.ROOT)})
        if self._node is not None:
            make_bridge(self.folder)
            self._node.start_runtime()
        self._control.prepare()
        self._control.start()
        if self._node is not None:
            self._node.start()
            self.wait(self._node_is_ready, PATIENCE, "the node is Ready")
        self.wait(self._default_account_exists, PATIENCE, "the default service account exists")

    def _node_is_ready(self) -> bool:
        self._require_node().must_run()
        answer = self._control.ask(f"/api/v1/nodes/{NAME}")
        conditions = json.loads(answer)["status"].get("conditions", []) if answer else []
        return any(condition["type"] == "Ready" and condition["status"] == "True" for condition in conditions)

    def _default_account_exists(self) -> bool:
        self._control.must_run()
        return self._control.ask("/api/v1/namespaces/default/serviceaccounts/default") is not None

    # -- using it

    def kubectl(self, *arguments: str, text: str | None = None, check: bool = True) -> str:
        """Run kubectl and return its output. With `check`, raises ClusterError with its error message if it fails."""
        return self._ask("kubectl", (str(KUBE.path()), "kubectl"), arguments, text, check=check)

    def get(self, *arguments: str) -> Any:
        """The value of `kubectl get … -o json`."""
        return json.loads(self.kubectl("get", *arguments, "-o", "json"))

    def find(self, *arguments: str) -> Any:
        """Like `get` of one object by its name; an empty mapping if it does not exist."""
        return json.loads(self.kubectl("get", *arguments, "--ignore-not-found", "-o", "json") or "{}")

    def apply(self, *objects: dict[str, Any] | str) -> None:
        """Apply objects, given as mappings or YAML, in this order. None may be of a kind that another one defines."""
        texts = (one if isinstance(one, str) else json.dumps(one) for one in objects)
        self.kubectl("apply", "-f", "-", text="".join(f"---\n{text}\n" for text in texts))

    def helm(self, *arguments: str, check: bool = True) -> str:
        """Run helm and return its output. With `check`, raises ClusterError with its error message if it fails."""
        return self._ask("helm", (str(helm_binary()),), arguments, check=check)

    def _ask(self, name: str, program: Sequence[str], arguments: Sequence[str], text: str | None = None, *, check: bool) -> str:
        command = [*program, "--kubeconfig", str(self.kubeconfig), *arguments]
        done = subprocess.run(command, input=text, capture_output=True, text=True, check=False)
        if check and done.returncode:
            raise ClusterError(f"`{name} {' '.join(arguments)}` failed: {done.stderr.strip()}")
        return done.stdout

    def provide_volumes(self, count: int = 8) -> None:
        """Create PersistentVolumes for claims without a class: folders in `volumes` of the run folder. There is no provisioner,
        and volumes are not reused: a claim that is created again gets the next one."""
        for number in range(1, count + 1):
            folder = self.folder / "volumes" / f"volume-{number}"
            folder.mkdir(parents=True, exist_ok=True)
            folder.chmod(0o777)  # no fsGroup is applied to a hostPath
            spec = {
                "capacity": {"storage": "100Gi"},
                "accessModes": ["ReadWriteOnce", "ReadOnlyMany", "ReadWriteMany"],
                "persistentVolumeReclaimPolicy": "Retain",
                "hostPath": {"path": str(folder), "type": "Directory"},
            }
            metadata = {"name": f"volume-{number}"}
            self.apply({"apiVersion": "v1", "kind": "PersistentVolume", "metadata": metadata, "spec": spec})

    def wait(self, condition: Callable[[], object], seconds: float, what: str) -> None:
        """Wait until the condition is true, for at least PATIENCE. Raises ClusterError with `what` after that."""
        seconds = max(seconds, PATIENCE)
        if not wait_until(lambda: bool(condition()), seconds):
            raise ClusterError(f"not within {seconds:.0f} s: {what}; logs are in {self.folder}/log")

    def logs(self, pod: str, *arguments: str, namespace: str = "default") -> str:
        """The output of `kubectl logs` for a pod, with further arguments."""
        return self.kubectl("logs", pod, "-n", namespace, *arguments)

    # -- images

    def load_operator_image(self) -> str:
        """Load the operator's image and return its name with tag. Its pods need `host_volumes`."""
        return self.load("localhost/baton-operator:test", images.operator)

    def load_consumer_image(self) -> str:
        """Load an image of plain Python with `baton`, and return its name with tag. Its pods need `host_volumes`."""
        return self.load("localhost/baton-consumer:test", images.consumer)

    def load_spark_image(self, entrypoint: Path) -> str:
        """Load an image for Spark's driver, executors and spark-submit, started by the script `entrypoint`, and return its name.
        Its pods need `host_volumes`."""
        return self.load("localhost/baton-spark:test", lambda named: images.spark(named, entrypoint))

    def load_built_image(self, image: built_images.Image, tag: str | None = None) -> str:
        """Build an image from its Dockerfile as users do, load it once per cluster, even if the checkout changes, and return its
        name. Its pods need no mounts. `tag`: replaces its own, as if it were another version."""
        repository, _, its_own = image.name.rpartition(":")
        name = f"{repository}:{tag or its_own}"
        if name not in self._built:
            built_images.build(image)
            with shown_progress(f"loading {name} into the node", "about 1 minute"):
                self._require_node().load(built_images.archive(image, name))
            self._built.add(name)
        return name

    def operator_values(self) -> dict[str, Any]:
        """The chart's values for the operator of this checkout."""
        repository, _, tag = self.load_operator_image().rpartition(":")
        volumes, mounts = self.host_volumes()
        return {
            "image": {"repository": repository, "tag": tag, "pullPolicy": "Never"},
            "imageVolumes": volumes,
            "imageVolumeMounts": mounts,
        }

    def install_operator(self, values: Path) -> None:
        """Write the values to the file `values`, and install the operator of this checkout by the chart."""
        values.write_text(json.dumps(self.operator_values()))
        self.helm(
            "upgrade", "baton", str(images.ROOT / "charts" / "baton"), "--install", "--namespace", OPERATOR_NAMESPACE,
            "--create-namespace", "--values", str(values), "--wait", "--timeout", "300s",
        )  # fmt: skip

    @staticmethod
    def host_volumes() -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
        """The volumes and volumeMounts that pods of these images need."""
        return images.host_volumes()

    def load(self, name: str, make: Callable[[str], Path]) -> str:
        """Import an image whose archive `make` writes, and return its name."""
        self._require_node().load(make(name))
        return name

    # -- faults

    def signal_container(
        self, pod: str, number: signal.Signals, namespace: str = "default", container: str | None = None
    ) -> None:
        """Send a signal to every process of a pod's container (the first, or the named one), as root of the machine."""
        for pid in self.container_pids(pod, namespace, container):
            try:
                os.kill(pid, number)
            except ProcessLookupError:
                continue

    def container_pids(self, pod: str, namespace: str = "default", container: str | None = None) -> list[int]:
        """The pids, on this machine, of a pod's container."""
        statuses = self.get("pod", pod, "-n", namespace)["status"].get("containerStatuses", [])
        for status in statuses:
            if container in (None, status["name"]) and "running" in status["state"]:
                return self._require_node().container_pids(status["containerID"].partition("://")[2])
        raise ClusterError(f"the pod {namespace}/{pod} has no running container {container or ''}".rstrip())

    def stop_process(self, name: str) -> None:
        """Kill one of the cluster's programs, such as kube-apiserver or etcd, as a crash would."""
        self._registry.stop(name, grace=0)

    def signal_process(self, name: str, number: int) -> None:
        """Send a signal to one of the cluster's programs. After SIGSTOP it accepts connections and answers nothing."""
        self._registry.signal(name, number)

    def start_process(self, name: str) -> None:
        """Start kube-apiserver or etcd again after `stop_process`, and wait for the API if both run."""
        starts = {"kube-apiserver": self._control.start_api_server, "etcd": self._control.start_etcd}
        starts[name]()
        if all(process is not None and process.alive() for process in map(self._registry.find, starts)):
            self._control.wait_ready()

    def compact(self) -> None:
        """Compact etcd to the present versions of objects: watches from older ones get status 410."""
        self._control.compact()

    def _require_node(self) -> Node:
        if self._node is None:
            raise ClusterError("this cluster has no node; use Cluster(node=True)")
        return self._node
