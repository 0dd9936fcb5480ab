"""The kinds of objects that the server has, and how it tells clients of them."""

from dataclasses import dataclass

from baton.kube.objects import GROUP_VERSION
from tests.simulation.api_server.manifests import Json


@dataclass(frozen=True, slots=True, eq=False)
class Kind:
    """One kind of object."""

    group_version: str
    name: str
    plural: str
    namespaced: bool = True
    subresources: frozenset[str] = frozenset()
    custom: bool = False
    """Of a CustomResourceDefinition."""
    made_by_replacing: bool = False
    """A replace creates a missing object."""
    needs_version: bool = False
    """A replace has to name the resourceVersion."""
    generation: bool = False
    """A change of its spec is counted."""

    @property
    def group(self) -> str:
        """Of the API; empty for the core's."""
        return self.group_version.rpartition("/")[0]

    @property
    def qualified(self) -> str:
        """As messages name it: consumergroups.baton.dev."""
        return f"{self.plural}.{self.group}" if self.group else self.plural

    @property
    def root(self) -> str:
        return f"/apis/{self.group_version}" if self.group else f"/api/{self.group_version}"


_STATUS = frozenset({"status"})
_SCALABLE = frozenset({"status", "scale"})

NAMESPACES = Kind("v1", "Namespace", "namespaces", namespaced=False)
PODS = Kind("v1", "Pod", "pods", subresources=_STATUS, generation=True)
CONFIG_MAPS = Kind("v1", "ConfigMap", "configmaps")
SECRETS = Kind("v1", "Secret", "secrets")
QUOTAS = Kind("v1", "ResourceQuota", "resourcequotas")
LEASES = Kind("coordination.k8s.io/v1", "Lease", "leases", made_by_replacing=True, needs_version=True)
EVENTS = Kind("events.k8s.io/v1", "Event", "events", made_by_replacing=True)
DEPLOYMENTS = Kind("apps/v1", "Deployment", "deployments", subresources=_SCALABLE, generation=True)
GROUPS = Kind(
    GROUP_VERSION, "ConsumerGroup", "consumergroups", subresources=_SCALABLE, custom=True, needs_version=True, generation=True
)
QUEUES = Kind(
    GROUP_VERSION, "PartitionedQueue", "partitionedqueues", subresources=_STATUS, custom=True, needs_version=True, generation=True
)

KINDS = (NAMESPACES, PODS, CONFIG_MAPS, SECRETS, QUOTAS, LEASES, EVENTS, DEPLOYMENTS, GROUPS, QUEUES)

VERBS = ["create", "delete", "get", "list", "patch", "update", "watch"]


def discovery(root: str) -> Json | None:
    """What GET /apis/<group>/<version> answers; None where there is no such group and version."""
    kinds = [kind for kind in KINDS if kind.root == root]
    if not kinds:
        return None
    resources: list[Json] = []
    for kind in kinds:
        named = {"singularName": kind.name.lower(), "namespaced": kind.namespaced, "kind": kind.name}
        resources.append({"name": kind.plural, **named, "verbs": VERBS})
        for subresource in sorted(kind.subresources):
            scale = {"group": "autoscaling", "version": "v1", "kind": "Scale"} if subresource == "scale" else {}
            some = ["get", "patch", "update"]
            resources.append({"name": f"{kind.plural}/{subresource}", **named, "singularName": "", **scale, "verbs": some})
    return {"kind": "APIResourceList", "apiVersion": "v1", "groupVersion": kinds[0].group_version, "resources": resources}
