"""A session's Lease at the API server."""

import json
from typing import Any

from kubernetes import client

from baton.consumer.lease import Manifest

_TIMEOUT = (2.0, 4.0)
"""Seconds that the API server has to take a connection, and to answer."""


class LeaseRefused(Exception):  # noqa: N818 -- what became of the request, for the user
    """The API server did not do what was asked: its words, on one line."""


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
            raise _refusal(error) from None

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
            raise _refusal(error) from None
        return self._manifest(written)

    def _manifest(self, lease: Any) -> Manifest:
        manifest: Manifest = self._leases.api_client.sanitize_for_serialization(lease)
        return manifest


def _refusal(error: client.ApiException) -> LeaseRefused:
    """Without headers, and with what a policy or a role has to say: who may, and what to do."""
    try:
        said = str(json.loads(error.body or "")["message"])
    except (ValueError, KeyError, TypeError, RecursionError):
        said = str(error.reason)
    return LeaseRefused(f"{error.status} {' '.join(said.split())[:1000]}")
