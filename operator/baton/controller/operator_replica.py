"""One replica of the operator between its ports: the API server, the clock and the queues come in as arguments.

`program` runs it in a process of its own against a real API server, and the simulation runs the same one in virtual time.
"""

import asyncio
import os
import socket
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from uuid import uuid4

import structlog

from baton.controller.adapters import TLS_FOLDER, OpenQueue
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

LOOK_EVERY, LOOKS = 5.0, 3
"""Seconds between looks whether something hangs, and how many must find that: who was stopped for long finds everything late."""

POSTED_WITHIN = 2.0
"""Seconds for which a replica that ends waits until its events are posted."""

log = structlog.get_logger("baton.operator")


@dataclass(frozen=True, slots=True)
class Options:
    """The options of the operator's process."""

    kubeconfig: Path | None = None
    """None: the pod's own service account."""
    namespaces: Sequence[str] = ()
    """Empty: all of them."""
    lease_namespace: str = "default"
    lease_name: str = "baton-operator"
    identity: str = field(default_factory=lambda: default_identity())
    terms: Terms = field(default_factory=Terms)
    metrics_address: str = ""
    metrics_port: int = 8080
    admission_policy: bool = False
    """The chart's admission policies are installed, so that the API server holds consumers to their own sessions. The operator
    may not look for itself."""
    most_partitions: int = MOST_IN_ALL
    """Of all groups together."""
    tls_files: Path = TLS_FOLDER
    """The folder of the files that it may read for TLS to queues."""
    stuck_after: float = STUCK_AFTER
    """Seconds for which a round may last, or an attempt to renew the leader's Lease."""
    ledger_limit: int = SIZE_LIMIT
    """Bytes of a group's ledger that a plan may lead to."""


def default_identity() -> str:
    """The pod's name: a container restarted in its pod takes its Lease back at once. Outside a pod: unlike any other's."""
    return os.environ.get("POD_NAME") or f"{socket.gethostname()}-{uuid4().hex[:8]}"


class Replica:
    """One of each of what all groups share, and the loops of the groups. The caller feeds `cache` with watch events."""

    def __init__(
        self, api: Api, of_elector: Api, clock: ApiServerClock, open_queue: OpenQueue, options: Options, *, there: Do = here
    ) -> None:
        """`of_elector`: separate connections, and `there`: a separate thread: behind a thousand groups a renewal would come
        too late."""
        self.options = options
        self.api = api
        self.open_queue = open_queue
        self.clock = clock
        self.tasks = Tasks(clock)
        self.metrics = Metrics(clock)
        self.cache = ClusterCache(clock)
        self.elector = Elector(
            of_elector,
            options.lease_namespace,
            options.lease_name,
            options.identity,
            options.terms,
            clock,
            lambda: self.group_loops.notify(),
            serves=options.namespaces,
            there=there,
            fit=lambda: clock.ticks() - self.group_loops.beat <= options.stuck_after,
        )
        api.turns.may_begin = self._may_write
        self.pacing = RoundPacing(self._may_write)
        self.events = Events(api, options.identity, clock)
        self.refresher = MountRefresher(api, clock)
        self.scaler = Scaler(api)
        self.relists = Relists(api, self.cache, clock, self.tasks, options.namespaces)
        self.queue_reports = QueueReports(api, self.cache, clock, self.tasks, self.relists.groups_seen)
        self.releases = OperatorReleases(api, clock)
        self.capacity = Capacity(options.most_partitions, shared=len(options.namespaces) != 1)
        self.large_work = LargeWork(longest=options.stuck_after)
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
        if now - self.elector.beat > self.options.stuck_after:
            return f"no attempt to renew the leader Lease has ended for {now - self.elector.beat:.0f} s"
        if now - self.group_loops.beat > self.options.stuck_after:
            return f"the groups were not looked through for {now - self.group_loops.beat:.0f} s"
        return None
