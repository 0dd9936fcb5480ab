"""Owner records deleted at a queue: the operator grants again above the ledger's epochs, which wakes waiting readers."""

from collections.abc import Callable

import pytest
from redis import Redis

from baton.queues.redis import RedisProducer, RedisReader, wakeup
from baton.queues.redis.keys import partition_keys
from tests.integration.operator.conftest import namespace
from tests.integration.operator.world import SHOP, Cluster, Operator, World
from tests.integration.redis.test_waiting import Waiting
from tests.redis_server import RedisServer
from tests.waiting import HOUR, eventually, until


async def test_a_waiting_reader_is_woken_after_its_record_and_wake_stream_were_deleted(
    shop: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(wakeup, "_LONGEST_BLOCK", HOUR)
    with RedisServer() as server, RedisProducer(server.url, f"{SHOP}/records-deleted", patience=60) as producer:
        limits = {"maxRedeliveries": 3, "maxDeliveredUnacked": 7}
        (uid,) = await shop.fleet("records-deleted", url=server.url, partitions=1, queue=limits)
        (epochs,) = (await shop.owned("records-deleted")).values()
        keys = partition_keys(f"{SHOP}/records-deleted", 0)
        with (
            RedisReader(server.url, f"{SHOP}/records-deleted", uid) as reader,
            Redis.from_url(server.url, decode_responses=True) as raw,
        ):
            assert reader.read(0, epochs[0]) == []
            waiting = Waiting(reader, 0)
            until(lambda: raw.info("clients")["blocked_clients"], "the wait blocks")
            raw.delete(keys.owner)
            raw.xtrim(keys.wake, maxlen=0, approximate=False)
            producer.send("key", "value")
            assert waiting.result() == {0}

            async def granted_again() -> bool:
                epochs.update(*(await shop.owned("records-deleted")).values())
                found = raw.hmget(keys.owner, "uid", "epoch", "maxRedeliveries", "maxDeliveredUnacked")
                return bool(found == [uid, str(epochs[0]), "3", "7"])

            before = epochs[0]
            await eventually(
                granted_again, "record and limits are there again", shown=lambda: shop.ledger_data("records-deleted")
            )
            assert epochs[0] > before
            assert [entry.value for entry in reader.read(0, epochs[0])] == [b"value"]


# -- That the number of partitions has changed is told, also where the operator in office saw nothing but the end.


NAME = "resized"


async def test_the_end_of_a_resize_is_reported_after_a_killed_leader_and_within_one_look(
    api: Cluster, start: Callable[..., Operator]
) -> None:
    world = await namespace(api, NAME)
    operator = await start(world, "first").leads()
    with RedisServer() as server:
        (uid,) = await world.fleet(NAME, "a", url=server.url, partitions=2)
        owned = (await world.owned(NAME))["a"]
        with RedisProducer(server.url, f"{NAME}/{NAME}") as producer, RedisReader(server.url, f"{NAME}/{NAME}", uid) as reader:
            producer.send_many((f"key-{number}", "x") for number in range(100))
            in_hand = {number: reader.read(number, epoch) for number, epoch in owned.items()}
            assert all(in_hand.values())
            await world.change("partitionedqueues", NAME, {"spec": {"partitions": 3}})
            await world.told(NAME, "Resizing", "partitionedqueues", kind="Resized", says="waits until")
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


async def told(world: World, count: int) -> None:
    """Wait until an event reports this number of partitions."""

    async def so() -> bool:
        return any(f"{NAME} has {count} partitions" in event["note"] for event in await world.events("Resized"))

    await eventually(so, f"it is told that {NAME} has {count} partitions", shown=lambda: world.events("Resized"))
