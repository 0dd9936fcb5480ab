"""A Spark query's driver on a topic: it commits the ends of ranges as the group's offsets, and of two queries the later one
wins."""

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine
from functools import partial
from typing import Any

import pytest

from baton.model.ids import Epoch, Uid
from baton.queues.kafka.ranges import RESERVED, KafkaRanges
from baton.queues.logged_ranges import (
    Ahead,
    AheadRequest,
    Finished,
    Gone,
    LaterQuery,
    Logged,
    PartitionBounds,
    RangeToFinish,
    RangeToLog,
    Stale,
    Unlogged,
)
from baton.queues.protocol import QueueUnreachable
from tests.integration.kafka.conftest import MakeQueue, Queue
from tests.integration.kafka.reading import read
from tests.waiting import PATIENCE, until


@pytest.fixture
async def queue(make: MakeQueue) -> Queue:
    """A queue with one partition, which pod `a` owns, and the operator in the group."""
    made = make(1)
    await made.operator.ensure(None)
    await owned(made)
    return made


class Driver:
    """A query's driver: calls the methods of KafkaRanges in threads."""

    def __init__(self, queue: Queue) -> None:
        url = f"kafka://{queue.broker.servers}/?group={queue.group}"
        self.ranges = KafkaRanges(url, "shop/orders", "shop/orders-group")

    def __getattr__(self, name: str) -> Callable[..., Coroutine[Any, Any, Any]]:
        return partial(asyncio.to_thread, getattr(self.ranges, name))


MakeDriver = Callable[[], Driver]


@pytest.fixture
async def driver_of(queue: Queue) -> AsyncIterator[MakeDriver]:
    """`driver_of()`: another driver, closed after the test."""
    made: list[Driver] = []

    def one() -> Driver:
        made.append(Driver(queue))
        return made[-1]

    yield one
    for each in made:
        await each.close()


@pytest.fixture
def driver(driver_of: MakeDriver) -> Driver:
    return driver_of()


async def owned(queue: Queue, uid: str = "a", epoch: int = 1, partition: int = 0) -> None:
    assert (await queue.operator.grant(partition, Uid(uid), Epoch(epoch))).epoch == epoch


def request(start: int = 0, most: int = 100, uid: str = "a", epoch: int = 1) -> AheadRequest:
    return AheadRequest(0, Uid(uid), Epoch(epoch), start, most)


def numbers(count: int) -> list[str]:
    return [str(number) for number in range(count)]


async def test_a_range_is_chosen_logged_and_finished(queue: Queue, driver: Driver) -> None:
    queue.send(*numbers(10))
    query = await driver.begin()
    assert await driver.positions() == {0: PartitionBounds(0, 0, 10)}
    assert await driver.ahead(query, [request(most=6)]) == [Ahead(6, 10, 1, 0)]
    assert await driver.log(query, [RangeToLog(0, 0, 6)]) == [Logged(0)]
    assert await driver.finish(query, [RangeToFinish(0, 6)]) == [Finished()]
    assert await driver.ahead(query, [request(6)]) == [Ahead(10, 10, 7, 0)]
    assert (await queue.operator.check()).lag[0] == 4
    assert await queue.committed() == 6


async def test_the_later_of_two_queries_wins(queue: Queue, driver_of: MakeDriver) -> None:
    queue.send(*numbers(10))
    former, successor = driver_of(), driver_of()
    first = await former.begin()
    await former.ahead(first, [request()])
    await former.log(first, [RangeToLog(0, 0, 5)])
    second = await successor.begin()
    assert second > first
    assert await former.finish(first, [RangeToFinish(0, 5)]) == [LaterQuery(second)]
    assert await former.log(first, [RangeToLog(0, 0, 5)]) == [LaterQuery(second)]
    assert await former.ahead(first, [request()]) == [LaterQuery(second)]
    assert await former.fence(first, [0]) == second
    assert await successor.finish(second, [RangeToFinish(0, 3)]) == [Finished()]
    assert await queue.committed() == 3


