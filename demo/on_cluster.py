"""The stage of `make demo`: a real cluster with the operator, a Redis beside it, and a Spark application in pods."""

import contextlib
import json
import os
import signal
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import yaml
from kubernetes import client, config, watch

from baton.model.names import API_GROUP, API_VERSION, GROUP_LABEL, driver_lease_name, ledger_name
from cluster import Cluster
from cluster.cluster import OPERATOR_NAMESPACE
from cluster.ports import free_ports
from cluster.processes import Registry
from cluster.programs import HELM, KUBE
from demo import manifests
from demo.manifests import GROUP, NAMESPACE, QUEUE, Json
from demo.picture import Member, compose
from demo.stage import Observer, Stage

ROOT = Path(__file__).resolve().parent.parent
DRIVER = "driver"
"""The name of the driver's pod."""
CONTAINER = "spark-kubernetes-executor"
"""The container's name, given by Spark."""
_REDIS = "redis-server"
_LOOKS = (
    ("pods", ("get", "pods", "--all-namespaces", "-o", "wide")),
    ("group", ("--namespace", NAMESPACE, "get", "consumergroups,partitionedqueues", "-o", "yaml")),
    ("ledger", ("--namespace", NAMESPACE, "get", "configmap", "orders-assignments", "-o", "yaml")),
    ("events", ("get", "events", "--all-namespaces", "--sort-by=.lastTimestamp")),
    ("operator", ("--namespace", "baton-system", "logs", "deployment/baton", "--all-pods", "--tail=60")),
    ("driver", ("--namespace", NAMESPACE, "logs", DRIVER, "--tail=80")),
)
_LINES = 90


class OnCluster(Stage):
    """The fleet in a cluster."""

    scene = "a cluster, Redis, the operator and a Spark application"
    member = "executor"
    first = 2
    queue = f"{NAMESPACE}/{QUEUE}"
    delay, max_handoff = manifests.DELAY, manifests.MAX_HANDOFF
    rate = float(os.environ.get("RATE", "2500"))
    cluster: Cluster | None = None

    def begin(self, running: ExitStack, watching: ExitStack) -> None:
        story = self.story
        story.wait_for("the cluster")
        cluster = self.cluster = running.enter_context(Cluster(node=True))
        story.good(f"Kubernetes is ready: export KUBECONFIG={cluster.kubeconfig}")
        self._folder = cluster.folder / "demo"
        self._folder.mkdir()
        self.url = _start_redis(cluster.address, cluster.folder)
        story.good(f"redis-server: {self.url}")
        story.wait_for("the operator")
        story.deed(f"helm install baton charts/baton --namespace {OPERATOR_NAMESPACE}")
        cluster.install_operator(self._folder / "values.json")
        story.good("the operator is available: two replicas, one leads")
        story.deed("kubectl apply: a PartitionedQueue of 12 partitions and a ConsumerGroup")
        self._apply("queue", manifests.namespace(), *manifests.queue(self.url), manifests.group(self.first))
        watching.enter_context(contextlib.closing(_Watches(cluster.kubeconfig, self.observer)))
        self._start_spark(cluster)

    def scale(self, members: int) -> None:
        self.story.deed(f"kubectl scale consumergroup/{GROUP} --replicas={members}")
        self._cluster.kubectl("--namespace", NAMESPACE, "scale", f"consumergroup/{GROUP}", f"--replicas={members}")

    def signal(self, member: Member, number: signal.Signals) -> None:
        self._cluster.signal_container(member.name, number, NAMESPACE, CONTAINER)

    def look(self) -> Iterator[str]:
        """The name and output of each query; a failed one has its error, and does not stop the others."""
        for name, arguments in _LOOKS if self.cluster else ():
            yield f"----- {name}: kubectl {' '.join(arguments)}"
            try:
                yield "\n".join(self._cluster.kubectl(*arguments).splitlines()[-_LINES:])
            except Exception as error:  # caused by what this looks for
                yield f"{type(error).__name__}: {error}"

    def keep(self) -> str:
        if self.cluster is None:
            return ""
        self.cluster.keep()
        return f"""\
Everything is still running. To look around:
  export KUBECONFIG={self.cluster.kubeconfig}
  alias kubectl='{KUBE.path()} kubectl'
  alias helm='{HELM.path()}'
  kubectl --namespace {NAMESPACE} get cg,pq,pods
  kubectl --namespace {NAMESPACE} get configmap {GROUP}-assignments -o yaml     # the ledger
  kubectl --namespace {NAMESPACE} describe cg {GROUP}                           # events
  kubectl --namespace {NAMESPACE} scale cg/{GROUP} --replicas=3
  kubectl --namespace {NAMESPACE} logs driver --follow
  kubectl --namespace baton-system logs deployment/baton --all-pods
  .venv/bin/baton status {GROUP} --namespace {NAMESPACE}
  .venv/bin/python -m demo.producer {self.url} {self.queue} 500   # messages, until Ctrl-C
  ls {self.cluster.folder / "demo"}                                      # what was applied
To stop everything:
  make cluster-down
"""

    @property
    def _cluster(self) -> Cluster:
        assert self.cluster is not None
        return self.cluster

    def _apply(self, name: str, *objects: Json) -> None:
        """Write the objects to a file that users can read, and apply them."""
        path = self._folder / f"{name}.yaml"
        path.write_text(yaml.safe_dump_all(objects, sort_keys=False))
        self._cluster.kubectl("apply", "-f", str(path))

    def _start_spark(self, cluster: Cluster) -> None:
        image = cluster.load_spark_image(ROOT / "manifests" / "examples" / "spark" / "entrypoint.sh")
        volumes, mounts = cluster.host_volumes()
        files = {
            "app.py": (ROOT / "demo" / "app.py").read_text(),
            "executor.yaml": json.dumps(manifests.executor(volumes, mounts)),
        }
        environment = {
            "BATON_GROUP": GROUP,
            "QUEUE": QUEUE,
            "DEMO_ROOT": self.queue,
            "EXECUTOR_IMAGE": image,
            "EXECUTORS": str(self.first),
        }
        self.story.deed(f"kubectl apply: a Spark driver, which starts {self.first} executors")
        driver = manifests.driver(image, environment, volumes, mounts)
        self._apply("spark", *manifests.access(), manifests.application(files), driver)


