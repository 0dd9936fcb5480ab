"""How long hand-offs take on a real cluster, between pods that a kubelet runs."""

import asyncio
import tempfile
import threading
import time
from contextlib import suppress
from pathlib import Path
from statistics import quantiles
from typing import Self

import redis
from kubernetes import client, config, watch
from urllib3.exceptions import HTTPError

from baton.kube.api import connect
from baton.model.ids import QueueName
from baton.model.ledger import MemberEntry
from baton.model.names import LEDGER_GROUP_KEY, SUBSCRIBED_ANNOTATION, ledger_name
from cluster import Cluster as Kubernetes
from tests.e2e.plain_fleet import GROUP, PARTITIONS, QUEUE, Fleet
from tests.e2e.reader import results
from tests.integration.operator.conftest import apply_crds
from tests.integration.operator.world import Cluster, Operator
from tests.load.producer import Load
from tests.redis_server import RedisServer
from tests.waiting import until

ROUNDS, MOVE_EVERY = 10, 1.0
"""In each round one pod leaves and comes back, with three partitions each time. Seconds between any two of these."""

Case = tuple[str, float, str]
"""A name, a value and its unit."""


def measure() -> list[Case]:
    """Needs root and the cluster's programs. Pods run under load; one of them stops
    reading the queue and comes back, again and again."""
    with Kubernetes(node=True) as cluster, tempfile.TemporaryDirectory() as folder:
        asyncio.run(_crds(cluster.kubeconfig))
        cluster.kubectl("create", "namespace", "moves")
        operator = Operator(cluster.kubeconfig, "moves", "bench", Path(folder))
        try:
            return _measured(cluster)
        finally:
            operator.kill()


def _measured(cluster: Kubernetes) -> list[Case]:
    with RedisServer(bind=cluster.address) as server, _Versions(cluster.kubeconfig, "moves", GROUP) as ledger:
        fleet = Fleet(cluster, "moves", server.url, delay=0)
        fleet.deploy(replicas=4)
        fleet.settled(members=4)
        pod = min(one["metadata"]["name"] for one in cluster.get("pods", "-n", "moves")["items"])
        with Load(server.url, f"moves/{QUEUE}", 1000, every=0.01), _Firsts(server, f"moves/{QUEUE}") as firsts:
            until(lambda: ledger.rests(pod, owning=True))
            ledger.forget()  # hand-offs of the fleet's start, before there was a load
            for _ in range(ROUNDS):
                for subscribed in ("nothing", None):
                    ledger.subscribe(pod, subscribed)
                    until(lambda owning=subscribed is None: ledger.rests(pod, owning=owning))  # type: ignore[misc]
                    until(lambda: ledger.granted() <= firsts.at.keys())
                    time.sleep(MOVE_EVERY)
        fleet.delete()
    pauses = [granted - revoked for revoked, granted in ledger.pauses.values()]
    served = [firsts.at[key] - revoked for key, (revoked, _) in ledger.pauses.items() if key in firsts.at]
    return [
        *_spread("hand-off of a partition, revoked to granted in the ledger", pauses),
        *_spread("hand-off of a partition, revoked to the next owner's first entry", served),
    ]


async def _crds(kubeconfig: Path) -> None:
    async with connect(kubeconfig) as (plain, _):
        await apply_crds(Cluster(plain._client))


class _Versions:
    """When a watch saw what in the ledger of a group (monotonic seconds). It starts no process, which would take the processor
    from those that are measured."""

    def __init__(self, kubeconfig: Path, namespace: str, group: str) -> None:
        self._api = config.new_client_from_config(str(kubeconfig))  # type: ignore[no-untyped-call]
        self._where = {"namespace": namespace, "field_selector": f"metadata.name={ledger_name(group)}"}
        self._queue = QueueName(QUEUE)
        self._namespace = namespace
        self._entries: dict[str, MemberEntry] = {}
        self._revoked: dict[int, float] = {}
        self._granted: dict[int, int] = {}
        self._watch = watch.Watch()  # type: ignore[no-untyped-call]
        self._thread = threading.Thread(target=self._run, name="ledger", daemon=True)
        self.pauses: dict[tuple[int, int], tuple[float, float]] = {}
        """Partition and new epoch: when it was revoked, and granted."""

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._watch.stop()  # type: ignore[no-untyped-call]

    def subscribe(self, pod: str, queue: str | None) -> None:
        """What the pod reads; None: all queues of its group."""
        body = {"metadata": {"annotations": {SUBSCRIBED_ANNOTATION: queue}}}
        client.CoreV1Api(self._api).patch_namespaced_pod(pod, self._namespace, body)

    def forget(self) -> None:
        """What was handed off until now."""
        self.pauses = {}

    def rests(self, pod: str, *, owning: bool) -> bool:
        """Nothing moves, and the pod owns something, or nothing."""
        entries = self._entries
        moving = any(entry.revoking.get(self._queue) for entry in entries.values())
        return not moving and owning == (pod in entries and bool(entries[pod].owned.get(self._queue)))

    def granted(self) -> set[tuple[int, int]]:
        """Partition and epoch, as last seen."""
        return set(self._granted.items())

    def _run(self) -> None:
        with suppress(HTTPError):  # the cluster ends before its watches do
            for event in self._watch.stream(client.CoreV1Api(self._api).list_namespaced_config_map, **self._where):  # type: ignore[no-untyped-call]
                now = time.monotonic()
                if event["type"] != "DELETED":
                    self._see(event["raw_object"].get("data") or {}, now)

    def _see(self, data: dict[str, str], now: float) -> None:
        entries: dict[str, MemberEntry] = {}
        for pod, text in data.items():
            if pod == LEDGER_GROUP_KEY:
                continue
            entry = entries[pod] = MemberEntry.from_json(text)
            for number in entry.revoking.get(self._queue, ()):
                self._revoked.setdefault(number, now)
            for number, epoch in entry.owned.get(self._queue, {}).items():
                self._granted[number] = epoch
                if number in self._revoked:
                    self.pauses[number, epoch] = (self._revoked.pop(number), now)
        self._entries = entries


class _Firsts:
    """When the first result under each epoch was in the consumers' sink, looked at every few milliseconds."""

    def __init__(self, server: RedisServer, queue: str) -> None:
        self._server: redis.Redis = server.client()
        self._lists = [results(queue, number) for number in range(PARTITIONS)]
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._run, name="firsts")
        self.at: dict[tuple[int, int], float] = {}

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join()

    def _run(self) -> None:
        while not self._over.wait(0.005):
            with self._server.pipeline(transaction=False) as pipe:
                for key in self._lists:
                    pipe.lindex(key, -1)
                found: list[bytes | None] = pipe.execute()
            for number, text in enumerate(found):
                if text is not None:
                    self.at.setdefault((number, int(text.split(b",")[5])), time.monotonic())


def _spread(name: str, seconds: list[float]) -> list[Case]:
    """p50 and p99 in milliseconds."""
    cuts = quantiles(seconds, n=100, method="inclusive")
    return [
        _case(f"{name}, p50", cuts[49] * 1000, "ms"),
        _case(f"{name}, p99", cuts[98] * 1000, "ms"),
        _case(f"{name}, measured", len(seconds), "times"),
    ]


def _case(name: str, value: float, unit: str) -> Case:
    return name, float(f"{value:.3g}"), unit
