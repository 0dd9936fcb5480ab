"""A session's Lease at the API server."""

from typing import Any

from kubernetes import client

from baton.consumer.lease import Manifest

_TIMEOUT = (2.0, 4.0)
"""Seconds that the API server has to take a connection, and to answer."""


class KubernetesLease:
    """The Lease `name` at the API server that `api` talks to."""

    def __init__(self, api: client.ApiClient, namespace: str, name: str) -> None:
        self._leases: Any = client.CoordinationV1Api(api)  # takes manifests as JSON too, which its types do not say
        self._namespace = namespace
        self._name = name

    def read(self) -> Manifest | None:
        try:
            return self._manifest(self._leases.read_namespaced_lease(self._name, self._namespace, _request_timeout=_TIMEOUT))
        except client.ApiException as error:
            if error.status == 404:
                return None
            raise

    def write(self, lease: Manifest) -> Manifest | None:
        lease["metadata"] |= {"namespace": self._namespace, "name": self._name}
        try:
            if "resourceVersion" in lease["metadata"]:
                written = self._leases.replace_namespaced_lease(self._name, self._namespace, lease, _request_timeout=_TIMEOUT)
            else:
                written = self._leases.create_namespaced_lease(self._namespace, lease, _request_timeout=_TIMEOUT)
        except client.ApiException as error:
            if error.status in (404, 409):
                return None
            raise
        return self._manifest(written)

    def _manifest(self, lease: Any) -> Manifest:
        manifest: Manifest = self._leases.api_client.sanitize_for_serialization(lease)
        return manifest
