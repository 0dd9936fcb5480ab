"""A range that nobody can work on goes to the dead letters, each entry once, whatever stops the driver meanwhile."""

from typing import cast

import pytest
import redis

from baton.model.ids import Epoch
from baton.queues.logged_ranges import (
    Finished,
    LaterQuery,
    Logged,
    RangeToFinish,
    RangeToLog,
    RangeToSetAside,
    SetAside,
    Unlogged,
)
from baton.queues.redis import scripts
from baton.queues.redis.keys import partition_keys
from baton.queues.redis.ranges import RedisRanges
from tests.integration.redis.conftest import Queue
from tests.integration.redis.logged import RefusedError, Task, words_of_one
from tests.integration.redis.test_dead_letters import call, listed

WHY = "its batch failed 3 times in a row: ValueError: no such product"


def dead(raw: redis.Redis, queue: Queue) -> list[bytes]:
    letters = cast("list[tuple[bytes, dict[bytes, bytes]]]", raw.xrange(partition_keys(queue.name, 0).dead))
    return [fields[b"value"] for _, fields in letters]


def set_aside(ranges: RedisRanges, query: int, start: int, end: int) -> object:
    (answer,) = ranges.set_aside(query, [RangeToSetAside(0, start, end, 3)], WHY)
    return answer


def log(ranges: RedisRanges, query: int, start: int, end: int) -> object:
    (answer,) = ranges.log(query, [RangeToLog(0, start, end)])
    return answer


async def test_its_entries_are_dead_letters_and_the_next_range_begins_behind_it(
    queue: Queue, ranges: RedisRanges, raw: redis.Redis
) -> None:
    queue.send("a", "b", "c")
    query, start = ranges.begin(), ranges.positions()[0].committed
    assert log(ranges, query, start, start + 2) == Logged(0)
    for _ in range(2):
        assert set_aside(ranges, query, start, start + 2) == SetAside()
        assert dead(raw, queue) == [b"a", b"b"]
    with pytest.raises(RefusedError, match="UNLOGGED"):
        Task(query, start, start + 2).rows(raw, queue.name)
    assert log(ranges, ranges.begin(), start, start + 2) == SetAside(), "a later driver repeats the batch without it"
    query = ranges.begin()
    assert ranges.finish(query, [RangeToFinish(0, start + 2)]) == [Finished()]
    assert (await queue.operator.check()).lag[0] == 1
    assert log(ranges, query, start + 2, start + 3) == Logged(0)
    assert Task(query, start + 2, start + 3).rows(raw, queue.name) == [b"c"]


async def test_a_letter_says_why_and_goes_back_into_the_queue(queue: Queue, ranges: RedisRanges, raw: redis.Redis) -> None:
    queue.producer.send(queue.key(0), "a", headers={"trace": b"1"})
    query, start = ranges.begin(), ranges.positions()[0].committed
    log(ranges, query, start, start + 1)
    set_aside(ranges, query, start, start + 1)
    [letter] = listed(queue)["letters"]
    assert (letter["why"], letter["deliveries"]) == (WHY, 3)
    assert call(queue, "redrive", letter["letter"]).exit_code == 0
    reader = await queue.granted("a", Epoch(1))
    [entry] = reader.read(0, Epoch(1), 10)
    assert (entry.key, entry.value, dict(entry.headers)) == (queue.key(0), b"a", {"trace": b"1"})
    assert dead(raw, queue) == []


async def test_a_driver_that_is_killed_between_two_portions_loses_and_doubles_nothing(
    queue: Queue, ranges: RedisRanges, raw: redis.Redis
) -> None:
    sent = [str(number) for number in range(2500)]
    queue.send(*sent)
    query, start = ranges.begin(), ranges.positions()[0].committed
    end = ranges.positions()[0].last
    log(ranges, query, start, end)
    keys = partition_keys(queue.name, 0)
    assert words_of_one(raw, scripts.ASIDE, keys, query, start, end, 3, WHY) == ["MORE"]
    assert 0 < len(dead(raw, queue)) < len(sent)
    assert raw.xlen(keys.stream) + len(dead(raw, queue)) >= len(sent)
    with pytest.raises(RefusedError, match="UNLOGGED"):
        Task(query, start, end).rows(raw, queue.name)
    assert log(ranges, ranges.begin(), start, end) == SetAside(), "who repeats the batch ends what was begun"
    assert dead(raw, queue) == [value.encode() for value in sent]
    assert raw.hget(keys.progress, "dead") == b"2500"
    assert (await queue.operator.check()).lag[0] == 0


async def test_a_redis_from_before_the_set_aside_has_its_entries_until_a_query_that_is_done_with_them_goes_on(
    queue: Queue, ranges: RedisRanges, raw: redis.Redis
) -> None:
    queue.send("a", "b", "c")
    query, start = ranges.begin(), ranges.positions()[0].committed
    log(ranges, query, start, start + 2)
    copy = {key: raw.dump(key) for key in raw.scan_iter(match=f"pq:{{{queue.name}}}:*")}
    assert set_aside(ranges, query, start, start + 2) == SetAside()
    raw.delete(*raw.scan_iter(match=f"pq:{{{queue.name}}}:*"))
    for key, value in copy.items():
        assert value is not None
        raw.restore(key, 0, value)
    later, stream = ranges.begin(), partition_keys(queue.name, 0).stream
    assert log(ranges, later, start, start + 2) == Logged(start + 2), "to Spark it was not done: it comes again"
    assert raw.xlen(stream) == 3
    log(ranges, later, start + 2, start + 3)
    assert raw.xlen(stream) == 1, "to Spark it was done"
    assert dead(raw, queue) == []


async def test_what_is_large_goes_in_small_portions(queue: Queue, ranges: RedisRanges, raw: redis.Redis) -> None:
    queue.send(*["x" * 700_000] * 5)
    query, start = ranges.begin(), ranges.positions()[0].committed
    log(ranges, query, start, start + 5)
    arguments = (query, start, start + 5, 3, WHY)
    portions = 1
    while words_of_one(raw, scripts.ASIDE, partition_keys(queue.name, 0), *arguments) == ["MORE"]:
        portions += 1
    assert portions > 1
    assert len(dead(raw, queue)) == 5


async def test_only_the_latest_query_sets_aside_and_only_what_is_there(
    queue: Queue, ranges: RedisRanges, raw: redis.Redis
) -> None:
    queue.send("a", "b", "c")
    query, start = ranges.begin(), ranges.positions()[0].committed
    log(ranges, query, start, start + 2)
    later = ranges.begin()
    assert set_aside(ranges, query, start, start + 2) == LaterQuery(later)
    ranges.finish(later, [RangeToFinish(0, start + 2)])
    assert set_aside(ranges, later, start, start + 2) == Unlogged()
    assert dead(raw, queue) == []


async def test_what_somebody_else_added_is_a_letter_of_its_own_kind(queue: Queue, ranges: RedisRanges, raw: redis.Redis) -> None:
    queue.send("a")
    keys, start = partition_keys(queue.name, 0), ranges.positions()[0].committed
    raw.xadd(keys.stream, {"by": "hand"}, id=f"{start + 1}-1")
    queue.send("b")
    query = ranges.begin()
    log(ranges, query, start, start + 2)
    assert set_aside(ranges, query, start, start + 2) == SetAside()
    assert dead(raw, queue) == [b"a", b'["by","hand"]', b"b"]
    assert raw.xlen(keys.stream) == 0
