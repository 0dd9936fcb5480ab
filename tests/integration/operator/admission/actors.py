"""Clients of the API server under the admission policies: pods with their own tokens, and accounts with roles."""

from collections.abc import AsyncIterator, Awaitable
from contextlib import asynccontextmanager
from pathlib import Path
from tempfile import mkdtemp
from typing import Any

import pytest
from kubernetes.aio import client, config

from baton.consumer.api_server import ApiConnection
from baton.kube.api import core_path, group_path
from baton.kube.errors import ApiError
from baton.kube.leases import LEASES, leases_path
from baton.model.names import GROUP_LABEL
from tests.integration.operator import accounts
from tests.integration.operator.accounts import RBAC, grant, service_account
from tests.integration.operator.world import Cluster, World
from tests.service_account import mounted

LEASE_WRITER = {"apiGroups": ["coordination.k8s.io"], "resources": ["leases"], "verbs": ["get", "create", "update", "delete"]}
POD_MAKER = {"apiGroups": [""], "resources": ["pods"], "verbs": ["get", "create", "update", "patch", "delete"]}
STATUS_WRITER = {"apiGroups": [""], "resources": ["pods", "pods/status"], "verbs": ["get", "patch", "update"]}
MAP_EDITOR = {"apiGroups": [""], "resources": ["configmaps"], "verbs": ["get", "create", "update", "patch", "delete"]}
DEPLOYER = {"apiGroups": ["apps", "batch"], "resources": ["*"], "verbs": ["create", "update", "patch"]}


def joins(*groups: str) -> dict[str, Any]:
    """The right to join these groups; none named: all of the namespace."""
    return {"apiGroups": ["baton.dev"], "resources": ["consumergroups"], "resourceNames": list(groups), "verbs": ["join"]}


class Actor(Cluster):
    """The API as an account other than the administrator uses it."""

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
    """A service account that may do this."""
    await world.api.create(core_path(world.namespace, "serviceaccounts"), {"metadata": {"name": name}})
    if rules:
        await grant(world.api, world.namespace, name, list(rules), service_account(world.namespace, name))


async def may_edit(world: World, account_name: str) -> None:
    """Give the account Kubernetes' ClusterRole `edit` in this namespace."""
    body = {
        "metadata": {"name": f"{account_name}-edit"},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "edit"},
        "subjects": [{"kind": "ServiceAccount", "name": account_name, "namespace": world.namespace}],
    }
    await world.api.create(group_path(RBAC, world.namespace, "rolebindings"), body)


async def token_of(world: World, account_name: str, pod: str | None = None) -> str:
    """A token of the account: bound to a pod, as the kubelet mounts it, or to nothing."""
    bound = {"boundObjectRef": {"kind": "Pod", "apiVersion": "v1", "name": pod}} if pod else {}
    return await accounts.token_of(world.api, world.namespace, account_name, **bound)


async def refused(work: Awaitable[Any]) -> str:
    """What the API server says."""
    with pytest.raises(ApiError) as refusal:
        await work
    assert refusal.value.status in (403, 422)
    return refusal.value.message


async def pod_of(world: World, name: str, account_name: str, group: str | None = None) -> str:
    """A pod that runs under the account; its UID."""
    body = {
        "metadata": {"name": name, "labels": {GROUP_LABEL: group} if group else {}},
        "spec": {"serviceAccountName": account_name, "containers": [{"name": "c", "image": "none"}]},
    }
    return str((await world.api.create(core_path(world.namespace, "pods"), body))["metadata"]["uid"])
