"""The operator finds a queue's primary by its Sentinels, with the URL from a Secret."""

import asyncio

from tests.integration.operator.world import World
from tests.waiting import eventually
from tests.watched_redis import watched_redis

from baton.queues.protocol import Claimant, QueueUnreachable
from baton.queues.redis import RedisQueue


async def test_owners_are_asserted_again_at_the_primary_that_sentinels_promote(shop: World) -> None:
    with watched_redis() as watched:
        await shop.secret("watched-redis", watched.url())
        await shop.queue("watched", {"type": "Redis", "redis": {"urlSecretRef": {"name": "watched-redis"}}}, 4)
        await shop.group("watched")
        a = await shop.pod("watched-a", "watched")
        await shop.spread("watched", 4)
        queue = RedisQueue(watched.url(), "shop/watched", Claimant("shop/watched", "a test"))
        before = await queue.owners()
        await asyncio.to_thread(watched.fail_over, crash=True)

        async def asserted() -> bool:
            try:
                after = await queue.owners()
            except QueueUnreachable:
                return False
            return all(owner.uid == a and owner.epoch > before[partition].epoch for partition, owner in after.items())

        await eventually(asserted, "all partitions are granted again, above the former epochs", shown=queue.owners)
        await shop.told("watched", "Ready")
        await shop.pod("watched-b", "watched")
        await shop.spread("watched", 2, 2)
        await shop.told("watched", "Ready")
        await queue.close()