async def test_the_broker_rejects_a_commit_started_before_a_later_query(queue: Queue, driver_of: MakeDriver) -> None:
    """The earlier query has the record of a moment ago, like a driver that was stopped there."""
    queue.send(*numbers(10))
    former = driver_of()
    first = await former.begin()
    seen = await queue.seen()
    assert seen.record is not None and seen.record.query == first
    second = await driver_of().begin()
    changes = {0: lambda now: (7, now.record) if now.record is not None and now.record.query == first else None}
    done = await asyncio.to_thread(former.ranges._loop.run, former.ranges._open()._changed(first, changes, {0: seen}), PATIENCE)
    assert done[0].record is not None and done[0].record.query == second
    assert await queue.committed() == 0


async def test_a_logged_range_is_finished_under_any_later_owner(queue: Queue, driver: Driver) -> None:
    queue.send(*numbers(10))
    query = await driver.begin()
    await driver.log(query, [RangeToLog(0, 0, 5)])
    await owned(queue, "b", 2)
    assert await driver.ahead(query, [request(5)]) == [Stale()]
    assert await driver.finish(query, [RangeToFinish(0, 5)]) == [Finished()]
    assert await queue.committed() == 5
    assert await driver.log(query, [RangeToLog(0, 5, 10)]) == [Logged(5)]


async def test_the_next_query_learns_what_an_earlier_one_may_have_delivered(queue: Queue, driver_of: MakeDriver) -> None:
    queue.send(*numbers(3 * RESERVED))
    former, successor = driver_of(), driver_of()
    first = await former.begin()
    assert await former.log(first, [RangeToLog(0, 0, 5)]) == [Logged(0)]
    second = await successor.begin()
    assert await successor.log(second, [RangeToLog(0, 0, 5)]) == [Logged(5)]
    reserved = 5 + RESERVED
    assert await successor.log(second, [RangeToLog(0, 0, 2 * RESERVED)]) == [Logged(reserved)]
    assert await successor.finish(second, [RangeToFinish(0, 2 * RESERVED)]) == [Finished()]
    assert await successor.log(second, [RangeToLog(0, 2 * RESERVED, 3 * RESERVED)]) == [Logged(2 * RESERVED)]


async def test_finishing_again_or_earlier_changes_nothing(queue: Queue, driver: Driver) -> None:
    queue.send(*numbers(10))
    query = await driver.begin()
    assert await driver.finish(query, [RangeToFinish(0, 6)]) == [Finished()]
    assert await driver.finish(query, [RangeToFinish(0, 6)]) == [Finished()]
    assert await driver.finish(query, [RangeToFinish(0, 2)]) == [Finished()]
    assert await driver.finish(query, [RangeToFinish(0, 11)]) == [Unlogged()]
    assert await queue.committed() == 6


async def test_a_range_before_the_committed_offset_is_still_there(queue: Queue, driver: Driver) -> None:
    """An old checkpoint is replayed."""
    queue.send(*numbers(10))
    query = await driver.begin()
    await driver.finish(query, [RangeToFinish(0, 8)])
    assert await driver.log(query, [RangeToLog(0, 2, 10)]) == [Logged(8)]
    assert await driver.log(query, [RangeToLog(0, 2, 12)]) == [Gone(1, 10)]
    assert await driver.ahead(query, [request(12)]) == [Gone(1, 10)]


async def test_a_query_does_not_read_a_recreated_topic(queue: Queue, driver: Driver) -> None:
    queue.send(*numbers(10))
    query = await driver.begin()
    await driver.log(query, [RangeToLog(0, 0, 5)])
    await queue.remade()
    queue.send(*numbers(10))
    await owned(queue, epoch=2)
    assert await driver.ahead(query, [request(5, epoch=2)]) == [Gone(0, -1)]
    assert await driver.log(query, [RangeToLog(0, 5, 10)]) == [Gone(0, -1)]
    assert await driver.finish(query, [RangeToFinish(0, 5)]) == [Unlogged()]
    later = await driver.begin()
    assert await driver.ahead(later, [request(0, epoch=2)]) == [Ahead(10, 10, 1, 0)]
    assert await queue.committed() == 0


