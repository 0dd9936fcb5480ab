"""A range that is logged is read by whoever may, as often as needed, until it is finished."""

from collections.abc import Iterator

import pytest
import redis

from baton.model.ids import Epoch, Uid
from baton.queues.logged_ranges import (
    Ahead,
    AheadRequest,
    Finished,
    Gone,
    LaterQuery,
    Logged,
    Paused,
    RangeToFinish,
    RangeToLog,
    Stale,
    Unlogged,
)
from baton.queues.protocol import QueueUnreachable
from baton.queues.redis.keys import partition_keys
from baton.queues.redis.ranges import RedisRanges
from tests.integration.redis.conftest import Queue
from tests.integration.redis.logged import RefusedError, Task, ahead, logged, ranges_of

pytestmark = pytest.mark.integration

ONE, TWO, THREE = Epoch(1), Epoch(2), Epoch(3)


@pytest.fixture
def ranges(queue: Queue) -> Iterator[RedisRanges]:
    made = ranges_of(queue)
    yield made
    made.close()


@pytest.fixture
def raw(queue: Queue) -> Iterator[redis.Redis]:
    with queue.raw() as made:
        yield made


async def lag(queue: Queue, partition: int = 0) -> int:
    return (await queue.operator.check()).lag[partition]


async def test_a_range_is_read_as_often_as_needed_and_then_finished(queue: Queue, ranges: RedisRanges, raw: redis.Redis) -> None:
    queue.send("a", "b", "c")
    await queue.granted("a", ONE)
    query, start = ranges.begin(), ranges.positions()[0].committed
    found = ahead(ranges, query, ("a", ONE), start, most=2)
    assert (found.end, found.last, found.first) == (start + 2, start + 3, start + 1)
    assert logged(ranges, query, start, found.end) == Logged(0, 2)
    task = Task(query, start, found.end, "a", ONE)
    for _ in range(2):
        assert task.rows(raw, queue.name) == [b"a", b"b"]
    assert ranges.finish(query, [RangeToFinish(0, found.end)]) == [Finished(0)]
    assert await lag(queue) == 1
    with pytest.raises(RefusedError, match="UNLOGGED"):
        task.rows(raw, queue.name)
    assert raw.xlen(partition_keys(queue.name, 0).stream) == 1
    assert ahead(ranges, query, ("a", ONE), found.end).end == start + 3


async def test_every_call_may_be_repeated_and_is_answered_alike(queue: Queue, ranges: RedisRanges, raw: redis.Redis) -> None:
    queue.send("a", "b", "c")
    await queue.granted("a", ONE)
    query, start = ranges.begin(), ranges.positions()[0].committed
    assert ahead(ranges, query, ("a", ONE), start) == ahead(ranges, query, ("a", ONE), start)
    assert logged(ranges, query, start, start + 2) == logged(ranges, query, start, start + 2)
    assert logged(ranges, ranges.begin(), start, start + 2) == Logged(0, 2), "also by the next query"
    query = ranges.begin()
    for _ in range(2):
        assert ranges.finish(query, [RangeToFinish(0, start + 2)]) == [Finished(0)]
        assert await lag(queue) == 1


async def test_there_is_nothing_ahead_where_nothing_is_new(queue: Queue, ranges: RedisRanges) -> None:
    await queue.granted("a", ONE)
    query, start = ranges.begin(), ranges.positions()[0].committed
    assert ahead(ranges, query, ("a", ONE), start).end == start


async def test_a_range_that_is_logged_outlives_its_owner(queue: Queue, ranges: RedisRanges, raw: redis.Redis) -> None:
    queue.send("a", "b")
    await queue.granted("a", ONE)
    query, start = ranges.begin(), ranges.positions()[0].committed
    logged(ranges, query, start, start + 2)
    assert await queue.operator.pause(0, ONE) == 2
    await queue.granted("b", TWO)
    assert Task(query, start, start + 2, "a", ONE).page(raw, queue.name, b"0-0")[0] == "lent"
    assert Task(query, start, start + 2, "b", TWO, evaluation="2.0").page(raw, queue.name, b"0-0")[0] == "owner"
    assert ranges.finish(query, [RangeToFinish(0, start + 2)]) == [Finished(0)]
    assert await lag(queue) == 0


async def test_an_earlier_attempt_is_refused_once_a_later_one_was_answered(
    queue: Queue, ranges: RedisRanges, raw: redis.Redis
) -> None:
    queue.send("a", "b")
    await queue.granted("a", ONE)
    query, start = ranges.begin(), ranges.positions()[0].committed
    logged(ranges, query, start, start + 2)
    owner = Task(query, start, start + 2, "a", ONE, attempt=3)
    borrower = Task(query, start, start + 2, attempt=4, executor="2")
    assert owner.rows(raw, queue.name) == borrower.rows(raw, queue.name) == [b"a", b"b"]
    with pytest.raises(RefusedError) as refused:
        owner.rows(raw, queue.name)
    assert refused.value.args == ("LENT", "4", "2")
    with pytest.raises(RefusedError, match="LENT"):
        Task(query, start, start + 2, attempt=4, executor="3").rows(raw, queue.name)
    other = Task(query, start, start + 2, "a", ONE, evaluation="2.0", attempt=1)
    assert other.rows(raw, queue.name) == [b"a", b"b"], "another evaluation is none of its business"


