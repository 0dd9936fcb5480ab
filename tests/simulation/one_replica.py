"""One replica of the real operator in virtual time, between an API server in memory and queues in memory."""

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from functools import partial
from typing import Any, TypeVar

from baton.controller.capacity import MOST_IN_ALL
from baton.controller.operator_replica import Options, Replica
from baton.engine.step import SIZE_LIMIT
from baton.kube.clock import ApiServerClock
from baton.kube.elector import Terms
from baton.kube.objects import QueueView, groups_path, queues_path
from baton.queues.protocol import Claimant, QueueAdapter
from baton.simulation.virtual_time import run
from tests.simulation.api_server import MemoryApi, Trouble, WatchFeed
from tests.simulation.api_server.faults import Fault
from tests.simulation.memory_cluster import Json, MemoryCluster, as_test
from tests.unit.controller.memory_queue import MemoryQueue

World = TypeVar("World", bound="OneReplica")


class OneReplica(MemoryCluster):
    """One replica that serves the namespace `shop`. `trouble` (see `MemoryApi`): faults of its requests; may be set at any
    time."""

    def __init__(self, ledger_limit: int = SIZE_LIMIT, most_partitions: int = MOST_IN_ALL) -> None:
        super().__init__("shop", "baton-system")
        self.trouble: Trouble = lambda verb, path: None
        self.asked: list[tuple[str, str]] = []
        """Verbs and paths of the replica's requests to the API server."""
        self.queues: dict[str, MemoryQueue] = {}
        """Queues by name; created when first opened."""
        self.ledger_limit = ledger_limit
        self.most_partitions = most_partitions
        self.looks = 0
        """How often the replica read the clock, which a busy loop does all the time."""
        self.tasks: list[asyncio.Task[None]] = []
        self.start()

    def start(self) -> None:
        """Start the replica."""
        api = MemoryApi(self.server, self._trouble, latency=lambda: 0.005)
        self.replica = Replica(
            api,
            MemoryApi(self.server, latency=lambda: 0.005),
            ApiServerClock(self.unix, self._ticks),
            self._open,
            Options(
                identity="one",
                lease_namespace="baton-system",
                lease_name="operator",
                terms=Terms(),
                ledger_limit=self.ledger_limit,
                most_partitions=self.most_partitions,
            ),
        )
        relists = self.replica.relists
        feed = WatchFeed(api, self.replica.cache.event, broke=relists.watch_broke, listed=relists.watch_listed)

        async def work() -> None:
            await feed.ready.wait()
            await self.replica.group_loops.run()

        running = (self.replica.elector.run(), self.replica.events.run(), feed.run(), work())
        self.tasks = [asyncio.create_task(one) for one in running]

    async def stop(self) -> None:
        """End it as by a crash."""
        for task in self.tasks:
            task.cancel()
        await asyncio.gather(*self.tasks, return_exceptions=True)

    def _ticks(self) -> float:
        self.looks += 1
        return self.now()

    def _trouble(self, verb: str, path: str) -> Fault | None:
        self.asked.append((verb, path))
        return self.trouble(verb, path)

    async def _open(self, view: QueueView, claimant: Claimant) -> QueueAdapter:
        return self.queues.setdefault(view.name, MemoryQueue())

    # -- making things

    def queue(self, name: str, partitions: int = 4, **rebalance: Any) -> None:
        spec: Json = {"partitions": partitions, "source": {"type": "Redis", "redis": {"url": "redis://memory:6379"}}}
        spec["rebalance"] = {"delaySeconds": 1, "maxHandoffSeconds": 2, **rebalance}
        self.make(queues_path("shop"), {"metadata": {"name": name}, "spec": spec})

    def group(self, name: str, *queues: str, **spec: Any) -> None:
        """Create a group. `queues`: by default the one of its name."""
        names = [{"name": queue} for queue in queues or [name]]
        whole = {"queues": names, "membership": {"session": "Optional"}, **spec}
        self.make(groups_path("shop"), {"metadata": {"name": name}, "spec": whole})

    async def serve(self, *pods: str, name: str = "orders") -> None:
        """Create a queue of four partitions, its group and pods, and wait until they own all partitions."""
        self.queue(name)
        self.group(name)
        for pod in pods:
            self.pod(pod, name)
        await self.until(lambda: sum(self.counts(name)), 4)
        await self.until_told("Ready", name)

    def change_group(self, name: str, **spec: Any) -> None:
        self.change(groups_path("shop", name), {"spec": spec})

    def delete_group(self, name: str) -> None:
        self.delete(groups_path("shop", name))


def lives(story: Callable[[World], Coroutine[Any, Any, None]], make: Callable[[], World] = OneReplica) -> None:  # type: ignore[assignment]
    """Run a story in virtual time. No task may fail."""

    async def all_of_it() -> None:
        world = make()
        try:
            await story(world)
            assert not world.replica.tasks.failures.total()
        finally:
            await world.stop()

    run(all_of_it())


def in_virtual_time(story: Callable[..., Awaitable[None]], make: Callable[[], OneReplica] = OneReplica) -> Callable[..., None]:
    """Turn a story of one replica into a test."""
    return as_test(story, partial(lives, make=make))
