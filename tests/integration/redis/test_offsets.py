"""Offsets of a group in a Redis queue, and offsets set by hand: earlier entries are finished unread."""

import time
from typing import cast

import pytest
import redis

from baton.model.ids import Epoch
from baton.queues.fence import PartitionPaused
from baton.queues.logged_ranges import Gone, LaterQuery
from baton.queues.offsets import PartitionOffsets, Reached
from baton.queues.protocol import Claimant, QueueConflict
from baton.queues.redis import RedisQueue, RedisReader
from baton.queues.redis.keys import entry_number, partition_keys
from baton.queues.redis.ranges import RedisRanges
from tests.integration.redis.conftest import Queue
from tests.integration.redis.logged import Query, RefusedError
from tests.waiting import eventually


def numbers(raw: redis.Redis, queue: Queue) -> list[int]:
    """Return the numbers of the existing entries."""
    found = cast("list[tuple[bytes, dict[bytes, bytes]]]", raw.xrange(partition_keys(queue.name, 0).stream))
    return [entry_number(entry_id) for entry_id, _ in found]


async def offsets(queue: Queue) -> PartitionOffsets:
    return (await queue.operator.offsets())[0]


def read(reader: RedisReader, epoch: int) -> list[bytes]:
    return [entry.value for entry in reader.read(0, Epoch(epoch))]


async def test_an_absent_queue_has_no_offsets(queue: Queue) -> None:
    nothing = RedisQueue(queue.url, f"{queue.name}-nothing", Claimant("shop/g", "u"))
    assert await nothing.offsets() == {}
    await nothing.close()


async def test_the_offset_is_that_of_the_first_unacknowledged_entry(queue: Queue, raw: redis.Redis) -> None:
    empty = await offsets(queue)
    assert empty.committed == empty.earliest == empty.end and (empty.lag, empty.pending) == (0, 0)
    queue.send("a", "b", "c", "d")
    reader = await queue.granted("a", 1)
    first, *_, last = numbers(raw, queue)
    assert await offsets(queue) == PartitionOffsets(first, first, last + 1, 4, 0)
    entries = reader.read(0, Epoch(1), 3)
    reader.ack(0, Epoch(1), [entries[1].offset])
    assert await offsets(queue) == PartitionOffsets(first, first, last + 1, 3, 2)
    reader.ack(0, Epoch(1), [entries[0].offset])
    assert await offsets(queue) == PartitionOffsets(first + 2, first + 2, last + 1, 2, 1)
    assert (await queue.operator.check()).lag[0] == 2


async def test_the_age_of_the_oldest_entry_grows_while_nothing_is_done(queue: Queue) -> None:
    assert (await queue.operator.check()).oldest is None
    sent = time.monotonic()
    queue.send("a", "b")

    async def older() -> bool:
        oldest = (await queue.operator.check()).oldest
        return oldest is not None and 1 < oldest <= time.monotonic() - sent + 0.1

    await eventually(older, "the oldest entry grows older")
    reader = await queue.granted("a", 1)
    reader.ack(0, Epoch(1), [reader.read(0, Epoch(1), 1)[0].offset])
    assert (await queue.operator.check()).oldest is None, "an entry was done since the last look"
    assert cast("float", (await queue.operator.check()).oldest) > 1


async def test_reading_offsets_writes_nothing(queue: Queue, raw: redis.Redis) -> None:
    queue.send("a", "b")
    before = {key: raw.dump(key) for key in sorted(cast("list[bytes]", raw.keys(f"pq:{{{queue.name}}}*")))}
    found = await offsets(queue)
    await queue.operator.reach(0, found.end, 0)
    assert {key: raw.dump(key) for key in sorted(cast("list[bytes]", raw.keys(f"pq:{{{queue.name}}}*")))} == before


async def test_entries_before_a_time_are_counted_one_by_one(queue: Queue, raw: redis.Redis) -> None:
    """Times may be out of order: only a beginning that is older as a whole is skipped."""
    stream = partition_keys(queue.name, 0).stream
    queue.send("a")
    (first,) = numbers(raw, queue)
    raw.delete(stream)
    times = [1000, 2000, 5000, 1500, 6000]
    for place, when in enumerate(times):
        raw.xadd(stream, {"k": "k", "v": "v", "t": when}, id=f"{first + place}-0")
    raw.hset(partition_keys(queue.name, 0).progress, "last", first + 4)
    end = first + 5
    assert await queue.operator.reach(0, end, 0) == Reached(first, 0)
    assert await queue.operator.reach(0, end, 1001) == Reached(first + 1, 1)
    assert await queue.operator.reach(0, end, 5000) == Reached(first + 2, 2)
    assert await queue.operator.reach(0, end, 5001) == Reached(first + 4, 4)
    assert await queue.operator.reach(0, end, 6001) == Reached(end, 5)
    assert await queue.operator.reach(0, first + 3) == Reached(first + 3, 3)


