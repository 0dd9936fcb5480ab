"""One replica of the operator. The API server, the clock and the queues are arguments.

`program` runs it as a process with a real API server; the simulation runs the same code in virtual time.
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
"""Seconds between checks for hanging work, and how many in a row must find it: in a process that was stopped, all is late."""

POSTED_WITHIN = 2.0
"""Seconds for which an ending replica waits until its events are posted."""

log = structlog.get_logger("baton.operator")


@dataclass(frozen=True, slots=True)
class Options:
    """The options of the operator's process."""

    kubeconfig: Path | None = None
    """None: the pod's service account."""
    namespaces: Sequence[str] = ()
    """Namespaces to serve; empty: all."""
    lease_namespace: str = "default"
    lease_name: str = "baton-operator"
    identity: str = field(default_factory=lambda: default_identity())
    terms: Terms = field(default_factory=Terms)
    metrics_address: str = ""
    metrics_port: int = 8080
    admission_policy: bool = False
    """Whether the chart's admission policies are installed, so that consumers can write only their own sessions. The operator has
    no permission to check."""
    most_partitions: int = MOST_IN_ALL
    """Most partitions of all groups together."""
    tls_files: Path = TLS_FOLDER
    """Folder of the files that the operator may read for TLS to queues."""
    stuck_after: float = STUCK_AFTER
    """Seconds after which a look at all groups, or an attempt to renew the leader Lease, counts as hanging."""
    ledger_limit: int = SIZE_LIMIT
    """Most bytes of the ledger of a plan."""


def default_identity() -> str:
    """The pod's name, so that a restarted container takes its Lease back at once. Outside a pod: a unique name."""
    return os.environ.get("POD_NAME") or f"{socket.gethostname()}-{uuid4().hex[:8]}"


class Replica:
    """The objects that all groups share, and the groups' loops. The caller passes watch events to `cache`."""

    def __init__(
        self, api: Api, of_elector: Api, clock: ApiServerClock, open_queue: OpenQueue, options: Options, *, there: Do = here
    ) -> None:
        """`of_elector`: a client with separate connections, and `there`: its thread. Behind the requests of a thousand groups,
        renewals would be late."""
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
        """Whether requests and rounds may begin: not if this replica serves groups of a reign that is not its current one."""
        return self.group_loops.reign in (None, self.elector.reign)

    async def run(self) -> None:
        """Run for leader, and serve groups while leading.

        When cancelled, end all loops, give up the lead, and post the remaining events. Returns only if something hangs: the lead
        is given up, and the process must end, because tasks may not end.
        """
        events = self.tasks.keep("events", self.events.run)
        elector = self.tasks.keep("elector", self.elector.run)
        group_loops = self.tasks.keep("fleet", self.group_loops.run)
        other_releases = self.tasks.keep("elsewhere", self.group_loops.other_releases.run)
        try:
            hung = await self._hangs()
        except asyncio.CancelledError:
            for task in (other_releases, group_loops):  # while this replica still leads
                task.cancel()
            await asyncio.gather(other_releases, group_loops, return_exceptions=True)
            await self._resign(elector)
            await self.events.posted(POSTED_WITHIN)
            events.cancel()
            raise
        log.error("this replica hangs: giving up the lead and ending to be restarted", why=hung, identity=self.elector.identity)
        await self._resign(elector)
        for task in (other_releases, group_loops, events):
            task.cancel()

    async def _resign(self, elector: asyncio.Task[object]) -> None:
        """Give up the lead while the elector still runs: a renewal under way must end first, because it would replace the version
        that is given up."""
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
        """What hangs, so that the process should be restarted; None: nothing. May be called from any thread."""
        now = self.clock.ticks()
        if now - self.elector.beat > self.options.stuck_after:
            return f"no attempt to renew the leader Lease has ended for {now - self.elector.beat:.0f} s"
        if now - self.group_loops.beat > self.options.stuck_after:
            return f"the groups were not looked through for {now - self.group_loops.beat:.0f} s"
        return None
