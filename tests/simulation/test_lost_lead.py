"""What a replica keeps of groups that another leads by now: nothing."""

import asyncio

from baton.controller.supervision import CANCEL_AGAIN
from baton.kube.leases import leases_path
from tests.simulation.one_replica import OneReplica, in_virtual_time
from tests.unit.controller.memory_queue import MemoryQueue


class SlowToClose(MemoryQueue):
    async def close(self) -> None:
        await super().close()
        await asyncio.sleep(2.5 * CANCEL_AGAIN)


@in_virtual_time
async def test_a_group_that_is_cancelled_again_while_its_queues_close_leaves_no_metrics(world: OneReplica) -> None:
    world.queues["orders"] = SlowToClose()
    world.queue("orders")
    world.group("orders")
    world.pod("a")
    await world.until_told("Ready")
    assert world.metric("baton_moving_partitions", namespace="shop", group="orders") == 0.0
    lease = leases_path("baton-system", "operator")
    taken = {"holderIdentity": "another", "leaseDurationSeconds": 3600, "leaseTransitions": 7}
    world.server.request("patch", lease, body={"metadata": {}, "spec": taken})
    await world.until(lambda: asyncio.sleep(0, world.replica.elector.leading), False)
    await asyncio.sleep(10 * CANCEL_AGAIN)
    assert world.metric("baton_moving_partitions", namespace="shop", group="orders") is None
