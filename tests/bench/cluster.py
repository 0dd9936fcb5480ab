"""What the operator costs and how fast it is on a real cluster: at rest with 1,000 groups, when pods join, and in hand-offs."""

import asyncio
import os
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from statistics import quantiles
from typing import Any, Self

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
from tests.integration.operator.conftest import apply_crds, namespace
from tests.integration.operator.world import Cluster, Operator, World
from tests.load.producer import Load
from tests.redis_server import RedisServer
from tests.waiting import eventually, until

GROUPS, NAMESPACES = 1000, 10
WATCHED = 60.0
"""Seconds for which CPU is measured."""
JOINS, JOIN_EVERY = 120, 0.3
"""Pods, and seconds between them: the ledger is written five times a second at most, so faster ones would wait for each other."""
ROUNDS, MOVE_EVERY = 10, 1.0
"""In which one pod leaves and comes back, with three partitions each time, and the seconds between any two of these."""

Case = dict[str, object]


def measure() -> list[Case]:
    """Cases as {"name", "value", "unit"}. Needs root and the cluster's programs; takes some five minutes."""
    return [*asyncio.run(_without_node()), *_with_node()]


def main() -> None:
    for case in measure():
        print(f"{case['name']:60}{case['value']:>12} {case['unit']}")


async def _without_node() -> list[Case]:
    with Kubernetes(node=False) as cluster, tempfile.TemporaryDirectory() as folder:
        async with connect(cluster.kubeconfig) as (plain, _):
            api = Cluster(plain._client)
            await apply_crds(api)
            return [
                *await _joins(api, cluster.kubeconfig, Path(folder)),
                *await _at_rest(api, cluster.kubeconfig, Path(folder)),
            ]


# -- pods that join


async def _joins(api: Cluster, kubeconfig: Path, folder: Path) -> list[Case]:
    """Ready (the answer to the write of its status) until the ledger names the pod, as a watch sees it."""
    world = await namespace(api, "joins")
    await world.external("orders", JOINS, rebalance={"delaySeconds": 0})
    await world.group("orders")
    with _operator(kubeconfig, "joins", folder) as operator, _Versions(kubeconfig, "joins", "orders") as ledger:
        await operator.leads()
        took = []
        for number in range(JOINS):
            pod = f"pod-{number}"
            await world.pod(pod, "orders", ready=False)
            ready_at = time.monotonic()
            await world.set_ready(pod, True)
            await eventually(lambda pod=pod: _named(ledger, pod), f"{pod} is in the ledger")  # type: ignore[misc]
            took.append(ledger.named_at[pod] - ready_at)
            await asyncio.sleep(JOIN_EVERY)
        await world.delete("consumergroups", "orders")
    return _spread("pod Ready to ledger", took)


async def _named(ledger: "_Versions", pod: str) -> bool:
    return pod in ledger.named_at


# -- groups at rest


async def _at_rest(api: Cluster, kubeconfig: Path, folder: Path) -> list[Case]:
    """Groups that nothing happens to: CPU of the operator's process, and what it holds in memory."""
    worlds = [await namespace(api, f"rest-{number}") for number in range(NAMESPACES)]
    at_once = asyncio.Semaphore(16)

    async def make(number: int) -> None:
        async with at_once:
            world, name = worlds[number % NAMESPACES], f"group-{number}"
            await world.external(name, 12)
            await world.group(name)

    await asyncio.gather(*map(make, range(GROUPS)))
    with _operator(kubeconfig, None, folder) as operator:
        await operator.leads()
        await eventually(lambda: _all_told(worlds), "every group has its status", 300)
        await eventually(lambda: _no_more_events(worlds), "all events are written", 300)
        await eventually(lambda: _at_ease(operator), "the operator has caught up")
        before = _cpu(operator)
        await asyncio.sleep(WATCHED)
        used = (_cpu(operator) - before) / WATCHED * 60
        resident = _resident(operator)
    return [
        _case(f"CPU of the operator, {GROUPS} groups at rest", used, "s/min"),
        _case(f"memory of the operator, {GROUPS} groups", resident / 2**20, "MiB"),
    ]


async def _all_told(worlds: list[World]) -> bool:
    """Asked once a second, for the lists are large."""
    await asyncio.sleep(1)
    for world in worlds:
        found = await world.api.get(f"/apis/baton.dev/v1alpha1/namespaces/{world.namespace}/consumergroups")
        if not all((group.get("status") or {}).get("state") for group in found["items"]):
            return False
    return True


async def _no_more_events(worlds: list[World]) -> bool:
    """None within five seconds: those of a thousand groups are written one by one, for minutes."""
    before = await _events(worlds)
    await asyncio.sleep(5)
    return await _events(worlds) == before > 0


async def _events(worlds: list[World]) -> int:
    return sum([len(await world.events("NoMembers")) for world in worlds])


async def _at_ease(operator: Operator) -> bool:
    """Less than half a CPU over two seconds."""
    before = _cpu(operator)
    await asyncio.sleep(2)
    return _cpu(operator) - before < 1


def _cpu(operator: Operator) -> float:
    """Seconds, of all its threads, in user and kernel mode."""
    fields = Path(f"/proc/{operator.process.pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def _resident(operator: Operator) -> int:
    """Bytes of memory that it has."""
    return int(Path(f"/proc/{operator.process.pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


# -- hand-offs between pods


def _with_node() -> list[Case]:
    """Pods that a kubelet runs, under load. One of them stops reading the queue and comes back, again and again."""
    with Kubernetes(node=True) as cluster, tempfile.TemporaryDirectory() as folder:
        asyncio.run(_crds(cluster.kubeconfig))
        cluster.kubectl("create", "namespace", "moves")
        with (
            RedisServer(bind=cluster.address) as server,
            _operator(cluster.kubeconfig, "moves", Path(folder)),
            _Versions(cluster.kubeconfig, "moves", GROUP) as ledger,
        ):
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


# -- what is seen


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
        self.named_at: dict[str, float] = {}
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
            self.named_at.setdefault(pod, now)
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


@contextmanager
def _operator(kubeconfig: Path, served: str | None, folder: Path) -> Iterator[Operator]:
    """`served`: a namespace; None: all of them."""
    operator = Operator(kubeconfig, served, "bench", folder)
    try:
        yield operator
    finally:
        operator.kill()


def _spread(name: str, seconds: list[float]) -> list[Case]:
    """p50 and p99 in milliseconds."""
    cuts = quantiles(seconds, n=100, method="inclusive")
    return [
        _case(f"{name}, p50", cuts[49] * 1000, "ms"),
        _case(f"{name}, p99", cuts[98] * 1000, "ms"),
        _case(f"{name}, measured", len(seconds), "times"),
    ]


def _case(name: str, value: float, unit: str) -> dict[str, Any]:
    return {"name": name, "value": float(f"{value:.3g}"), "unit": unit}


if __name__ == "__main__":
    main()
