"""Logged ranges: any task may read one, as often as needed, until it is finished."""

from collections.abc import Callable, Sequence

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
from tests.integration.redis.conftest import Queue, own_queue
from tests.integration.redis.logged import Query, RefusedError, Task, ahead, ranges_of, words_of_one
from tests.waiting import PATIENCE

ONE, TWO, THREE = Epoch(1), Epoch(2), Epoch(3)
_A_MINUTE = 60 * 10**6
"""Query numbers count in microseconds."""


async def test_a_range_is_read_as_often_as_needed_and_then_finished(queue: Queue, query: Query) -> None:
    queue.send("a", "b", "c")
    await queue.granted("a", ONE)
    found = query.ahead(most=2)
    assert [one - query.start for one in (found.first, found.end, found.last)] == [1, 2, 3]
    assert query.log(0, 2) == Logged(0)
    for _ in range(2):
        assert query.rows(0, 2, "a", ONE) == [b"a", b"b"]
    assert query.finish(2) == Finished()
    assert await query.counts() == (0, 1, 1)
    with pytest.raises(RefusedError, match="UNLOGGED"):
        query.rows(0, 2, "a", ONE)
    assert query.end(2) == 3


async def test_bounds_are_those_of_batons_own_entries(queue: Queue, query: Query) -> None:
    queue.send("a")
    owner = await queue.granted("a", ONE)
    query.add_foreign(1)
    queue.send("b", "c", "d")
    owner.ack(0, ONE, [owner.read(0, ONE, 1)[0].offset])
    query.delete(3, 4)
    query.add_foreign(4)
    assert query.bounds() == PartitionBounds(query.start, query.start + 1, query.start + 2)
    assert not queue.letters(), "looking sets nothing aside"


async def test_a_logged_range_outlives_its_owner(queue: Queue, query: Query, raw: redis.Redis) -> None:
    def answer(uid: str, epoch: Epoch, evaluation: str) -> str:
        return query.task(0, 2, uid, epoch, evaluation=evaluation).page(raw, queue.name, b"0-0")[0]

    queue.send("a", "b")
    await queue.granted("a", ONE)
    query.logged(0, 2)
    assert await queue.operator.pause(0, ONE) == 2
    await queue.granted("b", TWO)
    assert await queue.operator.outstanding(0) == 2, "it is still logged"
    assert answer("a", ONE, "1.0") == "lent"
    assert answer("b", TWO, "2.0") == "owner"
    for nth, (uid, epoch) in enumerate([("b", ONE), ("c", TWO), ("b", THREE)]):
        assert answer(uid, epoch, f"3.{nth}") == "lent"
    assert query.finish(2) == Finished()
    assert await query.counts() == (0, 0, 0)


async def test_refusals_are_counted(queue: Queue, query: Query, ranges: RedisRanges) -> None:
    async def refused() -> int:
        return (await queue.stale_refused())[0]

    queue.send("a")
    query.rows(0, 1, attempt=2)
    assert await refused() == 0
    with pytest.raises(RefusedError, match="LENT"):
        query.rows(0, 1, attempt=1)
    assert await refused() == 1
    ranges.begin()
    assert isinstance(query.finish(1), LaterQuery)
    assert await refused() == 2


async def test_query_numbers_grow_despite_losses_and_wrong_clocks(queue: Queue, ranges: RedisRanges, raw: redis.Redis) -> None:
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
async def test_asking_for_a_partition_that_does_not_exist_does_not_create_it(
    queue: Queue, raw: redis.Redis, script: Script, arguments: Sequence[object]
) -> None:
    absent = partition_keys(queue.name, 99)
    assert words_of_one(raw, script, absent, *arguments) == ["UNKNOWN"]
    assert raw.exists(*absent) == 0
    with pytest.raises(RefusedError, match="UNKNOWN"):
        Task(1, 0, 1, partition=99).rows(raw, queue.name)
    assert raw.exists(*absent) == 0


async def test_only_the_owner_of_an_unpaused_partition_is_told_what_is_ahead(queue: Queue, query: Query) -> None:
    queue.send("a")
    await queue.granted("a", ONE)
    assert query.asks(uid="b") == Stale()
    await queue.operator.pause(0, ONE)
    assert query.asks() == Paused()


