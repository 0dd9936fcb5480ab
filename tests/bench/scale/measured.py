"""What the operator did, as /proc, the API server's metrics and its Lease tell it."""

import asyncio
import os
from collections import Counter
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Self

import aiohttp

from baton.model.times import to_seconds
from cluster import Cluster
from cluster.processes import Registry
from tests.bench.scale.client import LEASES, Client, Kind, RefusedError, counted, within
from tests.integration.operator.world import Operator

RESOURCES = ("pods", "leases", "configmaps", "consumergroups", "partitionedqueues", "events", "customresourcedefinitions")


class Watched:
    """A replica that is started again when it ends, and its lead."""

    def __init__(self, client: Client, start: Callable[[], Operator]) -> None:
        self._client = client
        self._start = start
        self._past = 0.0
        self._samples: list[asyncio.Task[None]] = []
        self._cpu_now = 0.0
        self.restarts = 0
        self.longest_gap = 0.0
        """Seconds between two renewals of the lead's Lease."""
        self.reported = 0
        """How many losses of the lead were reported."""
        self._lapsed = 0
        """Times that such a gap was longer than a leader may lead on."""
        self._most = 0

    async def __aenter__(self) -> Self:
        self.operator = self._start()
        self._logs = [self.operator.log]
        self._samples = [asyncio.create_task(self._follow()), asyncio.create_task(self._lead())]
        return self

    async def __aexit__(self, *_: object) -> None:
        for task in self._samples:
            task.cancel()
        await asyncio.gather(*self._samples, return_exceptions=True)
        await asyncio.to_thread(self.operator.kill)

    @property
    def cpu(self) -> float:
        """Seconds of processor time, of all that were started."""
        return self._past + self._cpu_now

    @property
    def most_memory(self) -> int:
        """MiB."""
        return self._most

    @property
    def lost(self) -> int:
        """Times that it lost the lead, as its log or its Lease tells it."""
        return max(self._lapsed, sum(log.read_text().count('"event": "not leading"') for log in self._logs))

    @property
    def memory(self) -> int:
        """MiB that are resident."""
        return memory(self.operator.process.pid)

    async def kill(self) -> None:
        """As a node that is gone: it is not started again."""
        self._samples.pop(0).cancel()
        await asyncio.to_thread(self.operator.kill)

    async def stall(self) -> float:
        """Seconds of the event loop, the longest of all; of the replica that runs."""
        return await asyncio.to_thread(self.operator.metric, "baton_loop_stall_longest_seconds") or 0.0

    async def _follow(self) -> None:
        while True:
            if self.operator.process.poll() is None:
                self._cpu_now = cpu(self.operator.process.pid)
                self._most = max(self._most, memory(self.operator.process.pid))
            else:
                self.restarts += 1
                self._past, self._cpu_now = self.cpu, 0.0
                self.operator = self._start()
                self._logs.append(self.operator.log)
            await asyncio.sleep(0.5)

    async def _lead(self) -> None:
        last = 0.0
        while True:
            try:
                spec = (await self._client.ask("GET", within(LEASES, "default", "operator")))["spec"]
                renewed, may = to_seconds(spec["renewTime"]), spec["leaseDurationSeconds"] * 2 / 3
                if last and renewed > last:
                    self.longest_gap = max(self.longest_gap, renewed - last)
                    self._lapsed += renewed - last > may
                last = renewed
            except (RefusedError, aiohttp.ClientError, OSError, TimeoutError):
                pass
            await asyncio.sleep(0.5)


class Requests:
    """Those of the operator: all that the API server answered, but the fleet's own, and the garbage collector's look-ups of the
    groups that own ledgers (the operator asks for a single group only where it scales one)."""

    def __init__(self, client: Client) -> None:
        self._client = client

    async def now(self) -> Counter[Kind]:
        seen = counted(await self._client.text("/metrics"), RESOURCES)
        seen.pop(("GET", "consumergroups", ""), None)
        return Counter({kind: seen[kind] - self._client.counts[kind] for kind in seen})


def since(before: Counter[Kind], after: Counter[Kind]) -> Counter[Kind]:
    return Counter({kind: after[kind] - before[kind] for kind in after if after[kind] > before[kind]})


def shown(requests: Mapping[Kind, int]) -> str:
    return ", ".join(f"{count:,} {'/'.join(filter(None, kind))}" for kind, count in Counter(requests).most_common())


def cpu(pid: int) -> float:
    """Seconds, of all threads, in user and kernel mode."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def memory(pid: int) -> int:
    """MiB that are resident."""
    return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE") // 2**20


def of_cluster(cluster: Cluster) -> float:
    """Processor time of API server and etcd."""
    found = map(Registry(cluster.folder).find, ("kube-apiserver", "etcd"))
    return sum(cpu(one.pid) for one in found if one is not None and one.alive())


def load() -> float:
    return round(os.getloadavg()[0], 1)
