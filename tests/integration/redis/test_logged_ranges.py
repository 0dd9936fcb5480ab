"""A range that is logged is read by whoever may, as often as needed, until it is finished."""

from collections.abc import Sequence

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
    PartitionBounds,
    Paused,
    RangeToFinish,
    RangeToLog,
    Stale,
    Unlogged,
)
from baton.queues.protocol import QueueUnreachable
from baton.queues.redis import scripts
from baton.queues.redis.keys import partition_keys, queue_key
from baton.queues.redis.ranges import RedisRanges
from baton.queues.redis.scripts import Script
from tests.integration.redis.conftest import Queue, make_queue
from tests.integration.redis.logged import RefusedError, Task, ahead, logged, ranges_of, words_of_one
from tests.redis_server import RedisServer
from tests.waiting import PATIENCE

ONE, TWO, THREE = Epoch(1), Epoch(2), Epoch(3)
_A_MINUTE = 60 * 10**6
"""In the microseconds that numbers of queries are counted in."""


async def lag(queue: Queue, partition: int = 0) -> int:
    return (await queue.operator.check()).lag[partition]


async def test_a_range_is_read_as_often_as_needed_and_then_finished(queue: Queue, ranges: RedisRanges, raw: redis.Redis) -> None:
    queue.send("a", "b", "c")
    await queue.granted("a", ONE)
    query, start = ranges.begin(), ranges.positions()[0].committed
    found = ahead(ranges, query, ("a", ONE), start, most=2)
    assert (found.end, found.last, found.first) == (start + 2, start + 3, start + 1)
    assert logged(ranges, query, start, found.end) == Logged(0)
    task = Task(query, start, found.end, "a", ONE)
    for _ in range(2):
        assert task.rows(raw, queue.name) == [b"a", b"b"]
    assert ranges.finish(query, [RangeToFinish(0, found.end)]) == [Finished()]
    assert await lag(queue) == 1
    with pytest.raises(RefusedError, match="UNLOGGED"):
        task.rows(raw, queue.name)
    assert raw.xlen(partition_keys(queue.name, 0).stream) == 1
    assert ahead(ranges, query, ("a", ONE), found.end).end == start + 3


async def test_a_partition_begins_and_ends_with_entries_that_are_there(
    queue: Queue, ranges: RedisRanges, raw: redis.Redis
) -> None:
    keys = partition_keys(queue.name, 0)
    queue.send("a")
    owner = await queue.granted("a", ONE)
    start = ranges.positions()[0].committed
    raw.xadd(keys.stream, {"by": "hand"}, id=f"{start + 1}-1")
    queue.send("b", "c", "d")
    owner.ack(0, ONE, [owner.read(0, ONE, 1)[0].offset])
    raw.xdel(keys.stream, f"{start + 3}-0", f"{start + 4}-0")
    raw.xadd(keys.stream, {"by": "hand"}, id=f"{start + 4}-1")
    assert ranges.positions()[0] == PartitionBounds(start, start + 1, start + 2)
    assert raw.xlen(keys.dead) == 0, "who only looks sets nothing aside"


async def test_a_range_that_is_logged_outlives_its_owner(queue: Queue, ranges: RedisRanges, raw: redis.Redis) -> None:
    queue.send("a", "b")
    await queue.granted("a", ONE)
    query, start = ranges.begin(), ranges.positions()[0].committed
    logged(ranges, query, start, start + 2)
    assert await queue.operator.pause(0, ONE) == 2
    await queue.granted("b", TWO)
    assert await queue.operator.outstanding(0) == 2, "it is still logged"
    assert Task(query, start, start + 2, "a", ONE).page(raw, queue.name, b"0-0")[0] == "lent"
    assert Task(query, start, start + 2, "b", TWO, evaluation="2.0").page(raw, queue.name, b"0-0")[0] == "owner"
    for nth, (uid, epoch) in enumerate([("b", ONE), ("c", TWO), ("b", THREE)]):
        assert Task(query, start, start + 2, uid, epoch, evaluation=f"3.{nth}").page(raw, queue.name, b"0-0")[0] == "lent"
    assert ranges.finish(query, [RangeToFinish(0, start + 2)]) == [Finished()]
    assert await lag(queue) == 0


async def test_refusals_are_counted(queue: Queue, ranges: RedisRanges, raw: redis.Redis) -> None:
    async def refused() -> int:
        return (await queue.stale_refused())[0]

    queue.send("a")
    query, start = ranges.begin(), ranges.positions()[0].committed
    Task(query, start, start + 1, attempt=2).rows(raw, queue.name)
    assert await refused() == 0
    with pytest.raises(RefusedError, match="LENT"):
        Task(query, start, start + 1, attempt=1).rows(raw, queue.name)
    assert await refused() == 1
    ranges.begin()
    assert isinstance(ranges.finish(query, [RangeToFinish(0, start + 1)])[0], LaterQuery)
    assert await refused() == 2


