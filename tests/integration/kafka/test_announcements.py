"""Pods learn of grants and pauses before their ledgers say so."""

import asyncio
import json
from collections.abc import AsyncIterator, Mapping
from functools import partial

import pytest
from aiokafka.protocol.transaction import TxnOffsetCommitRequest
from confluent_kafka import Consumer, TopicPartition

from baton.model.ids import Epoch, Partition, QueueName, Uid
from baton.queues.kafka.announcements import KafkaAnnouncements, announcing_group
from baton.queues.kafka.client import CommittedOffsets
from baton.queues.kafka.fence import transactional_id
from baton.queues.kafka.topic import LogEnd, describe, offsets
from baton.queues.protocol import Heard
from tests.integration.kafka.conftest import MakeQueue, Queue
from tests.kafka_pod import shared
from tests.waiting import HOUR, PATIENCE, eventually

QUEUE = QueueName("orders")


WITHIN = 60.0
"""Seconds that an owner has, of which some are over when the pod learns of them."""


@pytest.fixture
async def announcements(queue: Queue) -> AsyncIterator[KafkaAnnouncements]:
    """The announcements to pod `a`."""
    made = KafkaAnnouncements(queue.address, queue.group, Uid("a"), *shared(queue.address, queue.group))
    yield made
    await asyncio.to_thread(made.close)


def rounded(found: Mapping[Partition, Heard]) -> dict[Partition, Heard]:
    return {
        partition: one._replace(within=WITHIN) if one.within is not None and 0 < one.within <= WITHIN else one
        for partition, one in found.items()
    }


async def heard(announcements: KafkaAnnouncements, expected: Mapping[Partition, Heard]) -> None:
    """Wait until the last record of each is as expected."""
    found: dict[Partition, Heard] = {}

    async def all_of_it() -> bool:
        found.update(rounded(await asyncio.to_thread(announcements.wait, PATIENCE)))
        return {partition: found.get(partition) for partition in expected} == dict(expected)

    async def shown() -> object:
        return found

    await eventually(all_of_it, "it is heard", shown=shown)


async def test_a_pod_hears_of_grants_and_pauses(queue: Queue, announcements: KafkaAnnouncements) -> None:
    first, second = Partition(QUEUE, 0), Partition(QUEUE, 1)
    await queue.operator.grant(0, Uid("a"), Epoch(1))
    await queue.operator.grant(1, Uid("b"), Epoch(1))
    await heard(announcements, {first: Heard(Uid("a"), Epoch(1)), second: Heard(Uid("b"), Epoch(1))})
    await queue.operator.pause(0, Epoch(1), WITHIN)
    await heard(announcements, {first: Heard(Uid("a"), Epoch(1), True, WITHIN)})
    assert rounded(await asyncio.to_thread(announcements.look, [first, second])) == {
        first: Heard(Uid("a"), Epoch(1), True, WITHIN),
        second: Heard(Uid("b"), Epoch(1)),
    }
    await queue.operator.grant(0, Uid("b"), Epoch(2))
    await heard(announcements, {first: Heard(Uid("b"), Epoch(2))})


async def test_a_pod_hears_of_all_of_many_pauses_at_once(make: MakeQueue) -> None:
    """The pauses fill several texts, which are removed after that."""
    queue, count = make(300), 300
    made = KafkaAnnouncements(queue.address, queue.group, Uid("a"), *shared(queue.address, queue.group))
    try:
        await queue.ensured()
        await eventually(partial(all_led, queue), "the broker has elected all leaders")
        await asyncio.gather(*(queue.operator.grant(number, Uid("a"), Epoch(1)) for number in range(count)))
        await asyncio.gather(*(queue.operator.pause(number, Epoch(1), WITHIN) for number in range(count)))
        await heard(made, {Partition(QUEUE, number): Heard(Uid("a"), Epoch(1), True, WITHIN) for number in range(count)})

        async def one_text() -> bool:
            return sum(bool(text) for _, text in (await announced(queue)).values()) == 1

        await eventually(one_text)
        await queue.operator.grant(0, Uid("b"), Epoch(2))
        await heard(made, {Partition(QUEUE, 0): Heard(Uid("b"), Epoch(2))})
    finally:
        await asyncio.to_thread(made.close)


async def all_led(queue: Queue) -> bool:
    client = queue.operator._client
    topic = await describe(client, queue.topic)
    ends = await offsets(client, topic, dict.fromkeys(topic.leaders, LogEnd.END))
    return ends.keys() == topic.leaders.keys()


async def announced(queue: Queue) -> dict[int, tuple[int, str]]:
    """The offsets of the announcements, and what is beside them, by partition."""
    client = queue.operator._announcer._client
    answer = await client.to_group(CommittedOffsets(client.group, queue.topic, tuple(range(300))))
    return {number: (offset, text) for _, those, _ in answer.topics for number, offset, _, text, _, _ in those}


async def test_a_partition_with_a_commit_under_way_is_still_announced(queue: Queue, announcements: KafkaAnnouncements) -> None:
    await queue.operator.grant(0, Uid("a"), Epoch(1))
    expected = {Partition(QUEUE, 0): Heard(Uid("a"), Epoch(1))}
    await heard(announcements, expected)
    transactions, (offset, record) = queue.operator._transactions, await queue.seen()
    assert record is not None
    await transactions.begin(0, record.token)
    offsets = [(queue.topic, [(0, offset + 1, record.to_text())])]
    name = transactional_id(queue.group, queue.topic, 0)
    await transactions.client.to_group(TxnOffsetCommitRequest(name, queue.group, *record.token, offsets), transactional_id=name)
    assert await transactions.now((0,)) == ({}, (0,)), "it is under way"
    assert await asyncio.to_thread(announcements.look, expected) == expected


async def test_announcements_continue_with_another_operator(queue: Queue, announcements: KafkaAnnouncements) -> None:
    await queue.operator.grant(0, Uid("a"), Epoch(1))
    await heard(announcements, {Partition(QUEUE, 0): Heard(Uid("a"), Epoch(1))})
    await queue.another().grant(0, Uid("b"), Epoch(2))
    await heard(announcements, {Partition(QUEUE, 0): Heard(Uid("b"), Epoch(2))})


async def test_a_forged_announcement_does_not_hide_the_next_one(queue: Queue, announcements: KafkaAnnouncements) -> None:
    forged = {"baton": 1, "queue": "orders", "said": [[99, 2**40, 1, -1, -1, -1]]}
    forger = Consumer({"bootstrap.servers": queue.broker.servers, "group.id": announcing_group(queue.group)})
    await asyncio.to_thread(
        forger.commit, offsets=[TopicPartition(queue.topic, 0, 99, metadata=json.dumps(forged))], asynchronous=False
    )
    await asyncio.to_thread(forger.close)
    assert await asyncio.to_thread(announcements.wait, 0.0) == {}
    await queue.operator.grant(0, Uid("a"), Epoch(1))
    await heard(announcements, {Partition(QUEUE, 0): Heard(Uid("a"), Epoch(1))})


async def test_a_wait_for_announcements_can_be_interrupted(queue: Queue, announcements: KafkaAnnouncements) -> None:
    waiting = asyncio.create_task(asyncio.to_thread(announcements.wait, HOUR))
    announcements.interrupt()
    assert await waiting == {}
