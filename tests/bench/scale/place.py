"""Where a case is measured: a cluster, a fleet and the operator on it, and the report."""

import asyncio
import json
import sys
import time
from collections.abc import AsyncIterator, Callable, Coroutine, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, TypeVar

from baton.kube.api import connect
from cluster import Cluster as Kubernetes
from tests.bench.scale import measured
from tests.bench.scale.client import Client, connected
from tests.bench.scale.fleet import Extent, Fleet
from tests.bench.scale.measured import Requests, Watched
from tests.integration.operator.conftest import apply_crds
from tests.integration.operator.world import Cluster, Operator

T = TypeVar("T")

_ROOT = Path(__file__).parents[3]
PATIENCE = 480.0
"""Seconds for which groups that do not converge are waited for."""
TOLD_EVERY = 10.0


@dataclass(frozen=True)
class Case:
    name: str
    ours: float
    bound: float
    ratio: float
    unit: str


@dataclass
class Report:
    groups: int
    minutes: float
    heartbeat: float
    cases: list[Case] = field(default_factory=list)

    def case(self, name: str, ours: float, unit: str, bound: float = 0.0) -> None:
        """Three digits. A bound of 0: not measured."""
        ours, bound = float(f"{ours:.3g}"), float(f"{bound:.3g}")
        made = Case(name, ours, bound, float(f"{ours / bound:.3g}") if bound else 0.0, unit)
        self.cases.append(made)
        print(f"{name:58}{ours:>9,g}{bound:>9,g}{made.ratio:>8g}  {unit}", flush=True)


def tell(what: str) -> None:
    """How far it is, and how busy the machine is."""
    print(f"{time.strftime('%H:%M:%S')} load {measured.load():>5}  {what}", file=sys.stderr, flush=True)


async def progress(work: Coroutine[Any, Any, T], far: Callable[[], str]) -> T:
    """The result of long work, with a line each ten seconds."""
    task = asyncio.create_task(work)
    try:
        while not (await asyncio.wait([task], timeout=TOLD_EVERY))[0]:
            tell(f"  {far()}")
    finally:
        task.cancel()  # if it is not over
    return await task