async def test_entries_are_counted_over_several_scripts(queue: Queue) -> None:
    queue.send(*(str(number) for number in range(2500)))
    end = (await offsets(queue)).end
    assert (await queue.operator.reach(0, end, round(time.time() * 1000) + 60_000)) == Reached(end, 2500)


async def test_entries_before_a_set_offset_are_neither_read_nor_dead_letters(queue: Queue, raw: redis.Redis) -> None:
    queue.send("a", "b", "c", "d")
    former = await queue.granted("former", 1)
    former.read(0, Epoch(1), 2)
    third = numbers(raw, queue)[2]
    for _ in range(2):
        await queue.operator.set_offset(0, Epoch(1), third)
        assert await offsets(queue) == PartitionOffsets(third, third, third + 2, 2, 0)
    assert read(await queue.granted("next", 2), 2) == [b"c", b"d"]
    assert (await queue.dead_letters())[0] == 0
    queue.send("e")
    assert read(queue.reader("next"), 2)[-1] == b"e"


async def test_an_offset_at_the_end_skips_a_long_backlog(queue: Queue) -> None:
    queue.send(*(str(number) for number in range(12_000)))
    owner = await queue.granted("former", 1)
    owner.ack(0, Epoch(1), [entry.offset for entry in owner.read(0, Epoch(1), 50)][::2])  # leaves a gap in the numbers
    end = (await offsets(queue)).end
    await queue.operator.set_offset(0, Epoch(1), end)
    assert await offsets(queue) == PartitionOffsets(end, end, end, 0, 0)
    assert (await queue.operator.check()).lag[0] == 0
    queue.send("new")
    assert read(await queue.granted("next", 2), 2) == [b"new"]


async def test_after_a_set_offset_the_former_owner_reads_nothing(queue: Queue, raw: redis.Redis) -> None:
    queue.send("a", "b", "c")
    former = await queue.granted("former", 1)
    (first,) = former.read(0, Epoch(1), 1)
    await queue.operator.set_offset(0, Epoch(1), numbers(raw, queue)[1])
    with pytest.raises(PartitionPaused):
        former.read(0, Epoch(1))
    former.ack(0, Epoch(1), [first.offset])
    assert (await offsets(queue)).lag == 2
    assert read(await queue.granted("next", 2), 2) == [b"b", b"c"]


async def test_no_offset_is_set_after_a_newer_grant(queue: Queue, raw: redis.Redis) -> None:
    queue.send("a", "b")
    owner = await queue.granted("owner", 2)
    before = await offsets(queue)
    with pytest.raises(QueueConflict, match="was granted to another pod meanwhile"):
        await queue.operator.set_offset(0, Epoch(1), before.end)
    assert await offsets(queue) == before
    assert read(owner, 2) == [b"a", b"b"]


async def test_nonexistent_offsets_are_refused(queue: Queue, raw: redis.Redis) -> None:
    queue.send("a", "b")
    now = await offsets(queue)
    with pytest.raises(QueueConflict, match="has no such entry"):
        await queue.operator.set_offset(0, Epoch(0), now.end + 1)
    await queue.operator.set_offset(0, Epoch(0), now.end)
    with pytest.raises(QueueConflict, match="has no such entry"):
        await queue.operator.set_offset(0, Epoch(0), now.earliest)
    with pytest.raises(QueueConflict, match="is no partition"):
        await queue.operator.set_offset(7, Epoch(0), 1)


async def test_an_offset_of_another_groups_queue_is_not_set(queue: Queue) -> None:
    queue.send("a")
    other = RedisQueue(queue.url, queue.name, Claimant("shop/other", "another-uid"))
    now = await offsets(queue)
    with pytest.raises(QueueConflict, match="belongs to the ConsumerGroup"):
        await other.set_offset(0, Epoch(0), now.end)
    await other.close()
    assert await offsets(queue) == now


async def test_a_set_offset_fences_a_running_spark_query(queue: Queue, query: Query, ranges: RedisRanges) -> None:
    queue.send("a", "b", "c")
    query.logged(0, 2)
    assert (await offsets(queue)).pending == 2
    third = query.start + 3
    await queue.operator.set_offset(0, Epoch(0), third)
    with pytest.raises(RefusedError, match="QUERY"):
        query.rows(0, 2)
    assert isinstance(query.finish(2), LaterQuery)
    query.number = ranges.begin()
    assert isinstance(query.log(0, 2), Gone), "a query with a checkpoint is told that entries are gone"
    assert await offsets(queue) == PartitionOffsets(third, third, third + 1, 1, 0)
