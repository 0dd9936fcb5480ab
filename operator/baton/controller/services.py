"""What every loop of this process uses."""

from dataclasses import dataclass

from baton.controller.adapters import OpenQueue
from baton.controller.capacity import Capacity
from baton.controller.cluster_cache import ClusterCache
from baton.controller.large_work import LargeWork
from baton.controller.metrics import Metrics
from baton.controller.queue_reports import QueueReports
from baton.controller.relists import Relists
from baton.controller.retrying import RoundPacing
from baton.controller.supervision import Tasks
from baton.engine.step import SIZE_LIMIT
from baton.kube.api import Api
from baton.kube.clock import ApiServerClock
from baton.kube.elector import Elector
from baton.kube.events import Events
from baton.kube.mount_refresh import MountRefresher
from baton.kube.releases import OperatorReleases
from baton.kube.scale import Scaler


@dataclass(frozen=True, slots=True)
class Services:
    """One of each, shared by all groups."""

    api: Api
    open_queue: OpenQueue
    cache: ClusterCache
    clock: ApiServerClock
    tasks: Tasks
    pacing: RoundPacing
    events: Events
    metrics: Metrics
    elector: Elector
    refresher: MountRefresher
    scaler: Scaler
    queue_reports: QueueReports
    relists: Relists
    releases: OperatorReleases
    capacity: Capacity
    large_work: LargeWork
    admission_policy: bool = False
    """The API server holds consumers to their own sessions (the chart's admission policies)."""
    ledger_limit: int = SIZE_LIMIT
    """Bytes of a group's ledger that a plan may lead to."""