async def test_a_query_does_not_read_a_queues_new_topic(queue: Queue, make: MakeQueue, driver: Driver) -> None:
    """The PartitionedQueue was replaced."""
    queue.send(*numbers(10))
    query = await driver.begin()
    await driver.log(query, [RangeToLog(0, 0, 5)])
    other = make(1)
    other.send(*numbers(10))
    replaced = queue.another(topic=other.topic)
    await replaced.ensure(None)
    assert await driver.ahead(query, [request(5)]) == [Stale()], "nothing is granted there yet"
    assert (await replaced.grant(0, Uid("a"), Epoch(2))).epoch == 2
    assert await driver.ahead(query, [request(5, epoch=2)]) == [Gone(0, -1)]
    assert await driver.log(query, [RangeToLog(0, 5, 10)]) == [Gone(0, -1)]
    assert await driver.finish(query, [RangeToFinish(0, 5)]) == [Unlogged()]
    admin = queue.broker.admin()
    admin.delete_topics([queue.topic])[queue.topic].result(PATIENCE)
    await asyncio.to_thread(until, lambda: queue.topic not in admin.list_topics(timeout=PATIENCE).topics, "the topic is gone")
    assert await driver.ahead(query, [request(5, epoch=2)]) == [Gone(0, -1)]
    later = await driver.begin()
    assert await driver.positions() == {0: PartitionBounds(0, 0, 10)}
    assert await driver.ahead(later, [request(0, epoch=2)]) == [Ahead(10, 10, 1, 0)]
    assert await driver.finish(later, [RangeToFinish(0, 4)]) == [Finished()]
    assert (await replaced.check()).lag == {0: 6}


async def test_a_wait_ends_with_a_message_an_interrupt_or_its_timeout(queue: Queue, driver: Driver) -> None:
    queue.send("1")
    query = await driver.begin()
    assert await driver.wait([0], PATIENCE) == {0}
    await driver.ahead(query, [request()])
    assert await driver.wait([0], 0.01) == set()
    waiting = asyncio.create_task(driver.wait([0], PATIENCE))
    await asyncio.to_thread(queue.send, "2")
    assert await waiting == {0}
    await driver.ahead(query, [request(1)])
    waiting = asyncio.create_task(driver.wait([0], PATIENCE))
    await driver.interrupt()
    assert await waiting == set()


async def test_an_old_query_cannot_finish_a_partition_a_pod_reads(queue: Queue, driver: Driver) -> None:
    queue.send(*numbers(3))
    query = await driver.begin()
    await driver.log(query, [RangeToLog(0, 0, 2)])
    reader = await queue.granted("pod", 2)
    first, *_ = await asyncio.to_thread(read, reader, 0, 2, 3)
    assert first.redelivered
    assert await driver.finish(query, [RangeToFinish(0, 2)]) == [Unlogged()]
    assert await queue.committed() == 0
    await asyncio.to_thread(reader.ack, 0, Epoch(2), [first.offset])
    assert await queue.committed() == 1


async def test_a_partition_has_no_known_position_until_it_was_granted_once(make: MakeQueue) -> None:
    queue = make(2)
    await queue.operator.ensure(None)
    driver = Driver(queue)
    try:
        with pytest.raises(QueueUnreachable, match="wait until the operator has granted it"):
            await driver.begin()
        await owned(queue)
        query = await driver.begin()
        queue.send("a", partition=1)
        await asyncio.to_thread(until, lambda: driver.ranges.positions()[1].last == 1, "the entry is there")
        granted, new = (await driver.positions()).values()
        assert granted.granted and new == PartitionBounds(0, 0, 1, granted=False)
        await driver.check()
        queue.send("a", partition=0)
        ends = [RangeToFinish(0, 1), RangeToFinish(1, 3), RangeToFinish(7, 3)]
        assert await driver.finish(query, ends) == [Finished(), Unlogged(), Unlogged()]
        await owned(queue, partition=1)
        assert all(one.granted for one in (await driver.positions()).values())
        assert await driver.fence(query, [0, 1]) == query
        seen = await queue.record(1)
        assert seen.query == query
    finally:
        await driver.close()


def test_settings_of_the_pods_client_are_rejected() -> None:
    with pytest.raises(QueueUnreachable, match=r"has the setting fetch\.min\.bytes, which only applies to pods"):
        KafkaRanges("kafka://broker:9092/?fetch.min.bytes=10", "shop/orders", "shop/orders-group")
