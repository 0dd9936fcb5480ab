"""A fleet under `baton dev`, which stands in for the API server and the kubelet on one machine."""

import os
from collections.abc import Mapping
from pathlib import Path

from baton.consumer.api_server import ApiConnection, KubernetesLease
from baton.model.names import driver_lease_name
from baton.spark.environment import Cluster, FleetEnvironment
from baton.spark.leaving_pods import LeavingPods, NoLeavingPods
from baton.spark.ledger_view import LedgerView, MountedLedger
from baton.spark.local_settings import under_dev
from baton.spark.session import DriverSession, FleetSession
from baton.spark.watched_rights import AllRights, Rights


class Development:
    """The `baton dev` by whose `baton dev run` the driver was started. Its executors are members by the word of its Lease."""

    def __init__(self, environment: Mapping[str, str]) -> None:
        self._api = ApiConnection.from_environment(environment)
        self._holder, self._ledger = environment["POD_UID"], Path(environment["BATON_LEDGER"])
        self.namespace = environment["POD_NAMESPACE"]

    def ledger(self, group: str) -> LedgerView:
        return MountedLedger(self._ledger)

    def session(self, group: str) -> FleetSession:
        return DriverSession(KubernetesLease(self._api, self.namespace, driver_lease_name(group)), group, self._holder)

    def leaving(self, group: str) -> LeavingPods:
        return NoLeavingPods()

    def rights(self, group: str) -> Rights:
        return AllRights()


def here(configuration: Mapping[str, str]) -> FleetEnvironment:
    """Where this program runs: under `baton dev run`, or at a cluster. `configuration`: Spark's settings. Raises ValueError."""
    environment = os.environ
    return Development(environment) if under_dev(environment) else Cluster(configuration=configuration, environment=environment)