def _start_redis(address: str, folder: Path) -> str:
    """Start a Redis on a free port of this address, with the append-only file that the queue's promises need, and return its URL.
    It belongs to the processes of the cluster with this run folder, so stopping the cluster stops it, too."""
    place = (address, next(free_ports(address)))
    data, processes = folder / "redis", Registry(folder)
    data.mkdir(parents=True, exist_ok=True)
    command = [_REDIS, "--bind", address, "--port", str(place[1]), "--protected-mode", "no", "--save", ""]
    command += ["--dir", str(data), "--appendonly", "yes", "--appendfsync", "everysec", "--maxmemory-policy", "noeviction"]

    def answers() -> bool:
        try:
            with socket.create_connection(place, 1) as connection:
                connection.sendall(b"PING\r\n")
                return connection.recv(16).startswith(b"+PONG")
        except OSError:
            return False

    processes.start(_REDIS, command)
    processes.wait(_REDIS, answers, f"{_REDIS} does not answer at {address}:{place[1]}")
    return f"redis://{address}:{place[1]}/0"


class _Watches:
    """Watches pods, ledger, group and the driver's Lease with a user's rights."""

    def __init__(self, kubeconfig: Path, observer: Observer) -> None:
        self._api = config.new_client_from_config(str(kubeconfig))  # type: ignore[no-untyped-call]
        self._observer = observer
        self._seen = threading.Lock()
        self._closed = threading.Event()
        self._pods: dict[str, Json] = {}
        self._objects: dict[str, Json] = {}
        for name, listing, selectors in self._watches():
            threading.Thread(target=self._follow, args=(name, listing, selectors), name=f"watch-{name}", daemon=True).start()

    def close(self) -> None:
        self._closed.set()
        self._api.close()

    def _watches(self) -> Iterator[tuple[str, Callable[..., Any], dict[str, Any]]]:
        core, leases, custom = (
            client.CoreV1Api(self._api),
            client.CoordinationV1Api(self._api),
            client.CustomObjectsApi(self._api),
        )
        here = {"namespace": NAMESPACE}
        resource = {**here, "group": API_GROUP, "version": API_VERSION, "plural": "consumergroups"}
        yield "pods", core.list_namespaced_pod, {**here, "label_selector": f"{GROUP_LABEL}={GROUP}"}
        yield "driver", core.list_namespaced_pod, {**here, "field_selector": _named(DRIVER)}
        yield "ledger", core.list_namespaced_config_map, {**here, "field_selector": _named(ledger_name(GROUP))}
        yield "lease", leases.list_namespaced_lease, {**here, "field_selector": _named(driver_lease_name(GROUP))}
        yield "group", custom.list_namespaced_custom_object, {**resource, "field_selector": _named(GROUP)}

    def _follow(self, name: str, listing: Callable[..., Any], selectors: dict[str, Any]) -> None:
        while not self._closed.is_set():
            with contextlib.suppress(Exception):  # the API server comes and goes; a watch that ends is begun again
                found = self._api.sanitize_for_serialization(listing(**selectors))
                self._begin(name, found["items"])
                since = found["metadata"]["resourceVersion"]
                stream = watch.Watch().stream(listing, resource_version=since, timeout_seconds=300, **selectors)  # type: ignore[no-untyped-call]
                for event in stream:
                    self._take(name, event["type"], event["raw_object"])
            self._closed.wait(0.3)

    def _begin(self, name: str, found: list[Json]) -> None:
        with self._seen:
            if name == "pods":
                self._pods = {each["metadata"]["uid"]: each for each in found}
            elif found:
                self._objects[name] = found[0]
            else:
                self._objects.pop(name, None)
            self._show()

    def _take(self, name: str, kind: str, found: Json) -> None:
        if kind not in ("ADDED", "MODIFIED", "DELETED"):
            return
        with self._seen:
            those, key = (self._pods, found["metadata"]["uid"]) if name == "pods" else (self._objects, name)
            if kind == "DELETED":
                those.pop(key, None)
            else:
                those[key] = found
            self._show()

    def _show(self) -> None:
        if self._objects.get("driver", {}).get("status", {}).get("phase") in ("Failed", "Succeeded"):
            self._observer.ended = "the Spark driver has ended"
        ledger = self._objects.get("ledger", {}).get("data") or {}
        group, lease = self._objects.get("group", {}), self._objects.get("lease", {})
        self._observer.show(compose(self._pods, ledger, group, lease, QUEUE))


def _named(name: str) -> str:
    return f"metadata.name={name}"
