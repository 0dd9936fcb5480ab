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
        await self._grant(namespace, self.name, [rule for rule in role["rules"] if rule["resources"]])

    async def may_lead(self, namespace: str) -> None:
        """Let it have its leader's Lease there."""
        rule = {"apiGroups": ["coordination.k8s.io"], "resources": ["leases"], "verbs": ["get", "create", "update"]}
        await self._grant(namespace, f"{self.name}-leader", [rule])

    async def may_finish_deletions(self) -> None:
        """As the chart's value rbac.finishDeletions lets it."""
        rule = {"apiGroups": ["baton.dev"], "resources": ["consumergroups"], "verbs": ["get", "list", "watch", "patch"]}
        await self._grant(None, f"{self.name}-deletions", [rule])

    async def _grant(self, namespace: str | None, role: str, rules: list[Json]) -> None:
        await grant(self._api, namespace, role, rules, service_account(HOME, self.name))

    async def unbind(self, namespace: str) -> None:
        await self._api.delete(group_path(RBAC, namespace, "rolebindings", self.name))


async def grant(api: Api, namespace: str | None, name: str, rules: list[Json], user: str) -> None:
    """Let a user do this in a namespace (None: in the cluster), by a role and a binding of this name, and wait for that."""
    kind = "ClusterRole" if namespace is None else "Role"
    reference = {"apiGroup": "rbac.authorization.k8s.io", "kind": kind, "name": name}
    subject = {"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": user}
    if user.startswith("system:serviceaccount:"):
        _, _, home, account = user.split(":")
        subject = {"kind": "ServiceAccount", "namespace": home, "name": account}
    binding = {"roleRef": reference, "subjects": [subject]}
    for plural, content in ((f"{kind.lower()}s", {"rules": rules}), (f"{kind.lower()}bindings", binding)):
        path = group_path(RBAC, namespace, plural)
        if await api.find(f"{path}/{name}") is None:
            await api.create(path, {"metadata": {"name": name}, **content})
        else:
            await api.merge(f"{path}/{name}", content)
    await in_force(api, user, namespace, rules[0])


async def token_of(api: Api, namespace: str, name: str, **spec: Any) -> str:
    """A token of a service account."""
    body = {"spec": {"expirationSeconds": 3600, **spec}}
    return str((await api.create(core_path(namespace, "serviceaccounts", name) + "/token", body))["status"]["token"])


async def account(api: Cluster, name: str, admin: Path, folder: Path, namespaces: Iterable[str]) -> Account:
    """Made with its role in these namespaces; the first one has its Lease."""
    if await api.find(core_path(HOME, "serviceaccounts", name)) is None:
        await api.create(core_path(HOME, "serviceaccounts"), {"metadata": {"name": name}})
    made = Account(api, name, folder / f"{name}.kubeconfig")
    of_token(admin, await token_of(api, HOME, name), made.kubeconfig)
    served = list(namespaces)
    for namespace in served:
        await made.bind(namespace)
    await made.may_lead(served[0])
    return made


def service_account(namespace: str, name: str) -> str:
    """As the API server calls its user."""
    return f"system:serviceaccount:{namespace}:{name}"


async def in_force(api: Api, user: str, namespace: str | None, rule: Json) -> None:
    """Wait until the API server applies a rule of a new Role to a user."""
    resource, _, part = rule["resources"][0].partition("/")
    asked = {"namespace": namespace or "", "verb": rule["verbs"][0], "group": rule["apiGroups"][0], "resource": resource}
    asked |= {"subresource": part, "name": rule.get("resourceNames", [""])[0]}
    await eventually(lambda: may(api, user, asked), f"{user} may {asked}")


async def may(api: Api, user: str, what: Json) -> bool:
    """What the API server's authorizer says now."""
    review = {"apiVersion": REVIEWS, "kind": "SubjectAccessReview", "spec": {"user": user, "resourceAttributes": what}}
    return bool((await api.create(f"/apis/{REVIEWS}/subjectaccessreviews", review))["status"]["allowed"])


def of_token(admin: Path, token: str, file: Path) -> Path:
    """A kubeconfig for the same server with this token."""
    config: dict[str, Any] = yaml.safe_load(admin.read_text())
    for user in config["users"]:
        user["user"] = {"token": token}
    file.write_text(yaml.safe_dump(config))
    return file


def _chart_role() -> Json:
    objects = yaml.safe_load_all(MANIFEST.read_text())
    return next(one for one in objects if one and one["kind"] == "ClusterRole" and one["metadata"]["name"] == "baton")
