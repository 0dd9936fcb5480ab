"""Ranges of many partitions take few scripts, and large ones are split so that other clients are served in between."""

from collections.abc import AsyncIterator
from contextlib import closing

import pytest
import redis

from baton.model.ids import Epoch, Uid
from baton.queues.logged_ranges import Ahead, AheadRequest, Finished, RangeToFinish, RangeToLog
from baton.queues.offsets import PartitionOffsets, Reached
from baton.queues.protocol import QueueConflict
from baton.queues.redis import scripts
from baton.queues.redis.keys import partition_keys
from baton.queues.redis.ranges import RedisRanges
from tests.integration.redis.conftest import Queue, make_queue
from tests.integration.redis.logged import words_of_one
from tests.redis_server import RedisServer

PARTITIONS, ONE = 260, Epoch(1)
LONG, ENTRIES = 3, 11_000
"""A partition with so many entries that the script ends after removing them."""


@pytest.fixture
async def queue(server: RedisServer) -> AsyncIterator[Queue]:
    made = await make_queue(server.url, PARTITIONS)
    yield made
    await made.close()


def scripts_run(raw: redis.Redis) -> int:
    return int(raw.info("commandstats")["cmdstat_evalsha"]["calls"])


async def test_a_batch_over_many_partitions_takes_few_scripts(queue: Queue, ranges: RedisRanges, raw: redis.Redis) -> None:
    for number in range(PARTITIONS):
        await queue.operator.grant(number, Uid(f"uid-{number}"), ONE)
        queue.send(*(f"{n}" for n in range(1 + number % 3)), partition=number)
    query, starts = ranges.begin(), {number: bounds.committed for number, bounds in ranges.positions().items()}
    asked = [AheadRequest(number, Uid(f"uid-{number}"), ONE, start, 10) for number, start in sorted(starts.items(), reverse=True)]
    found = ranges.ahead(query, asked)
    assert [one.end - start.start for one, start in zip(found, asked, strict=True) if isinstance(one, Ahead)] == [
        1 + one.partition % 3 for one in asked
    ], "in the order of the requests"
    told = [RangeToLog(one.partition, one.start, one.start + 1) for one in asked]
    ranges.log(query, told)
    before = scripts_run(raw)
    assert {type(one).__name__ for one in ranges.log(query, told)} == {"Logged"}
    assert scripts_run(raw) - before <= 3
    done = ranges.finish(query, [RangeToFinish(one.partition, one.start + 1) for one in asked])
    assert done == [Finished()] * PARTITIONS
    assert all(bounds.committed == starts[number] + 1 for number, bounds in ranges.positions().items())


async def test_a_large_removal_is_split_over_several_scripts(queue: Queue, ranges: RedisRanges, raw: redis.Redis) -> None:
    queue.producer.send_many([(queue.key(LONG), b"x")] * ENTRIES)
    query, bounds = ranges.begin(), ranges.positions()
    before = scripts_run(raw)
    assert ranges.finish(query, [RangeToFinish(number, bounds[number].last) for number in bounds]) == [Finished()] * PARTITIONS
    assert scripts_run(raw) - before > 3
    assert raw.xlen(partition_keys(queue.name, LONG).stream) == 0


MANY = 30_000
"""More than one script removes, where each entry has to be counted."""


@pytest.fixture
async def restarted() -> AsyncIterator[Queue]:
    """With a backlog from before a restart of the server, which leaves a gap behind it."""
    with RedisServer(fsync="always") as server:
        made = await make_queue(server.url)
        made.send(*map(str, range(MANY)))
        server.kill()
        server.start()
        await made.granted("a", Epoch(1))
        yield made
        await made.close()


async def test_a_query_without_a_checkpoint_begins_behind_finished_ranges(restarted: Queue) -> None:
    with closing(RedisRanges(restarted.url, restarted.name)) as ranges, restarted.raw() as raw:
        query, start = ranges.begin(), ranges.positions()[0].committed
        end = start + MANY
        ranges.log(query, [RangeToLog(0, start, end)])
        assert words_of_one(raw, scripts.FINISH, partition_keys(restarted.name, 0), query, end) == ["MORE"]
        restarted.send("later")
        query, [begins] = ranges.begin(), [one for number, one in ranges.positions().items() if number == 0]
        assert begins.committed == end
        [found] = ranges.ahead(query, [AheadRequest(0, Uid("a"), Epoch(1), begins.committed, MANY)])
        assert isinstance(found, Ahead), found
        ranges.finish(query, [RangeToFinish(0, found.end)])
        assert (await restarted.operator.check()).lag[0] == 0


async def test_a_reset_does_not_undo_ranges_that_spark_finished(restarted: Queue) -> None:
    with closing(RedisRanges(restarted.url, restarted.name)) as ranges, restarted.raw() as raw:
        query, start = ranges.begin(), ranges.positions()[0].committed
        ranges.log(query, [RangeToLog(0, start, start + MANY)])
        restarted.send("later", "and later")
        assert words_of_one(raw, scripts.FINISH, partition_keys(restarted.name, 0), query, start + MANY) == ["MORE"]
        before, done = (await restarted.operator.offsets())[0], ranges.positions()[0].committed
        assert before.committed == before.earliest == before.end - 2, "it is shown where a query begins"
        assert await restarted.operator.reach(0, before.end) == Reached(before.end, 2), "what Spark is done with is not left out"
        with pytest.raises(QueueConflict, match="has no such entry"):
            await restarted.operator.set_offset(0, Epoch(1), done)
        assert ranges.positions()[0].committed == done
        await restarted.operator.set_offset(0, Epoch(1), before.end - 1)
        assert (await restarted.operator.offsets())[0] == PartitionOffsets(before.end - 1, before.end - 1, before.end, 1, 0)
