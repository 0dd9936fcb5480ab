"""The network between the processes of a fleet and their servers fails, under load, and the processes with it."""

import asyncio
import os
import signal
import time
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

from baton.queues.protocol import Claimant
from baton.queues.redis import RedisQueue
from tests.integration.operator.under_load.conftest import GROUP, PARTITIONS, PODS, Busy, made
from tests.integration.operator.world import Cluster, Operator, World
from tests.load.fleet import LoadedFleet
from tests.load.links import Links
from tests.load.troubles import Blow, Break, Trouble, spells
from tests.network import Network
from tests.promises import promised
from tests.redis_server import RedisServer
from tests.waiting import eventually

NAME = "cut-off"
SEED = int(os.environ.get("BATON_SOAK_SEED", "1"))
SECONDS = float(os.environ.get("BATON_SOAK_SECONDS", "12"))
"""For which troubles befall the fleet, one after the other. `make soak` has more of them."""


class CutOff:
    """A fleet, its operator and its server, and the links between them."""

    def __init__(self, running: "Running", busy: Busy, start: Callable[[], Operator]) -> None:
        self.busy, self.links, self._server = busy, running.links, running.server
        self._start = start
        self.operator = start()

    async def befall(self, trouble: Trouble) -> None:
        match trouble:
            case Trouble(tuple() as ends, Break() as what):
                what.befall(self.links.made[ends])
            case Trouble("redis", Blow.KILLED):
                self._server.kill()
            case Trouble("redis", Blow.STOPPED):
                self._server.freeze()
            case Trouble("operator", Blow.KILLED):
                self.operator.kill()
            case Trouble("operator", Blow.STOPPED):
                self.operator.process.send_signal(signal.SIGSTOP)
            case Trouble(str() as pod, Blow.KILLED):
                consumer = self.busy.fleet.consumers[pod]
                consumer.kill()
                consumer.wait()
            case Trouble(str() as pod, Blow.STOPPED):
                self.busy.fleet.consumers[pod].send_signal(signal.SIGSTOP)

    async def mend(self, trouble: Trouble) -> None:
        match trouble:
            case Trouble(tuple() as ends, _):
                self.links.made[ends].heal()
            case Trouble("redis", Blow.KILLED):
                self._server.start()
            case Trouble("redis", Blow.STOPPED):
                self._server.thaw()
            case Trouble("operator", Blow.KILLED):
                self.operator = self._start()
            case Trouble("operator", Blow.STOPPED):
                self.operator.process.send_signal(signal.SIGCONT)
            case Trouble(str() as pod, Blow.KILLED):
                self.busy.fleet.start(pod)
            case Trouble(str() as pod, Blow.STOPPED):
                self.busy.fleet.consumers[pod].send_signal(signal.SIGCONT)

    async def says(self, pod: str, *words: str) -> None:
        """Wait until the log of this consumer has them, in one line."""

        async def so() -> bool:
            return any(all(word in line for word in words) for line in self.log(pod).splitlines())

        async def shown() -> str:
            return self.log(pod)[-2000:]

        await eventually(so, f"{pod} says {words}", shown=shown)

    def log(self, pod: str) -> str:
        return self.busy.fleet.log(pod).read_text()


class Running(NamedTuple):
    """Servers, links and consumers, without an operator."""

    server: RedisServer
    links: Links
    fleet: LoadedFleet


@pytest.fixture(scope="module")
def cut_off_fleet(kubeconfig: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    folder = tmp_path_factory.mktemp(NAME)
    with RedisServer(fsync="always") as server, Network() as network:
        links = Links(network, kubeconfig, server, folder)
        pods = asyncio.run(made(kubeconfig, NAME, server, url=links.redis("operator")))
        with LoadedFleet(kubeconfig, NAME, GROUP, server, PARTITIONS, folder, links) as fleet:
            fleet.join(pods)
            yield Running(server, links, fleet)


@pytest.fixture
async def cut_off(cut_off_fleet: Running, api: Cluster, start: Callable[..., Operator]) -> AsyncIterator[CutOff]:
    fleet = cut_off_fleet.fleet
    queue = RedisQueue(fleet.url, fleet.queue, Claimant(fleet.queue, "a test"))
    world = World(api, NAME)
    kubeconfig = cut_off_fleet.links.api_server("operator")
    made = CutOff(cut_off_fleet, Busy(world, fleet, queue), lambda: start(world, kubeconfig=kubeconfig))
    await made.operator.leads()
    await made.busy.settled()
    yield made
    await queue.close()


async def test_cut_connections_are_reported_and_work_continues_afterwards(cut_off: CutOff) -> None:
    busy = cut_off.busy
    redis_at = {who: f"Redis at 127.0.0.1:{cut_off.links.made[who, 'redis'].port}" for who in ("a", "operator")}
    troubles = [
        Trouble(("a", "redis"), Break.SILENT),
        Trouble(("b", "api"), Break.SILENT),
        Trouble(("producer", "redis"), Break.SILENT),
        Trouble(("operator", "redis"), Break.ANSWERS_LOST),
    ]
    for trouble in troubles[:-1]:
        await cut_off.befall(trouble)
    await cut_off.says("a", redis_at["a"], "does not answer", "resumes when it is back")
    await cut_off.says("b", "cannot be renewed", "127.0.0.1")
    assert f"a: {redis_at['a']} does not answer" in await busy.world.told(GROUP, "MemberCutOff")
    await cut_off.befall(troubles[-1])
    assert f"{redis_at['operator']} does not answer" in await busy.world.told(GROUP, "QueueUnreachable")
    for trouble in troubles:
        await cut_off.mend(trouble)
    await busy.works_on()
    await busy.proven()
    away = Trouble(("operator", "api"), Break.SILENT)
    await cut_off.befall(away)
    await cut_off.operator.follows()
    await busy.works_on()
    await cut_off.mend(away)
    await cut_off.operator.leads()
    await busy.proven()


async def test_whatever_fails_nothing_is_lost_done_twice_in_silence_or_out_of_order(cut_off: CutOff) -> None:
    """Troubles by a seed, for a time. What it prints says which they were."""
    busy = cut_off.busy
    print(f"BATON_SOAK_SEED={SEED}", flush=True)
    until = time.monotonic() + SECONDS
    for spell in spells(SEED, list(cut_off.links.made), [*PODS, "operator", "redis"], SECONDS / 2):
        if time.monotonic() >= until:
            break
        print(f"{spell.seconds:g} s: " + "; ".join(map(str, spell.troubles)), flush=True)
        for trouble in spell.troubles:
            await cut_off.befall(trouble)
        over = time.monotonic() + spell.seconds
        while time.monotonic() < over:
            with promised():
                assert busy.fleet.witness.broken == []
            await asyncio.sleep(0.1)
        for trouble in spell.troubles:
            await cut_off.mend(trouble)
    healed = time.monotonic()
    await cut_off.operator.leads()
    await busy.proven()
    print(f"all is well {time.monotonic() - healed:.1f} s after the last of them", flush=True)
