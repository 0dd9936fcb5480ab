"""One API server for all tests here, and one operator for those of a process; those that kill operators start their own."""

from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
import yaml

from baton.kube.api import connect, core_path
from baton.kube.errors import ConflictError
from baton.kube.objects import GROUP_VERSION
from tests.integration.operator.world import SHOP, Cluster, Operator, World
from tests.redis_server import RedisServer
from tests.waiting import eventually

CRDS = [yaml.safe_load(file.read_text()) for file in (Path(__file__).parents[3] / "crds").glob("*.yaml")]


@pytest.fixture(scope="session")
def kubeconfig(control_plane: Any) -> Path:
    return Path(control_plane.kubeconfig)


@pytest.fixture
async def api(kubeconfig: Path) -> AsyncIterator[Cluster]:
    async with connect(kubeconfig) as (plain, _):
        made = Cluster(plain._client)
        await apply_crds(made)
        yield made


async def apply_crds(api: Cluster) -> None:
    """Unless the API server has them."""

    async def served() -> bool:
        found = await api.find(f"/apis/{GROUP_VERSION}")
        return {"consumergroups", "partitionedqueues"} <= {one["name"] for one in (found or {}).get("resources", ())}

    if await served():
        return
    for wanted in CRDS:
        with suppress(ConflictError):  # another process makes it
            await api.create("/apis/apiextensions.k8s.io/v1/customresourcedefinitions", wanted)
    await eventually(served, "the API server serves and lists the resources")


async def namespace(api: Cluster, name: str) -> World:
    if await api.find(core_path(None, "namespaces", name)) is None:
        await api.create(core_path(None, "namespaces"), {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}})
    return World(api, name)


@pytest.fixture(scope="session")
def shared_operator(kubeconfig: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Operator]:
    """Serves the namespace SHOP."""
    made = Operator(kubeconfig, SHOP, "shared", tmp_path_factory.mktemp("operator"))
    yield made
    made.stop()


@pytest.fixture
async def shop(api: Cluster, shared_operator: Operator, kubeconfig: Path) -> World:
    """A namespace with an operator. Tests share it, so their objects need unique names."""
    world = await namespace(api, SHOP)
    await shared_operator.leads()
    return world


@pytest.fixture
async def empty(api: Cluster) -> World:
    """A namespace without an operator."""
    return await namespace(api, f"empty-{uuid4().hex[:6]}")


@pytest.fixture
def start(kubeconfig: Path, tmp_path: Path) -> Iterator[Callable[..., Operator]]:
    """Start another operator: `start(world, identity, *options, program=…, …)`."""
    started: list[Operator] = []

    def one(world: World, identity: str = "one", *options: str, kubeconfig: Path = kubeconfig, **how: Any) -> Operator:
        made = Operator(kubeconfig, world.namespace, identity, tmp_path, *options, **how)
        started.append(made)
        return made

    yield one
    for operator in started:
        operator.kill()


@pytest.fixture(scope="session")
def redis_server() -> Iterator[RedisServer]:
    """For tests that do it no harm."""
    with RedisServer() as running:
        yield running
