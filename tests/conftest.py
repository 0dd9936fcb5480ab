"""Clusters for the tests that need one: started when first asked for, stopped when all tests are over."""

from collections.abc import Iterator

import pytest

from tests.cluster import Cluster


@pytest.fixture(scope="session")
def control_plane() -> Iterator[Cluster]:
    """An API server with its controllers, without a node: pods are objects that nothing runs."""
    with Cluster(node=False) as cluster:
        yield cluster


@pytest.fixture(scope="session")
def node() -> Iterator[Cluster]:
    """A cluster with one node that runs pods."""
    with Cluster(node=True) as cluster:
        yield cluster


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """First the tests that start nodes of their own: there is room for one at a time, and the others' stays to the end."""
    items.sort(key=lambda item: item.get_closest_marker("own_node") is None)
