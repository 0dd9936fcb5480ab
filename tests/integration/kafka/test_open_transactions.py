"""Foreign transactions that stay open: in the topic, and over the group's offset."""

import asyncio
from collections.abc import Callable, Iterator

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition

from baton.model.ids import Epoch, Uid
from baton.queues.kafka import topic as topics
from baton.queues.protocol import Ownership, QueueUnreachable
from tests.integration.kafka.conftest import Queue
from tests.integration.kafka.reading import read
from tests.waiting import PATIENCE, eventually

_TEN_MINUTES = 600_000


@pytest.fixture
def foreign(queue: Queue) -> Iterator[Producer]:
    """A producer with an open transaction, which the broker ends only much later."""
    settings = {"bootstrap.servers": queue.broker.servers, "transactional.id": f"of-another-{queue.topic}"}
    producer = Producer({**settings, "transaction.timeout.ms": _TEN_MINUTES})
    producer.init_transactions(PATIENCE)
    producer.begin_transaction()
    yield producer
    producer.purge()


@pytest.fixture
def over_place(queue: Queue, foreign: Producer) -> Callable[[int], None]:
    """Begin to commit this offset for the first partition."""

    def begin(offset: int) -> None:
        member = Consumer({"bootstrap.servers": queue.broker.servers, "group.id": queue.group})
        places = [TopicPartition(queue.topic, 0, offset)]
        foreign.send_offsets_to_transaction(places, member.consumer_group_metadata(), PATIENCE)
        member.close()

    return begin


async def test_a_long_open_transaction_is_reported_with_its_start(
    queue: Queue, foreign: Producer, monkeypatch: pytest.MonkeyPatch
) -> None:
    queue.send("1")
    foreign.produce(queue.topic, "open", partition=0)
    assert foreign.flush(PATIENCE) == 0
    reader, (entry,) = await queue.at_hand("2")
    await asyncio.to_thread(reader.ack, 0, Epoch(1), [entry.offset])
    assert not (await queue.operator.check()).warnings, "a transaction may take a while"
    monkeypatch.setattr(topics, "_LONG", 0.0)
    seen = await queue.operator.check()
    (warning,) = seen.warnings
    assert f"in partitions 0 of {queue.topic} (in 0 since offset 1)" in warning
    assert f"kafka-transactions.sh abort --topic {queue.topic} --partition 0 --start-offset 1" in warning
    assert seen.lag[0] == 0
    foreign.commit_transaction(PATIENCE)
    assert [one.value for one in await asyncio.to_thread(read, reader, 0, 1, 2)] == [b"open", b"2"]
    assert not (await queue.operator.check()).warnings


async def test_an_open_transaction_over_one_offset_blocks_no_other_partition(
    queue: Queue, foreign: Producer, over_place: Callable[[int], None]
) -> None:
    queue.send("1", "2")
    reader = await queue.granted("a", 1)
    await queue.granted("a", 1, 1)
    await asyncio.to_thread(read, reader, 0, 1, 1)
    over_place(1)
    seen = await queue.operator.check()
    assert seen.owners == {0: Ownership(Uid("a"), Epoch(1)), 1: Ownership(Uid("a"), Epoch(1))}
    (warning,) = seen.warnings
    assert f"open over the offset of the group {queue.group} in partitions 0 of {queue.topic}" in warning
    assert await queue.operator.grant(1, Uid("b"), Epoch(2)) == Ownership(Uid("b"), Epoch(2))
    with pytest.raises(QueueUnreachable, match=r"kafka-transactions.sh forceTerminateTransaction --transactionalId"):
        await queue.operator.grant(0, Uid("b"), Epoch(2))
    foreign.abort_transaction(PATIENCE)

    async def granted() -> bool:
        return await queue.operator.grant(0, Uid("b"), Epoch(2)) == Ownership(Uid("b"), Epoch(2))

    await eventually(granted, "it is granted")
    assert not (await queue.operator.check()).warnings
    (entry,) = await asyncio.to_thread(read, queue.reader("b"), 0, 2, 1)
    assert entry.value == b"1"
