"""The environments of a fleet: a Kubernetes cluster, `baton dev`, or a directory in development and tests."""

import os
import uuid
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from pathlib import Path

from baton.consumer.api_server import ApiConnection, KubernetesLease
from baton.model.names import driver_lease_name
from baton.spark.dismissals import Leaving, WatchedPods
from baton.spark.driver_pod import OUTSIDE, DriverPod, EndedDrivers
from baton.spark.ledger import LedgerView, MountedLedger, WatchedLedger
from baton.spark.rights import WatchedRights, require
from baton.spark.session import DriverSession, FleetSession
from baton.spark.settings import refuse_allocator, under_dev


class FleetEnvironment(ABC):
    """Provides a fleet's ledger and session: `Cluster` on Kubernetes, `Directory` without it."""

    namespace: str

    @abstractmethod
    def ledger(self, group: str) -> LedgerView:
        """Start to follow the group's ledger."""

    @abstractmethod
    def session(self, group: str) -> FleetSession:
        """Return the driver's session, not yet acquired."""

    def leaving(self, group: str, closing: ExitStack) -> Leaving:
        """Follow which executors' pods are terminating, until `closing` closes. Without Kubernetes, none are."""
        return dict

    def missing_rights(self, group: str, closing: ExitStack) -> Callable[[], str]:
        """Check the rights of the driver's account until `closing` closes. The function returns a sentence about missing rights;
        empty if none is missing."""
        return lambda: ""


LEASE_SECONDS, RENEWED_EVERY = 15.0, 3.0
"""Seconds that the driver's Lease lasts, and between two renewals."""


class Cluster(FleetEnvironment):
    """A Kubernetes cluster, reached with the service account of the pod, or with the kubeconfig from outside.

    ```python
    fleet = Fleet(spark, group="orders", queues=queues, environment=Cluster("shop"))
    ```
    """

    def __init__(
        self,
        namespace: str | None = None,
        *,
        configuration: Mapping[str, str] | None = None,
        environment: Mapping[str, str] | None = None,
    ) -> None:
        """`DriverPod` looks for the driver's namespace and pod in these arguments. `configuration`: Spark's settings.
        `environment`: environment variables (default: those of this process). Raises ValueError if they cannot be found, and for
        settings that a fleet cannot run with.
        """
        environment = os.environ if environment is None else environment
        refuse_allocator(configuration or {})
        driver = DriverPod(environment, configuration, namespace=namespace)
        self.namespace = driver.namespace
        self._api = ApiConnection.in_pod(environment=environment) if driver.inside else ApiConnection.from_kubeconfig()
        # The Lease covers the executors whose pods are owned by the pod with this UID. Outside the cluster they have no owner,
        # and the operator finds them by the id of the Spark application.
        self._holder = driver.uid(self._api) or f"{OUTSIDE}{uuid.uuid4()}"

    def ledger(self, group: str) -> LedgerView:
        return WatchedLedger(self._api, self.namespace, group)

    def session(self, group: str) -> FleetSession:
        """Raises `MissingRights` if the driver's account lacks rights that a fleet needs."""
        require(self._api, self.namespace, group)
        lease = KubernetesLease(self._api, self.namespace, driver_lease_name(group))
        gone = EndedDrivers(self._api, self.namespace)
        return DriverSession(lease, group, self._holder, LEASE_SECONDS, RENEWED_EVERY, gone)

    def leaving(self, group: str, closing: ExitStack) -> Leaving:
        pods = WatchedPods(self._api, self.namespace, group)
        closing.callback(pods.close)
        return pods.until

    def missing_rights(self, group: str, closing: ExitStack) -> Callable[[], str]:
        rights = WatchedRights(self._api, self.namespace, group)
        closing.callback(rights.close)
        return rights.missing


class Directory(FleetEnvironment):
    """A directory with one file per member, like a mounted ledger, for development and tests without Kubernetes.

    ```python
    fleet = Fleet(spark, group="orders", queues=queues, environment=Directory(Path("ledger")))
    ```
    """

    def __init__(self, path: Path, namespace: str = "default", session: FleetSession | None = None) -> None:
        self.namespace = namespace
        self._path = path
        self._session = session or FleetSession()

    def ledger(self, group: str) -> LedgerView:
        return MountedLedger(self._path)

    def session(self, group: str) -> FleetSession:
        return self._session


class Development(Directory):
    """The `baton dev` whose `baton dev run` started the driver. It takes the fleet's members from the driver's Lease."""

    def __init__(self, environment: Mapping[str, str]) -> None:
        super().__init__(Path(environment["BATON_LEDGER"]), environment["POD_NAMESPACE"])
        self._api, self._holder = ApiConnection.from_environment(environment), environment["POD_UID"]

    def session(self, group: str) -> FleetSession:
        return DriverSession(KubernetesLease(self._api, self.namespace, driver_lease_name(group)), group, self._holder)


def here(configuration: Mapping[str, str]) -> FleetEnvironment:
    """Return `Development` under `baton dev run`, else `Cluster`. `configuration`: Spark's settings. Raises ValueError."""
    environment = os.environ
    return Development(environment) if under_dev(environment) else Cluster(configuration=configuration, environment=environment)
