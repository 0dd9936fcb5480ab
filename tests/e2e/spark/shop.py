"""A shop on the test's cluster: an example of manifests/examples, a producer, and the results."""

import json
import threading
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

from baton.model.ledger import MemberEntry
from baton.order import OrderChecker, Processing, Report
from baton.queues.protocol import QueueUnreachable
from baton.queues.redis import RedisProducer
from baton.spark import jar_file
from cluster import Cluster, built_images
from tests import left_undone
from tests.e2e.installing import chart_values
from tests.e2e.spark.example import Example
from tests.redis_server import RedisServer
from tests.waiting import PATIENCE

ROOT = Path(__file__).resolve().parents[3]
NAMESPACE = "shop"
QUEUE = f"{NAMESPACE}/orders"
CUSTOMERS = 97


class Result(NamedTuple):
    """A row as the user's function saw it."""

    partition: int
    offset: str
    key: str
    number: int
    redelivered: bool
    epoch: int
    batch: int
    pod: str


class Shop:
    """Queue, group, fleet, producer and results."""

    def __init__(self, cluster: Cluster, server: RedisServer) -> None:
        self.cluster, self._redis = cluster, server
        self._sent, self._rate = 0, 500
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._produce, name="producer", daemon=True)

    # -- set-up

    def install_operator(self) -> None:
        path = self.cluster.folder / "spark-values.json"
        path.write_text(json.dumps({"replicas": 1, **chart_values(self.cluster)}))
        self.cluster.helm(
            "upgrade", "--install", "baton", str(ROOT / "charts" / "baton"), "--namespace", "baton-system", "--create-namespace",
            "--values", str(path), "--wait", "--timeout", "300s",
        )  # fmt: skip

    def apply_example(self, executors: int, delay: int = 2, handoff: int = 10, **environment: str) -> None:
        """The example with an application of the test, which says what it was given, and with quicker hand-offs. `delay`,
        `handoff`: seconds. `environment`: of the driver."""
        example = self.prepare("spark")
        example.provide_volume()
        example.one("PartitionedQueue")["spec"] |= {
            "partitions": 6,
            "rebalance": {"delaySeconds": delay, "maxHandoffSeconds": handoff},
        }
        example.one("ConsumerGroup")["spec"]["replicas"] = executors
        example.one("ConfigMap", "orders-app")["data"]["app.py"] = (Path(__file__).parent / "app.py").read_text()
        (driver,) = example.one("Deployment")["spec"]["template"]["spec"]["containers"]
        driver["env"] += [{"name": name, "value": value} for name, value in environment.items()]
        example.apply()

    def prepare(self, folder: str) -> Example:
        """Create what the example requires: its namespace, its image, and the Secret with the queue's URL."""
        jar_file.path()  # so that the jars of others are in the cache
        self.cluster.load_built_image(built_images.SPARK)
        secret = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "orders-redis", "namespace": NAMESPACE}}
        namespace = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}}
        self.cluster.apply(namespace, {**secret, "stringData": {"url": self._redis.url}})
        return Example(self.cluster, folder, NAMESPACE)

    def remove(self) -> None:
        """Delete the shop, while the operator still runs to release the group."""
        self._stop.set()
        if self._thread.is_alive():
            self._thread.join(PATIENCE)
        for kinds in ("deployments,jobs", "consumergroups,partitionedqueues"):
            self.cluster.kubectl("delete", kinds, "-n", NAMESPACE, "--all", "--timeout=60s", check=False)
        self.cluster.kubectl("delete", "pods", "-n", NAMESPACE, "--all", "--grace-period=0", "--force", check=False)
        self.cluster.kubectl("delete", "namespace", NAMESPACE, "--timeout=120s", check=False)

    def uninstall_operator(self) -> None:
        self.cluster.helm("uninstall", "baton", "--namespace", "baton-system", "--wait", "--no-hooks", check=False)

    # -- load

    def start_producing(self, rate: int = 500) -> None:
        """`rate`: entries per second."""
        self._rate = rate
        self._thread.start()

    def stop_producing(self) -> int:
        """The number of entries that the queue has accepted, numbered from 0."""
        self._stop.set()
        self._thread.join(PATIENCE)
        return self._sent

    def _produce(self) -> None:
        with RedisProducer(self._redis.url, QUEUE, patience=PATIENCE) as producer:
            while not self._stop.is_set():
                numbers = range(self._sent, self._sent + self._rate // 25)
                try:
                    producer.send_many([(f"customer-{number % CUSTOMERS}", str(number)) for number in numbers])
                except QueueUnreachable:
                    continue
                self._sent = numbers.stop
                time.sleep(0.04)

    # -- looking

    def members(self) -> Mapping[str, MemberEntry]:
        """The owners in the ledger; none before the operator has written it."""
        data = self.cluster.find("configmap", "orders-assignments", "-n", NAMESPACE).get("data") or {}
        return {name: MemberEntry.from_json(text) for name, text in data.items() if name != "group"}

    def balanced(self, executors: int) -> bool:
        """Whether this many running executors own all partitions evenly, without hand-offs in progress."""
        entries = [entry for entry in self.members().values() if any(entry.owned.values()) or any(entry.revoking.values())]
        counts = sorted(sum(map(len, entry.owned.values())) for entry in entries)
        alive = {entry.uid for entry in entries} <= self.executor_uids()
        moving = any(any(entry.revoking.values()) for entry in entries)
        return len(entries) == executors and sum(counts) == 6 and counts[-1] - counts[0] <= 1 and alive and not moving

    def executors(self) -> dict[str, str]:
        """Names and UIDs of the running executor pods."""
        return self._running("spark-role=executor")

    def _running(self, selector: str) -> dict[str, str]:
        pods = self.cluster.get("pods", "-n", NAMESPACE, "-l", selector)["items"]
        return {
            pod["metadata"]["name"]: pod["metadata"]["uid"]
            for pod in pods
            if pod["status"]["phase"] == "Running" and "deletionTimestamp" not in pod["metadata"]
        }

    def executor_uids(self) -> set[str]:
        return set(self.executors().values())

    def driver_pod(self) -> str:
        """The running driver pod, not those that are terminating."""
        (name,) = self._running("app=orders-driver")
        return name

    def group(self) -> dict[str, Any]:
        found: dict[str, Any] = self.cluster.get("consumergroup", "orders", "-n", NAMESPACE)
        return found

    def driver(self) -> str:
        """The holder of the group's Lease; empty if it has none."""
        lease = self.cluster.find("lease", "orders-driver", "-n", NAMESPACE)
        return str(lease.get("spec", {}).get("holderIdentity") or "")

    def unfinished(self) -> list[int]:
        """Partitions with a range that a later driver would be given again."""
        with self._redis.client() as client:
            return left_undone.logged(client, QUEUE)

    def waiting(self) -> int:
        """Unfinished entries of the queue."""
        with self._redis.client() as client:
            return left_undone.waiting(client, QUEUE)

    def results(self) -> list[Result]:
        with self._redis.client() as client:
            return [Result(*json.loads(raw)) for raw in client.lrange("results", 0, -1)]

    def processed(self) -> int:
        """Distinct entries that the user's function has seen."""
        return len({result.number for result in self.results()})

    def share_on_owner(self, newest: int) -> float:
        """How many of the newest results came from the pod that owns their partition in the ledger."""
        members = self.members().items()
        owners = {partition: name for name, entry in members for grants in entry.owned.values() for partition in grants}
        with self._redis.client() as client:
            results = [Result(*json.loads(raw)) for raw in client.lrange("results", -newest, -1)]
        return sum(owners.get(result.partition) == result.pod for result in results) / newest

    def story(self) -> str:
        """Describe the state, for the report of a failed test."""
        commands = [
            ("get", "pods,consumergroups,partitionedqueues,leases", "-n", NAMESPACE, "-o", "wide"),
            ("get", "configmap", "orders-assignments", "-n", NAMESPACE, "-o", "yaml"),
            ("get", "lease", "orders-driver", "-n", NAMESPACE, "-o", "yaml"),
            ("logs", "-n", NAMESPACE, "deployment/orders-driver", "--tail=60"),
            ("logs", "-n", NAMESPACE, "deployment/orders-driver", "--tail=30", "--previous"),
            ("logs", "-n", "baton-system", "deployment/baton", "--tail=40"),
        ]
        told = [f"$ kubectl {' '.join(command)}\n{self.cluster.kubectl(*command, check=False)}" for command in commands]
        return "\n\n".join((*told, f"what the driver's Baton has logged:\n{self._logged_by_baton()}"))

    def _logged_by_baton(self) -> str:
        """The important lines, which are easily missed among traces of Spark's threads."""
        lines = self.cluster.kubectl("logs", "-n", NAMESPACE, "deployment/orders-driver", check=False).splitlines()
        return "\n".join([line for line in lines if " baton." in line][-60:])


def checked(results: list[Result], sent: int) -> Report:
    """Whether all numbers from 0 to `sent` were processed, each key's in order."""
    last = {f"customer-{number % CUSTOMERS}": number // CUSTOMERS for number in range(sent)}
    checker = OrderChecker(first=0, produced={key: (0, sequence) for key, sequence in last.items()})
    for one in results:
        sequence, partition = one.number // CUSTOMERS, one.partition
        checker.add(Processing(one.key, sequence, one.redelivered, partition, one.pod, one.epoch))
    return checker.report()