async def test_logging_a_range_finishes_what_is_before_it(queue: Queue, query: Query) -> None:
    queue.send("a", "b", "c")
    await queue.granted("a", ONE)
    query.logged(0, 2)
    query.logged(2, 3)
    assert await query.counts() == (0, 1, 1)
    assert query.finish(2) == Finished()
    assert query.rows(2, 3) == [b"c"]
    assert query.log(0, 2) == query.gone(3, 2)
    assert query.log(0, 3) == query.gone(3, 3), "a part of it is finished"
    assert query.asks() == query.gone(3, 3)


async def test_a_range_behind_many_foreign_entries_is_found(queue: Queue, query: Query) -> None:
    queue.send("a")
    assert query.finish(1) == Finished()
    query.add_foreign(1, 2500)
    queue.send("b", "c")
    assert query.log(0, 3) == query.gone(2, 3)
    query.logged(1, 3)
    assert query.rows(1, 3) == [b"b", b"c"]


async def test_what_is_left_of_a_range_ends_with_one_of_batons_entries(queue: Queue, query: Query) -> None:
    queue.send("a", "b")
    query.add_foreign(2)
    queue.send("c")
    query.delete(2, 3)
    assert query.log(0, 3) == query.gone(1, 1)


async def test_an_impossible_range_is_gone(queue: Queue, query: Query) -> None:
    queue.send("a", "b", "c")
    assert query.log(0, 9) == query.gone(1, 3), "so many were never added"
    assert query.log(2, 1) == query.gone(3, 2), "it ends before it begins"


async def test_a_voided_range_that_is_logged_again_is_as_good_as_any(queue: Queue, query: Query, raw: redis.Redis) -> None:
    queue.send("a", "b")
    owner = await queue.granted("a", ONE)
    query.logged(0, 2)
    owner.read(0, ONE)
    query.logged(0, 2)
    raw.hdel(query.keys.progress, "logged", "loggedTo")  # as in a failover
    assert query.rows(0, 2) == [b"a", b"b"]


async def test_after_a_failed_wait_the_queue_is_asked_again() -> None:
    async with own_queue(1) as (server, queue):
        ranges = ranges_of(queue)
        await queue.granted("a", ONE)
        ahead(ranges, ranges.begin(), ("a", ONE), ranges.positions()[0].committed)
        server.stop()
        with pytest.raises(QueueUnreachable):
            ranges.wait([0], PATIENCE)
        assert ranges.wait([0], PATIENCE) == {0}
        ranges.close()


async def test_an_entry_and_a_grant_wake_those_who_wait(queue: Queue, query: Query, ranges: RedisRanges) -> None:
    await queue.granted("a", ONE)
    assert ranges.wait([0, 1], PATIENCE) == {0, 1}, "nothing was asked yet"
    for partition in (0, 1):
        await queue.granted("a", ONE, partition)
        ahead(ranges, query.number, ("a", ONE), ranges.positions()[partition].committed, partition=partition)
    assert ranges.wait([0, 1], 0.05) == set()
    queue.send("x", partition=1)
    assert ranges.wait([0, 1], PATIENCE) == {1}
    await queue.granted("b", TWO)
    assert ranges.wait([0], PATIENCE) == {0}
    assert isinstance(query.asks(), Stale)
    assert ranges.wait([0], 0.05) == set()
    await queue.granted("c", THREE)
    assert ranges.wait([0], PATIENCE) == {0}


async def test_a_wait_ends_at_once_while_there_is_more_to_read(queue: Queue, query: Query, ranges: RedisRanges) -> None:
    await queue.granted("a", ONE)
    queue.send("a", "b")
    query.ahead(most=1)
    assert ranges.wait([0], PATIENCE) == {0}, "there is more"
    query.ahead()
    queue.send("c")
    assert ranges.wait([0], PATIENCE) == {0}
    query.ahead(3)
    queue.send("d")
    assert ranges.wait([0], PATIENCE) == {0}


async def test_an_entry_behind_many_foreign_ones_is_reached_by_asking_again(queue: Queue, query: Query) -> None:
    queue.send("a")
    await queue.granted("a", ONE)
    query.add_foreign(1, 1500)
    query.jump()
    queue.send("b")
    first = query.ahead(1)
    assert first.end == query.start + 1 < first.last, "there is something, and not in reach yet"
    found = query.ahead(1)
    assert found.end == found.last == first.last


async def test_all_partitions_are_asked_in_few_round_trips(queue: Queue, query: Query, ranges: RedisRanges) -> None:
    for partition in (0, 1):
        queue.send("a", "b", partition=partition)
        await queue.granted("a", ONE, partition)
    positions = ranges.positions()
    requests = [AheadRequest(partition, Uid("a"), ONE, positions[partition].committed, 1) for partition in (1, 0)]
    found = ranges.ahead(query.number, requests)
    ends = [answer.end for answer in found if isinstance(answer, Ahead)]
    assert ends == [positions[partition].committed + 1 for partition in (1, 0)]


