"""Owners that others write or delete at a queue, and a queue of another cluster's group on the same Redis."""

from collections.abc import Callable

import pytest
from redis import Redis

from baton.model.ids import Epoch, Uid
from baton.queues.protocol import Claimant, Ownership, QueueConflict
from baton.queues.redis import RedisProducer, RedisQueue, RedisReader, wakeup
from baton.queues.redis.keys import partition_keys
from tests.integration.operator.conftest import namespace
from tests.integration.operator.world import SHOP, Cluster, Operator, World
from tests.integration.redis.test_waiting import Waiting
from tests.redis_server import RedisServer
from tests.waiting import HOUR, eventually, until

OLD_UID = "11111111-2222-3333-4444-555555555555"


@pytest.fixture
async def ours(api: Cluster, start: Callable[..., Operator]) -> World:
    world = await namespace(api, "twin")
    await start(world, "ours").leads()
    return world


async def fleet(world: World, name: str, server: RedisServer, pod: str) -> None:
    """A queue, a group of its name and one pod."""
    await world.redis(name, server.url, partitions=4)
    await world.group(name)
    await world.pod(pod, name)


async def owners(name: str, server: RedisServer) -> dict[int, Ownership]:
    queue = RedisQueue(server.url, f"twin/{name}", Claimant(f"twin/{name}", "a test"))
    try:
        return dict((await queue.check()).owners)
    finally:
        await queue.close()


async def test_another_clusters_queue_is_left_alone_until_it_is_released(ours: World, redis_server: RedisServer) -> None:
    other = RedisQueue(redis_server.url, "twin/orders", Claimant("twin/orders", OLD_UID))
    await other.ensure(4)
    await other.grant(0, Uid("a-pod-elsewhere"), Epoch(7))
    before = await owners("orders", redis_server)
    await fleet(ours, "orders", redis_server, "a")
    message = await ours.told("orders", "Conflict")
    assert f"belongs to another ConsumerGroup twin/orders, with the uid {OLD_UID}" in message
    assert f"kubectl annotate consumergroup orders -n twin --overwrite baton.dev/take-over={OLD_UID}" in message
    assert not any((await ours.counts("orders")).values())
    await ours.delete("consumergroups", "orders")
    await ours.gone("orders")
    assert await owners("orders", redis_server) == before, "what goes is not its own"
    await ours.group("orders")
    await ours.told("orders", "Conflict")
    await other.grant(0, None, Epoch(8))
    await other.release()
    await other.close()
    await ours.spread("orders", 4)
    await ours.told("orders", "Ready")


async def test_a_recreated_group_takes_its_queue_over_only_on_request(ours: World, redis_server: RedisServer) -> None:
    earlier = RedisQueue(redis_server.url, "twin/again", Claimant("twin/again", OLD_UID))
    await earlier.ensure(4)
    await earlier.grant(0, Uid("an-old-pod"), Epoch(7))
    await fleet(ours, "again", redis_server, "e")
    assert OLD_UID in await ours.told("again", "Conflict")
    await ours.change("consumergroups", "again", {"metadata": {"annotations": {"baton.dev/take-over": OLD_UID}}})
    await ours.spread("again", 4)
    (grants,) = (await ours.owned("again")).values()
    assert grants[0] > 7
    with pytest.raises(QueueConflict):
        await earlier.ensure(4)
    await earlier.close()


async def test_foreign_owner_records_are_replaced_by_higher_grants(ours: World, redis_server: RedisServer) -> None:
    await fleet(ours, "drift", redis_server, "f")
    await ours.spread("drift", 4)
    stranger = RedisQueue(redis_server.url, "twin/drift", Claimant("twin/drift", "a test"))
    await stranger.grant(2, Uid("a-pod-elsewhere"), Epoch(30))
    await stranger.close()

    async def granted_again() -> bool:
        (grants,) = (await ours.owned("drift")).values()
        found = await owners("drift", redis_server)
        return len(grants) == 4 and grants[2] > 30 and {n: one.epoch for n, one in found.items()} == grants

    await eventually(granted_again, "it is granted again", shown=lambda: ours.ledger_data("drift"))
    assert "1 partition" in await ours.event("OwnersRestored", "drift")


# -- Owner records deleted at a queue: the operator grants again above the ledger's epochs, which wakes waiting readers.


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


# -- That the number of partitions has changed is reported, also where the operator in office saw nothing but the end.


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
        await reported(world, 3)
        await world.change("partitionedqueues", NAME, {"spec": {"partitions": 4}})
        await reported(world, 4)


async def reported(world: World, count: int) -> None:
    """Wait until an event reports this number of partitions."""

    async def so() -> bool:
        return any(f"{NAME} has {count} partitions" in event["note"] for event in await world.events("Resized"))

    await eventually(so, f"it is reported that {NAME} has {count} partitions", shown=lambda: world.events("Resized"))
