"""Kafka's own tool sets the place of a paused group without owners. Who owned a partition before cannot commit over it."""

import asyncio
from dataclasses import replace

import pytest
from aiokafka.protocol.transaction import EndTxnRequest

from baton.model.ids import Epoch, Uid
from baton.queues.fence import StaleOwner
from baton.queues.kafka.answers import StaleToken
from baton.queues.kafka.ranges import KafkaRanges
from baton.queues.kafka.record import Committed
from baton.queues.logged_ranges import RangeToFinish
from baton.queues.protocol import Owner, QueueUnreachable
from tests.integration.kafka.conftest import MakeQueue, Queue
from tests.integration.kafka.reading import read
from tests.integration.kafka.test_fence import begin_a_commit
from tests.kafka_broker.commands import reset
from tests.waiting import PATIENCE, eventually

AT = Committed(3, None)
"""The place that the tests set: without a record, as Kafka's tool leaves it."""


@pytest.fixture
async def at_work(make: MakeQueue) -> Queue:
    """The pod `a` owns its one partition, of five entries, and the operator has seen that; it is in the group."""
    queue = make(1)
    await queue.operator.ensure(None)
    await guarded(queue)
    queue.send("0", "1", "2", "3", "4")
    await queue.granted("a", 1)
    await queue.operator.check()
    return queue


async def guarded(queue: Queue) -> None:
    async def stands() -> bool:
        return queue.operator._guard.stands

    await eventually(stands, "the operator is in the group", 3 * PATIENCE)


async def set_place(queue: Queue) -> str:
    """By Kafka's tool; what it says."""
    return await asyncio.to_thread(reset, queue.broker, queue.group, queue.topic, "--to-offset", str(AT.offset))


async def test_kafkas_tool_sets_the_place_while_nobody_owns_a_partition_and_the_next_grant_begins_there(at_work: Queue) -> None:
    queue, stale = at_work, at_work.reader("a")
    entries = await asyncio.to_thread(read, stale, 0, 1, 5)
    await asyncio.to_thread(stale.ack, 0, Epoch(1), [entries[0].offset])
    assert "Assignments can only be reset if the group" in await set_place(queue), "the guard member is in the group"
    assert await queue.committed() == 1

    await queue.operator.ensure(None, unowned=True)
    assert (await queue.operator.check()).owners == {0: Owner(None, Epoch(1))}
    with pytest.raises(StaleOwner, match="belongs to nobody"):
        await asyncio.to_thread(stale.ack, 0, Epoch(1), [entries[1].offset])
    with pytest.raises(StaleOwner, match="belongs to nobody"):
        await asyncio.to_thread(queue.reader("a").read, 0, Epoch(1), 1)
    assert queue.topic in await set_place(queue)
    assert await queue.seen() == AT
    with pytest.raises(StaleOwner, match="belongs to nobody"):
        await asyncio.to_thread(stale.read, 0, Epoch(1), 1)
    await queue.operator.ensure(None, unowned=True)
    assert await queue.seen() == AT

    await queue.operator.ensure(None)
    await guarded(queue)
    assert "Assignments can only be reset if the group" in await set_place(queue), "the guard member is back"
    heir = await queue.granted("b", 2)
    with pytest.raises(StaleOwner, match="belongs to nobody"):
        await asyncio.to_thread(stale.ack, 0, Epoch(1), [entries[4].offset])
    assert [entry.value for entry in await asyncio.to_thread(read, heir, 0, 2, 2)] == [b"3", b"4"]


async def test_a_group_whose_place_nobody_set_goes_on_where_it_was(at_work: Queue) -> None:
    queue = at_work
    reader = queue.reader("a")
    entries = await asyncio.to_thread(read, reader, 0, 1, 3)
    await asyncio.to_thread(reader.ack, 0, Epoch(1), [entries[0].offset])
    await queue.operator.ensure(None, unowned=True)
    await queue.operator.ensure(None)
    again = await asyncio.to_thread(read, await queue.granted("a", 2), 0, 2, 4)
    assert [entry.value for entry in again] == [b"1", b"2", b"3", b"4"]
    assert [entry.redelivered for entry in again[:2]] == [True, True], "what it had in hand stays written down"