async def test_a_queue_that_does_not_exist_is_named(queue: Queue, raw: redis.Redis) -> None:
    absent = RedisRanges(queue.url, "shop/nowhere")
    for ask in (absent.begin, absent.partitions, absent.positions, lambda: absent.log(1, [RangeToLog(0, 1, 2)])):
        with pytest.raises(QueueUnreachable, match="shop/nowhere"):
            ask()
    assert scripts.BEGIN.run(raw, [queue_key("shop/nowhere")], [0]) == [b"UNKNOWN"]
    assert raw.keys("pq:{shop/nowhere}*") == []
    absent.close()


async def test_a_range_ends_where_it_would_have_too_many_bytes(queue: Queue, query: Query) -> None:
    """Marks about every 1 MiB have the number of bytes before them."""
    queue.send(*("x" * 10_000 for _ in range(1000)))
    await queue.granted("a", ONE)
    size = len(queue.key(0)) + 10_000
    for most in (500_000, 3_000_000, 8_000_000):
        found = query.ahead(most=10_000, most_bytes=most)
        assert found.end - query.start == pytest.approx(most / size, abs=5)
        assert found.size == pytest.approx((found.end - query.start) * size, abs=2 * size)
    assert query.end(most=10_000, most_bytes=1) == 1, "one entry is always allowed"
    assert query.end(most=10_000, most_bytes=10**9) == 1000
    assert query.finish(500) == Finished()
    assert query.end(500, most=10_000, most_bytes=1_000_000) == pytest.approx(600, abs=5)


async def test_a_range_ends_before_a_large_entry_among_small_ones(queue: Queue, query: Query) -> None:
    queue.send(*["small"] * 100, "x" * 5_000_000, *["small"] * 100)
    await queue.granted("a", ONE)
    for start, most_bytes, end in ((0, 100_000, 100), (100, 100_000, 101), (101, 100_000, 201), (0, 6_000_000, 201)):
        assert query.end(start, most=10_000, most_bytes=most_bytes) == end


async def test_marks_of_finished_entries_are_removed(queue: Queue, raw: redis.Redis) -> None:
    """Even if entries are acknowledged one by one and no range is finished."""
    owner = await queue.granted("a", ONE)
    for _ in range(8):
        queue.send(*("x" * 100_000 for _ in range(22)))
        while entries := owner.read(0, ONE):
            owner.ack(0, ONE, [entry.offset for entry in entries])
    assert raw.xlen(partition_keys(queue.name, 0).marks) <= 4


async def test_foreign_entries_become_dead_letters_with_their_range(queue: Queue, query: Query, raw: redis.Redis) -> None:
    queue.send("a")
    query.add_foreign(1)
    queue.send("b")
    query.add_foreign(2)
    await queue.granted("a", ONE)
    assert query.end() == 2
    query.logged(0, 2)
    found = list(query.task(0, 2).entries(raw, queue.name))
    assert [fields.get(b"v") for _, fields in found] == [b"a", None, b"b"]
    assert not queue.letters()
    assert query.finish(2) == Finished()
    assert await query.counts() == (1, 1, 0), "what is behind the end belongs to the next range"
    queue.send("c")
    assert query.log(2, 3) == Logged(0)
    assert len(list(query.task(2, 3).entries(raw, queue.name))) == 2


async def test_a_large_range_is_removed_by_as_many_scripts_as_it_takes(queue: Queue, query: Query, raw: redis.Redis) -> None:
    queue.send(*map(str, range(30_000)))
    query.logged(0, 30_000)
    for _ in range(2):
        before = raw.xlen(query.keys.stream)
        assert query.words(scripts.FINISH, 30_000) == ["MORE" if before > 20_000 else "OK"]
        assert query.log(0, 30_000) == query.gone(30_001, 30_000), "it is finished, whatever is still there of it"
        assert before - raw.xlen(query.keys.stream) <= 20_100, "others are served before it goes on"
    assert query.finish(30_000) == Finished()
    assert await query.counts() == (0, 0, 0)


