"""Finds the namespace, name, UID and address of the driver's own pod.

The first source that has a value counts: the environment (the downward API); Spark's configuration, which `spark-submit
--deploy-mode cluster` fills in; the pod (the namespace of its service account, its hostname, and the API server for its UID).
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
"""Spark's settings for the executors' namespace, and for the pod that owns their pods."""

OUTSIDE = "driver-"
"""Prefix of the Lease holder's name if the driver runs outside the cluster."""

_CURE = "set POD_NAMESPACE, POD_NAME and POD_UID with the downward API, as driver.yaml of manifests/examples/spark does"


class DriverPod:
    """The pod of this process. Its properties raise ValueError, with the fix, for values that cannot be found, and if the
    environment and Spark's settings contradict each other.
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
        """`configuration`: Spark's settings by name. `namespace`: the user's choice, which overrides the environment."""
        self._environment = environment
        self._configuration = configuration or {}
        self._account = account
        self._hostname = hostname
        self._namespace = namespace

    @property
    def inside(self) -> bool:
        """Whether the process runs in a cluster."""
        return "KUBERNETES_SERVICE_HOST" in self._environment

    @property
    def namespace(self) -> str:
        """Namespace of the group, its ledger, its Lease and the executors; `default` if none is set outside a cluster."""
        given, spark = self._namespace or self._environment.get("POD_NAMESPACE"), self._configuration.get(NAMESPACE)
        if given and spark and given != spark:
            raise ValueError(
                f"the driver's namespace is {given}, and its executors run in {spark} ({NAMESPACE}): a group, its driver and its "
                "executors must share one namespace"
            )
        if found := given or spark:
            return found
        mounted = self._account / "namespace"
        if mounted.is_file():
            return mounted.read_text(encoding="utf-8").strip()
        if self.inside:
            raise ValueError(f"the driver's namespace cannot be found: {_CURE}")
        return "default"

    @property
    def name(self) -> str | None:
        """Name of the pod; None outside a cluster."""
        given, spark = self._environment.get("POD_NAME"), self._configuration.get(DRIVER_POD)
        if given and spark and given != spark:
            raise ValueError(
                f"the driver runs in pod {given}, and its executors are owned by {spark} ({DRIVER_POD}): leave that setting to "
                "baton.spark.conf"
            )
        return given or spark or (self._hostname() if self.inside else None)

    @property
    def address(self) -> str | None:
        """IP of the pod; None lets Spark find the address."""
        return self._environment.get("POD_IP")

    def uid(self, api: ApiConnection) -> Uid | None:
        """Return the UID from the environment, or else from the API server; None outside a cluster."""
        if given := self._environment.get("POD_UID"):
            return Uid(given)
        if not self.inside:
            return None
        namespace, name = self.namespace, self.name or ""
        try:
            pod = api.request("GET", f"/api/v1/namespaces/{segments(namespace)}/pods/{segments(name)}")
        except (ApiRefused, HTTPError) as error:
            raise ValueError(f"the UID of the driver's pod {namespace}/{name} cannot be found ({error}): {_CURE}") from None
        return Uid(pod["metadata"]["uid"])


def submitted(environment: Mapping[str, str]) -> Mapping[str, str]:
    """Return the settings that spark-submit passed to this program; none if it was started otherwise."""
    if "PYSPARK_GATEWAY_PORT" not in environment:
        return {}
    SparkContext._ensure_initialized()  # the JVM is already running: this only connects
    return dict(SparkConf().getAll())


class EndedDrivers:
    """Tells whether the driver in a pod, given by UID, has ended: the pod does not exist, or its phase is Succeeded or Failed.
    Drivers outside the cluster count as running.
    """

    def __init__(self, api: ApiConnection, namespace: str) -> None:
        self._api, self._pods = api, f"/api/v1/namespaces/{segments(namespace)}/pods"
        self._found: tuple[str, str] | None = None
        """UID and name of the pod of the last call, so that the pods are listed only once to find its name."""

    def __call__(self, holder: str) -> bool:
        """Whether this driver has ended. Raises ApiRefused, or an error of the connection to the API server."""
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
