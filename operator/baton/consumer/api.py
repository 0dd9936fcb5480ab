"""A session's Lease at the API server."""

from baton.consumer.api_server import ApiConnection, ApiRefused, segments
from baton.model.lease import Manifest

_ABSENT, _CONFLICT = 404, 409


class KubernetesLease:
    """The Lease `name` at the API server."""

    def __init__(self, api: ApiConnection, namespace: str, name: str) -> None:
        self._api = api
        self._namespace = namespace
        self._name = name
        self._all = f"/apis/coordination.k8s.io/v1/namespaces/{segments(namespace)}/leases"
        self._one = f"{self._all}/{segments(name)}"

    def read(self) -> Manifest | None:
        try:
            return self._api.request("GET", self._one)
        except ApiRefused as refusal:
            if refusal.status == _ABSENT:
                return None
            raise

    def write(self, lease: Manifest) -> Manifest | None:
        lease["metadata"] |= {"namespace": self._namespace, "name": self._name}
        exists = "resourceVersion" in lease["metadata"]
        try:
            return self._api.request("PUT", self._one, lease) if exists else self._api.request("POST", self._all, lease)
        except ApiRefused as refusal:
            if refusal.status in (_ABSENT, _CONFLICT):
                return None
            raise
