"""Many groups whose queues are at one Redis, beside some at a Redis that hangs: counts, which a busy machine changes little."""

from typing import Any

from tests.bench.scale.fleet import Extent
from tests.bench.scale.place import Report, place
from tests.integration.operator.world import KEEPS
from tests.redis_server import RedisServer

GROUPS, CONNECTIONS = 40, 16


async def test_forty_groups_on_one_redis_are_settled_over_sixteen_connections() -> None:
    with RedisServer() as server, server.client() as raw:
        source = {"type": "Redis", "redis": {"url": server.url}}
        before = _connected(raw)
        async with place(Report(GROUPS, 0, 1200), Extent(GROUPS, pods=2, heartbeat=1200), source) as here:
            async with here.operator(options=KEEPS) as operator:
                await here.converged(operator)
                assert here.fleet.unsettled == 0
                assert await here.fleet.wrong() == {}
                assert _connected(raw) - before <= CONNECTIONS
            assert here.fleet.epochs.broken == []


def _connected(raw: Any) -> int:
    """Connections that were made, until now."""
    return int(raw.info("stats")["total_connections_received"])
