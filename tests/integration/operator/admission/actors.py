"""Those who speak to the API server under the admission policies: pods with their own tokens, people and robots by roles."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from tempfile import mkdtemp
from typing import Any

from kubernetes.aio import client, config

from baton.consumer.api_server import ApiConnection
from baton.kube.api import core_path, group_path
from baton.kube.leases import LEASES, leases_path
from baton.model.names import GROUP_LABEL
from tests.integration.operator.accounts import in_force, service_account
from tests.integration.operator.world import Cluster, World
from tests.service_account import mounted

RBAC = "rbac.authorization.k8s.io/v1"
LEASE_WRITER = {"apiGroups": ["coordination.k8s.io"], "resources": ["leases"], "verbs": ["get", "create", "update", "delete"]}
POD_MAKER = {"apiGroups": [""], "resources": ["pods"], "verbs": ["get", "create", "update", "patch", "delete"]}
STATUS_WRITER = {"apiGroups": [""], "resources": ["pods", "pods/status"], "verbs": ["get", "patch", "update"]}
MAP_EDITOR = {"apiGroups": [""], "resources": ["configmaps"], "verbs": ["get", "create", "update", "patch", "delete"]}
DEPLOYER = {"apiGroups": ["apps", "batch"], "resources": ["*"], "verbs": ["create", "update", "patch"]}


def joins(*groups: str) -> dict[str, Any]:
    """The right to join these groups; none named: all of the namespace."""
    return {"apiGroups": ["baton.dev"], "resources": ["consumergroups"], "resourceNames": list(groups), "verbs": ["join"]}


class Actor(Cluster):
    """The API as somebody else than the administrator uses it."""

    token: str | None = None

    async def write_lease(self, namespace: str, name: str, group: str, holder: str, **annotations: str) -> None:
        """Create or replace it, as a consumer's session does."""
        path = leases_path(namespace, name)
        there = await self.find(path)
        body: dict[str, Any] = {
            "apiVersion": LEASES,
            "kind": "Lease",
            "metadata": {"name": name, "labels": {GROUP_LABEL: group}, "annotations": annotations},
            "spec": {"holderIdentity": holder, "leaseDurationSeconds": 15},
        }
        if there is None:
            await self.create(leases_path(namespace), body)
        else:
            body["metadata"]["resourceVersion"] = there["metadata"]["resourceVersion"]
            await self.replace(path, body)


@asynccontextmanager
async def acting(kubeconfig: Path, token: str | None = None, user: str | None = None) -> AsyncIterator[Actor]:
    """With a token, or as a user that the administrator impersonates."""
    settings: Any = client.Configuration()
    load: Any = config.load_kube_config
    await load(config_file=str(kubeconfig), client_configuration=settings)
    if token is not None:
        settings.cert_file = settings.key_file = None
        settings.api_key = {"BearerToken": f"Bearer {token}"}
    async with client.ApiClient(configuration=settings) as connection:
        headers: dict[str, str] = connection.default_headers
        if user is not None:
            headers["Impersonate-User"] = user
        actor = Actor(connection)
        actor.token = token
        yield actor


def blocking(kubeconfig: Path, token: str) -> ApiConnection:
    """The connection that `baton.consumer` has in a pod."""
    return mounted(kubeconfig, Path(mkdtemp(prefix="account-", dir=kubeconfig.parent)), token)


async def account(world: World, name: str, *rules: dict[str, Any]) -> None:
    """A service account with a Role of these rules."""
    admin, namespace = world.api, world.namespace
    await admin.create(core_path(namespace, "serviceaccounts"), {"metadata": {"name": name}})
    await admin.create(group_path(RBAC, namespace, "roles"), {"metadata": {"name": name}, "rules": list(rules)})
    await bind(world, name, "Role", name)
    for rule in rules[:1]:
        await in_force(admin, service_account(namespace, name), namespace, rule)


async def bind(world: World, account_name: str, kind: str, role: str) -> None:
    """Give the account a Role, or a ClusterRole in this namespace."""
    body = {
        "metadata": {"name": f"{account_name}-{role}"},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": kind, "name": role},
        "subjects": [{"kind": "ServiceAccount", "name": account_name, "namespace": world.namespace}],
    }
    await world.api.create(group_path(RBAC, world.namespace, "rolebindings"), body)


async def token_of(world: World, account_name: str, pod: str | None = None) -> str:
    """A token of the account: bound to a pod, as the kubelet mounts it, or to nothing."""
    bound = {"kind": "Pod", "apiVersion": "v1", "name": pod}
    body = {"spec": {"expirationSeconds": 3600, **({"boundObjectRef": bound} if pod else {})}}
    path = core_path(world.namespace, "serviceaccounts", account_name) + "/token"
    return str((await world.api.create(path, body))["status"]["token"])


async def pod_of(world: World, name: str, account_name: str, group: str | None = None) -> str:
    """A pod that runs under the account; its UID."""
    body = {
        "metadata": {"name": name, "labels": {GROUP_LABEL: group} if group else {}},
        "spec": {"serviceAccountName": account_name, "containers": [{"name": "c", "image": "none"}]},
    }
    return str((await world.api.create(core_path(world.namespace, "pods"), body))["metadata"]["uid"])
