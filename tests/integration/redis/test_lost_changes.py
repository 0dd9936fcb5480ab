"""Records are deleted, or the server loses its last writes, while the partition count changes."""

from collections.abc import Callable

import pytest
import redis

from baton.model.ids import Epoch, Uid
from baton.queues.protocol import QueueUnreachable, Resizing
from baton.queues.redis import scripts
from baton.queues.redis.keys import partition_keys, queue_key
from baton.queues.redis.records import ResizeRecord
from baton.queues.redis.routing import RoutingTable, slot_of
from tests.integration.redis.conftest import Queue, make_queue, own_queue
from tests.integration.redis.test_resizing import ONE, accepted_once, finish, key
from tests.redis_command import history_of
from tests.redis_server import RedisServer


async def test_a_deleted_queue_record_is_restored_from_its_partitions(queue: Queue, raw: redis.Redis) -> None:
    for count in (3, 1, 4, 2):
        await queue.operator.ensure(count)
    before = raw.hget(queue_key(queue.name), "table")
    for wanted in (2, 5):
        raw.delete(queue_key(queue.name))
        assert await queue.operator.ensure(wanted) is None
        if wanted == 2:
            assert raw.hget(queue_key(queue.name), "table") == before
        assert (await queue.operator.check()).partitions == wanted
        accepted_once(raw, queue.name, 5)
    assert (await queue.operator.check()).owners == {}


async def test_a_change_continues_after_the_queue_record_was_deleted(queue: Queue, raw: redis.Redis) -> None:
    owner, new = await queue.granted("pod", 1), await queue.granted("new", 1, 2)
    queue.send("before")
    await queue.operator.ensure(3)
    queue.producer.send(key(0, 2), "after")
    raw.delete(queue_key(queue.name))
    resizing = await queue.operator.ensure(3)
    assert resizing is not None and resizing.waits_for == (0,)
    assert finish(new, 2) == []
    assert finish(owner, 0) == [b"before"]
    assert await queue.operator.ensure(3) is None
    assert finish(new, 2) == [b"after"]
    accepted_once(raw, queue.name, 3)


async def test_slots_that_were_sealed_and_never_opened_come_back_with_the_record(queue: Queue, raw: redis.Redis) -> None:
    assert scripts.SEAL.run(raw, partition_keys(queue.name, 0), [history_of(raw), 2, slot_of(key(0, 0))]) == 1
    raw.delete(queue_key(queue.name))
    await queue.operator.ensure(2)
    accepted_once(raw, queue.name, 2)


SEALED = {
    "growing": (2, 5, 5),
    "shrinking": (5, 2, 2),
    "in part": (2, 5, 5),
    "turned back": (5, 2, 5),
}


@pytest.mark.parametrize("case", SEALED)
async def test_sealed_slots_keep_their_order_after_the_record_was_deleted(
    new_name: Callable[[], str], server: RedisServer, case: str
) -> None:
    before, after, asked = SEALED[case]
    queue = await make_queue(server.url, before, new_name())
    readers = [await queue.granted(f"pod-{partition}", 1, partition) for partition in range(5)]
    table = RoutingTable.even(1, before)
    change = ResizeRecord(table, table.resized(after), after, published=False)
    keys = {slot_of(b"key-%d" % n): b"key-%d" % n for n in range(20_000)}
    moving = [slot for slots in change.leaving.values() for slot in slots]
    queue.producer.send_many((keys[slot], "1") for slot in moving)
    with queue.raw() as raw:
        history = history_of(raw)
        for source, slots in change.leaving.items():
            assert scripts.SEAL.run(raw, partition_keys(queue.name, source), [history, change.version, *slots]) == 1
        if case == "in part":
            (source, target), slots = next(iter(change.ways.items()))
            scripts.OPEN.run(raw, partition_keys(queue.name, target), [history, change.version, source, *slots[::2]])
        raw.delete(queue_key(queue.name))
    await queue.operator.ensure(asked)
    queue.producer.send_many((keys[slot], "2") for slot in moving)
    found: list[tuple[bytes, bytes]] = []
    for _ in range(4):
        for partition in reversed(range((await queue.operator.check()).partitions or 0)):
            while entries := readers[partition].read(partition, ONE):
                readers[partition].ack(partition, ONE, [entry.offset for entry in entries])
                found += [(entry.key, entry.value) for entry in entries]
        await queue.operator.ensure(asked)
    assert await queue.operator.ensure(asked) is None
    assert [key for key in (keys[slot] for slot in moving) if [v for k, v in found if k == key] != [b"1", b"2"]] == []
    with queue.raw() as raw:
        accepted_once(raw, queue.name, 5)
    await queue.close()


