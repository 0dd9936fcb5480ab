"""The operator with the rights that the chart gives it: what they are, that they are enough, and what they refuse."""

import asyncio
import json
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from baton.kube.api import core_path
from charts.render import CHART
from cluster import ClusterError, helm_binary
from cluster.cluster import Cluster as Machine
from tests.integration.operator.accounts import of_token, token_of
from tests.integration.operator.conftest import namespace
from tests.integration.operator.world import Cluster, Operator, World
from tests.redis_server import RedisServer
from tests.waiting import eventually

Start = Callable[..., Operator]
LEASES = "leases.coordination.k8s.io"


def rendered(release: str, *settings: str) -> list[dict[str, Any]]:
    """What `helm install` would make in the namespace of the release's name, but for what runs."""
    command: list[str | Path] = [helm_binary(), "template", release, CHART, "--namespace", release, "--no-hooks"]
    command += ["--set", f"fullnameOverride={release}", *(word for one in settings for word in ("--set", one))]
    text = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    return [one for one in yaml.safe_load_all(text) if one and one["kind"] not in ("Deployment", "PodDisruptionBudget")]


class Installed:
    """A release: its account, and what that may do."""

    def __init__(self, machine: Machine, api: Cluster, release: str, objects: list[dict[str, Any]]) -> None:
        self.machine = machine
        self.api = api
        self.release = release
        self.objects = objects
        self.account = f"system:serviceaccount:{release}:{release}"

    async def token(self) -> str:
        return await token_of(self.api, self.release, self.release)

    async def may(self, verb: str, what: str, where: str) -> bool:
        """By RBAC. `what`: a resource (resource.group), resource/name, or resource:subresource."""
        kind, _, sub = what.partition(":")
        kind, _, name = kind.partition("/")
        resource, _, group = kind.partition(".")
        asked = {"verb": verb, "group": group, "resource": resource, "subresource": sub, "name": name, "namespace": where}
        groups = ["system:serviceaccounts", f"system:serviceaccounts:{self.release}", "system:authenticated"]
        spec = {"user": self.account, "groups": groups, "resourceAttributes": asked}
        path = "/apis/authorization.k8s.io/v1/subjectaccessreviews"
        review = {"apiVersion": "authorization.k8s.io/v1", "kind": "SubjectAccessReview", "spec": spec}
        return bool((await self.api.create(path, review))["status"]["allowed"])

    def refused(self, *arguments: str, text: str | None = None) -> str:
        """What the API server says when the operator's account tries that."""
        try:
            self.machine.kubectl(*arguments, f"--as={self.account}", text=text)
        except ClusterError as error:
            return str(error)
        return ""


async def install(machine: Machine, api: Cluster, release: str, *settings: str, without: str = "") -> Installed:
    """`without`: leave out policies with other names than those that begin so."""
    await namespace(api, release)
    objects = rendered(release, *settings)
    if without:
        objects = [one for one in objects if "Policy" not in one["kind"] or one["metadata"]["name"].startswith(without)]
    machine.apply(*objects)
    return Installed(machine, api, release, objects)


async def hands_over(world: World, operator: Operator, redis_server: RedisServer) -> None:
    """Everything that an operator does: a queue by a Secret, hand-offs, a scale, a deletion."""
    before = len(operator.log.read_text())
    await world.secret("orders-redis", redis_server.url)
    await world.queue("orders", {"type": "Redis", "redis": {"urlSecretRef": {"name": "orders-redis"}}}, 6)
    await world.deployment("consumers", 0)
    target = {"mode": "Workload", "targetRef": {"kind": "Deployment", "name": "consumers"}}
    await world.group("orders", replicas=2, scale=target, membership={"session": "Optional"})
    await world.together("orders", world.pod("a", "orders"), world.pod("b", "orders"))
    await world.spread("orders", 3, 3)
    await world.change("consumergroups", "orders", {"spec": {"replicas": 3}})
    await world.pod("c", "orders")
    await world.spread("orders", 2, 2, 2)
    await world.scaled("consumers", 3)
    await world.told("orders", "Settled", kind="Settled")
    await world.queue("letters", {"type": "External", "external": {"onDeadline": "Force"}}, 1)
    await world.group("letters")
    await world.pod("d", "letters")

    async def told() -> bool:
        pod = await world.api.get(core_path(world.namespace, "pods", "d"))
        return "baton.dev/ledger" in (pod["metadata"].get("annotations") or {})

    await eventually(told, "its kubelet is made to look")
    await world.event("Granted")
    for group in ("orders", "letters"):
        await world.delete("consumergroups", group)
        await world.gone(group)
    assert "orbidden" not in operator.log.read_text()[before:]


