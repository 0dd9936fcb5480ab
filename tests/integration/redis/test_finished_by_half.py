"""A range whose entries are removed in portions, and a driver that is killed between two of them."""

from collections.abc import AsyncIterator
from contextlib import closing

import pytest

from baton.model.ids import Epoch, Uid
from baton.queues.logged_ranges import Ahead, AheadRequest, RangeToFinish, RangeToLog
from baton.queues.offsets import PartitionOffsets, Reached
from baton.queues.protocol import QueueConflict
from baton.queues.redis import scripts
from baton.queues.redis.keys import partition_keys
from baton.queues.redis.ranges import RedisRanges
from tests.integration.redis.conftest import Queue, make_queue
from tests.integration.redis.logged import words_of_one
from tests.redis_server import RedisServer

MANY = 30_000
"""More than one script removes, where each entry has to be counted."""


@pytest.fixture
async def queue() -> AsyncIterator[Queue]:
    """With a backlog from before a restart of the server, which leaves a gap behind it."""
    with RedisServer(fsync="always") as server:
        made = await make_queue(server.url)
        made.send(*map(str, range(MANY)))
        server.kill()
        server.start()
        await made.granted("a", Epoch(1))
        yield made
        await made.close()


async def test_a_query_that_begins_without_a_checkpoint_begins_behind_what_spark_has_done(queue: Queue) -> None:
    with closing(RedisRanges(queue.url, queue.name)) as ranges, queue.raw() as raw:
        query, start = ranges.begin(), ranges.positions()[0].committed
        end = start + MANY
        ranges.log(query, [RangeToLog(0, start, end)])
        assert words_of_one(raw, scripts.FINISH, partition_keys(queue.name, 0), query, end) == ["MORE"]
        queue.send("later")
        query, [begins] = ranges.begin(), [one for number, one in ranges.positions().items() if number == 0]
        assert begins.committed == end
        [found] = ranges.ahead(query, [AheadRequest(0, Uid("a"), Epoch(1), begins.committed, MANY)])
        assert isinstance(found, Ahead), found
        ranges.finish(query, [RangeToFinish(0, found.end)])
        assert (await queue.operator.check()).lag[0] == 0


async def test_a_reset_takes_nothing_back_that_spark_has_done(queue: Queue) -> None:
    with closing(RedisRanges(queue.url, queue.name)) as ranges, queue.raw() as raw:
        query, start = ranges.begin(), ranges.positions()[0].committed
        ranges.log(query, [RangeToLog(0, start, start + MANY)])
        queue.send("later", "and later")
        assert words_of_one(raw, scripts.FINISH, partition_keys(queue.name, 0), query, start + MANY) == ["MORE"]
        before, done = (await queue.operator.offsets())[0], ranges.positions()[0].committed
        assert before.committed == before.earliest == before.end - 2, "it is shown where a query begins"
        assert await queue.operator.reach(0, before.end) == Reached(before.end, 2), "what Spark is done with is not left out"
        with pytest.raises(QueueConflict, match="has no such entry"):
            await queue.operator.set_offset(0, Epoch(1), done)
        assert ranges.positions()[0].committed == done
        await queue.operator.set_offset(0, Epoch(1), before.end - 1)
        assert (await queue.operator.offsets())[0] == PartitionOffsets(before.end - 1, before.end - 1, before.end, 1, 0)
