"""Clusters for the tests that need one: started when first asked for, stopped when the tests are over or another kind is needed."""

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
