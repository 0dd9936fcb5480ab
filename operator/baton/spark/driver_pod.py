"""The driver's own pod: its namespace, name, UID and address, found in one way by everything that asks.

The environment says it (the downward API), else Spark's own configuration, which `spark-submit --deploy-mode cluster` fills in,
else the pod itself does: the namespace of its service account, its hostname, and the API server for its UID.
"""

import socket
from collections.abc import Callable, Mapping
from http import HTTPStatus
from pathlib import Path

from pyspark import SparkConf, SparkContext
from urllib3.exceptions import HTTPError

from baton.consumer.api_server import ACCOUNT, ApiConnection, ApiRefused, segments
from baton.model.ids import Uid

NAMESPACE, DRIVER_POD = "spark.kubernetes.namespace", "spark.kubernetes.driver.pod.name"
"""Spark's settings: where the executors are, and who owns them."""

OUTSIDE = "driver-"
"""How the name of a driver begins that runs in no pod."""

_CURE = "let the downward API set POD_NAMESPACE, POD_NAME and POD_UID, as driver.yaml of manifests/examples/spark does"


class DriverPod:
    """The pod that this process runs in; outside a cluster there is none. Raises ValueError, with the cure, for what cannot be
    found, and for environments and settings that contradict each other.
    """

    def __init__(
        self,
        environment: Mapping[str, str],
        configuration: Mapping[str, str] | None = None,
        *,
        namespace: str | None = None,
        account: Path = ACCOUNT,
        hostname: Callable[[], str] = socket.gethostname,
    ) -> None:
        """`configuration`: Spark's settings by name. `namespace`: the user's own word, which goes before all others."""
        self._environment = environment
        self._configuration = configuration or {}
        self._account = account
        self._hostname = hostname
        self._namespace = namespace

    @property
    def inside(self) -> bool:
        """The process runs in a cluster."""
        return "KUBERNETES_SERVICE_HOST" in self._environment

    @property
    def namespace(self) -> str:
        """Where the group, its ledger, its Lease and the executors are. Outside a cluster it may be Spark's own default."""
        told, spark = self._namespace or self._environment.get("POD_NAMESPACE"), self._configuration.get(NAMESPACE)
        if told and spark and told != spark:
            raise ValueError(
                f"the driver is told to work in namespace {told}, and its executors are in {spark} ({NAMESPACE}): a group, its "
                "driver and its executors share one namespace"
            )
        if found := told or spark:
            return found
        mounted = self._account / "namespace"
        if mounted.is_file():
            return mounted.read_text(encoding="utf-8").strip()
        if self.inside:
            raise ValueError(f"the driver's namespace cannot be found: {_CURE}")
        return "default"

    @property
    def name(self) -> str | None:
        """None: outside a cluster."""
        told, spark = self._environment.get("POD_NAME"), self._configuration.get(DRIVER_POD)
        if told and spark and told != spark:
            raise ValueError(
                f"the driver runs in pod {told}, and its executors are owned by {spark} ({DRIVER_POD}): leave that setting to "
                "baton.spark.conf"
            )
        return told or spark or (self._hostname() if self.inside else None)

    @property
    def address(self) -> str | None:
        """None: not given; Spark finds it by itself."""
        return self._environment.get("POD_IP")

    def uid(self, api: ApiConnection) -> Uid | None:
        """None: outside a cluster. What the environment does not say is asked of the API server."""
        if told := self._environment.get("POD_UID"):
            return Uid(told)
        if not self.inside:
            return None
        namespace, name = self.namespace, self.name or ""
        try:
            pod = api.request("GET", f"/api/v1/namespaces/{segments(namespace)}/pods/{segments(name)}")
        except (ApiRefused, HTTPError) as error:
            raise ValueError(f"the UID of the driver's pod {namespace}/{name} cannot be found ({error}): {_CURE}") from None
        return Uid(pod["metadata"]["uid"])


def submitted(environment: Mapping[str, str]) -> Mapping[str, str]:
    """The settings that spark-submit gave to this program; none where something else started it."""
    if "PYSPARK_GATEWAY_PORT" not in environment:
        return {}
    SparkContext._ensure_initialized()  # the JVM is there already: this only connects
    return dict(SparkConf().getAll())


class EndedDrivers:
    """Which drivers are no more, by the UIDs of their pods: the pod is not there, or its containers have ended for good. One that
    runs outside the cluster may live.
    """

    def __init__(self, api: ApiConnection, namespace: str) -> None:
        self._api, self._pods = api, f"/api/v1/namespaces/{segments(namespace)}/pods"
        self._found: tuple[str, str] | None = None
        """The UID and the name of the pod that was asked for last. All pods are listed for a name once."""

    def __call__(self, holder: str) -> bool:
        """Whether this one has ended. Raises what the way to the API server raises."""
        if holder.startswith(OUTSIDE):
            return False
        if self._found is None or self._found[0] != holder:
            name = next(
                (pod["metadata"]["name"] for pod in self._api.list(self._pods)["items"] if pod["metadata"]["uid"] == holder), None
            )
            if name is None:
                return True
            self._found = holder, name
        try:
            pod = self._api.request("GET", f"{self._pods}/{segments(self._found[1])}")
        except ApiRefused as error:
            if error.status == HTTPStatus.NOT_FOUND:
                return True
            raise
        return pod["metadata"]["uid"] != holder or (pod.get("status") or {}).get("phase") in ("Succeeded", "Failed")