async def test_numbers_of_queries_grow_whatever_is_lost_and_whatever_clocks_say(
    queue: Queue, ranges: RedisRanges, raw: redis.Redis
) -> None:
    first, second = ranges.begin(), ranges.begin()
    assert 0 < second - first < _A_MINUTE
    ahead_of_time = second + 100 * _A_MINUTE
    raw.hset(partition_keys(queue.name, 1).progress, "query", ahead_of_time)
    assert ranges.begin() == ahead_of_time + 1, "a partition knew a higher one"
    assert ranges.begin() == ahead_of_time + 2
    for partition in (0, 1):
        raw.hdel(partition_keys(queue.name, partition).progress, "query")
    assert ranges.begin() == ahead_of_time + 3, "the queue knows it too"
    raw.hset(queue_key(queue.name), "queryHistory", "that of another server")
    assert ranges.begin() > ahead_of_time + _A_MINUTE / 2, "its clock may have been ahead"
    raw.hdel(queue_key(queue.name), "query", "queryHistory")
    for partition in (0, 1):
        raw.hdel(partition_keys(queue.name, partition).progress, "query")
    assert ranges.begin() > second, "what a failover has lost is below the time"


@pytest.mark.parametrize(
    ("script", "arguments"),
    [
        (scripts.FENCE, (1,)),
        (scripts.BOUNDS, ()),
        (scripts.AHEAD, (1, "a", 1, 0, 10, 0)),
        (scripts.LOG, (1, 0, 1, "")),
        (scripts.FINISH, (1, 1)),
    ],
    ids=["fence", "bounds", "ahead", "log", "finish"],
)
async def test_who_asks_for_a_partition_that_was_not_made_does_not_make_it(
    queue: Queue, raw: redis.Redis, script: Script, arguments: Sequence[object]
) -> None:
    absent = partition_keys(queue.name, 99)
    assert words_of_one(raw, script, absent, *arguments) == ["UNKNOWN"]
    assert raw.exists(*absent) == 0
    with pytest.raises(RefusedError, match="UNKNOWN"):
        Task(1, 0, 1, partition=99).rows(raw, queue.name)
    assert raw.exists(*absent) == 0


async def test_only_the_owner_of_a_partition_that_is_not_paused_is_told_what_is_ahead(queue: Queue, ranges: RedisRanges) -> None:
    queue.send("a")
    await queue.granted("a", ONE)
    query, start = ranges.begin(), ranges.positions()[0].committed
    assert ranges.ahead(query, [AheadRequest(0, Uid("b"), ONE, start, 10)]) == [Stale()]
    await queue.operator.pause(0, ONE)
    assert ranges.ahead(query, [AheadRequest(0, Uid("a"), ONE, start, 10)]) == [Paused()]


async def test_to_log_the_next_range_finishes_what_is_before(queue: Queue, ranges: RedisRanges, raw: redis.Redis) -> None:
    queue.send("a", "b", "c")
    await queue.granted("a", ONE)
    query, start = ranges.begin(), ranges.positions()[0].committed
    logged(ranges, query, start, start + 2)
    logged(ranges, query, start + 2, start + 3)
    assert await lag(queue) == 1
    assert ranges.finish(query, [RangeToFinish(0, start + 2)]) == [Finished()]
    assert Task(query, start + 2, start + 3).rows(raw, queue.name) == [b"c"]
    assert ranges.log(query, [RangeToLog(0, start, start + 2)]) == [Gone(start + 3, start + 2)]
    assert ranges.log(query, [RangeToLog(0, start, start + 3)]) == [Gone(start + 3, start + 3)], "a part of it is finished"
    assert ranges.ahead(query, [AheadRequest(0, Uid("a"), ONE, start, 10)]) == [Gone(start + 3, start + 3)]


async def test_what_is_there_of_a_range_is_told_however_much_foreign_stands_before_it(
    queue: Queue, ranges: RedisRanges, raw: redis.Redis
) -> None:
    stream = partition_keys(queue.name, 0).stream
    queue.send("a")
    query, start = ranges.begin(), ranges.positions()[0].committed
    assert ranges.finish(query, [RangeToFinish(0, start + 1)]) == [Finished()]
    with raw.pipeline() as pipe:
        for nth in range(2500):
            pipe.xadd(stream, {"by": "hand"}, id=f"{start + 1}-{nth + 1}")
        pipe.execute()
    queue.send("b", "c")
    assert ranges.log(query, [RangeToLog(0, start, start + 3)]) == [Gone(start + 2, start + 3)]
    logged(ranges, query, start + 1, start + 3)
    assert Task(query, start + 1, start + 3).rows(raw, queue.name) == [b"b", b"c"]


async def test_what_is_there_of_a_range_ends_with_an_entry_of_ours(queue: Queue, ranges: RedisRanges, raw: redis.Redis) -> None:
    stream = partition_keys(queue.name, 0).stream
    queue.send("a", "b")
    query, start = ranges.begin(), ranges.positions()[0].committed
    raw.xadd(stream, {"by": "hand"}, id=f"{start + 2}-1")
    queue.send("c")
    raw.xdel(stream, f"{start + 2}-0", f"{start + 3}-0")
    assert ranges.log(query, [RangeToLog(0, start, start + 3)]) == [Gone(start + 1, start + 1)]


