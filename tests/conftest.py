"""For all tests: clusters, started when first asked for and stopped when all is over; and hypothesis, which plays the same
examples every time, on machines of any speed, unless HYPOTHESIS_PROFILE=explore asks for many new ones."""

import os
from collections.abc import Iterator

import pytest
from hypothesis import HealthCheck, settings

from tests.cluster import Cluster

settings.register_profile("same", derandomize=True, deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.register_profile("explore", deadline=None, max_examples=5000, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "same"))


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
