"""One replica of the operator between its ports: the API server, the clock and the queues come in as arguments.

`program` runs it in a process of its own against a real API server, and the simulation runs the same one in virtual time.
"""

import asyncio
from collections.abc import Sequence

import structlog

from baton.controller.adapters import OpenQueue
from baton.controller.capacity import MOST_IN_ALL, Capacity
from baton.controller.cluster_cache import ClusterCache
from baton.controller.group_loops import GroupLoops
from baton.controller.large_work import LargeWork
from baton.controller.metrics import Metrics, ReplicaMetrics
from baton.controller.queue_reports import QueueReports
from baton.controller.relists import Relists
from baton.controller.retrying import RoundPacing
from baton.controller.scaling import Scaler
from baton.controller.supervision import Tasks, end
from baton.engine.step import SIZE_LIMIT
from baton.kube.api import Api
from baton.kube.clock import ApiServerClock
from baton.kube.elector import Do, Elector, Terms, here
from baton.kube.events import Events
from baton.kube.mount_refresh import MountRefresher
from baton.kube.releases import OperatorReleases

STUCK_AFTER = 90.0
"""Seconds for which a round may last, or an attempt to renew the leader's Lease."""

LOOK_EVERY, LOOKS = 5.0, 3
"""Seconds between looks whether something hangs, and how many must find that: who was stopped for long finds everything late."""

POSTED_WITHIN = 2.0
"""Seconds for which a replica that ends waits until its events are posted."""

log = structlog.get_logger("baton.operator")


class Replica:
    """One of each of what all groups share, and the loops of the groups. The caller feeds `cache` with watch events."""

    def __init__(
        self,
        api: Api,
        of_elector: Api,
        clock: ApiServerClock,
        open_queue: OpenQueue,
        *,
        identity: str,
        lease_namespace: str,
        lease_name: str,
        terms: Terms,
        namespaces: Sequence[str] = (),
        admission_policy: bool = False,
        ledger_limit: int = SIZE_LIMIT,
        stuck_after: float = STUCK_AFTER,
        most_partitions: int = MOST_IN_ALL,
        there: Do = here,
    ) -> None:
        """`of_elector`: separate connections, and `there`: a separate thread: behind a thousand groups a renewal would come
        too late. `namespaces` empty: all of them. `admission_policy`: the chart's policies are installed, so that the API server
        holds consumers to their own sessions. `ledger_limit`: bytes of a group's ledger that a plan may lead to. `stuck_after`:
        see STUCK_AFTER. `most_partitions`: of all groups together."""
        self._stuck_after = stuck_after
        self.admission_policy = admission_policy
        self.ledger_limit = ledger_limit
        self.api = api
        self.open_queue = open_queue
        self.clock = clock
        self.tasks = Tasks(clock)
        self.metrics = Metrics(clock)
        self.cache = ClusterCache(clock)
        self.elector = Elector(
            of_elector,
            lease_namespace,
            lease_name,
            identity,
            terms,
            clock,
            lambda: self.group_loops.notify(),
            serves=namespaces,
            there=there,
            fit=lambda: clock.ticks() - self.group_loops.beat <= stuck_after,
        )
        api.turns.may_begin = self._may_write
        self.pacing = RoundPacing(self._may_write)
        self.events = Events(api, identity, clock)
        self.refresher = MountRefresher(api, clock)
        self.scaler = Scaler(api)
        self.relists = Relists(api, self.cache, clock, self.tasks, namespaces)
        self.queue_reports = QueueReports(api, self.cache, clock, self.tasks, self.relists.groups_seen)
        self.releases = OperatorReleases(api, clock)
        self.capacity = Capacity(most_partitions, shared=len(namespaces) != 1)
        self.large_work = LargeWork(longest=stuck_after)
        self.group_loops = GroupLoops(self)
        self.metrics.registry.register(ReplicaMetrics(self))

    def _may_write(self) -> bool:
        """A replica that serves groups waits while it does not lead, or has not looked what another did that led in between."""
        return self.group_loops.reign in (None, self.elector.reign)

    async def run(self) -> None:
        """Run for leader, and do the work while it leads. Until cancelled; then all loops have ended, the lead is given up, and
        what was told of that is posted. Or until something hangs; then the lead is given up, and the process is to end: it is
        unknown what of it would still come to an end."""
        events = self.tasks.keep("events", self.events.run)
        elector = self.tasks.keep("elector", self.elector.run)
        group_loops = self.tasks.keep("fleet", self.group_loops.run)
        other_releases = self.tasks.keep("elsewhere", self.group_loops.other_releases.run)
        try:
            hung = await self._hangs()
        except asyncio.CancelledError:
            for task in (other_releases, group_loops):  # they end while this replica leads still
                task.cancel()
            await asyncio.gather(other_releases, group_loops, return_exceptions=True)
            await self._resign(elector)
            await self.events.posted(POSTED_WITHIN)
            events.cancel()
            raise
        log.error("this replica hangs: it leads no more, and ends, to be started again", why=hung, identity=self.elector.identity)
        await self._resign(elector)
        for task in (other_releases, group_loops, events):
            task.cancel()

    async def _resign(self, elector: asyncio.Task[object]) -> None:
        """While the elector runs still: a renewal that is under way comes to its end before, or the Lease would be given up at a
        version that it replaces."""
        await self.elector.resign()
        await end([elector])

    async def _hangs(self) -> str:
        """What does, once something does."""
        found = 0
        while True:
            await asyncio.sleep(LOOK_EVERY)
            why = self.stuck()
            found = 0 if why is None else found + 1
            if why is not None and found >= LOOKS:
                return why

    def stuck(self) -> str | None:
        """What hangs, so that the process is better started again; None: nothing does. For another thread."""
        now = self.clock.ticks()
        if now - self.elector.beat > self._stuck_after:
            return f"no attempt to renew the leader Lease has ended for {now - self.elector.beat:.0f} s"
        if now - self.group_loops.beat > self._stuck_after:
            return f"the groups were not looked through for {now - self.group_loops.beat:.0f} s"
        return None
