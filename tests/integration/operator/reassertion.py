"""What is to be seen after a queue came back elsewhere: a former primary, or the node that had it, may have missed grants."""

from collections.abc import Mapping

from baton.model.ids import Uid
from baton.queues.protocol import Ownership, QueueUnreachable
from baton.queues.redis import RedisQueue
from tests.integration.operator.world import World
from tests.waiting import eventually


async def goes_on(world: World, name: str, queue: RedisQueue, owner: Uid, before: Mapping[int, Ownership]) -> None:
    """The group of this name grants its four partitions to their owner again, above the former epochs, and half of them to a
    second pod."""

    async def asserted() -> bool:
        try:
            after = (await queue.check()).owners
        except QueueUnreachable:
            return False
        return all(one.uid == owner and one.epoch > before[partition].epoch for partition, one in after.items())

    await eventually(asserted, "all partitions are granted again, above the former epochs", shown=queue.check)
    await world.told(name, "Ready")
    await world.pod(f"{name}-b", name)
    await world.spread(name, 2, 2)
    await world.told(name, "Ready")