async def test_slots_deleted_at_their_new_partition_wait_there_again(queue: Queue, raw: redis.Redis) -> None:
    owners = [await queue.granted(f"pod-{partition}", 1, partition) for partition in range(3)]
    moves, others = key(0, 2), key(1, 2)
    queue.producer.send(moves, "1")
    await queue.operator.ensure(3)
    queue.producer.send(moves, "2")
    raw.delete(partition_keys(queue.name, 2).slots)
    await queue.operator.check()
    assert await queue.operator.ensure(3) == Resizing(2, 3, (0,))
    queue.producer.send_many([(moves, "3"), (others, "1")])
    assert await queue.operator.ensure(3) == Resizing(2, 3, (0,))
    assert finish(owners[2], 2) == [b"1"], "nothing of theirs was to wait for"
    assert finish(owners[0], 0) == [b"1"]
    assert await queue.operator.ensure(3) is None
    assert finish(owners[2], 2) == [b"2", b"3"]


async def test_entries_moved_before_a_rollback_come_again_as_redelivered(new_name: Callable[[], str]) -> None:
    async with own_queue(2, new_name(), append_only=False) as (server, queue):
        owner, new = await queue.granted("pod", 1), await queue.granted("new", 1, 2)
        queue.send("before")
        await queue.operator.ensure(3)
        queue.producer.send_many((key(0, 2), value) for value in ("1", "2"))
        finish(owner, 0)
        with queue.raw() as raw:
            raw.save()
        assert await queue.operator.ensure(3) is None
        assert [(entry.value, entry.redelivered) for entry in new.read(2, ONE)] == [(b"1", False), (b"2", False)]
        server.kill()
        server.start()
        assert await resizing(queue) is None
        await queue.operator.grant(2, Uid("new"), Epoch(2))
        assert [(entry.value, entry.redelivered) for entry in new.read(2, Epoch(2))] == [(b"1", True), (b"2", True)]
        queue.producer.send(key(0, 2), "3")
        assert [(entry.value, entry.redelivered) for entry in new.read(2, Epoch(2))] == [(b"3", False)]


async def resizing(queue: Queue) -> Resizing | None:
    """Call ensure until the restarted server answers."""
    while True:
        try:
            return await queue.operator.ensure(3)
        except QueueUnreachable:
            pass


@pytest.mark.parametrize("deleted", ["stage:2.0", "progress:0"])
async def test_the_backlog_is_counted_correctly_after_a_change(queue: Queue, deleted: str, raw: redis.Redis) -> None:
    owner, new = await queue.granted("pod", 1), await queue.granted("new", 1, 2)
    queue.send("before")
    await queue.operator.ensure(3)
    queue.producer.send_many((key(0, 2), str(number)) for number in range(5))
    finish(owner, 0)
    raw.delete(f"pq:{{{queue.name}}}:2:{deleted}")
    while await queue.operator.ensure(3) is not None:
        pass
    assert (await queue.operator.check()).lag[2] == (0 if deleted.startswith("stage") else 5)
    finish(new, 2)
    assert (await queue.operator.check()).lag[2] == 0
