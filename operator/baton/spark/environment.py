"""What a fleet needs around it: a ledger to follow, and a session to speak through.

On Kubernetes both are the API server. In development and tests it can be a directory.
"""

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
    """The ledger and the session of a fleet: `Cluster` on Kubernetes, `Directory` without it."""

    namespace: str

    @abstractmethod
    def ledger(self, group: str) -> LedgerView:
        """Start to follow the ledger of the group."""

    @abstractmethod
    def session(self, group: str) -> FleetSession:
        """The driver's session, not yet acquired."""

    def leaving(self, group: str, closing: ExitStack) -> Leaving:
        """Start to follow which executors' pods are asked to stop, until `closing`; without Kubernetes, none are."""
        return dict

    def missing_rights(self, group: str, closing: ExitStack) -> Callable[[], str]:
        """Start to look what the driver's account lacks, until `closing`: a sentence for people; empty: nothing."""
        return lambda: ""


class Cluster(FleetEnvironment):
    """A Kubernetes cluster: from inside by the pod's service account, from outside by the kubeconfig.

    ```python
    fleet = Fleet(spark, group="orders", queues=queues, environment=Cluster("shop"))
    ```
    """

    def __init__(
        self,
        namespace: str | None = None,
        *,
        configuration: Mapping[str, str] | None = None,
        lease_seconds: float = 15.0,
        environment: Mapping[str, str] | None = None,
    ) -> None:
        """`namespace` and `configuration` (Spark's settings) say what the environment does not, see `DriverPod`. `environment`:
        instead of this process's. Raises ValueError for what cannot be found, and for settings that a fleet cannot run with.
        """
        environment = os.environ if environment is None else environment
        refuse_allocator(configuration or {})
        driver = DriverPod(environment, configuration, namespace=namespace)
        self.namespace = driver.namespace
        self._api = ApiConnection.in_pod(environment=environment) if driver.inside else ApiConnection.from_kubeconfig()
        self._lease_seconds = lease_seconds
        # The pod's UID makes the Lease speak for the executors that the pod owns. Outside the cluster they have no owner, and the
        # application's id speaks for them.
        self._holder = driver.uid(self._api) or f"{OUTSIDE}{uuid.uuid4()}"

    def ledger(self, group: str) -> LedgerView:
        return WatchedLedger(self._api, self.namespace, group)

    def session(self, group: str) -> FleetSession:
        """Raises `MissingRights` where the driver's account may not do what a fleet needs."""
        require(self._api, self.namespace, group)
        every = min(3.0, self._lease_seconds / 5)
        lease = KubernetesLease(self._api, self.namespace, driver_lease_name(group))
        gone = EndedDrivers(self._api, self.namespace)
        return DriverSession(lease, group, self._holder, self._lease_seconds, every, gone)

    def leaving(self, group: str, closing: ExitStack) -> Leaving:
        pods = WatchedPods(self._api, self.namespace, group)
        closing.callback(pods.close)
        return pods.until

    def missing_rights(self, group: str, closing: ExitStack) -> Callable[[], str]:
        rights = WatchedRights(self._api, self.namespace, group)
        closing.callback(rights.close)
        return rights.missing


class Directory(FleetEnvironment):
    """A directory with one file per member, as a mounted ledger is: a fleet without Kubernetes, for development and tests.

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
    """The `baton dev` by whose `baton dev run` the driver was started. Its executors are members by the word of its Lease."""

    def __init__(self, environment: Mapping[str, str]) -> None:
        super().__init__(Path(environment["BATON_LEDGER"]), environment["POD_NAMESPACE"])
        self._api, self._holder = ApiConnection.from_environment(environment), environment["POD_UID"]

    def session(self, group: str) -> FleetSession:
        return DriverSession(KubernetesLease(self._api, self.namespace, driver_lease_name(group)), group, self._holder)


def here(configuration: Mapping[str, str]) -> FleetEnvironment:
    """Where this program runs: under `baton dev run`, or at a cluster. `configuration`: Spark's settings. Raises ValueError."""
    environment = os.environ
    return Development(environment) if under_dev(environment) else Cluster(configuration=configuration, environment=environment)
