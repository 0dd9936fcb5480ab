"""An account for an operator that may work in some namespaces only, as the chart's value watchNamespaces makes it."""

import copy
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import yaml

from baton.kube.api import Api, core_path, group_path
from tests.integration.operator.world import Cluster, Json
from tests.waiting import eventually

RBAC = "rbac.authorization.k8s.io/v1"
REVIEWS = "authorization.k8s.io/v1"
HOME = "default"
"""The account's own namespace."""
MANIFEST = Path(__file__).parents[3] / "manifests" / "install.yaml"


class Account:
    """A service account, the role that the chart gives it in each namespace, and a kubeconfig with its token."""

    def __init__(self, api: Cluster, name: str, kubeconfig: Path) -> None:
        self._api = api
        self.name = name
        self.kubeconfig = kubeconfig

    async def bind(self, namespace: str, without: str = "") -> None:
        """Let it work there; `without`: this resource, which a bound role leaves out."""
        role = copy.deepcopy(_chart_role())
        for rule in role["rules"]:
            rule["resources"] = [one for one in rule["resources"] if one != without]
        rules = [rule for rule in role["rules"] if rule["resources"]]
        body = {"apiVersion": RBAC, "kind": "Role", "metadata": {"name": self.name}, "rules": rules}
        await self._put(group_path(RBAC, namespace, "roles"), body)
        binding = {
            "apiVersion": RBAC,
            "kind": "RoleBinding",
            "metadata": {"name": self.name},
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": self.name},
            "subjects": [{"kind": "ServiceAccount", "name": self.name, "namespace": HOME}],
        }
        await self._put(group_path(RBAC, namespace, "rolebindings"), binding)
        await in_force(self._api, service_account(HOME, self.name), namespace, rules[0])

    async def may_lead(self, namespace: str) -> None:
        """Let it have its leader's Lease there."""
        rules = [{"apiGroups": ["coordination.k8s.io"], "resources": ["leases"], "verbs": ["get", "create", "update"]}]
        name = f"{self.name}-leader"
        body = {"apiVersion": RBAC, "kind": "Role", "metadata": {"name": name}, "rules": rules}
        await self._put(group_path(RBAC, namespace, "roles"), body)
        binding = {
            "apiVersion": RBAC,
            "kind": "RoleBinding",
            "metadata": {"name": name},
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": name},
            "subjects": [{"kind": "ServiceAccount", "name": self.name, "namespace": HOME}],
        }
        await self._put(group_path(RBAC, namespace, "rolebindings"), binding)
        await in_force(self._api, service_account(HOME, self.name), namespace, rules[0])

    async def may_finish_deletions(self) -> None:
        """As the chart's value rbac.finishDeletions lets it."""
        name = f"{self.name}-deletions"
        rules = [{"apiGroups": ["baton.dev"], "resources": ["consumergroups"], "verbs": ["get", "list", "watch", "patch"]}]
        body = {"apiVersion": RBAC, "kind": "ClusterRole", "metadata": {"name": name}, "rules": rules}
        await self._put(group_path(RBAC, None, "clusterroles"), body)
        binding = {
            "apiVersion": RBAC,
            "kind": "ClusterRoleBinding",
            "metadata": {"name": name},
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": name},
            "subjects": [{"kind": "ServiceAccount", "name": self.name, "namespace": HOME}],
        }
        await self._put(group_path(RBAC, None, "clusterrolebindings"), binding)
        await in_force(self._api, service_account(HOME, self.name), None, rules[0])

    async def unbind(self, namespace: str) -> None:
        await self._api.delete(group_path(RBAC, namespace, "rolebindings", self.name))

    async def _put(self, path: str, body: Json) -> None:
        name = body["metadata"]["name"]
        if await self._api.find(f"{path}/{name}") is None:
            await self._api.create(path, body)
        else:
            await self._api.merge(f"{path}/{name}", body)


async def account(api: Cluster, name: str, admin: Path, folder: Path, namespaces: Iterable[str]) -> Account:
    """Made with its role in these namespaces; the first one has its Lease."""
    if await api.find(core_path(HOME, "serviceaccounts", name)) is None:
        await api.create(
            core_path(HOME, "serviceaccounts"), {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": name}}
        )
    request = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {"expirationSeconds": 3600}}
    token = (await api.create(core_path(HOME, "serviceaccounts", name) + "/token", request))["status"]["token"]
    made = Account(api, name, folder / f"{name}.kubeconfig")
    of_token(admin, token, made.kubeconfig)
    served = list(namespaces)
    for namespace in served:
        await made.bind(namespace)
    await made.may_lead(served[0])
    return made


def service_account(namespace: str, name: str) -> str:
    """As the API server calls its user."""
    return f"system:serviceaccount:{namespace}:{name}"


async def in_force(api: Api, user: str, namespace: str | None, rule: Json) -> None:
    """Wait until the API server lets a user do what a rule of a Role says: it hears of Roles a moment after they were made."""
    resource, _, part = rule["resources"][0].partition("/")
    asked = {"namespace": namespace or "", "verb": rule["verbs"][0], "group": rule["apiGroups"][0], "resource": resource}
    asked |= {"subresource": part, "name": rule.get("resourceNames", [""])[0]}
    await eventually(lambda: may(api, user, asked), f"{user} may {asked}")


async def may(api: Api, user: str, what: Json) -> bool:
    """What the API server's authorizer says now."""
    review = {"apiVersion": REVIEWS, "kind": "SubjectAccessReview", "spec": {"user": user, "resourceAttributes": what}}
    return bool((await api.create(f"/apis/{REVIEWS}/subjectaccessreviews", review))["status"]["allowed"])


def of_token(admin: Path, token: str, file: Path) -> Path:
    """A kubeconfig for the same server, as whom the token is."""
    config: dict[str, Any] = yaml.safe_load(admin.read_text())
    for user in config["users"]:
        user["user"] = {"token": token}
    file.write_text(yaml.safe_dump(config))
    return file


def _chart_role() -> Json:
    objects = yaml.safe_load_all(MANIFEST.read_text())
    return next(one for one in objects if one and one["kind"] == "ClusterRole" and one["metadata"]["name"] == "baton")
