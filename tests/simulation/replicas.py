"""A replica of the operator in virtual time with an API server in memory. The test sets the events and the faults."""

import asyncio
import random
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from typing import Any

from baton.controller.adapters import OpenQueue
from baton.controller.operator_replica import Options, Replica
from baton.controller.watch import WatchEvents
from baton.kube.api import core_path
from baton.kube.clock import ApiServerClock
from baton.kube.elector import Terms
from baton.kube.leases import leases_path
from baton.kube.objects import QueueView, groups_path, queues_path
from baton.model.ids import MemberId, QueueName
from baton.model.ledger import MemberEntry
from baton.model.names import GROUP_LABEL, LEDGER_GROUP_KEY, ledger_name, session_lease_name
from baton.model.times import to_micro_text
from baton.queues.external.operator_side import ExternalQueue
from baton.queues.protocol import Claimant, QueueAdapter
from baton.simulation import virtual_time
from tests.simulation.api_server import ApiServer, Fault, Hang, MemoryApi, WatchFeed
from tests.simulation.one_replica import as_test
from tests.simulation.seeds import manifests

EPOCH = 1_800_000_000.0
"""Unix seconds at the start."""

Json = dict[str, Any]


class Lone:
    """One replica, its API server, and a client. `fails`: the fault of a request of the replica (verb, path)."""

    def __init__(
        self,
        namespaces: Sequence[str] = ("shop", "bank"),
        clock: ApiServerClock | None = None,
        identity: str = "one",
        open_queue: OpenQueue | None = None,
    ) -> None:
        """Serve these namespaces; none given: all. Two namespaces always exist. `open_queue`: by default all queues
        are External."""
        self.loop = asyncio.get_running_loop()
        self._open_queue = open_queue or _open
        self.server = ApiServer(random.Random(1), self.now)
        self.api = MemoryApi(self.server)
        self.fails: Callable[[str, str], Fault | None] = lambda verb, path: None
        for namespace in (*(namespaces or ("shop", "bank")), "baton"):
            self.server.request("create", core_path(None, "namespaces"), body={"metadata": {"name": namespace}})
        self.tasks: dict[str, list[asyncio.Task[None]]] = {}
        self._dead: set[str] = set()
        self.unreachable = False
        """Let no renewal of a leader's Lease be answered."""
        self.replica = self.start(identity, namespaces, clock)

    def now(self) -> float:
        """Unix seconds."""
        return EPOCH + self.loop.time()

    def start(
        self,
        identity: str,
        namespaces: Sequence[str],
        clock: ApiServerClock | None = None,
        lease: str = "operator",
        kind: type[MemoryApi] = MemoryApi,
    ) -> Replica:
        """Make a replica and its watch. `kind`: the class of its client."""

        def fails(verb: str, path: str) -> Fault | None:
            return Hang() if identity in self._dead else self.fails(verb, path)

        api = kind(self.server, fails, latency=lambda: 0.005)
        replica = Replica(
            api,
            MemoryApi(
                self.server,
                lambda verb, path: Hang() if self.unreachable or identity in self._dead else None,
                latency=lambda: 0.005,
            ),
            clock or ApiServerClock(self.now, self.loop.time),
            self._open_queue,
            Options(identity=identity, lease_namespace="baton", lease_name=lease, terms=Terms(), namespaces=namespaces),
        )
        events = WatchEvents(self.loop, replica.cache.event, replica.relists.watch_broke, replica.relists.watch_listed)
        feed = WatchFeed(api, events.put, namespaces, broke=events.broke, listed=events.listed)
        self.tasks[identity] = [asyncio.create_task(feed.run()), asyncio.create_task(replica.run())]
        return replica

    def crash(self, identity: str = "one") -> None:
        """End it without releasing anything."""
        self._dead.add(identity)
        for task in self.tasks.pop(identity):
            task.cancel()

    async def stop(self, identity: str = "one") -> None:
        """End it as by SIGTERM: it gives up the lead."""
        tasks = self.tasks.pop(identity)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    # -- making things

    async def group(self, namespace: str, *pods: str, partitions: int = 4, **spec: Any) -> None:
        """Create the group `orders`, an External queue of that name, and pods."""
        source = {"type": "External", "external": {"onDeadline": "Force"}}
        rebalance = {"delaySeconds": 0, "maxHandoffSeconds": 0}
        queue = manifests.queue("orders", {"source": source, "partitions": partitions, "rebalance": rebalance})
        await self.api.create(queues_path(namespace), queue)
        await self.api.create(groups_path(namespace), manifests.group("orders", {"queues": [{"name": "orders"}], **spec}))
        for pod in pods:
            await self.pod(namespace, pod)

    async def pod(self, namespace: str, name: str) -> None:
        await self.api.create(core_path(namespace, "pods"), manifests.pod(name, "orders", None, None, 0))
        await self.api.merge(core_path(namespace, "pods", name) + "/status", manifests.pod_status(True, self.now()))

    async def renew(self, namespace: str, pod: str, duration: int = 15) -> None:
        """Create the pod's session."""
        path = leases_path(namespace, session_lease_name(MemberId(pod)))
        uid = (await self.api.get(core_path(namespace, "pods", pod)))["metadata"]["uid"]
        name, renewed = session_lease_name(MemberId(pod)), to_micro_text(self.now())
        spec = {"holderIdentity": uid, "leaseDurationSeconds": duration, "renewTime": renewed}
        if await self.api.find(path) is None:
            body = {"metadata": {"name": name, "labels": {GROUP_LABEL: "orders"}}, "spec": spec}
            await self.api.create(leases_path(namespace), body)
        else:
            await self.api.merge(path, {"spec": spec})

    async def delete_pod(self, namespace: str, name: str) -> None:
        await self.api.delete(core_path(namespace, "pods", name), gracePeriodSeconds=0)

    # -- looking

    async def owned(self, namespace: str) -> dict[str, int]:
        """Return the number of partitions of each member."""
        found = await self.api.find(core_path(namespace, "configmaps", ledger_name("orders"))) or {}
        entries = {key: MemberEntry.from_json(text) for key, text in found.get("data", {}).items() if key != LEDGER_GROUP_KEY}
        return {member: len(entry.owned.get(QueueName("orders"), {})) for member, entry in entries.items()}

    async def ready(self, namespace: str) -> tuple[str, str]:
        """Return status and reason of the group's condition."""
        status = (await self.api.get(groups_path(namespace, "orders"))).get("status") or {}
        found = [(one["status"], one["reason"]) for one in status.get("conditions", ()) if one["type"] == "Ready"]
        return found[0] if found else ("Unknown", "")

    def metric(self, name: str, **labels: str) -> float | None:
        return self.replica.metrics.registry.get_sample_value(name, labels)


async def _open(queue: QueueView, claimant: Claimant) -> QueueAdapter:
    return ExternalQueue()


def played(story: Callable[..., Awaitable[None]], namespaces: Sequence[str] = ("shop", "bank")) -> Callable[..., None]:
    """Turn a story, which runs in virtual time, into a test."""
    return as_test(story, partial(_play, namespaces=namespaces))


def _play(story: Callable[[Lone], Awaitable[None]], namespaces: Sequence[str]) -> None:
    async def main() -> None:
        lone = Lone(namespaces)
        await story(lone)
        assert not lone.replica.tasks.failures.total()
        running = [task for tasks in lone.tasks.values() for task in tasks]
        for task in running:
            task.cancel()
        await asyncio.gather(*running, return_exceptions=True)

    virtual_time.run(main())