@dataclass
class Place:
    """A cluster without a node, with the CRDs and a fleet whose pods are Ready."""

    cluster: Kubernetes
    client: Client
    folder: Path
    report: Report
    fleet: Fleet

    def __post_init__(self) -> None:
        self.requests = Requests(self.client)

    def operator(self, identity: str = "bench", kubeconfig: Path | None = None, options: Sequence[str] = ()) -> Watched:
        """With default options, but for those."""
        path = kubeconfig or self.cluster.kubeconfig
        return Watched(self.client, lambda: Operator(path, None, identity, self.folder, *options))

    @asynccontextmanager
    async def least(self, what: str, kubeconfig: Path | None = None) -> AsyncIterator["Least"]:
        """A client that decides nothing does this as long as the block lasts (or until it is done with it)."""
        command = (str(kubeconfig or self.cluster.kubeconfig), str(self.cluster.folder / "pki"), what)
        process = await asyncio.create_subprocess_exec(
            sys.executable, "-m", "tests.bench.scale.least", *command, str(self.fleet.extent.partitions),
            cwd=_ROOT, stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE,
        )  # fmt: skip
        assert process.stdout is not None
        made = Least()
        try:
            if what != "cold":
                await process.stdout.readline()
            yield made
            output, _ = await process.communicate(b"")  # closes its standard input
            told = json.loads(output)
            made.seconds, made.cpu, made.requests = told["seconds"], told["cpu"], told["requests"]
            tell(f"  it needed {told}")
        finally:
            if process.returncode is None:
                process.kill()

    async def converged(self, operator: Watched, within: float = PATIENCE) -> float:
        """Seconds until all groups are Settled, or all that there were."""
        fleet, begun, told = self.fleet, time.monotonic(), 0.0
        while fleet.unsettled and (waited := time.monotonic() - begun) < within:
            if waited - told >= TOLD_EVERY:
                told = waited
                other = next(key for key in fleet.groups if key not in fleet.settled)
                tell(
                    f"  {len(fleet.settled):,} of {len(fleet.groups):,} groups are Settled; {operator.cpu:.0f} s of processor"
                    f" time, {operator.most_memory} MiB; {'/'.join(other)}: {': '.join(fleet.said.get(other, ()))[:100]}"
                )
            await asyncio.sleep(0.05)
        return time.monotonic() - begun

    async def named(self, within: float = 60.0) -> None:
        """Wait until a watch has seen all pods in their ledgers."""
        for _ in range(round(within / 0.1)):
            if not self.fleet.unnamed:
                return
            await asyncio.sleep(0.1)

    async def right(self, within: float = 120.0) -> float:
        """Seconds until every group is Settled, and right; -1: they were not."""
        begun = time.monotonic()
        while (waited := time.monotonic() - begun) < within:
            if not self.fleet.unsettled and not self.fleet.unnamed and not await self.fleet.wrong():
                return waited
            await asyncio.sleep(0.1)
        return -1

    async def judge(self, name: str) -> None:
        """What the checker finds, as cases."""
        wrong = await self.fleet.wrong()
        for (namespace, group), why in list(wrong.items())[:5]:
            tell(f"  {namespace}/{group} is wrong: {'; '.join(why)[:300]}")
        self.report.case(f"{name}: groups whose ledger is wrong", len(wrong), "groups")
        self.report.case(f"{name}: epochs that went back", len(self.fleet.epochs.broken), "times")

    async def health(self, operator: Watched, name: str) -> None:
        """How the operator held its lead since the last report, and its event loop since it was started."""
        self.report.case(f"{name}: lead lost", operator.lost - operator.reported, "times")
        self.report.case(f"{name}: longest time between two renewals", operator.longest_gap, "s")
        self.report.case(f"{name}: ended by itself", operator.restarts, "times")
        self.report.case(f"{name}: longest stall", await operator.stall(), "s")
        operator.reported, operator.longest_gap = operator.lost, 0.0


@dataclass
class Least:
    """What the fewest requests needed; filled in at the end."""

    seconds: float = 0.0
    cpu: float = 0.0
    requests: Mapping[str, float] = field(default_factory=dict)
    """By verb, resource and subresource, such as PATCH/consumergroups/status."""

    @property
    def count(self) -> float:
        return sum(self.requests.values())


@asynccontextmanager
async def place(report: Report, extent: Extent, source: Mapping[str, object] | None = None) -> AsyncIterator[Place]:
    """The fleet's cost is told at the end."""
    tell("starting etcd and an API server")
    with Kubernetes(node=False) as cluster, TemporaryDirectory(prefix="baton-scale-") as folder:
        async with connect(cluster.kubeconfig) as (plain, _):
            await apply_crds(Cluster(plain._client))
        async with connected(cluster.server, cluster.folder / "pki") as client:
            fleet = Fleet(client, extent, source or {"type": "External"})
            begun, before = time.monotonic(), time.process_time()

            def cost() -> str:
                spent = time.process_time() - before
                return f"{sum(client.counts.values()):,} requests, {spent:.1f} s of processor time of this process"

            tell(f"making {extent.groups:,} groups of {extent.pods:,} pods and {extent.partitions:,} partitions")
            await progress(fleet.make(), lambda: f"{len(fleet.pods):,} pods")
            tell(f"made after {time.monotonic() - begun:.0f} s: {cost()}")
            fleet.begin()
            try:
                yield Place(cluster, client, Path(folder), report, fleet)
            finally:
                await fleet.end()
                tell(f"the pods needed {cost()}; API server and etcd: {measured.of_cluster(cluster):.0f} s")


def waits(fleet: Fleet) -> Sequence[float]:
    """Seconds from Ready to ledger, of those that joined; without those that went before."""
    return [max(0.0, pod.named_at - pod.ready_at) for pod in fleet.joined if pod.named_at is not None]
