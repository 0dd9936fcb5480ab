"""The chart's admission policies at the API server, for the namespaces whose name begins with `guarded`."""

import subprocess
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack, suppress
from pathlib import Path
from typing import Any

import pytest
import yaml

from baton.kube.api import core_path, group_path
from baton.kube.errors import ApiError, ConflictError
from baton.kube.leases import leases_path
from charts.render import CHART
from cluster import helm_binary
from tests.integration.operator.admission.actors import LEASE_WRITER, Actor, account, acting, pod_of, token_of
from tests.integration.operator.world import Cluster, World
from tests.waiting import eventually

ADMISSION = "admissionregistration.k8s.io/v1"
NAMESPACES = tuple(f"guarded-{n}" for n in range(1, 50))

ActAs = Callable[..., Awaitable[Actor]]


@pytest.fixture(scope="session")
def rendered() -> list[dict[str, Any]]:
    """What the chart makes of policies and roles, for operators that serve these namespaces."""
    command: list[str | Path] = [helm_binary(), "template", "baton", CHART, "--namespace", "baton-system"]
    command += ["--set", f"watchNamespaces={{{','.join(NAMESPACES)}}}", "--set", "rbac.aggregate=true"]
    text = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    return [document for document in yaml.safe_load_all(text) if document]


@pytest.fixture
async def policies(api: Cluster, rendered: list[dict[str, Any]]) -> None:
    """They are in force."""
    paths = {"ValidatingAdmissionPolicy": group_path(ADMISSION, None, "validatingadmissionpolicies")}
    paths["ValidatingAdmissionPolicyBinding"] = group_path(ADMISSION, None, "validatingadmissionpolicybindings")
    paths["ClusterRole"] = group_path("rbac.authorization.k8s.io/v1", None, "clusterroles")
    for document in rendered:
        path = paths.get(document["kind"])
        if path is not None and await api.find(f"{path}/{document['metadata']['name']}") is None:
            with suppress(ConflictError):  # another process makes it
                await api.create(path, document)


async def new_namespace(api: Cluster) -> World:
    for name in NAMESPACES:
        with suppress(ConflictError):  # another test has it
            await api.create(core_path(None, "namespaces"), {"metadata": {"name": name}})
            return World(api, name)
    raise LookupError("none is left")


@pytest.fixture
async def guarded(api: Cluster, kubeconfig: Path, policies: None, rendered: list[dict[str, Any]]) -> World:
    """A new namespace in which the policies hold."""
    world = await new_namespace(api)
    for kind, plural in (("Role", "roles"), ("RoleBinding", "rolebindings")):
        for document in rendered:
            if document["kind"] == kind and document["metadata"]["namespace"] == world.namespace:
                await api.create(group_path("rbac.authorization.k8s.io/v1", world.namespace, plural), document)
    await account(world, "probe", LEASE_WRITER)

    async def in_force() -> bool:
        """Policies come into force a moment after they were made, and so do Roles."""
        try:
            async with acting(kubeconfig, await token_of(world, "probe")) as probe:
                await probe.write_lease(world.namespace, "baton-probe", "probe", "u")
        except ApiError as error:
            return "Lease baton-probe is the session of the pod probe" in error.message
        await api.delete(leases_path(world.namespace, "baton-probe"))
        return False

    await eventually(in_force, "the policies are in force")
    return world


@pytest.fixture
async def act(guarded: World, kubeconfig: Path) -> AsyncIterator[ActAs]:
    """`await act(pod="a", account="consumer")`: with the token of that pod, which is made if it is not there; `account` alone:
    with a token that is bound to no pod; `user`: by impersonation."""
    async with AsyncExitStack() as stack:

        async def one(
            *, pod: str | None = None, account: str | None = None, group: str | None = "orders", user: str | None = None,
            world: World = guarded,
        ) -> Actor:  # fmt: skip
            if user is not None:
                return await stack.enter_async_context(acting(kubeconfig, user=user))
            assert account is not None
            if pod is not None and await world.api.find(f"/api/v1/namespaces/{world.namespace}/pods/{pod}") is None:
                await pod_of(world, pod, account, group)
            return await stack.enter_async_context(acting(kubeconfig, await token_of(world, account, pod)))

        yield one
