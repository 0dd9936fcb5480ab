"""The operator on a Redis Cluster: a queue whose slot moves to another node, and announcements that are on another one."""

from baton.queues.protocol import Claimant
from baton.queues.redis import RedisQueue
from baton.queues.redis.keys import queue_key
from tests.clustered_redis import clustered_redis
from tests.integration.operator.reassertion import goes_on
from tests.integration.operator.world import SHOP, World


async def test_owners_are_asserted_again_at_the_node_that_a_queue_moves_to(shop: World) -> None:
    with clustered_redis() as cluster:
        await shop.redis("clustered", cluster.url(), 4)
        await shop.group("clustered")
        a = await shop.pod("clustered-a", "clustered")
        await shop.spread("clustered", 4)
        queue = RedisQueue(cluster.url(), f"{SHOP}/clustered", Claimant(f"{SHOP}/clustered", "a test"))
        before = (await queue.check()).owners
        key = queue_key(f"{SHOP}/clustered")
        with cluster.moving(key, cluster.other(key), lambda keys: keys[::2]):
            await shop.told("clustered", "QueueUnreachable")
        await goes_on(shop, "clustered", queue, a, before)
        await queue.close()
