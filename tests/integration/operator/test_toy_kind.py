"""The API server takes a PartitionedQueue of a kind that was added by its folder and a line, and refuses what that forbids."""

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from baton.kube.errors import ApiError, UnavailableError
from tests.integration.operator.world import Cluster
from tests.unit.queues.toy_tree import run_in, tree_with_the_toy
from tests.waiting import eventually

GROUP = "toy.example"
"""The other tests have the CRD as it is."""
CRDS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
QUEUES = f"/apis/{GROUP}/v1alpha1/namespaces/default/partitionedqueues"


@pytest.fixture
async def served(api: Cluster, tmp_path: Path) -> AsyncIterator[Cluster]:
    run_in(tree_with_the_toy(tmp_path), "-m", "baton.api.generate")
    text = (tmp_path / "crds" / "baton.dev_partitionedqueues.yaml").read_text()
    wanted = yaml.safe_load(text.replace("baton.dev", GROUP))
    await api.create(CRDS, wanted)

    async def there() -> bool:
        try:
            return await api.find(QUEUES) is not None
        except UnavailableError:  # its storage begins
            return False

    await eventually(there, "the API server serves the resource")
    yield api
    await api.delete(f"{CRDS}/{wanted['metadata']['name']}")


async def test_an_added_kind_of_queue_is_validated_by_the_api_server(served: Cluster) -> None:
    async def create(name: str, partitions: int = 4, **toy: Any) -> None:
        spec = {"source": {"type": "Toy", **toy}, "partitions": partitions}
        await served.create(
            QUEUES, {"apiVersion": f"{GROUP}/v1alpha1", "kind": "PartitionedQueue", "metadata": {"name": name}, "spec": spec}
        )

    await create("orders", toy={"server": "one"})
    for refused, said in (
        ({}, "spec.source.type Toy needs spec.source.toy.server"),
        ({"toy": {}}, "spec.source.toy.server: Required value"),
        ({"toy": {"server": "a@b"}}, "spec.source.toy.server has no user: take it out"),
        ({"toy": {"server": "one"}, "partitions": 9}, "a Toy queue has at most 8 partitions"),
        (
            {"toy": {"server": "one"}, "redis": {"url": "redis://redis"}},
            "spec.source.redis belongs to spec.source.type Redis only",
        ),
    ):
        with pytest.raises(ApiError) as error:
            await create("refused", **refused)
        assert error.value.status == 422 and said in str(error.value)