async def test_a_commit_that_was_begun_before_does_not_end_after_the_place_was_set(at_work: Queue) -> None:
    """Its process sleeps between its requests."""
    queue = at_work
    await asyncio.to_thread(read, queue.reader("a"), 0, 1, 1)
    await begin_a_commit(queue)
    transactions = queue.another()._transactions
    await queue.operator.ensure(None, unowned=True)
    record = (await queue.seen()).record
    assert record is not None
    await set_place(queue)
    token = record.token._replace(epoch=record.token.epoch - 1)
    ended = await transactions.client.to_transactions(transactions._name(0), EndTxnRequest(transactions._name(0), *token, True))
    assert ended.error_code != 0
    with pytest.raises(StaleToken):
        await transactions.commit(0, 5, replace(record, uid=Uid("a"), token=token))
    assert await queue.seen() == AT


async def test_whoever_takes_a_token_finds_no_owner_and_writes_nothing(at_work: Queue) -> None:
    """Between its look and its commit the place could be set."""
    queue = at_work
    await asyncio.to_thread(read, queue.reader("a"), 0, 1, 1)
    await queue.operator.ensure(None, unowned=True)
    stale, before = queue.another()._transactions, await queue.seen()
    assert await stale.renewed(0) == before == await queue.seen(), "what it found is as it was"
    await set_place(queue)
    await stale.renewed(0)
    assert await queue.seen() == AT


async def test_a_driver_of_a_query_finishes_nothing_meanwhile(at_work: Queue) -> None:
    queue = at_work
    ranges = KafkaRanges(f"kafka://{queue.broker.servers}/?group={queue.group}", "shop/orders", "shop/orders-group")
    query = await asyncio.to_thread(ranges.begin)
    await asyncio.to_thread(ranges.finish, query, [RangeToFinish(0, 1)])
    assert await queue.committed() == 1
    await queue.operator.ensure(None, unowned=True)
    before = await queue.seen()
    with pytest.raises(QueueUnreachable, match="partition 0 of orders has no owner yet"):
        await asyncio.to_thread(ranges.positions)
    await asyncio.to_thread(ranges.fence, query + 1, [0])
    await asyncio.to_thread(ranges.finish, query + 1, [RangeToFinish(0, 2)])
    assert await queue.seen() == before
    await set_place(queue)
    await asyncio.to_thread(ranges.finish, query + 1, [RangeToFinish(0, 2)])
    assert await queue.seen() == AT
    await asyncio.to_thread(ranges.close)


async def test_a_grant_that_comes_while_the_owners_are_taken_out_keeps_its_owner(at_work: Queue) -> None:
    """Whichever of the two is asked for first, and whichever is done first."""
    queue = at_work
    for epoch in range(2, 32):
        rest = asyncio.create_task(queue.operator.ensure(None, unowned=True))
        for _ in range(epoch % 10):
            await asyncio.sleep(0.001)
        await queue.operator.grant(0, Uid("b"), Epoch(epoch))
        await rest
        assert (await queue.operator.check()).owners[0] == Owner(Uid("b"), Epoch(epoch))


async def test_the_guard_stays_where_a_grant_was_under_way_when_the_owners_were_to_be_taken_out(at_work: Queue) -> None:
    queue = at_work
    await queue.operator.ensure(None, unowned=True)
    await queue.operator.ensure(None)
    await guarded(queue)
    with queue.operator._place_setting.over():
        rest = asyncio.create_task(queue.operator.ensure(None, unowned=True))
        await asyncio.sleep(0)  # it has begun
    await rest
    assert queue.operator._guard.stands


async def test_an_operator_that_slept_leaves_the_owners_that_another_has_granted_since(at_work: Queue) -> None:
    queue, slept = at_work, at_work.operator
    await slept.ensure(None, unowned=True)
    await slept.check()
    owner = await queue.another().grant(0, Uid("b"), Epoch(2))
    heir, before = queue.reader("b"), await queue.seen()
    queue.send("5")
    entries = await asyncio.to_thread(read, heir, 0, 2, 1)
    await slept.ensure(None, unowned=True)
    await asyncio.to_thread(heir.ack, 0, Epoch(2), [entries[0].offset])
    assert (await slept.check()).owners == {0: owner}
    seen = await queue.seen()
    assert before.record is not None and seen.record is not None
    assert (seen.offset, seen.record.token) == (1, before.record.token), "its token was left alone, too"
    await slept.ensure(None, unowned=True)
    assert (await slept.check()).owners == {0: Owner(None, Epoch(2))}, "it has seen that one, and says so once more"
