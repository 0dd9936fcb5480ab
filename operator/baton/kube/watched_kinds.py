"""The kinds of object that the operator lists and watches, and where the API server has them."""

from collections.abc import Mapping
from enum import StrEnum

from baton.kube.api import core_path
from baton.kube.leases import LEASES, leases_path
from baton.kube.objects import GROUP_VERSION, groups_path, queues_path
from baton.kube.store import Manifest
from baton.model.names import GROUP_LABEL


class WatchedKind(StrEnum):
    """By plural, as rules of RBAC name them."""

    PODS = "pods"
    LEASES = "leases"
    LEDGERS = "configmaps"
    QUEUES = "partitionedqueues"
    GROUPS = "consumergroups"

    @property
    def group_version(self) -> tuple[str, str]:
        """API group ("" for the core's) and version."""
        group, _, version = _GROUP_VERSIONS.get(self, "/v1").rpartition("/")
        return group, version

    @property
    def selector(self) -> Mapping[str, str]:
        """What narrows a list or a watch at the server."""
        return {} if self in (WatchedKind.QUEUES, WatchedKind.GROUPS) else {"labelSelector": GROUP_LABEL}

    def looked_at(self, manifest: Manifest) -> Manifest:
        """What anybody looks at: what waits is not to keep the rest. A pod's spec, and of everything who manages which field,
        may have a MiB, and twenty times as much as Python has them."""
        parts = ("metadata", "status") if self is WatchedKind.PODS else manifest.keys()
        made = {part: manifest[part] for part in parts if part in manifest}
        return {**made, "metadata": {name: value for name, value in manifest["metadata"].items() if name != "managedFields"}}

    def path(self, namespace: str | None) -> str:
        """Of all in this namespace; None: of all namespaces."""
        match self:
            case WatchedKind.LEASES:
                return leases_path(namespace)
            case WatchedKind.QUEUES:
                return queues_path(namespace)
            case WatchedKind.GROUPS:
                return groups_path(namespace)
        return core_path(namespace, self.value)


_GROUP_VERSIONS = {WatchedKind.LEASES: LEASES, WatchedKind.QUEUES: GROUP_VERSION, WatchedKind.GROUPS: GROUP_VERSION}

WATCHED = tuple(of for of in WatchedKind if of is not WatchedKind.LEDGERS)
"""The operator is the only writer of ledgers: it notices an edit by a conflict, or by a list."""
