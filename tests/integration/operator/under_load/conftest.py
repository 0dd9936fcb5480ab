"""A group of processes under load, which all tests of a module share: what one of them breaks must be whole again after it."""

import asyncio
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest

from baton.kube.api import connect
from baton.kube.errors import NotFoundError
from baton.queues.protocol import Claimant
from baton.queues.redis import RedisQueue
from tests.integration.operator.conftest import apply_crds, namespace
from tests.integration.operator.world import Cluster, World
from tests.load.fleet import LoadedFleet
from tests.redis_server import RedisServer
from tests.waiting import eventually

GROUP = "numbers"
PARTITIONS = 8
PODS = ("a", "b", "c", "d")


class Busy:
    """The fleet, and its world as one test sees it."""

    def __init__(self, world: World, fleet: LoadedFleet, queue: RedisQueue) -> None:
        self.world, self.fleet, self.queue = world, fleet, queue
        self.partitions = PARTITIONS

    async def settled(self, *members: str) -> None:
        """Ready, spread evenly over these members (all, if none is named), the queue at one with the ledger."""
        names = sorted(members or PODS)
        most = -(-self.partitions // len(names))

        async def so() -> bool:
            entries = await self.world.entries(GROUP)
            owned = await self.world.owned(GROUP)
            if sorted(entries) != names or any(entry.revoking for entry in entries.values()):
                return False
            held = {number: (entries[name].uid, epoch) for name, grants in owned.items() for number, epoch in grants.items()}
            if len(held) != self.partitions or max(map(len, owned.values())) > most:
                return False
            status = await self.world.status(GROUP)
            if status.get("state") != "Ready" or status.get("members") != len(names) or status.get("moving"):
                return False
            if (await self.world.condition(GROUP))["status"] != "True":
                return False
            owners = (await self.queue.check()).owners.items()
            return {number: owner[:2] for number, owner in owners if owner.uid is not None} == held

        await eventually(so, f"{GROUP} is Ready and spread over {names}", shown=self._shown)

    async def proven(self, *members: str) -> None:
        """Settled, everything that was sent is processed, and no promise was broken. The load goes on afterwards."""
        await self.settled(*members)
        self.fleet.load.pause()
        try:

            async def empty() -> bool:
                return not sum((await self.queue.check()).lag.values())

            await eventually(empty, "everything that was sent is processed", shown=self.queue.check)
            self.fleet.verdict()
        finally:
            self.fleet.load.resume()

    async def works_on(self) -> None:
        """Wait until more entries are processed."""
        before = self.fleet.processings()

        async def more() -> bool:
            return self.fleet.processings() > before + 150

        await eventually(more, "entries are processed")

    async def _shown(self) -> object:
        return {
            "status": await self.world.status(GROUP),
            "ledger": await self.world.ledger_data(GROUP),
            "owners": (await self.queue.check()).owners,
        }


@pytest.fixture(scope="module")
def running(kubeconfig: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[LoadedFleet]:
    """Load, witnesses and consumers; no operator."""
    name = f"loaded-{uuid4().hex[:6]}"
    with RedisServer() as server:
        pods = asyncio.run(made(kubeconfig, name, server))
        with LoadedFleet(kubeconfig, name, GROUP, server, PARTITIONS, tmp_path_factory.mktemp(name)) as fleet:
            fleet.join(pods)
            yield fleet


async def made(
    kubeconfig: Path, name: str, server: RedisServer, partitions: int = PARTITIONS, url: str | None = None
) -> dict[str, str]:
    """A queue, and a group of pods without processes. `url`: by which the operator reaches the server, if not by the server's."""
    queue = RedisQueue(server.url, f"{name}/{GROUP}", Claimant(f"{name}/{GROUP}", "a test"))
    await queue.ensure(partitions)
    await queue.release()
    await queue.close()
    async with connect(kubeconfig) as (plain, _):
        api = Cluster(plain._client)
        await apply_crds(api)
        world = await namespace(api, name)
        await world.redis(GROUP, url or server.url, partitions, rebalance={"delaySeconds": 0, "maxHandoffSeconds": 3})
        await world.deployment("idle", len(PODS))
        target = {"apiVersion": "apps/v1", "kind": "Deployment", "name": "idle"}
        await world.group(GROUP, replicas=len(PODS), scale={"mode": "Workload", "targetRef": target})
        return {pod: await world.pod(pod, GROUP) for pod in PODS}


@pytest.fixture
async def busy(api: Cluster, running: LoadedFleet) -> Any:
    """The module's fleet. Whatever became of a test, the next one has its pods."""
    world = World(api, running.queue.partition("/")[0])
    queue = RedisQueue(running.url, running.queue, Claimant(running.queue, "a test"))
    yield Busy(world, running, queue)
    await queue.close()
    for pod in PODS:
        with suppress(NotFoundError):
            await world.set_ready(pod, True)