async def test_a_range_that_cannot_be_is_gone(queue: Queue, ranges: RedisRanges) -> None:
    queue.send("a", "b", "c")
    query, start = ranges.begin(), ranges.positions()[0].committed
    assert ranges.log(query, [RangeToLog(0, start, start + 9)]) == [Gone(start + 1, start + 3)], "so many were never added"
    assert ranges.log(query, [RangeToLog(0, start + 2, start + 1)]) == [Gone(start + 3, start + 2)], "it ends before it begins"


async def test_a_range_that_was_voided_and_is_logged_again_is_as_good_as_any(
    queue: Queue, ranges: RedisRanges, raw: redis.Redis
) -> None:
    queue.send("a", "b")
    owner = await queue.granted("a", ONE)
    query, start = ranges.begin(), ranges.positions()[0].committed
    logged(ranges, query, start, start + 2)
    owner.read(0, ONE)
    logged(ranges, query, start, start + 2)
    raw.hdel(partition_keys(queue.name, 0).progress, "logged", "loggedTo")  # as a failover may
    assert Task(query, start, start + 2).rows(raw, queue.name) == [b"a", b"b"]


async def test_after_a_failure_nobody_is_trusted_to_know_who_waits() -> None:
    with RedisServer() as server:
        queue = await make_queue(server.url, partitions=1)
        ranges = ranges_of(queue)
        await queue.granted("a", ONE)
        ahead(ranges, ranges.begin(), ("a", ONE), ranges.positions()[0].committed)
        server.stop()
        with pytest.raises(QueueUnreachable):
            ranges.wait([0], PATIENCE)
        assert ranges.wait([0], PATIENCE) == {0}, "it is to be asked again"
        ranges.close()
        await queue.close()


async def test_who_waits_is_woken_by_the_next_entry_and_by_a_grant(queue: Queue, ranges: RedisRanges) -> None:
    await queue.granted("a", ONE)
    query, start = ranges.begin(), ranges.positions()[0].committed
    assert ranges.wait([0, 1], PATIENCE) == {0, 1}, "nobody asked yet"
    for partition in (0, 1):
        await queue.granted("a", ONE, partition)
        ahead(ranges, query, ("a", ONE), ranges.positions()[partition].committed, partition=partition)
    assert ranges.wait([0, 1], 0.05) == set()
    queue.send("x", partition=1)
    assert ranges.wait([0, 1], PATIENCE) == {1}
    await queue.granted("b", TWO)
    assert ranges.wait([0], PATIENCE) == {0}
    assert isinstance(ranges.ahead(query, [AheadRequest(0, Uid("a"), ONE, start, 10)])[0], Stale)
    assert ranges.wait([0], 0.05) == set()
    await queue.granted("c", THREE)
    assert ranges.wait([0], PATIENCE) == {0}


async def test_who_has_read_all_and_who_finds_nothing_is_woken_and_who_has_not_read_all_does_not_wait(
    queue: Queue, ranges: RedisRanges
) -> None:
    await queue.granted("a", ONE)
    query, start = ranges.begin(), ranges.positions()[0].committed
    queue.send("a", "b")
    ahead(ranges, query, ("a", ONE), start, most=1)
    assert ranges.wait([0], PATIENCE) == {0}, "there is more"
    ahead(ranges, query, ("a", ONE), start)
    queue.send("c")
    assert ranges.wait([0], PATIENCE) == {0}
    ahead(ranges, query, ("a", ONE), start + 3)
    queue.send("d")
    assert ranges.wait([0], PATIENCE) == {0}


async def test_what_is_behind_much_that_is_nobodys_is_reached_by_asking_again(
    queue: Queue, ranges: RedisRanges, raw: redis.Redis
) -> None:
    keys = partition_keys(queue.name, 0)
    queue.send("a")
    await queue.granted("a", ONE)
    query, start = ranges.begin(), ranges.positions()[0].committed
    with raw.pipeline() as pipe:
        for number in range(1500):
            pipe.xadd(keys.stream, {"by": "hand"}, id=f"{start + 1}-{number + 1}")
        pipe.execute()
    raw.hset(keys.progress, "history", "another one")  # numbers go on far behind
    queue.send("b")
    first = ahead(ranges, query, ("a", ONE), start + 1)
    assert first.end == start + 1 < first.last, "there is something, and not in reach yet"
    found = ahead(ranges, query, ("a", ONE), start + 1)
    assert found.end == found.last == first.last


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
        assert scripts.BEGIN.run(raw, [queue_key("shop/nowhere")], [0]) == [b"UNKNOWN"]
        assert raw.keys("pq:{shop/nowhere}*") == []
    absent.close()