async def test_an_operator_of_one_namespace_needs_only_roles_there(
    api: Cluster, control_plane: Machine, kubeconfig: Path, tmp_path: Path, start: Start, redis_server: RedisServer
) -> None:
    world, other = await namespace(api, "rights-served"), await namespace(api, "rights-other")
    settings = (f"watchNamespaces={{{world.namespace}}}", f"rbac.secrets.{world.namespace}={{orders-redis}}")
    made = await install(control_plane, api, "rights-one", *settings)
    assert not [one for one in made.objects if one["kind"] in ("ClusterRole", "ClusterRoleBinding")]
    here, home = world.namespace, made.release
    allowed = [("list", "pods"), ("patch", "pods"), ("create", "configmaps"), ("update", "configmaps"), ("watch", LEASES)]
    allowed += [
        ("get", "secrets/orders-redis"),
        ("patch", "deployments.apps:scale"),
        ("patch", "consumergroups.baton.dev:status"),
    ]

    async def in_force() -> bool:
        return [one for one in allowed if not await made.may(*one, here)] == []

    await eventually(in_force, "its roles are in force")
    for elsewhere in (other.namespace, "kube-system", "default"):
        assert [one for one in allowed if await made.may(*one, elsewhere)] == [], elsewhere
    never = [("get", "secrets/other"), ("list", "secrets"), ("delete", "pods"), ("create", "pods"), ("create", LEASES)]
    never += [("update", LEASES), ("delete", "configmaps"), ("patch", "deployments.apps")]
    never += [("create", "roles.rbac.authorization.k8s.io")]
    assert [one for one in never if await made.may(*one, here)] == []
    assert await made.may("update", f"{LEASES}/{home}-operator", home) and not await made.may("update", f"{LEASES}/other", home)
    own = of_token(kubeconfig, await made.token(), tmp_path / "one.kubeconfig")
    operator = start(world, "one", "--lease-namespace", home, "--lease-name", f"{home}-operator", kubeconfig=own)
    await hands_over(world, operator, redis_server)


@pytest.mark.long
async def test_each_of_two_releases_may_read_the_others_lease(
    api: Cluster, control_plane: Machine, kubeconfig: Path, tmp_path: Path, start: Start
) -> None:
    world = await namespace(api, "rights-shared")
    operators = []
    for release in ("rights-first", "rights-second"):
        made = await install(control_plane, api, release, f"watchNamespaces={{{world.namespace}}}")
        own = of_token(kubeconfig, await made.token(), tmp_path / f"{release}.kubeconfig")
        lease = ("--lease-namespace", release, "--lease-name", f"{release}-operator")
        operators.append(await start(world, release, *lease, kubeconfig=own).leads())
        if len(operators) == 1:
            await world.queue(
                "orders", {"type": "External", "external": {"onDeadline": "Force"}}, 6, rebalance={"delaySeconds": 0}
            )
            await world.group("orders")
            await asyncio.gather(world.pod("a", "orders"), world.pod("b", "orders"))
            await world.spread("orders", 3, 3)
    first, second = operators
    assert await made.may("get", f"{LEASES}/rights-first-operator", "rights-first")
    assert not await made.may("update", f"{LEASES}/rights-first-operator", "rights-first")
    assert not await made.may("list", LEASES, "rights-first")
    await second.measures("baton_groups_served_elsewhere", lambda value: value == 1, by="rights-first/rights-first-operator")
    assert first.stop() == 0
    await world.delete_pod("b")
    await world.spread("orders", 6)
    assert [one for one in operators if "orbidden" in one.log.read_text()] == []


