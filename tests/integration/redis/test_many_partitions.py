"""What is asked of many partitions goes to the server in few scripts, each of which serves others again soon."""

from collections.abc import AsyncIterator

import pytest
import redis

from baton.model.ids import Epoch, Uid
from baton.queues.logged_ranges import Ahead, AheadRequest, Finished, RangeToFinish, RangeToLog
from baton.queues.redis.keys import partition_keys
from baton.queues.redis.ranges import RedisRanges
from tests.integration.redis.conftest import Queue, make_queue
from tests.redis_server import RedisServer

PARTITIONS, ONE = 260, Epoch(1)
LONG, ENTRIES = 3, 11_000
"""A partition with so many entries that the script which removes them ends with it."""


@pytest.fixture
async def queue(server: RedisServer) -> AsyncIterator[Queue]:
    made = await make_queue(server.url, PARTITIONS)
    yield made
    await made.close()


def scripts_run(raw: redis.Redis) -> int:
    return int(raw.info("commandstats")["cmdstat_evalsha"]["calls"])


async def test_a_batch_over_hundreds_of_partitions_takes_a_few_scripts(queue: Queue, ranges: RedisRanges) -> None:
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
    with queue.raw() as raw:
        ranges.log(query, told)
        before = scripts_run(raw)
        assert {type(one).__name__ for one in ranges.log(query, told)} == {"Logged"}
        assert scripts_run(raw) - before <= 3
    done = ranges.finish(query, [RangeToFinish(one.partition, one.start + 1) for one in asked])
    assert done == [Finished()] * PARTITIONS
    assert all(bounds.committed == starts[number] + 1 for number, bounds in ranges.positions().items())


async def test_a_script_that_has_removed_much_ends_and_the_rest_is_asked_for_again(queue: Queue, ranges: RedisRanges) -> None:
    queue.producer.send_many([(queue.key(LONG), b"x")] * ENTRIES)
    query, bounds = ranges.begin(), ranges.positions()
    with queue.raw() as raw:
        before = scripts_run(raw)
        assert (
            ranges.finish(query, [RangeToFinish(number, bounds[number].last) for number in bounds]) == [Finished()] * PARTITIONS
        )
        assert scripts_run(raw) - before > 3
        assert raw.xlen(partition_keys(queue.name, LONG).stream) == 0