async def test_a_range_ends_where_it_would_have_too_many_bytes(queue: Queue, ranges: RedisRanges, raw: redis.Redis) -> None:
    """As the marks say: about every 1 MiB one knows how many bytes there were."""
    queue.send(*("x" * 10_000 for _ in range(1000)))
    await queue.granted("a", ONE)
    query, start = ranges.begin(), ranges.positions()[0].committed
    size = len(queue.key(0)) + 10_000
    for most in (500_000, 3_000_000, 8_000_000):
        found = ahead(ranges, query, ("a", ONE), start, most=10_000, most_bytes=most)
        assert found.end - start == pytest.approx(most / size, abs=5)
        assert found.size == pytest.approx((found.end - start) * size, abs=2 * size)
    assert ahead(ranges, query, ("a", ONE), start, most=10_000, most_bytes=1).end == start + 1, "one entry is always allowed"
    assert ahead(ranges, query, ("a", ONE), start, most=10_000, most_bytes=10**9).end == start + 1000
    middle = start + 500
    assert ranges.finish(query, [RangeToFinish(0, middle)]) == [Finished()]
    found = ahead(ranges, query, ("a", ONE), middle, most=10_000, most_bytes=1_000_000)
    assert found.end - middle == pytest.approx(100, abs=5)


async def test_a_large_entry_among_small_ones_ends_a_range_in_front_of_it(queue: Queue, ranges: RedisRanges) -> None:
    queue.send(*["small"] * 100, "x" * 5_000_000, *["small"] * 100)
    await queue.granted("a", ONE)
    query, start = ranges.begin(), ranges.positions()[0].committed

    def end(start: int, most_bytes: int) -> int:
        return ahead(ranges, query, ("a", ONE), start, most=10_000, most_bytes=most_bytes).end

    assert end(start, 100_000) == start + 100
    assert end(start + 100, 100_000) == start + 101
    assert end(start + 101, 100_000) == start + 201
    assert end(start, 6_000_000) == start + 201


async def test_marks_of_what_is_done_are_removed(queue: Queue, ranges: RedisRanges, raw: redis.Redis) -> None:
    """Also where entries are acknowledged singly, and no range is ever finished."""
    keys = partition_keys(queue.name, 0)
    owner = await queue.granted("a", ONE)
    for _ in range(8):
        queue.send(*("x" * 100_000 for _ in range(22)))
        while entries := owner.read(0, ONE):
            owner.ack(0, ONE, [entry.offset for entry in entries])
    assert raw.xlen(keys.marks) <= 4


async def test_entries_of_nobody_go_to_the_dead_letters_when_the_range_is_finished(
    queue: Queue, ranges: RedisRanges, raw: redis.Redis
) -> None:
    keys = partition_keys(queue.name, 0)
    queue.send("a")
    start = ranges.positions()[0].committed
    raw.xadd(keys.stream, {"by": "hand"}, id=f"{start + 1}-1")
    queue.send("b")
    raw.xadd(keys.stream, {"by": "hand"}, id=f"{start + 2}-7")
    await queue.granted("a", ONE)
    query = ranges.begin()
    assert ahead(ranges, query, ("a", ONE), start).end == start + 2
    logged(ranges, query, start, start + 2)
    found = list(Task(query, start, start + 2).entries(raw, queue.name))
    assert [fields.get(b"v") for _, fields in found] == [b"a", None, b"b"]
    assert raw.xlen(keys.dead) == 0
    assert ranges.finish(query, [RangeToFinish(0, start + 2)]) == [Finished()]
    assert raw.xlen(keys.dead) == 1
    assert raw.xlen(keys.stream) == 1, "what is behind the end is of the next range"
    assert await lag(queue) == 0
    queue.send("c")
    assert logged(ranges, query, start + 2, start + 3) == Logged(0)
    assert len(list(Task(query, start + 2, start + 3).entries(raw, queue.name))) == 2


async def test_a_large_range_is_removed_by_as_many_scripts_as_it_takes(
    queue: Queue, ranges: RedisRanges, raw: redis.Redis
) -> None:
    stream = partition_keys(queue.name, 0).stream
    queue.send(*map(str, range(30_000)))
    query, start = ranges.begin(), ranges.positions()[0].committed
    logged(ranges, query, start, start + 30_000)
    for _ in range(2):
        before = raw.xlen(stream)
        answer = words_of_one(raw, scripts.FINISH, partition_keys(queue.name, 0), query, start + 30_000)
        assert answer == ["MORE" if before > 20_000 else "OK"]
        told = ranges.log(query, [RangeToLog(0, start, start + 30_000)])
        assert told == [Gone(start + 30_001, start + 30_000)], "it is finished, whatever is still there of it"
        assert before - raw.xlen(stream) <= 20_100, "others are served before it goes on"
    assert ranges.finish(query, [RangeToFinish(0, start + 30_000)]) == [Finished()]
    assert raw.xlen(stream) == 0
    assert await lag(queue) == 0


async def test_a_query_goes_on_where_it_was_when_a_full_disk_has_room_again() -> None:
    with RedisServer(append_only=False) as server:
        queue = await make_queue(server.url, partitions=1)
        ranges = RedisRanges(server.url, queue.name)
        queue.send("a", "b")
        await queue.granted("a", ONE)
        query, start = ranges.begin(), ranges.positions()[0].committed
        logged(ranges, query, start, start + 1)
        server.fill_disk()
        for ask in (
            lambda: ahead(ranges, query, ("a", ONE), start),
            lambda: ranges.log(query, [RangeToLog(0, start, start + 2)]),
            lambda: ranges.finish(query, [RangeToFinish(0, start + 1)]),
            lambda: ranges.begin(),
        ):
            with pytest.raises(QueueUnreachable, match="cannot write to its disk"):
                ask()
        assert ranges.positions()[0].last == start + 2, "to look changes nothing"
        server.free_disk()
        with server.client() as raw:
            assert Task(query, start, start + 1).rows(raw, queue.name) == [b"a"]
        assert ranges.finish(query, [RangeToFinish(0, start + 1)]) == [Finished()]
        ranges.close()


