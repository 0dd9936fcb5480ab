"""Replicas of the operator in virtual time with an API server in memory. The test sets the events and the faults."""

import asyncio
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
from baton.kube.objects import QueueView, groups_path
from baton.model.ids import MemberId
from baton.model.names import GROUP_LABEL, session_lease_name
from baton.model.times import to_micro_text
from baton.queues.external.operator_side import ExternalQueue
from baton.queues.protocol import Claimant, QueueAdapter
from baton.simulation import virtual_time
from tests.simulation.api_server import Fault, Hang, MemoryApi, WatchFeed
from tests.simulation.memory_cluster import MemoryCluster, as_test


class Lone(MemoryCluster):
    """One replica, to which others may be added. `fails`: the fault of a request of a replica (verb, path)."""

    def __init__(
        self,
        namespaces: Sequence[str] = ("shop", "bank"),
        clock: ApiServerClock | None = None,
        identity: str = "one",
        open_queue: OpenQueue | None = None,
    ) -> None:
        """Serve these namespaces; none given: all. Two namespaces always exist. `open_queue`: by default all queues
        are External."""
        super().__init__(*(namespaces or ("shop", "bank")), "baton")
        self._open_queue = open_queue or _open
        self.fails: Callable[[str, str], Fault | None] = lambda verb, path: None
        self.tasks: dict[str, list[asyncio.Task[None]]] = {}
        self._dead: set[str] = set()
        self.unreachable = False
        """Let no renewal of a leader's Lease be answered."""
        self.replica = self.start(identity, namespaces, clock)

    def start(
        self, identity: str, namespaces: Sequence[str], clock: ApiServerClock | None = None, lease: str = "operator"
    ) -> Replica:
        """Make a replica and its watch."""

        def fails(verb: str, path: str) -> Fault | None:
            return Hang() if identity in self._dead else self.fails(verb, path)

        api = MemoryApi(self.server, fails, latency=lambda: 0.005)
        replica = Replica(
            api,
            MemoryApi(
                self.server,
                lambda verb, path: Hang() if self.unreachable or identity in self._dead else None,
                latency=lambda: 0.005,
            ),
            clock or ApiServerClock(self.unix, self.loop.time),
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

    def group(self, namespace: str, *pods: str, **spec: Any) -> None:
        """Create the group `orders`, an External queue of that name with four partitions, and pods."""
        self.external(namespace=namespace)
        whole = {"queues": [{"name": "orders"}], **spec}
        self.make(groups_path(namespace), {"metadata": {"name": "orders"}, "spec": whole})
        for pod in pods:
            self.pod(pod, namespace=namespace)

    def renew(self, namespace: str, pod: str) -> None:
        """Create or renew the pod's session, of 15 seconds."""
        name = session_lease_name(MemberId(pod))
        uid = self.get(core_path(namespace, "pods", pod))["metadata"]["uid"]
        spec = {"holderIdentity": uid, "leaseDurationSeconds": 15, "renewTime": to_micro_text(self.unix())}
        if self.find(leases_path(namespace, name)) is None:
            self.make(leases_path(namespace), {"metadata": {"name": name, "labels": {GROUP_LABEL: "orders"}}, "spec": spec})
        else:
            self.change(leases_path(namespace, name), {"spec": spec})

    def says(self, namespace: str) -> tuple[str, str]:
        """Return status and reason of the condition Ready of the group `orders`."""
        return self.condition(groups_path(namespace, "orders"))[:2]


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
