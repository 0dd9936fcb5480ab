"""The offset of a paused group without owners is set (`SetsOffsets.set_offset`). Former owners cannot commit over it, and Kafka's
tool is refused."""

import asyncio
from dataclasses import replace
from typing import Any

import pytest
from aiokafka.protocol.transaction import EndTxnRequest

from baton.model.ids import Epoch, Uid
from baton.queues.fence import StaleOwner
from baton.queues.kafka.client import StaleToken
from baton.queues.kafka.ranges import KafkaRanges
from baton.queues.logged_ranges import LaterQuery, RangeToFinish
from baton.queues.offsets import PartitionOffsets, Reached
from baton.queues.protocol import Claimant, Ownership, QueueConflict
from tests.integration.kafka.conftest import MakeQueue, Queue
from tests.integration.kafka.reading import read
from tests.integration.kafka.test_fence import begin_a_commit
from tests.integration.kafka.test_forged_records import forge
from tests.kafka_broker.commands import reset
from tests.waiting import PATIENCE

NO_OWNER = "belongs to no pod"


@pytest.fixture
async def at_work(make: MakeQueue) -> Queue:
    """Pod `a` owns the only partition, with five entries, and the operator has seen that; it is in the group."""
    queue = make(1)
    await queue.operator.ensure(None)
    await queue.guarded()
    queue.send("0", "1", "2", "3", "4")
    await queue.granted("a", 1)
    await queue.operator.check()
    return queue


async def test_the_next_owner_starts_at_a_set_offset_with_repeats_marked(at_work: Queue) -> None:
    queue, stale = at_work, at_work.reader("a")
    entries = await asyncio.to_thread(read, stale, 0, 1, 5)
    await asyncio.to_thread(stale.ack, 0, Epoch(1), [entries[0].offset, entries[1].offset, entries[2].offset])
    assert await queue.committed() == 3
    setting = queue.another()
    await setting.set_offset(0, Epoch(1), 1)
    await setting.set_offset(0, Epoch(1), 1)
    refused = await asyncio.to_thread(reset, queue.broker, queue.group, queue.topic, "--to-offset", "3")
    assert "Assignments can only be reset if the group" in refused, "the operator stays in the group"
    assert await queue.committed() == 1
    with pytest.raises(StaleOwner, match=NO_OWNER):
        await asyncio.to_thread(stale.ack, 0, Epoch(1), [entries[3].offset])
    with pytest.raises(StaleOwner, match=NO_OWNER):
        await asyncio.to_thread(stale.read, 0, Epoch(1), 1)
    assert await queue.operator.grant(0, Uid("b"), Epoch(2)) == Ownership(Uid("b"), Epoch(2))
    queue.send("5")
    heir = queue.reader("b")
    found = await asyncio.to_thread(read, heir, 0, 2, 5)
    assert [entry.value for entry in found] == [b"1", b"2", b"3", b"4", b"5"]
    assert [entry.redelivered for entry in found[:2]] == [True, True], "it was finished with before"
    await asyncio.to_thread(heir.ack, 0, Epoch(2), [entry.offset for entry in found])
    assert await queue.committed() == 6


@pytest.mark.parametrize(("topic_id", "place", "again"), [(None, 9, [1, 2, 3, 4]), ("a topic that was there before", 3, [])])
async def test_only_entries_before_the_former_offset_are_marked(
    at_work: Queue, topic_id: str | None, place: int, again: list[int]
) -> None:
    record = await at_work.record()
    await forge(at_work, at_work.topic, replace(record, topic_id=topic_id or record.topic_id), place)
    await at_work.another().set_offset(0, Epoch(1), 1)
    at_work.send("5")
    found = await asyncio.to_thread(read, await at_work.granted("b", 2), 0, 2, 5)
    assert [int(entry.offset) for entry in found if entry.redelivered] == again


async def test_setting_an_offset_forward_skips_entries(at_work: Queue) -> None:
    queue = at_work
    await queue.another().set_offset(0, Epoch(1), 4)
    found = await asyncio.to_thread(read, await queue.granted("b", 2), 0, 2, 1)
    assert [(entry.value, entry.redelivered) for entry in found] == [(b"4", False)]