async def test_what_a_query_skips_of_a_large_backlog_is_removed_by_as_many_scripts_as_it_takes(
    queue: Queue, ranges: RedisRanges, raw: redis.Redis
) -> None:
    """After a restart of the server, whose numbers have a gap: each entry counts as it is removed."""
    keys = partition_keys(queue.name, 0)
    queue.send(*map(str, range(30_000)))
    start = ranges.positions()[0].committed
    raw.hset(keys.progress, "history", "another one")
    queue.send(*map(str, range(20_000)))
    query, latest = ranges.begin(), ranges.positions()[0].last
    queue.send("new")
    there = raw.xlen(keys.stream)
    end = ranges.positions()[0].last
    for _ in range(there // 20_000):
        assert words_of_one(raw, scripts.LOG, keys, query, latest, end, "") == ["MORE"]
        assert 0 < there - raw.xlen(keys.stream) <= 20_100, "others are served before it goes on"
        there = raw.xlen(keys.stream)
        assert await lag(queue) == there
        assert ranges.log(query, [RangeToLog(0, start, start + 1)]) == [Gone(latest + 1, latest)], "it is given up already"
    logged(ranges, query, latest, end)
    assert (raw.xlen(keys.stream), await lag(queue)) == (1, 1)
    assert Task(query, latest, end).rows(raw, queue.name) == [b"new"]
    raw.hset(keys.progress, "history", "one more")
    queue.send(*map(str, range(30_000)))
    latest = ranges.positions()[0].last
    answers: list[list[str]] = []
    while not answers or answers[-1] == ["MORE"]:
        answers.append(words_of_one(raw, scripts.FINISH, keys, query, latest))
    assert answers == [["MORE"], ["OK"]]
    assert (raw.xlen(keys.stream), await lag(queue)) == (0, 0)


async def test_a_range_has_no_more_entries_than_can_be_taken_at_once_from_what_a_pod_had(
    queue: Queue, ranges: RedisRanges
) -> None:
    queue.send(*map(str, range(2500)))
    owner = await queue.granted("a", ONE)
    query, start = ranges.begin(), ranges.positions()[0].committed
    while owner.read(0, ONE, 500):
        pass
    assert ahead(ranges, query, ("a", ONE), start, most=2000).end == start + 1000
    logged(ranges, query, start, start + 2500)
    assert ranges.finish(query, [RangeToFinish(0, start + 2500)]) == [Finished()]
    assert await queue.operator.outstanding(0) == 0


async def test_the_size_of_the_largest_entry_is_forgotten_when_all_are_done(
    queue: Queue, ranges: RedisRanges, raw: redis.Redis
) -> None:
    keys, start = partition_keys(queue.name, 0), ranges.positions()[0].committed
    queue.send("x" * 3000)
    assert raw.hget(keys.progress, "largest") is None  # readers ask for thousands of such entries at once
    queue.send("x" * 5000)
    assert int(raw.hget(keys.progress, "largest") or 0) >= 5000
    queue.send("x" * 300_000)
    assert int(raw.hget(keys.progress, "largest") or 0) >= 300_000
    query = ranges.begin()
    logged(ranges, query, start, start + 3)
    ranges.finish(query, [RangeToFinish(0, start + 3)])
    assert raw.hget(keys.progress, "largest") is None


async def test_behind_the_largest_entry_pages_grow_again_though_there_are_always_others(
    queue: Queue, ranges: RedisRanges, raw: redis.Redis
) -> None:
    keys, query, position = partition_keys(queue.name, 0), ranges.begin(), ranges.positions()[0].committed
    for value in ("x" * 300_000, "y" * 100_000, "z"):
        queue.send(value)
    ranges.finish(query, [RangeToFinish(0, position + 1)])
    assert 100_000 <= int(raw.hget(keys.progress, "largest") or 0) <= 200_000, "of what is left, half of the largest at most"
    for _ in range(8):  # half of that each time that all which was there is done
        queue.send("s")
        last = ranges.positions()[0].last
        ranges.finish(query, [RangeToFinish(0, last - 1)])
    assert raw.hget(keys.progress, "largest") is None


async def test_what_is_nobodys_counts_for_nothing_where_numbers_have_jumped(
    queue: Queue, ranges: RedisRanges, raw: redis.Redis
) -> None:
    keys = partition_keys(queue.name, 0)
    queue.send("a")
    query, start = ranges.begin(), ranges.positions()[0].committed
    raw.xadd(keys.stream, {"by": "hand"}, id=f"{start + 1}-1")
    raw.hset(keys.progress, "history", "another one")
    ranges.positions()
    logged(ranges, query, start, start + 1)
    assert ranges.finish(query, [RangeToFinish(0, start + 1)]) == [Finished()], "it was not named"
    assert await lag(queue) == 0


async def test_what_was_deleted_by_hand_is_not_left_for_ever_where_numbers_have_jumped(
    queue: Queue, ranges: RedisRanges, raw: redis.Redis
) -> None:
    keys = partition_keys(queue.name, 0)
    queue.send("a", "b")
    query, start = ranges.begin(), ranges.positions()[0].committed
    raw.xdel(keys.stream, f"{start + 1}-0")
    raw.hset(keys.progress, "history", "another one")
    ranges.positions()
    logged(ranges, query, start, start + 2)
    assert ranges.finish(query, [RangeToFinish(0, start + 2)]) == [Finished()]
    assert await lag(queue) == 0


@pytest.mark.parametrize("jumped", [False, True], ids=["dense", "jumped"])
async def test_what_is_nobodys_is_looked_for_when_the_range_is_finished(
    queue: Queue, ranges: RedisRanges, raw: redis.Redis, jumped: bool
) -> None:
    """By as many scripts as it takes, whatever their numbers, and nothing else goes with it."""
    keys = partition_keys(queue.name, 0)
    queue.send("a")
    start = ranges.positions()[0].committed
    with raw.pipeline() as pipe:
        for number in range(1500):
            pipe.xadd(keys.stream, {"by": "hand"}, id=f"{start + 1}-{number + 1}")
        pipe.execute()
    queue.send("b", "c")
    raw.xadd(keys.stream, {"by": "hand"}, id=f"{start + 3}-1")
    if jumped:
        raw.hset(keys.progress, "history", "another one")
    queue.send("d")
    query = ranges.begin()
    logged(ranges, query, start, start + 2)
    later = ranges.begin()
    answer = words_of_one(raw, scripts.FINISH, keys, later, start + 2)
    assert answer == ["MORE"] and 0 < raw.xlen(keys.dead) <= 1000, "others are served before it goes on"
    assert ranges.log(later, [RangeToLog(0, start, start + 2)]) == [Gone(start + 3, start + 2)], "it is finished"
    assert ranges.finish(later, [RangeToFinish(0, start + 2)]) == [Finished()]
    assert (raw.xlen(keys.dead), raw.xlen(keys.stream), await lag(queue)) == (1500, 3, 2)
    last = ranges.positions()[0].last
    logged(ranges, later, start + 3, last)
    assert Task(later, start + 3, last).rows(raw, queue.name) == [b"d"]
    assert ranges.finish(later, [RangeToFinish(0, last)]) == [Finished()]
    assert (raw.xlen(keys.dead), raw.xlen(keys.stream), await lag(queue)) == (1501, 0, 0)


async def test_what_is_nobodys_is_looked_for_when_the_next_range_is_logged(
    queue: Queue, ranges: RedisRanges, raw: redis.Redis
) -> None:
    keys = partition_keys(queue.name, 0)
    queue.send("a")
    query, start = ranges.begin(), ranges.positions()[0].committed
    with raw.pipeline() as pipe:
        for number in range(1500):
            pipe.xadd(keys.stream, {"by": "hand"}, id=f"{start + 1}-{number + 1}")
        pipe.execute()
    queue.send("b", "c")
    assert words_of_one(raw, scripts.LOG, keys, query, start + 2, start + 3, "") == ["MORE"]
    logged(ranges, query, start + 2, start + 3)
    assert (raw.xlen(keys.dead), raw.xlen(keys.stream), await lag(queue)) == (1500, 1, 1)
    assert Task(query, start + 2, start + 3).rows(raw, queue.name) == [b"c"]


async def test_one_of_nobodys_behind_many_entries_is_found_by_as_many_scripts_as_it_takes(
    queue: Queue, ranges: RedisRanges, raw: redis.Redis
) -> None:
    keys = partition_keys(queue.name, 0)
    queue.send(*map(str, range(10_000)))
    query, start = ranges.begin(), ranges.positions()[0].committed
    raw.xadd(keys.stream, {"by": "hand"}, id=f"{start + 10_000}-1")
    queue.send("z")
    assert words_of_one(raw, scripts.FINISH, keys, query, start + 10_001) == ["MORE"]
    assert 6_000 < await lag(queue) == raw.xlen(keys.stream) - 1 < 10_000, "what was looked at is removed, and others are served"
    assert ranges.finish(query, [RangeToFinish(0, start + 10_001)]) == [Finished()]
    assert (raw.xlen(keys.dead), raw.xlen(keys.stream), await lag(queue)) == (1, 0, 0)


async def test_large_ones_of_nobodys_are_set_aside_one_by_one(queue: Queue, ranges: RedisRanges, raw: redis.Redis) -> None:
    keys = partition_keys(queue.name, 0)
    queue.send("a")
    query, start = ranges.begin(), ranges.positions()[0].committed
    for number in range(3):
        raw.xadd(keys.stream, {"by": "h" * 1_000_000}, id=f"{start + 1}-{number + 1}")
    queue.send("b")
    for number in range(3):
        assert words_of_one(raw, scripts.FINISH, keys, query, start + 2) == ["MORE"]
        assert raw.xlen(keys.dead) == number + 1
    assert words_of_one(raw, scripts.FINISH, keys, query, start + 2) == ["OK"]
    assert (raw.xlen(keys.dead), raw.xlen(keys.stream), await lag(queue)) == (3, 0, 0)


async def test_ranges_go_on_behind_numbers_that_were_never_given(queue: Queue, ranges: RedisRanges, raw: redis.Redis) -> None:
    """After a restart the numbers jump: a backlog in front of the gap is read in ranges as large as ever."""
    keys = partition_keys(queue.name, 0)
    queue.send(*map(str, range(2000)))
    await queue.granted("a", ONE)
    query, start = ranges.begin(), ranges.positions()[0].committed
    raw.hset(keys.progress, "history", "another one")
    queue.send(*map(str, range(2000, 4000)))
    values, sizes = [], []
    while (found := ahead(ranges, query, ("a", ONE), start, most=1500)).end > start:
        logged(ranges, query, start, found.end)
        rows = Task(query, start, found.end).rows(raw, queue.name)
        values += rows
        sizes.append(len(rows))
        start = found.end
        assert await lag(queue) == 4000 - len(values) + sizes[-1]
        assert ranges.finish(query, [RangeToFinish(0, start)]) == [Finished()]
        assert await lag(queue) == 4000 - len(values)
    assert values == [str(number).encode() for number in range(4000)]
    assert sizes == [1500, 500, 1500, 500]


async def test_a_position_is_good_after_the_numbers_jumped_with_nothing_to_do(
    queue: Queue, ranges: RedisRanges, raw: redis.Redis
) -> None:
    keys = partition_keys(queue.name, 0)
    queue.send("a")
    await queue.granted("a", ONE)
    query, start = ranges.begin(), ranges.positions()[0].committed
    logged(ranges, query, start, start + 1)
    assert ranges.finish(query, [RangeToFinish(0, start + 1)]) == [Finished()]
    raw.hset(keys.progress, "history", "another one")
    before = raw.hgetall(keys.progress)
    assert ranges.positions()[0].committed == start + 1
    assert raw.hgetall(keys.progress) == before, "who only looks changes nothing"
    found = ahead(ranges, query, ("a", ONE), start + 1)
    assert ranges.positions()[0].committed > start + 1e8
    assert found.end == found.last == start + 1
    committed = ranges.positions()[0].committed
    raw.hdel(keys.progress, "finished")  # as a failover may
    assert ranges.finish(query, [RangeToFinish(0, start + 1)]) == [Finished()]
    assert (ranges.positions()[0].committed, await lag(queue)) == (committed, 0), "it stays ahead"
    queue.send("b")
    found = ahead(ranges, query, ("a", ONE), start + 1)
    logged(ranges, query, start + 1, found.end)
    assert Task(query, start + 1, found.end).rows(raw, queue.name) == [b"b"]


async def test_a_range_of_a_queue_that_was_lost_is_gone(queue: Queue, ranges: RedisRanges, raw: redis.Redis) -> None:
    keys = partition_keys(queue.name, 0)
    queue.send("a", "b")
    await queue.granted("a", ONE)
    query, start = ranges.begin(), ranges.positions()[0].committed
    logged(ranges, query, start, start + 2)
    raw.delete(keys.stream)
    with pytest.raises(RefusedError, match="UNLOGGED"):
        Task(query, start, start + 2).rows(raw, queue.name)
    assert ranges.log(query, [RangeToLog(0, start, start + 2)]) == [Gone(start + 1, start)]
    queue.send("c")
    assert ahead(ranges, query, ("a", ONE), start).end == start + 3
    future = start + 10**12
    (gone,) = ranges.ahead(query, [AheadRequest(0, Uid("a"), ONE, future, 10)])
    assert gone == Gone(start + 3, start + 3), "positions of another life begin afresh"


async def test_a_range_whose_entries_a_failover_has_lost_is_outstanding_no_more(
    queue: Queue, ranges: RedisRanges, raw: redis.Redis
) -> None:
    keys = partition_keys(queue.name, 0)
    queue.send("a", "b")
    await queue.granted("a", ONE)
    query, start = ranges.begin(), ranges.positions()[0].committed
    logged(ranges, query, start, start + 2)
    raw.xtrim(keys.stream, maxlen=0, approximate=False)
    raw.hset(keys.progress, "history", "another one")
    ahead(ranges, query, ("a", ONE), start)
    assert await queue.operator.outstanding(0) == 0


async def test_a_range_of_which_entries_were_deleted_by_hand_is_gone(queue: Queue, ranges: RedisRanges, raw: redis.Redis) -> None:
    keys = partition_keys(queue.name, 0)
    queue.send("a", "b", "c")
    query, start = ranges.begin(), ranges.positions()[0].committed
    raw.xdel(keys.stream, f"{start + 1}-0")
    assert ranges.log(query, [RangeToLog(0, start, start + 2)]) == [Gone(start + 2, start + 2)]
    assert ranges.log(query, [RangeToLog(0, start, start + 2, partly=True)]) == [Logged(0)]
    logged(ranges, query, start + 1, start + 2)
    assert Task(query, start + 1, start + 2).rows(raw, queue.name) == [b"b"]


async def test_a_range_whose_last_entry_was_deleted_is_gone_where_somebody_added_another(
    queue: Queue, ranges: RedisRanges, raw: redis.Redis
) -> None:
    """There are as many entries as there were."""
    stream = partition_keys(queue.name, 0).stream
    queue.send("a", "b")
    query, start = ranges.begin(), ranges.positions()[0].committed
    raw.xadd(stream, {"by": "hand"}, id=f"{start + 2}-1")
    raw.xdel(stream, f"{start + 2}-0")
    assert ranges.log(query, [RangeToLog(0, start, start + 2)]) == [Gone(start + 1, start + 1)]
    assert ranges.log(query, [RangeToLog(0, start, start + 1, partly=True)]) == [Logged(0)]
    assert Task(query, start, start + 1).rows(raw, queue.name) == [b"a"]


async def test_a_task_logs_its_range_where_a_failover_has_lost_that(queue: Queue, ranges: RedisRanges, raw: redis.Redis) -> None:
    queue.send("a", "b", "c")
    query, start = ranges.begin(), ranges.positions()[0].committed
    assert Task(query, start, start + 2, attempt=9).rows(raw, queue.name) == [b"a", b"b"]
    assert ranges.finish(query, [RangeToFinish(0, start + 1)]) == [Unlogged()], "it is logged"
    assert Task(query, start + 2, start + 3).rows(raw, queue.name) == [b"c"], "the next one too: the one before is done"
    with pytest.raises(RefusedError, match="UNLOGGED"):
        Task(query, start, start + 2).rows(raw, queue.name)


async def test_loans_are_bounded(queue: Queue, ranges: RedisRanges, raw: redis.Redis) -> None:
    queue.send("a")
    query, start = ranges.begin(), ranges.positions()[0].committed
    logged(ranges, query, start, start + 1)
    for evaluation in range(100):
        Task(query, start, start + 1, evaluation=f"{evaluation}.0", attempt=evaluation).rows(raw, queue.name)
    loans = raw.hget(partition_keys(queue.name, 0).progress, "loans")
    assert loans is not None
    assert len(loans) < 1000
    for evaluation in range(70, 100):
        with pytest.raises(RefusedError, match="LENT"):
            Task(query, start, start + 1, evaluation=f"{evaluation}.0", attempt=evaluation - 1).rows(raw, queue.name)


async def test_a_change_of_the_number_of_partitions_waits_for_what_is_logged(queue: Queue, ranges: RedisRanges) -> None:
    queue.send("a", "b")
    await queue.granted("a", ONE)
    query, start = ranges.begin(), ranges.positions()[0].committed
    logged(ranges, query, start, start + 2)
    for _ in range(3):
        waits = await queue.operator.ensure(4)
        assert waits is not None
        assert waits.waits_for == (0,)
    assert ranges.partitions() == 4
    ranges.finish(query, [RangeToFinish(0, start + 2)])
    while (waits := await queue.operator.ensure(4)) is not None:
        assert waits.waits_for == ()
    assert set(ranges.positions()) == {0, 1, 2, 3}


async def test_of_a_queue_that_was_lost_and_made_again_what_is_before_that_is_gone(
    queue: Queue, ranges: RedisRanges, raw: redis.Redis
) -> None:
    """Its new entries have larger numbers than those that are lost, so a position is not beyond them."""
    queue.send("a", "b")
    await queue.granted("a", ONE)
    query, start = ranges.begin(), ranges.positions()[0].committed
    logged(ranges, query, start, start + 2)
    queue.send("lost")
    raw.delete(*raw.keys(f"*{queue.name}*"))
    await queue.operator.ensure(queue.partitions)
    await queue.granted("b", ONE)
    asked = [AheadRequest(0, Uid("b"), ONE, start + 2, 100)]
    (empty,) = ranges.ahead(query, asked)
    assert isinstance(empty, Gone)
    made = empty.last
    assert empty.first - 1 == made > start + 3
    assert ranges.log(query, [RangeToLog(0, start + 2, start + 3)]) == [Gone(made + 1, made)]
    queue.send("new")
    (answer,) = ranges.ahead(query, asked)
    assert isinstance(answer, Gone)
    assert answer.first == answer.last > made
    assert ranges.log(query, [RangeToLog(0, start + 2, start + 3)]) == [Gone(made + 1, made)], "none of these is there"
    assert isinstance(ranges.ahead(query, [asked[0]._replace(start=answer.first - 1)])[0], Ahead)


async def test_a_partition_that_the_queue_does_not_have_any_more_has_no_range(ranges: RedisRanges) -> None:
    query = ranges.begin()
    assert ranges.log(query, [RangeToLog(2, 7, 9)]) == [Gone(1, 0)]
    assert ranges.finish(query, [RangeToFinish(2, 9)]) == [Unlogged()]
