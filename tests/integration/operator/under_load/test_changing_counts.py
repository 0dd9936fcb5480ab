"""The number of partitions goes up and down under load, while operators are killed, the queue hangs and consumers come and go."""

import asyncio
import signal
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import pytest

from baton.kube.api import group_path
from baton.kube.objects import GROUP_VERSION
from baton.queues.protocol import Claimant
from baton.queues.redis import RedisQueue
from tests.integration.operator.under_load.conftest import GROUP, Busy, made
from tests.integration.operator.world import Cluster, Operator, World
from tests.load.fleet import LoadedFleet
from tests.redis_server import RedisServer
from tests.waiting import eventually

Start = Callable[..., Operator]

NAME = "changing"
FIRST, MOST = 12, 13


@pytest.fixture
async def changing(kubeconfig: Path, api: Cluster, tmp_path: Path) -> AsyncIterator[tuple[Busy, RedisServer]]:
    """A separate fleet."""
    with RedisServer() as server:
        pods = await asyncio.to_thread(lambda: asyncio.run(made(kubeconfig, NAME, server, FIRST)))
        with LoadedFleet(kubeconfig, NAME, GROUP, server, MOST, tmp_path) as fleet:
            fleet.join(pods)
            queue = RedisQueue(server.url, fleet.queue, Claimant(fleet.queue, "a test"))
            yield Busy(World(api, NAME), fleet, queue), server
            await queue.close()


async def held_up(busy: Busy) -> None:
    """Stop all consumers, and wait until each partition has a backlog."""
    for process in busy.fleet.consumers.values():
        process.send_signal(signal.SIGSTOP)

    async def backlog() -> bool:
        lag = (await busy.queue.check()).lag
        return all(lag[number] > 0 for number in range(busy.partitions))

    await eventually(backlog, "each partition has entries that are not done")


async def resized(busy: Busy, status: str, said: str = "") -> None:
    """Wait until the condition Resized is about the current spec, and has this status and message."""
    path = group_path(GROUP_VERSION, NAME, "partitionedqueues", GROUP)

    async def so() -> bool:
        found = await busy.world.condition(GROUP, "Resized", "partitionedqueues")
        generation = ((await busy.world.api.find(path)) or {})["metadata"]["generation"]
        return found["status"] == status and said in found["message"] and found["observedGeneration"] == generation

    await eventually(so, f"Resized is {status}", shown=lambda: busy.world.condition(GROUP, "Resized", "partitionedqueues"))


async def test_the_number_of_partitions_goes_up_and_down_under_load(changing: tuple[Busy, RedisServer], start: Start) -> None:
    busy, server = changing
    operator = await start(busy.world).leads()
    busy.partitions = FIRST
    await busy.settled()
    for count, trouble in ((13, "killed"), (8, "hung"), (12, "quiet")):
        await held_up(busy)
        await busy.world.change("partitionedqueues", GROUP, {"spec": {"partitions": count}})
        await resized(busy, "False", "waits until")
        if trouble == "killed":
            operator.kill()
            operator = await start(busy.world).leads()
            await resized(busy, "False", "waits until")
        elif trouble == "hung":
            server.freeze()
            await busy.world.told(GROUP, "QueueUnreachable")
            server.thaw()
        for process in busy.fleet.consumers.values():
            process.send_signal(signal.SIGCONT)
        await resized(busy, "True")
        await busy.works_on()
        busy.partitions = count
        await busy.settled()
    await busy.proven()
    told = [event["note"] for event in await busy.world.events("Resized")]
    assert [f"{GROUP} has {count} partitions" in " ".join(told) for count in (8, 12, 13)] == [True] * 3