async def test_an_offset_to_set_is_found_by_number_and_by_time(make: MakeQueue) -> None:
    queue = make(1, **{"retention.ms": "-1"})  # messages from 1970 stay
    await queue.operator.ensure(None)
    for time in (1000, 3000, 2000, 5000):
        queue.producer.produce(queue.topic, b"x", b"k", 0, timestamp=time)
    assert queue.producer.flush(PATIENCE) == 0
    await queue.granted("a", 1)
    await queue.another().set_offset(0, Epoch(1), 1)
    setting = queue.another()
    assert await setting.offsets() == {0: PartitionOffsets(1, 0, 4, 3, None)}
    assert await setting.reach(0, 0) == Reached(0, 0)
    assert await setting.reach(0, 3) == Reached(3, 2)
    assert await setting.reach(0, 4, 0) == Reached(0, 0)
    assert await setting.reach(0, 4, 1001) == Reached(1, 0)
    assert await setting.reach(0, 4, 3001) == Reached(3, 2)
    assert await setting.reach(0, 4, 5001) == Reached(4, 3)


async def test_setting_an_offset_fails_if_the_partition_was_granted_since(at_work: Queue) -> None:
    queue = at_work
    heir = await queue.granted("b", 2)
    entries = await asyncio.to_thread(read, heir, 0, 2, 2)
    before = await queue.seen()
    with pytest.raises(QueueConflict, match="has been granted to a member meanwhile"):
        await queue.another().set_offset(0, Epoch(1), 4)
    assert await queue.seen() == before, "its token was left alone, too"
    await asyncio.to_thread(heir.ack, 0, Epoch(2), [entries[0].offset])
    assert await queue.committed() == 1


async def test_setting_an_offset_fails_if_the_partition_is_granted_meanwhile(
    at_work: Queue, monkeypatch: pytest.MonkeyPatch
) -> None:
    queue, setting = at_work, at_work.another()
    end = setting._transactions.end

    async def late(*what: Any) -> None:
        await queue.operator.grant(0, Uid("b"), Epoch(2))
        await begin_a_commit(queue)
        await end(*what)

    monkeypatch.setattr(setting._transactions, "end", late)
    with pytest.raises(QueueConflict, match="has been granted to a member meanwhile"):
        await setting.set_offset(0, Epoch(1), 4)
    record, transactions = (await queue.operator._before(0)).record, queue.operator._transactions
    assert record is not None
    name = transactions._name(0)
    assert (await transactions.client.to_transactions(name, EndTxnRequest(name, *record.token, True))).error_code == 0


@pytest.mark.parametrize("offset", [-1, 6])
async def test_an_offset_outside_the_log_cannot_be_set(at_work: Queue, offset: int) -> None:
    before = await at_work.committed()
    with pytest.raises(QueueConflict, match=f"no longer has the offset {offset}"):
        await at_work.another().set_offset(0, Epoch(1), offset)
    assert await at_work.committed() == before


async def test_an_offset_of_another_groups_topic_cannot_be_set(at_work: Queue) -> None:
    other = at_work.another(Claimant("shop/others", "uid-of-others"))
    with pytest.raises(QueueConflict, match="belongs to another ConsumerGroup"):
        await other.set_offset(0, Epoch(1), 4)
    assert await at_work.committed() == 0


async def test_a_commit_started_before_an_offset_was_set_cannot_end_after_it(at_work: Queue) -> None:
    """The committing process sleeps between its requests."""
    queue = at_work
    await asyncio.to_thread(read, queue.reader("a"), 0, 1, 1)
    record = await queue.record()
    await begin_a_commit(queue)
    transactions = queue.another()._transactions
    await queue.another().set_offset(0, Epoch(1), 3)
    name = transactions._name(0)
    ended = await transactions.client.to_transactions(name, EndTxnRequest(name, *record.token, True))
    assert ended.error_code != 0
    with pytest.raises(StaleToken):
        await transactions.commit(0, 5, record)
    before = await queue.seen()  # as a process that takes a token itself
    assert await transactions.renewed(0) == before == await queue.seen(), "it finds no owner, and writes nothing"
    assert before.offset == 3


async def test_a_driver_that_slept_does_not_overwrite_a_set_offset(at_work: Queue) -> None:
    queue = at_work
    ranges = KafkaRanges(f"kafka://{queue.broker.servers}/?group={queue.group}", "shop/orders", "shop/orders-group")
    try:
        query = await asyncio.to_thread(ranges.begin)
        await asyncio.to_thread(ranges.finish, query, [RangeToFinish(0, 4)])
        await queue.another().set_offset(0, Epoch(1), 1)
        await asyncio.to_thread(ranges.finish, query, [RangeToFinish(0, 5)])
        await queue.operator.grant(0, Uid("b"), Epoch(2))
        (answer,) = await asyncio.to_thread(ranges.finish, query, [RangeToFinish(0, 5)])
        assert isinstance(answer, LaterQuery)
        assert await queue.committed() == 1
    finally:
        await asyncio.to_thread(ranges.close)