async def test_of_two_queries_the_later_wins(queue: Queue, ranges: RedisRanges, raw: redis.Redis) -> None:
    queue.send("a", "b")
    await queue.granted("a", ONE)
    first, start = ranges.begin(), ranges.positions()[0].committed
    logged(ranges, first, start, start + 1)
    second = ranges.begin()
    assert second > first
    request = AheadRequest(0, Uid("a"), ONE, start, 10)
    assert ranges.ahead(first, [request]) == [LaterQuery(second)]
    assert ranges.log(first, [RangeToLog(0, start, start + 2)]) == [LaterQuery(second)]
    assert ranges.finish(first, [RangeToFinish(0, start + 1)]) == [LaterQuery(second)]
    with pytest.raises(RefusedError, match="QUERY"):
        Task(first, start, start + 1, "a", ONE).rows(raw, queue.name)
    assert Task(second, start, start + 1, "a", ONE).rows(raw, queue.name) == [b"a"]


async def test_only_the_owner_of_a_partition_that_is_not_paused_is_told_what_is_ahead(queue: Queue, ranges: RedisRanges) -> None:
    queue.send("a")
    await queue.granted("a", ONE)
    query, start = ranges.begin(), ranges.positions()[0].committed
    (stale,) = ranges.ahead(query, [AheadRequest(0, Uid("b"), ONE, start, 10)])
    assert isinstance(stale, Stale)
    assert stale.owner == ("a", ONE, False)
    await queue.operator.pause(0, ONE)
    assert ranges.ahead(query, [AheadRequest(0, Uid("a"), ONE, start, 10)]) == [Paused()]


async def test_a_single_read_ends_a_range(queue: Queue, ranges: RedisRanges, raw: redis.Redis) -> None:
    queue.send("a", "b")
    owner = await queue.granted("a", ONE)
    query, start = ranges.begin(), ranges.positions()[0].committed
    logged(ranges, query, start, start + 2)
    task = Task(query, start, start + 2, "a", ONE)
    (entry, *_) = owner.read(0, ONE)
    assert entry.redelivered
    with pytest.raises(RefusedError, match="UNLOGGED"):
        task.rows(raw, queue.name)
    assert logged(ranges, query, start, start + 2).seen == start + 2, "all of its entries are there"
    assert task.rows(raw, queue.name) == [b"a", b"b"]
    owner.ack(0, ONE, [entry.offset])
    with pytest.raises(RefusedError, match="UNLOGGED"):
        task.rows(raw, queue.name)
    assert ranges.log(query, [RangeToLog(0, start, start + 2)]) == [Gone(start + 2, start + 2)]
    assert await lag(queue) == 1


async def test_to_log_the_next_range_finishes_what_is_before(queue: Queue, ranges: RedisRanges, raw: redis.Redis) -> None:
    queue.send("a", "b", "c")
    await queue.granted("a", ONE)
    query, start = ranges.begin(), ranges.positions()[0].committed
    logged(ranges, query, start, start + 2)
    logged(ranges, query, start + 2, start + 3)
    assert await lag(queue) == 1
    assert ranges.finish(query, [RangeToFinish(0, start + 2)]) == [Finished(1)]
    assert Task(query, start + 2, start + 3).rows(raw, queue.name) == [b"c"]
    assert ranges.log(query, [RangeToLog(0, start, start + 2)]) == [Gone(start + 3, start + 2)]


async def test_an_end_inside_of_the_range_or_beyond_all_is_not_finished(queue: Queue, ranges: RedisRanges) -> None:
    queue.send("a", "b")
    await queue.granted("a", ONE)
    query, start = ranges.begin(), ranges.positions()[0].committed
    logged(ranges, query, start, start + 2)
    assert ranges.finish(query, [RangeToFinish(0, start + 1)]) == [Unlogged()]
    assert ranges.finish(query, [RangeToFinish(0, start + 3)]) == [Unlogged()]
    assert await lag(queue) == 2


async def test_who_waits_is_woken_by_the_next_entry_and_by_a_grant(queue: Queue, ranges: RedisRanges) -> None:
    await queue.granted("a", ONE)
    query, start = ranges.begin(), ranges.positions()[0].committed
    assert ranges.wait([0, 1], 10) == {0, 1}, "nobody asked yet"
    for partition in (0, 1):
        await queue.granted("a", ONE, partition)
        ahead(ranges, query, ("a", ONE), ranges.positions()[partition].committed, partition=partition)
    assert ranges.wait([0, 1], 0.05) == set()
    queue.send("x", partition=1)
    assert ranges.wait([0, 1], 10) == {1}
    await queue.granted("b", TWO)
    assert ranges.wait([0], 10) == {0}
    assert isinstance(ranges.ahead(query, [AheadRequest(0, Uid("a"), ONE, start, 10)])[0], Stale)
    assert ranges.wait([0], 0.05) == set()


async def test_all_partitions_are_asked_in_few_round_trips(queue: Queue, ranges: RedisRanges) -> None:
    for partition in (0, 1):
        queue.send("a", "b", partition=partition)
        await queue.granted("a", ONE, partition)
    query, positions = ranges.begin(), ranges.positions()
    requests = [AheadRequest(partition, Uid("a"), ONE, positions[partition].committed, 1) for partition in (1, 0)]
    found = ranges.ahead(query, requests)
    ends = [answer.end for answer in found if isinstance(answer, Ahead)]
    assert ends == [positions[partition].committed + 1 for partition in (1, 0)]


async def test_a_queue_that_was_not_made_is_named(queue: Queue) -> None:
    absent = RedisRanges(queue.url, "shop/nowhere")
    for ask in (absent.begin, absent.partitions, absent.positions, lambda: absent.log(1, [RangeToLog(0, 1, 2)])):
        with pytest.raises(QueueUnreachable, match="shop/nowhere"):
            ask()
    with queue.raw() as raw:
        assert raw.keys("pq:{shop/nowhere}*") == []
    absent.close()
