"""The operator finds a queue's primary by its Sentinels, with the URL from a Secret."""

import asyncio

from baton.queues.protocol import Claimant
from baton.queues.redis import RedisQueue
from tests.integration.operator.reassertion import goes_on
from tests.integration.operator.world import SHOP, World
from tests.watched_redis import watched_redis


async def test_owners_are_asserted_again_at_the_primary_that_sentinels_promote(shop: World) -> None:
    with watched_redis() as watched:
        await shop.secret("promoted-redis", watched.url())
        await shop.queue("promoted", {"type": "Redis", "redis": {"urlSecretRef": {"name": "promoted-redis"}}}, 4)
        await shop.group("promoted")
        a = await shop.pod("promoted-a", "promoted")
        await shop.spread("promoted", 4)
        queue = RedisQueue(watched.url(), f"{SHOP}/promoted", Claimant(f"{SHOP}/promoted", "a test"))
        before = (await queue.check()).owners
        await asyncio.to_thread(watched.fail_over, crash=True)
        await goes_on(shop, "promoted", queue, a, before)
        await queue.close()
