"""A shop on the machine's node, with the operator of this checkout."""

from collections.abc import Iterator

import pytest

from cluster import Cluster
from tests.e2e.spark.shop import Shop
from tests.redis_server import RedisServer


@pytest.fixture
def shop(node: Cluster) -> Iterator[Shop]:
    """A shop, removed at the end after its state was printed, which pytest shows if the test has failed."""
    with RedisServer(bind=node.address) as redis:
        made = Shop(node, redis)
        try:
            made.install_operator()
            yield made
        finally:
            print(made.story())
            made.remove()
            made.uninstall_operator()
