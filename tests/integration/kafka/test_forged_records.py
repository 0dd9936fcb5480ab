"""Owner records that no operator has written: any user with READ on a group can commit one, in a transaction."""

import asyncio
import logging
from dataclasses import replace

import pytest

from baton.model.ids import Epoch, Uid
from baton.queues.kafka.fence import PartitionTransactions
from baton.queues.kafka.ranges import KafkaRanges
from baton.queues.kafka.record import Record
from baton.queues.protocol import Ownership, PartitionUnavailable, QueueConflict
from tests.integration.kafka.conftest import GROUP, MakeQueue, Queue
from tests.integration.kafka.reading import read


async def forge(queue: Queue, topic: str, record: Record, offset: int = 0) -> None:
    """Commit it for the first partition of this topic, under the queue's group."""
    transactions = PartitionTransactions(queue.operator._client, topic)
    token = await transactions.init(0)
    await transactions.commit(0, offset, replace(record, token=token))
    await transactions.stable(0)


@pytest.mark.parametrize("group", [GROUP.uid, "uid-of-another"])
@pytest.mark.parametrize("uid", ["a", "a-stranger"])
async def test_a_forged_record_in_another_topic_misleads_no_owner(queue: Queue, make: MakeQueue, group: str, uid: str) -> None:
    queue.send("1")
    await queue.granted("a", 1)
    other = make(1)
    other.send("of another topic")
    await forge(queue, other.topic, replace(await queue.record(), uid=Uid(uid), epoch=Epoch(1000), group=group))
    at_work, later = queue.reader("a"), await queue.granted("b", 2, 1)
    (entry,) = await asyncio.to_thread(read, at_work, 0, 1, 1)
    assert entry.value == b"1"
    with pytest.raises(PartitionUnavailable):  # as where the ledger tells of a grant first
        await asyncio.to_thread(at_work.read, 1, Epoch(3))
    await asyncio.to_thread(at_work.verify, 0, Epoch(1))
    queue.send("2", partition=1)
    (entry,) = await asyncio.to_thread(read, later, 1, 2, 1)
    assert entry.value == b"2"


async def test_an_owner_finds_its_topic_beside_a_forged_record(make: MakeQueue) -> None:
    queue, other = make(1), make(1)
    await queue.operator.ensure(None)
    queue.send("1")
    other.send("of another topic")
    await queue.granted("a", 1)
    await forge(queue, other.topic, replace(await queue.record(), epoch=Epoch(1000)))
    (entry,) = await asyncio.to_thread(read, queue.reader("a"), 0, 1, 1)
    assert entry.value == b"1"


async def test_a_query_reads_the_topic_with_most_records(queue: Queue, make: MakeQueue) -> None:
    for partition in range(2):
        await queue.granted("a", 1, partition)
    other = make(1)
    await forge(queue, other.topic, replace(await queue.record(), epoch=Epoch(1000)))
    driver = KafkaRanges(f"kafka://{queue.broker.servers}/?group={queue.group}", "shop/orders", "shop/orders-group")
    server = (await asyncio.to_thread(driver.address))["server"]
    assert isinstance(server, dict)
    assert server["topic"] == queue.topic
    await asyncio.to_thread(driver.close)


async def test_records_in_another_topic_are_given_up_unless_another_group_owns_them(
    queue: Queue, make: MakeQueue, caplog: pytest.LogCaptureFixture
) -> None:
    await queue.granted("a", 1)
    other = make(1)
    await forge(queue, other.topic, replace(await queue.record(), epoch=Epoch(1000)))
    with caplog.at_level(logging.WARNING):
        await queue.operator.ensure(None)
    assert f"has of the queue orders in the topic {other.topic} besides {queue.topic}" in caplog.text
    caplog.clear()
    await queue.operator.ensure(None)
    assert not caplog.text
    await forge(queue, other.topic, replace(await queue.record(), epoch=Epoch(1000), group="uid-of-another"))
    with pytest.raises(QueueConflict, match=r"annotate consumergroup orders-group -n shop .*take-over=uid-of-another"):
        await queue.operator.ensure(None)
    await queue.another(GROUP._replace(takes_over=frozenset({"uid-of-another"}))).ensure(None)
    await queue.operator.ensure(None)


@pytest.mark.parametrize("epoch", [2**62 - 1, 2**53, 2**50])
async def test_a_partition_with_a_forged_epoch_is_granted_and_read(queue: Queue, epoch: int) -> None:
    reader, (entry,) = await queue.at_hand("1", "2", count=1)
    await asyncio.to_thread(reader.ack, 0, Epoch(1), [entry.offset])
    await forge(queue, queue.topic, replace(await queue.record(), uid=Uid("a-stranger"), epoch=Epoch(epoch)), 1)
    seen = (await queue.operator.check()).owners.get(0, Ownership(None, Epoch(1)))
    for above in (seen.epoch + 1, seen.epoch + 2):
        assert await queue.operator.grant(0, Uid("a"), Epoch(above)) == Ownership(Uid("a"), Epoch(above))
        assert (await queue.operator.check()).owners == {0: Ownership(Uid("a"), Epoch(above))}
    (entry,) = await asyncio.to_thread(read, queue.reader("a"), 0, above, 1)
    assert entry.value == b"2"


async def test_an_offset_can_be_set_over_a_forged_record(queue: Queue) -> None:
    queue.send("1", "2")
    await queue.granted("a", 1)
    await forge(queue, queue.topic, replace(await queue.record(), epoch=Epoch(2**62 - 1)))
    await queue.another().set_offset(0, Epoch(1), 1)
    assert await queue.committed() == 1
    (entry,) = await asyncio.to_thread(read, await queue.granted("b", 2), 0, 2, 1)
    assert entry.value == b"2"
