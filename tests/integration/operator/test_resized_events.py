"""That the number of partitions has changed is told, also where the operator in office saw nothing but the end."""

from collections.abc import Callable

from baton.queues.redis import RedisProducer, RedisReader
from tests.integration.operator.conftest import namespace
from tests.integration.operator.world import Cluster, Operator, World
from tests.redis_server import RedisServer
from tests.waiting import eventually

NAME = "resized"


async def test_the_end_of_a_change_is_told_though_who_led_was_killed_and_though_it_took_one_look_only(
    api: Cluster, start: Callable[..., Operator]
) -> None:
    world = await namespace(api, NAME)
    operator = await start(world, "first").leads()
    with RedisServer() as server:
        await world.redis(NAME, server.url, partitions=2)
        await world.group(NAME)
        uid = await world.pod("a", NAME)
        await world.spread(NAME, 2)
        owned = (await world.owned(NAME))["a"]
        with RedisProducer(server.url, f"{NAME}/{NAME}") as producer, RedisReader(server.url, f"{NAME}/{NAME}", uid) as reader:
            producer.send_many((f"key-{number}", "x") for number in range(100))
            in_hand = {number: reader.read(number, epoch) for number, epoch in owned.items()}
            assert all(in_hand.values())
            await world.change("partitionedqueues", NAME, {"spec": {"partitions": 3}})
            await waits(world)
            operator.kill()
            for number, epoch in owned.items():
                entries = in_hand[number]
                while entries:
                    reader.ack(number, epoch, [entry.offset for entry in entries])
                    entries = reader.read(number, epoch)
        await start(world, "second").leads()
        await told(world, 3)
        await world.change("partitionedqueues", NAME, {"spec": {"partitions": 4}})
        await told(world, 4)


async def waits(world: World) -> None:
    """Wait until the condition Resized says that the change waits for entries."""

    async def so() -> bool:
        return "waits until" in (await world.condition(NAME, "Resized", "partitionedqueues"))["message"]

    await eventually(so, "the change waits", shown=lambda: world.condition(NAME, "Resized", "partitionedqueues"))


async def told(world: World, count: int) -> None:
    """Wait until an event says that there are so many partitions."""

    async def so() -> bool:
        return any(f"{NAME} has {count} partitions" in event["note"] for event in await world.events("Resized"))

    await eventually(so, f"it is told that {NAME} has {count} partitions", shown=lambda: world.events("Resized"))
