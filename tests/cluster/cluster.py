"""One cluster from its start to its end, and what a test does with it."""

import json
import os
import signal
import subprocess
import tempfile
from collections.abc import Callable, Iterable
from pathlib import Path
from types import TracebackType
from typing import Any

from tests.cluster import images, packages
from tests.cluster.controlplane import ControlPlane
from tests.cluster.faults import ClusterError
from tests.cluster.network import ADDRESS, make_bridge
from tests.cluster.node import Node
from tests.cluster.processes import Registry, wait_until
from tests.cluster.programs import KUBE, helm_binary
from tests.cluster.sweep import sweep

RUNS = Path(tempfile.gettempdir()) / "baton-cluster"


class Cluster:
    """`with Cluster(node=True) as cluster:` has a Kubernetes until the end of the block, whatever happens in it.

    Without a node there is an API server with its controllers, but nothing that runs pods. There can be one cluster with a node at a
    time (its network has fixed addresses), and any number without.
    """

    address = ADDRESS
    """Of the bridge: what listens here is reached by pods and by this machine, and by nobody else."""

    def __init__(self, *, node: bool = True) -> None:
        self.folder = RUNS / ("node" if node else f"control-{os.getpid()}")
        self._registry = Registry(self.folder)
        self._has_node = node
        self._control = ControlPlane(self.folder, self._registry, node=node)
        self._node = Node(self.folder, self._registry) if node else None

    @property
    def kubeconfig(self) -> Path:
        """Of an administrator."""
        return self.folder / "kubeconfig"

    @property
    def server(self) -> str:
        """The API server's URL on this machine."""
        return self._control.server

    @property
    def kubelet_folder(self) -> Path:
        """Where the kubelet keeps pods and their volumes."""
        return self.folder / "kubelet"

    def __enter__(self) -> "Cluster":
        self.up()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.down()

    def up(self) -> None:
        """Start it and wait until it is ready. Removes first what an earlier one left. Raises ClusterError, with nothing left behind."""
        if self._has_node and os.geteuid() != 0:
            raise ClusterError("a node needs containers, mounts and a bridge: run this as root, or use a cluster without a node")
        if self._has_node:
            packages.require(packages.NODE)
        KUBE.path()
        remove_remains()
        try:
            self._start()
        except BaseException:
            self.down()
            raise

    def down(self) -> None:
        """Stop and remove everything of it. Safe to repeat."""
        sweep(self.folder, node=self._has_node)

    def _start(self) -> None:
        self.folder.mkdir(parents=True)
        (self.folder / "owner").write_text(f"{os.getpid()}")
        if self._has_node:
            make_bridge()
        self._control.prepare()
        self._control.start()
        if self._node is not None:
            self._node.start()
            self.wait(lambda: "Ready" in self._conditions(), 60, "the node is Ready")
        self.wait(lambda: self._default_account_exists(), 30, "the default service account exists")

    def _conditions(self) -> list[str]:
        query = "jsonpath={.items[*].status.conditions[?(@.status=='True')].type}"
        return self.kubectl("get", "nodes", "-o", query, check=False).split()

    def _default_account_exists(self) -> bool:
        return bool(self.kubectl("get", "serviceaccount", "default", "-n", "default", "-o", "name", check=False))

    # -- using it

    def kubectl(self, *arguments: str, text: str | None = None, check: bool = True) -> str:
        """What `kubectl` prints. Raises ClusterError with its complaint where it fails and `check` is set."""
        command = [str(KUBE.path()), "kubectl", "--kubeconfig", str(self.kubeconfig), *arguments]
        done = subprocess.run(command, input=text, capture_output=True, text=True, check=False)
        if check and done.returncode:
            raise ClusterError(f"`kubectl {' '.join(arguments)}` failed: {done.stderr.strip()}")
        return done.stdout

    def get(self, *arguments: str) -> Any:
        """`kubectl get … -o json`, as a value."""
        return json.loads(self.kubectl("get", *arguments, "-o", "json"))

    def apply(self, *objects: dict[str, Any] | str) -> None:
        """Apply objects, given as mappings or as YAML."""
        for thing in objects:
            self.kubectl("apply", "-f", "-", text=thing if isinstance(thing, str) else json.dumps(thing))

    def helm(self, *arguments: str, check: bool = True) -> str:
        """What `helm` prints. Raises ClusterError with its complaint where it fails and `check` is set."""
        command = [str(helm_binary()), "--kubeconfig", str(self.kubeconfig), *arguments]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if check and done.returncode:
            raise ClusterError(f"`helm {' '.join(arguments)}` failed: {done.stderr.strip()}")
        return done.stdout

    def wait(self, condition: Callable[[], object], seconds: float, what: str) -> None:
        """Wait until the condition is true. Raises ClusterError, which says what did not come true."""
        if not wait_until(lambda: bool(condition()), seconds):
            raise ClusterError(f"not within {seconds:.0f} s: {what}; logs are in {self.folder}/log")

    # -- images

    def load_operator_image(self) -> str:
        """The operator's image, by its name with tag. Pods of it need `host_volumes`."""
        return self._load("localhost/baton-operator:test", images.operator)

    def load_consumer_image(self) -> str:
        """Plain Python with `baton`, by its name with tag. Pods of it need `host_volumes`."""
        return self._load("localhost/baton-consumer:test", images.consumer)

    def load_spark_image(self) -> str:
        """Spark driver and executors, by its name with tag. Pods of it need `host_volumes`."""
        return self._load("localhost/baton-spark:test", images.spark)

    @staticmethod
    def host_volumes() -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
        """Volumes and volumeMounts to merge into pods of these images."""
        return images.host_volumes()

    def _load(self, name: str, make: Callable[[str], Path]) -> str:
        self._require_node().load(make(name))
        return name

    # -- faults

    def signal_container(
        self, pod: str, number: signal.Signals, namespace: str = "default", container: str | None = None
    ) -> None:
        """Send a signal to every process of a pod's container (the first, or the named one), as the machine's root."""
        for pid in self.container_pids(pod, namespace, container):
            try:
                os.kill(pid, number)
            except ProcessLookupError:
                continue

    def container_pids(self, pod: str, namespace: str = "default", container: str | None = None) -> Iterable[int]:
        """The processes of a pod's container, by their pids on this machine."""
        statuses = self.get("pod", pod, "-n", namespace)["status"].get("containerStatuses", [])
        for status in statuses:
            if container in (None, status["name"]) and "containerID" in status:
                return _group_of(self._require_node().container_pid(status["containerID"].partition("://")[2]))
        raise ClusterError(f"the pod {namespace}/{pod} has no running container {container or ''}".rstrip())

    def stop_process(self, name: str) -> None:
        """Stop one of the cluster's programs, such as kube-apiserver or etcd."""
        self._registry.stop(name)

    def start_process(self, name: str) -> None:
        """Start kube-apiserver or etcd again after `stop_process`, and wait for the API if both run."""
        starts = {"kube-apiserver": self._control.start_api_server, "etcd": self._control.start_etcd}
        starts[name]()
        if all(process is not None and process.alive() for process in map(self._registry.find, starts)):
            self._control.wait_ready()

    def _require_node(self) -> Node:
        if self._node is None:
            raise ClusterError("this cluster has no node; use Cluster(node=True)")
        return self._node


def _group_of(pid: int) -> list[int]:
    """All processes in the control group of this one."""
    for line in Path(f"/proc/{pid}/cgroup").read_text().splitlines():
        _, controllers, path = line.split(":", 2)
        root = Path("/sys/fs/cgroup") / (controllers.removeprefix("name=") or ".")
        procs = root / path.lstrip("/") / "cgroup.procs"
        if "kubepods" in path and procs.exists():
            return [int(line) for line in procs.read_text().split()]
    return [pid]


def remove_remains() -> None:
    """Remove what clusters left whose owner is gone. Raises ClusterError where one with a node is still in use."""
    for folder in RUNS.glob("*") if RUNS.is_dir() else ():
        if not is_abandoned(folder):
            continue
        sweep(folder, node=folder.name == "node")


def is_abandoned(folder: Path) -> bool:
    """Nobody looks after the cluster of this run folder: whoever started it has ended, and did not leave it running on purpose."""
    try:
        owner = (folder / "owner").read_text()
    except OSError:
        return True
    return owner != "nobody" and not Path(f"/proc/{owner}").exists()
