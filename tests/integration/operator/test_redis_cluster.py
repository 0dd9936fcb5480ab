"""The operator on a Redis Cluster: a queue whose slot moves to another node, and announcements that are on another one."""

from tests.clustered_redis import clustered_redis
from tests.integration.operator.world import World
from tests.waiting import eventually

from baton.queues.protocol import Claimant, QueueUnreachable
from baton.queues.redis import RedisQueue
from baton.queues.redis.keys import queue_key


async def test_owners_are_asserted_again_at_the_node_that_a_queue_moves_to(shop: World) -> None:
    with clustered_redis() as cluster:
        await shop.redis("clustered", cluster.url(), 4)
        await shop.group("clustered")
        a = await shop.pod("clustered-a", "clustered")
        await shop.spread("clustered", 4)
        queue = RedisQueue(cluster.url(), "shop/clustered", Claimant("shop/clustered", "a test"))
        before = await queue.owners()
        key = queue_key("shop/clustered")
        with cluster.moving(key, cluster.other(key), lambda keys: keys[::2]):
            await shop.told("clustered", "QueueUnreachable")

        async def asserted() -> bool:
            try:
                after = await queue.owners()
            except QueueUnreachable:
                return False
            return all(owner.uid == a and owner.epoch > before[partition].epoch for partition, owner in after.items())

        await eventually(asserted, "all partitions are granted again, above the former epochs", shown=queue.owners)
        await shop.told("clustered", "Ready")
        await shop.pod("clustered-b", "clustered")
        await shop.spread("clustered", 2, 2)
        await shop.told("clustered", "Ready")
        await queue.close()
