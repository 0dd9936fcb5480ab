"""A range that always fails goes to the dead letters, each entry once, whatever stops the driver meanwhile."""

import pytest
import redis

from baton.model.ids import Epoch
from baton.queues.logged_ranges import (
    Finished,
    LaterQuery,
    Logged,
    SetAside,
    Unlogged,
)
from baton.queues.redis import scripts
from baton.queues.redis.ranges import RedisRanges
from tests.integration.redis.conftest import Queue
from tests.integration.redis.logged import Query, RefusedError
from tests.integration.redis.test_dead_letters import call, listed

WHY = "its batch failed 3 times in a row: ValueError: no such product"


def dead(queue: Queue) -> list[bytes]:
    return [letter[b"value"] for letter in queue.letters()]


async def test_reading_continues_behind_a_range_set_aside(queue: Queue, query: Query, ranges: RedisRanges) -> None:
    queue.send("a", "b", "c")
    assert query.log(0, 2) == Logged(0)
    for _ in range(2):
        assert query.set_aside(0, 2, WHY) == SetAside()
        assert dead(queue) == [b"a", b"b"]
    with pytest.raises(RefusedError, match="UNLOGGED"):
        query.rows(0, 2)
    query.number = ranges.begin()
    assert query.log(0, 2) == SetAside(), "a later driver repeats the batch without it"
    query.number = ranges.begin()
    assert query.finish(2) == Finished()
    assert (await query.counts())[2] == 1
    assert query.log(2, 3) == Logged(0)
    assert query.rows(2, 3) == [b"c"]


async def test_a_letter_says_why_and_can_be_sent_again(queue: Queue, query: Query) -> None:
    queue.producer.send(queue.key(0), "a", headers={"trace": b"1"})
    query.logged(0, 1)
    query.set_aside(0, 1, WHY)
    [letter] = listed(queue)["letters"]
    assert (letter["why"], letter["deliveries"]) == (WHY, 3)
    assert call(queue, "redrive", letter["letter"]).exit_code == 0
    reader = await queue.granted("a", Epoch(1))
    [entry] = reader.read(0, Epoch(1), 10)
    assert (entry.key, entry.value, dict(entry.headers)) == (queue.key(0), b"a", {"trace": b"1"})
    assert dead(queue) == []


async def test_a_driver_killed_between_two_portions_loses_and_doubles_nothing(
    queue: Queue, query: Query, ranges: RedisRanges, raw: redis.Redis
) -> None:
    sent = [str(number) for number in range(2500)]
    queue.send(*sent)
    query.logged(0, 2500)
    assert query.words(scripts.ASIDE, 0, 2500, more=[3, WHY]) == ["MORE"]
    assert 0 < len(dead(queue)) < len(sent)
    assert raw.xlen(query.keys.stream) + len(dead(queue)) >= len(sent)
    with pytest.raises(RefusedError, match="UNLOGGED"):
        query.rows(0, 2500)
    query.number = ranges.begin()
    assert query.log(0, 2500) == SetAside(), "whichever driver repeats the batch completes what was begun"
    assert dead(queue) == [value.encode() for value in sent]
    assert raw.hget(query.keys.progress, "dead") == b"2500"
    assert (await query.counts())[2] == 0


async def test_a_restored_redis_keeps_the_entries_until_the_query_continues(
    queue: Queue, query: Query, ranges: RedisRanges, raw: redis.Redis
) -> None:
    queue.send("a", "b", "c")
    query.logged(0, 2)
    copy = {key: raw.dump(key) for key in raw.scan_iter(match=f"pq:{{{queue.name}}}:*")}
    assert query.set_aside(0, 2, WHY) == SetAside()
    raw.delete(*raw.scan_iter(match=f"pq:{{{queue.name}}}:*"))
    for key, value in copy.items():
        assert value is not None
        raw.restore(key, 0, value)
    query.number = ranges.begin()
    assert query.log(0, 2) == Logged(query.start + 2), "to Spark it was not done: it comes again"
    assert raw.xlen(query.keys.stream) == 3
    query.logged(2, 3)
    assert raw.xlen(query.keys.stream) == 1, "to Spark it was done"
    assert dead(queue) == []


async def test_large_entries_are_set_aside_in_small_portions(queue: Queue, query: Query) -> None:
    queue.send(*["x" * 700_000] * 5)
    query.logged(0, 5)
    portions = 1
    while query.words(scripts.ASIDE, 0, 5, more=[3, WHY]) == ["MORE"]:
        portions += 1
    assert portions > 1
    assert len(dead(queue)) == 5


async def test_only_the_latest_query_sets_aside_and_only_what_is_there(queue: Queue, query: Query, ranges: RedisRanges) -> None:
    queue.send("a", "b", "c")
    query.logged(0, 2)
    later = ranges.begin()
    assert query.set_aside(0, 2, WHY) == LaterQuery(later)
    query.number = later
    query.finish(2)
    assert query.set_aside(0, 2, WHY) == Unlogged()
    assert dead(queue) == []


async def test_a_foreign_entry_in_the_range_becomes_a_letter_too(queue: Queue, query: Query, raw: redis.Redis) -> None:
    queue.send("a")
    query.add_foreign(1)
    queue.send("b")
    query.logged(0, 2)
    assert query.set_aside(0, 2, WHY) == SetAside()
    assert dead(queue) == [b"a", b'["by","hand"]', b"b"]
    assert raw.xlen(query.keys.stream) == 0
