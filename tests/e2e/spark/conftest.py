"""A shop on the machine's node, with the operator of this checkout."""

from collections.abc import Iterator

import pytest

from cluster import Cluster
from tests.e2e.spark.shop import Shop
from tests.redis_server import RedisServer


@pytest.fixture
def shop(node: Cluster) -> Iterator[Shop]:
    """Removed at the end, after its story was printed: pytest shows it where the test has failed."""
    with RedisServer(bind=node.address) as redis:
        made = Shop(node, redis)
        try:
            made.install_operator()
            yield made
        finally:
            print(made.story())
            made.remove()
            made.uninstall_operator()