async def test_a_cluster_wide_operator_reads_no_secret_and_writes_only_batons_objects(
    api: Cluster, control_plane: Machine, kubeconfig: Path, tmp_path: Path, start: Start, redis_server: RedisServer
) -> None:
    world = await namespace(api, "rights-wide")
    # The policies that bind others would hold in the namespaces of all other tests.
    made = await install(control_plane, api, "rights-all", without="rights-all-operator-")
    here = world.namespace
    for where in (here, "kube-system", "default"):
        assert not await made.may("get", "secrets/any", where) and not await made.may("list", "secrets", where)

    def config_map(name: str, **metadata: Any) -> str:
        body = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, "namespace": here, **metadata}}
        return json.dumps(body)

    async def in_force() -> bool:
        said = await asyncio.to_thread(made.refused, "create", "-f", "-", text=config_map("theirs"))
        control_plane.kubectl("delete", "configmap", "theirs", "-n", here, "--ignore-not-found")
        return "the operator writes ledgers only" in said

    await eventually(in_force, "the policies are in force")
    control_plane.apply(config_map("theirs"), config_map("orders-assignments"))
    theirs = json.dumps(await api.get(core_path("kube-system", "configmaps", "kube-root-ca.crt")))
    assert "writes nothing in the namespaces of Kubernetes" in made.refused("replace", "-f", "-", text=theirs)
    ledger = {"labels": {"baton.dev/group": "orders"}}
    for text in (config_map("theirs"), config_map("orders-assignments"), config_map("orders-assignments", **ledger)):
        said = made.refused("replace", "-f", "-", text=text)
        assert "the operator writes ledgers only" in said, f"what is no ledger does not become one: {said}"

    await world.pod("member", "orders")
    control_plane.kubectl("run", "stranger", "--image=none", "-n", here)
    patches = {
        '{"spec":{"containers":[{"name":"consumer","image":"evil"}]}}': "member",
        '{"metadata":{"labels":{"baton.dev/group":"other"}}}': "member",
        '{"metadata":{"labels":{"app":"x"}}}': "member",
        '{"metadata":{"annotations":{"other":"x"}}}': "member",
        '{"metadata":{"finalizers":["x/y"]}}': "member",
        '{"metadata":{"annotations":{"baton.dev/ledger":"1"}}}': "stranger",
    }
    for patch, pod in patches.items():
        said = made.refused("patch", "pod", pod, "-n", here, "-p", patch)
        assert "and of no pod anything else" in said, (patch, said)
    assert made.refused("patch", "pod", "member", "-n", here, "-p", '{"metadata":{"annotations":{"baton.dev/ledger":"1"}}}') == ""
    await world.delete_pod("member")

    own = of_token(kubeconfig, await made.token(), tmp_path / "all.kubeconfig")
    home = made.release
    operator = start(world, "all", "--lease-namespace", home, "--lease-name", f"{home}-operator", kubeconfig=own)
    await world.secret("mail-redis", redis_server.url)
    await world.queue("mail", {"type": "Redis", "redis": {"urlSecretRef": {"name": "mail-redis"}}}, 2)
    await world.group("mail")
    message = await world.told("mail", "QueueUnreachable")
    assert "Secret rights-wide/mail-redis" in message
    assert "set the chart's value rbac.secrets.rights-wide to [mail-redis], or give the operator's service account" in message
    await world.delete("consumergroups", "mail")
    control_plane.apply(*reading(world.namespace, "orders-redis", made))
    control_plane.apply(*reading(world.namespace, "mail-redis", made))
    await world.gone("mail")
    control_plane.kubectl("delete", "configmap", "orders-assignments", "-n", here)
    await hands_over(world, operator, redis_server)


def reading(where: str, secret: str, by: Installed) -> list[dict[str, Any]]:
    """The rights that the guide adds in a namespace."""
    create = ("create", "--dry-run=client", "-o", "json")
    name = f"{secret}-reader"
    role = by.machine.kubectl(*create, "role", name, "-n", where, "--verb=get", "--resource=secrets", f"--resource-name={secret}")
    account = f"--serviceaccount={by.release}:{by.release}"
    binding = by.machine.kubectl(*create, "rolebinding", name, "-n", where, f"--role={name}", account)
    return [json.loads(role), json.loads(binding)]


@pytest.mark.parametrize("where", ["kube-system", "kube-public"])
async def test_the_operator_scales_nothing_of_kubernetes_itself(api: Cluster, control_plane: Machine, where: str) -> None:
    made = await install(control_plane, api, "rights-scale", without="rights-scale-operator-")
    await World(api, where).deployment("own", 0)
    scale = ("patch", "deployment", "own", "-n", where, "--subresource=scale", "--type=merge", "-p", '{"spec":{"replicas":3}}')

    async def refused() -> bool:
        return "writes nothing in the namespaces of Kubernetes" in await asyncio.to_thread(made.refused, *scale)

    await eventually(refused, "it is refused")