async def test_a_query_resumes_when_a_full_disk_has_room_again() -> None:
    async with own_queue(1, append_only=False) as (server, queue):
        with server.client() as raw:
            ranges = ranges_of(queue)
            queue.send("a", "b")
            await queue.granted("a", ONE)
            query = Query(queue, ranges, raw)
            query.logged(0, 1)
            server.fill_disk()
            asks: list[Callable[[], object]] = [query.ahead, lambda: query.log(0, 2), lambda: query.finish(1), ranges.begin]
            for ask in asks:
                with pytest.raises(QueueUnreachable, match="cannot write to its disk"):
                    ask()
            assert query.bounds().last == query.start + 2, "looking changes nothing"
            server.free_disk()
            assert query.rows(0, 1) == [b"a"]
            assert query.finish(1) == Finished()
            ranges.close()


async def test_a_skipped_backlog_is_removed_by_as_many_scripts_as_it_takes(queue: Queue, query: Query, raw: redis.Redis) -> None:
    """After a restart the numbers have a gap, so each entry counts when it is removed."""
    queue.send(*map(str, range(30_000)))
    query.jump()
    queue.send(*map(str, range(20_000)))
    latest = query.bounds().last - query.start
    queue.send("new")
    there, end = raw.xlen(query.keys.stream), query.bounds().last - query.start
    for _ in range(there // 20_000):
        assert query.words(scripts.LOG, latest, end, more=[""]) == ["MORE"]
        assert 0 < there - raw.xlen(query.keys.stream) <= 20_100, "others are served before it goes on"
        there = raw.xlen(query.keys.stream)
        assert await query.counts() == (0, there, there)
        assert query.log(0, 1) == query.gone(latest + 1, latest), "it is given up already"
    query.logged(latest, end)
    assert await query.counts() == (0, 1, 1)
    assert query.rows(latest, end) == [b"new"]
    raw.hset(query.keys.progress, "history", "one more")
    queue.send(*map(str, range(30_000)))
    latest = query.bounds().last - query.start
    answers: list[list[str]] = []
    while not answers or answers[-1] == ["MORE"]:
        answers.append(query.words(scripts.FINISH, latest))
    assert answers == [["MORE"], ["OK"]]
    assert await query.counts() == (0, 0, 0)


async def test_a_range_is_bounded_by_what_can_be_taken_from_a_pod_at_once(queue: Queue, query: Query) -> None:
    queue.send(*map(str, range(2500)))
    owner = await queue.granted("a", ONE)
    while owner.read(0, ONE, 500):
        pass
    assert query.end(most=2000) == 1000
    query.logged(0, 2500)
    assert query.finish(2500) == Finished()
    assert await queue.operator.outstanding(0) == 0


def largest(query: Query) -> int:
    """The size of the largest entry as the queue remembers it."""
    return int(query.raw.hget(query.keys.progress, "largest") or 0)


async def test_the_size_of_the_largest_entry_is_forgotten_once_all_are_done(queue: Queue, query: Query) -> None:
    queue.send("x" * 3000)
    assert not largest(query), "readers ask for thousands of such entries at once"
    for size in (5000, 300_000):
        queue.send("x" * size)
        assert largest(query) >= size
    query.logged(0, 3)
    query.finish(3)
    assert not largest(query)


async def test_pages_grow_again_behind_the_largest_entry(queue: Queue, query: Query) -> None:
    """Even though there are always other entries."""
    for value in ("x" * 300_000, "y" * 100_000, "z"):
        queue.send(value)
    query.finish(1)
    assert 100_000 <= largest(query) <= 200_000, "of what is left, half of the largest at most"
    for _ in range(8):  # halved each time all earlier entries are done
        queue.send("s")
        query.finish(query.bounds().last - query.start - 1)
    assert not largest(query)


async def test_a_foreign_entry_does_not_count_after_the_numbers_jumped(queue: Queue, query: Query) -> None:
    queue.send("a")
    query.add_foreign(1)
    query.jump()
    query.bounds()
    query.logged(0, 1)
    assert query.finish(1) == Finished(), "it was not named"
    assert (await query.counts())[2] == 0


async def test_an_entry_deleted_by_hand_is_not_left_over_after_the_numbers_jumped(queue: Queue, query: Query) -> None:
    queue.send("a", "b")
    query.delete(1)
    query.jump()
    query.bounds()
    query.logged(0, 2)
    assert query.finish(2) == Finished()
    assert (await query.counts())[2] == 0


@pytest.mark.parametrize("jumped", [False, True], ids=["dense", "jumped"])
async def test_finishing_a_range_looks_for_foreign_entries(queue: Queue, query: Query, ranges: RedisRanges, jumped: bool) -> None:
    """Several scripts set them aside, and no other entry."""
    queue.send("a")
    query.add_foreign(1, 1500)
    queue.send("b", "c")
    query.add_foreign(3)
    if jumped:
        query.jump()
    queue.send("d")
    query.logged(0, 2)
    query.number = ranges.begin()
    assert query.words(scripts.FINISH, 2) == ["MORE"]
    assert 0 < len(queue.letters()) <= 1000, "others are served before it goes on"
    assert query.log(0, 2) == query.gone(3, 2), "it is finished"
    assert query.finish(2) == Finished()
    assert await query.counts() == (1500, 3, 2)
    last = query.bounds().last - query.start
    query.logged(3, last)
    assert query.rows(3, last) == [b"d"]
    assert query.finish(last) == Finished()
    assert await query.counts() == (1501, 0, 0)


async def test_logging_the_next_range_looks_for_foreign_entries(queue: Queue, query: Query) -> None:
    queue.send("a")
    query.add_foreign(1, 1500)
    queue.send("b", "c")
    assert query.words(scripts.LOG, 2, 3, more=[""]) == ["MORE"]
    query.logged(2, 3)
    assert await query.counts() == (1500, 1, 1)
    assert query.rows(2, 3) == [b"c"]


async def test_a_foreign_entry_behind_many_is_found_by_as_many_scripts_as_it_takes(queue: Queue, query: Query) -> None:
    queue.send(*map(str, range(10_000)))
    query.add_foreign(10_000)
    queue.send("z")
    assert query.words(scripts.FINISH, 10_001) == ["MORE"]
    _, there, lag = await query.counts()
    assert 6_000 < lag == there - 1 < 10_000, "what was looked at is removed, and others are served"
    assert query.finish(10_001) == Finished()
    assert await query.counts() == (1, 0, 0)


async def test_large_foreign_entries_are_set_aside_one_by_one(queue: Queue, query: Query) -> None:
    queue.send("a")
    query.add_foreign(1, 3, "h" * 1_000_000)
    queue.send("b")
    for number in range(3):
        assert query.words(scripts.FINISH, 2) == ["MORE"]
        assert len(queue.letters()) == number + 1
    assert query.words(scripts.FINISH, 2) == ["OK"]
    assert await query.counts() == (3, 0, 0)


async def test_ranges_go_on_behind_numbers_that_were_never_given(queue: Queue, query: Query) -> None:
    """After a restart the numbers jump. The backlog before the gap is still read in large ranges."""
    queue.send(*map(str, range(2000)))
    await queue.granted("a", ONE)
    query.jump()
    queue.send(*map(str, range(2000, 4000)))
    values, sizes, start = list[bytes](), list[int](), 0
    while (end := query.end(start, most=1500)) > start:
        query.logged(start, end)
        rows = query.rows(start, end)
        values += rows
        sizes.append(len(rows))
        start = end
        assert (await query.counts())[2] == 4000 - len(values) + sizes[-1]
        assert query.finish(start) == Finished()
        assert (await query.counts())[2] == 4000 - len(values)
    assert values == [str(number).encode() for number in range(4000)]
    assert sizes == [1500, 500, 1500, 500]


async def test_a_position_stays_valid_when_numbers_jump_while_idle(queue: Queue, query: Query, raw: redis.Redis) -> None:
    queue.send("a")
    await queue.granted("a", ONE)
    query.logged(0, 1)
    assert query.finish(1) == Finished()
    query.jump()
    before = raw.hgetall(query.keys.progress)
    assert query.bounds().committed == query.start + 1
    assert raw.hgetall(query.keys.progress) == before, "looking changes nothing"
    found = query.ahead(1)
    committed = query.bounds().committed
    assert committed > query.start + 1e8
    assert found.end == found.last == query.start + 1
    raw.hdel(query.keys.progress, "finished")  # as in a failover
    assert query.finish(1) == Finished()
    assert (query.bounds().committed, (await query.counts())[2]) == (committed, 0), "it stays ahead"
    queue.send("b")
    end = query.end(1)
    query.logged(1, end)
    assert query.rows(1, end) == [b"b"]


async def test_a_range_of_a_lost_queue_is_gone(queue: Queue, query: Query, raw: redis.Redis) -> None:
    queue.send("a", "b")
    await queue.granted("a", ONE)
    query.logged(0, 2)
    raw.delete(query.keys.stream)
    with pytest.raises(RefusedError, match="UNLOGGED"):
        query.rows(0, 2)
    assert query.log(0, 2) == query.gone(1, 0)
    queue.send("c")
    assert query.end() == 3
    assert query.asks(10**12) == query.gone(3, 3), "positions from before the loss begin afresh"


async def test_a_range_that_a_failover_has_lost_is_no_longer_outstanding(queue: Queue, query: Query, raw: redis.Redis) -> None:
    queue.send("a", "b")
    await queue.granted("a", ONE)
    query.logged(0, 2)
    raw.xtrim(query.keys.stream, maxlen=0, approximate=False)
    query.jump()
    query.ahead()
    assert await queue.operator.outstanding(0) == 0


async def test_a_range_with_entries_deleted_by_hand_is_gone(queue: Queue, query: Query) -> None:
    queue.send("a", "b", "c")
    query.delete(1)
    assert query.log(0, 2) == query.gone(2, 2)
    assert query.log(0, 2, partly=True) == Logged(0)
    query.logged(1, 2)
    assert query.rows(1, 2) == [b"b"]


async def test_a_foreign_entry_does_not_stand_in_for_a_deleted_last_one(queue: Queue, query: Query) -> None:
    """The number of entries stays the same."""
    queue.send("a", "b")
    query.add_foreign(2)
    query.delete(2)
    assert query.log(0, 2) == query.gone(1, 1)
    assert query.log(0, 1, partly=True) == Logged(0)
    assert query.rows(0, 1) == [b"a"]


async def test_a_task_logs_its_range_again_after_a_failover_lost_that(queue: Queue, query: Query) -> None:
    queue.send("a", "b", "c")
    assert query.rows(0, 2, attempt=9) == [b"a", b"b"]
    assert query.finish(1) == Unlogged(), "it is logged"
    assert query.rows(2, 3) == [b"c"], "the next one too: the one before is done"
    with pytest.raises(RefusedError, match="UNLOGGED"):
        query.rows(0, 2)


async def test_loans_are_bounded(queue: Queue, query: Query, raw: redis.Redis) -> None:
    queue.send("a")
    query.logged(0, 1)
    for evaluation in range(100):
        query.rows(0, 1, evaluation=f"{evaluation}.0", attempt=evaluation)
    loans = raw.hget(query.keys.progress, "loans")
    assert loans is not None and len(loans) < 1000
    for evaluation in range(70, 100):
        with pytest.raises(RefusedError, match="LENT"):
            query.rows(0, 1, evaluation=f"{evaluation}.0", attempt=evaluation - 1)


async def test_a_change_of_the_partition_count_waits_for_logged_ranges(queue: Queue, query: Query, ranges: RedisRanges) -> None:
    queue.send("a", "b")
    await queue.granted("a", ONE)
    query.logged(0, 2)
    for _ in range(3):
        waits = await queue.operator.ensure(4)
        assert waits is not None and waits.waits_for == (0,)
    assert ranges.partitions() == 4
    query.finish(2)
    while (waits := await queue.operator.ensure(4)) is not None:
        assert waits.waits_for == ()
    assert set(ranges.positions()) == {0, 1, 2, 3}


async def test_positions_from_before_a_queue_was_made_again_are_gone(queue: Queue, query: Query, raw: redis.Redis) -> None:
    """Its new entries have larger numbers than the lost ones, so old positions are below them."""
    queue.send("a", "b")
    await queue.granted("a", ONE)
    query.logged(0, 2)
    queue.send("lost")
    raw.delete(*raw.keys(f"*{queue.name}*"))
    await queue.operator.ensure(queue.partitions)
    await queue.granted("b", ONE)
    empty = query.asks(2, "b")
    assert isinstance(empty, Gone)
    made = empty.last
    assert empty.first - 1 == made > query.start + 3
    assert query.log(2, 3) == Gone(made + 1, made)
    queue.send("new")
    answer = query.asks(2, "b")
    assert isinstance(answer, Gone)
    assert answer.first == answer.last > made
    assert query.log(2, 3) == Gone(made + 1, made), "none of these is there"
    assert isinstance(query.asks(answer.first - 1 - query.start, "b"), Ahead)


async def test_a_partition_that_was_removed_has_no_range(ranges: RedisRanges) -> None:
    query = ranges.begin()
    assert ranges.log(query, [RangeToLog(2, 7, 9)]) == [Gone(1, 0)]
    assert ranges.finish(query, [RangeToFinish(2, 9)]) == [Unlogged()]
