"""One replica of the real operator in virtual time, between an API server in memory and queues in memory."""

import asyncio
import random
from collections.abc import Awaitable, Callable, Coroutine
from functools import partial, wraps
from inspect import Signature, signature
from typing import Any, TypeVar

from baton.controller.capacity import MOST_IN_ALL
from baton.controller.operator_replica import Options, Replica
from baton.engine.step import SIZE_LIMIT
from baton.kube.api import core_path, group_path
from baton.kube.clock import ApiServerClock
from baton.kube.elector import Terms
from baton.kube.events import EVENTS
from baton.kube.objects import GROUP_VERSION, QueueView, groups_path
from baton.model.ids import QueueName
from baton.model.ledger import MemberEntry
from baton.model.names import GROUP_LABEL, ledger_name
from baton.model.times import to_text
from baton.queues.protocol import Claimant, QueueAdapter
from baton.simulation.virtual_time import run
from tests.simulation.api_server import ApiServer, MemoryApi, Trouble, WatchFeed
from tests.simulation.api_server.faults import Fault
from tests.unit.controller.memory_queue import MemoryQueue

Json = dict[str, Any]
World = TypeVar("World", bound="OneReplica")
BEGIN = 1_800_000_000.0
"""Unix seconds."""


class OneReplica:
    """One replica that serves the namespace `shop`. `trouble` (see `MemoryApi`): faults of its requests; may be set at any
    time."""

    def __init__(self, ledger_limit: int = SIZE_LIMIT, most_partitions: int = MOST_IN_ALL) -> None:
        loop = asyncio.get_running_loop()
        self.now = loop.time
        self.server = ApiServer(random.Random(1), lambda: BEGIN + loop.time())
        self.admin = MemoryApi(self.server)
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
        for name in ("shop", "baton-system"):
            self.server.request("create", "/api/v1/namespaces", body={"metadata": {"name": name}})
        self.start()

    def start(self) -> None:
        """Start the replica."""
        loop = asyncio.get_running_loop()
        api = MemoryApi(self.server, self._trouble, latency=lambda: 0.005)
        self.replica = Replica(
            api,
            MemoryApi(self.server, latency=lambda: 0.005),
            ApiServerClock(lambda: BEGIN + loop.time(), self._ticks),
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

    def make(self, path: str, body: Json) -> Json:
        return self.server.request("create", path, body=body)

    def queue(self, name: str, partitions: int = 4, **rebalance: Any) -> None:
        spec: Json = {"partitions": partitions, "source": {"type": "Redis", "redis": {"url": "redis://memory:6379"}}}
        spec["rebalance"] = {"delaySeconds": 1, "maxHandoffSeconds": 2, **rebalance}
        self.make(group_path(GROUP_VERSION, "shop", "partitionedqueues"), {"metadata": {"name": name}, "spec": spec})

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

        async def owned() -> int:
            return sum(await self.counts(name))

        await self.until(owned, 4)
        await self.until_told("Ready", name)

    def change_group(self, name: str, **spec: Any) -> None:
        self.server.request("patch", groups_path("shop", name), body={"spec": spec})

    def pod(self, name: str, group: str = "orders", namespace: str = "shop", node: str | None = None, **labels: str) -> None:
        condition = {"type": "Ready", "status": "True", "lastTransitionTime": to_text(BEGIN + self.now())}
        body = {
            "metadata": {"name": name, "labels": {GROUP_LABEL: group, **labels}},
            "spec": {"nodeName": node, "containers": [{"name": "c", "image": "none"}]},
        }
        self.make(core_path(namespace, "pods"), body)
        status = {"status": {"phase": "Running", "conditions": [condition]}}
        self.server.request("patch", core_path(namespace, "pods", name) + "/status", body=status)

    def delete(self, path: str) -> None:
        self.server.request("delete", path, body={"gracePeriodSeconds": 0} if "/pods/" in path else None)

    def delete_pod(self, name: str) -> None:
        self.delete(core_path("shop", "pods", name))

    def delete_group(self, name: str) -> None:
        self.delete(groups_path("shop", name))

    # -- looking

    async def found(self, path: str) -> Json | None:
        return await self.admin.find(path)

    async def config_map(self, group: str = "orders", namespace: str = "shop") -> Json:
        """Return the ledger's data."""
        return await self.found(core_path(namespace, "configmaps", ledger_name(group))) or {}

    async def ledger(self, group: str = "orders", namespace: str = "shop") -> dict[str, str]:
        return (await self.config_map(group, namespace)).get("data") or {}

    async def entries(self, group: str = "orders", namespace: str = "shop") -> dict[str, MemberEntry]:
        ledger = await self.ledger(group, namespace)
        return {name: MemberEntry.from_json(text) for name, text in ledger.items() if name != "group"}

    async def counts(self, group: str = "orders", queue: str = "") -> list[int]:
        """Return the partitions of each member, sorted, without revoked ones. `queue`: by default that of the group's name."""
        return sorted(len(entry.owned.get(QueueName(queue or group), {})) for entry in (await self.entries(group)).values())

    async def epochs(self, group: str = "orders", namespace: str = "shop") -> dict[int, int]:
        """Return the epochs of owned partitions of the queue with the group's name."""
        entries = (await self.entries(group, namespace)).values()
        return {number: epoch for one in entries for number, epoch in one.owned.get(QueueName(group), {}).items()}

    async def ready(self, group: str = "orders", namespace: str = "shop") -> tuple[str, str]:
        """Return reason and message of the condition Ready; empty if the group has no status."""
        found = await self.found(groups_path(namespace, group)) or {}
        told = [one for one in (found.get("status") or {}).get("conditions") or () if one["type"] == "Ready"]
        return (told[0]["reason"], told[0]["message"]) if told else ("", "")

    async def events(self, group: str = "orders") -> list[str]:
        found = await self.admin.get(group_path(EVENTS, "shop", "events"))
        return [event["reason"] for event in found["items"] if event["regarding"]["name"] == group]

    async def notes(self, reason: str) -> list[str]:
        """Return the texts of events with this reason."""
        found = await self.admin.get(group_path(EVENTS, "shop", "events"))
        return [event["note"] for event in found["items"] if event["reason"] == reason]

    def metric(self, name: str, **labels: str) -> float | None:
        return self.replica.metrics.registry.get_sample_value(name, labels)

    def measured(self, name: str, **labels: str) -> float:
        """Return the value of a metric, which must exist."""
        found = self.metric(name, **labels)
        assert found is not None, name
        return found

    # -- waiting

    async def until(self, look: Callable[[], Coroutine[Any, Any, object]], wanted: object, seconds: float = 60.0) -> float:
        """Wait for a condition; returns the virtual seconds that it took."""
        begun = self.now()
        while (found := await look()) != wanted:
            assert self.now() < begun + seconds, f"after {seconds} s: {found!r} instead of {wanted!r}; {await self.ready()}"
            await asyncio.sleep(0.05)
        return self.now() - begun

    async def until_gone(self, path: str, seconds: float = 60.0) -> float:
        """Wait until an object is deleted."""

        async def gone() -> bool:
            return await self.found(path) is None

        return await self.until(gone, True, seconds)

    async def until_told(self, reason: str, group: str = "orders", seconds: float = 60.0) -> float:
        """Wait for a reason of the condition Ready."""

        async def told() -> str:
            return (await self.ready(group))[0]

        return await self.until(told, reason, seconds)


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


def as_test(story: Callable[..., Awaitable[None]], live: Callable[[Callable[[Any], Any]], None]) -> Callable[..., None]:
    """Turn a story into a test. Its first parameter is the world; pytest gives the others."""

    @wraps(story)
    def test(**given: Any) -> None:
        live(lambda world: story(world, **given))

    test.__signature__ = Signature(list(signature(story).parameters.values())[1:])  # type: ignore[attr-defined]
    return test


def in_virtual_time(story: Callable[..., Awaitable[None]], make: Callable[[], OneReplica] = OneReplica) -> Callable[..., None]:
    """Turn a story of one replica into a test."""
    return as_test(story, partial(lives, make=make))
