"""A process of the operator: the real replica, between the seed's API server, queues and clocks.

It can be killed and stopped at any await. What it has sent by then arrives.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from baton.controller.operator_replica import Replica
from baton.controller.watch import WatchEvents
from baton.kube.clock import ApiServerClock
from baton.kube.elector import Terms
from baton.kube.objects import QueueView
from baton.queues.external.adapter import ExternalQueue
from baton.queues.protocol import Claimant, QueueAdapter
from tests.simulation.api_server import MemoryApi, WatchFeed
from tests.simulation.seeds.adapter import SeedQueue
from tests.simulation.seeds.connection import Connection

if TYPE_CHECKING:
    from tests.simulation.api_server.faults import Fault
    from tests.simulation.seeds.environment import Environment

LEASE = ("baton-system", "baton-operator")
TERMS = Terms(duration=8.0, renew_deadline=5.0, retry=2.0)
EPOCH = 1_800_000_000.0
"""Unix seconds at which every seed begins."""


class Operator:
    """See above. `skew`: seconds by which its wall clock is ahead of the environment's."""

    def __init__(self, environment: Environment, identity: str, skew: float = 0.0) -> None:
        self.environment = environment
        self.identity = identity
        self.dead = False
        self.stopped = False
        self.connection = Connection(self)
        self._skew = skew
        self._context = environment.loop.context_of(self)
        self._apis: list[MemoryApi] = []
        self.replica: Replica | None = None

    def __str__(self) -> str:
        return self.identity

    def start(self) -> None:
        if not self.environment.ending:
            self._context.run(self._make)

    def _make(self) -> None:
        environment = self.environment
        api, of_elector, of_watches = self._api(), self._api(), self._api(lambda: environment.troubles.late)
        clock = ApiServerClock(lambda: EPOCH + environment.loop.time() + self._skew, environment.loop.time)
        self.replica = Replica(
            api,
            of_elector,
            clock,
            self._open,
            identity=self.identity,
            lease_namespace=LEASE[0],
            lease_name=LEASE[1],
            terms=TERMS,
            namespaces=environment.watched,
        )
        feed = WatchEvents(environment.loop, self.replica.cache.event, self.replica.relists.watch_begins)
        self._task("watch", WatchFeed(of_watches, feed.put, environment.watched, environment.repeats, feed.begins).run())
        self._task("replica", self.replica.run())

    def _api(self, late: Callable[[], float] = lambda: 0.0) -> MemoryApi:
        made = MemoryApi(self, self._trouble, lambda: self.environment.latency(0.005) + late())  # type: ignore[arg-type]
        self._apis.append(made)
        return made

    def _task(self, name: str, work: Any) -> None:
        task = self.environment.loop.create_task(work, name=f"{self} {name}")
        task.add_done_callback(self._ended)

    def _ended(self, task: asyncio.Task[None]) -> None:
        if self.environment.ending or self.dead:
            return
        why = "was cancelled" if task.cancelled() else f"ended: {task.exception()!r}"
        self.environment.violated(f"the task {task.get_name()} {why}", None if task.cancelled() else task.exception())

    @property
    def leading(self) -> bool:
        return not self.dead and self.replica is not None and self.replica.elector.leading

    @property
    def leads_since(self) -> tuple[Operator, float]:
        """Itself, and the time at which it began to: another whenever it has lost the lead and won it again."""
        assert self.replica is not None
        return self, self.replica.group_loops._leads_since

    # -- what befalls it

    def kill(self) -> None:
        """SIGKILL: nothing of it runs any more, and its connections break."""
        if self.dead:
            return
        self.dead = True
        self.environment.say(f"{self} is killed")
        self.environment.loop.hold(self)
        self.drop_watches()

    def stop(self) -> None:
        """SIGSTOP."""
        if not self.dead:
            self.stopped = True
            self.environment.loop.hold(self)

    def wake(self) -> None:
        """SIGCONT."""
        if not self.dead and self.stopped:
            self.stopped = False
            self.environment.loop.let_go(self)

    def drop_watches(self) -> None:
        for api in self._apis:
            api.drop_watches()

    def boundary(self) -> bool:
        """Between two things that it does to the environment. True: it has just died."""
        if not self.dead and self.environment.crashes(self):
            self.kill()
            return True
        return False

    # -- its ways out

    def request(self, *arguments: Any) -> Any:
        """As `ApiServer.request`, which it is for this operator."""
        try:
            return self.environment.server.request(*arguments)
        finally:
            self.boundary()

    @property
    def date(self) -> str:
        return self.environment.server.date

    def watch(self, *arguments: Any) -> Any:
        return self.environment.server.watch(*arguments)

    def _trouble(self, verb: str, path: str) -> Fault | None:
        return self.environment.troubles.of_request(self, verb, path)

    async def _open(self, queue: QueueView, claimant: Claimant) -> QueueAdapter:
        spec = queue.spec
        assert spec is not None
        if not spec.source.kind.fenced:
            return ExternalQueue()
        return SeedQueue(self.environment.queue(queue.namespace, queue.name), self, claimant)
