"""What a script costs the server, which serves nobody else meanwhile: by the server's own account of its time."""

from typing import Any

import pytest
from tests.integration.redis.conftest import Queue

from baton.model.ids import Epoch

pytestmark = pytest.mark.integration

TIMES = 20


async def test_reading_and_acknowledging_cost_the_same_however_much_a_former_owner_left(queue: Queue) -> None:
    costs = []
    for partition, left in enumerate((10, 10_000)):
        queue.send(*map(str, range(left + 2 * TIMES)), partition=partition)
        former = await queue.granted("former", 1, partition)
        for _ in range(0, left, 1000):
            former.read(partition, Epoch(1), min(left, 1000))
        owner = await queue.granted("owner", 2, partition)
        before = _spent(queue)
        for _ in range(TIMES):
            entries = owner.read(partition, Epoch(2), 1)
            owner.ack(partition, Epoch(2), [entry.offset for entry in entries])
        costs.append(_spent(queue) - before)
        assert await queue.operator.outstanding(partition) == 0
    assert costs[1] < 10 * costs[0], "microseconds of the server's CPU for the same work"


def _spent(queue: Queue) -> int:
    """Microseconds that the server has spent in scripts."""
    with queue.raw() as raw:
        commands: Any = raw.info("commandstats")
    return int(commands.get("cmdstat_evalsha", {}).get("usec", 0)) + int(commands.get("cmdstat_eval", {}).get("usec", 0))
