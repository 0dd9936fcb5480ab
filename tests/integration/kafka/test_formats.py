"""The formats of records, announcements and dead letters at the broker."""

import asyncio
import json
from typing import Any, cast

from confluent_kafka import Consumer, TopicPartition

from baton.model.ids import Epoch, Uid
from baton.queues.protocol import Ownership
from tests.formats import same
from tests.integration.kafka.conftest import MakeQueue, Queue
from tests.integration.kafka.reading import committed_messages, read
from tests.waiting import PATIENCE, eventually

ONE, TWO = Epoch(1), Epoch(2)
VOLATILE = {
    r"orders-\d+": "topic",
    r"\b[0-9a-f]{32}\b": "topic id",
    r"\b[0-9a-f]{16}\b": "process",
    r"\b\d{13}\b": "ms",
    r"(?<=\"token\": \[)\s+\d+,\s+\d+\s+(?=\])": "producer id and epoch",
    r"(?<=\"reserved\": )\d+": "offset",
    r"(?<=\"stale\": )\d+": "offset",
}


async def test_records_announcements_and_dead_letters_have_their_format(make: MakeQueue) -> None:
    queue = make(partitions=2, redeliveries=1, unacknowledged=100)
    await queue.ensured()
    letters = f"{queue.topic}.dead-letters"
    queue.broker.make_topic(letters, 1)
    queue.send("done", "poison", key="p", headers={"h": b"1"})
    queue.send("failed", "in hand")
    owner = await queue.granted("pod-a", 1)
    done, poison, failed, _ = await asyncio.to_thread(read, owner, 0, 1, 4)
    await asyncio.to_thread(owner.ack, 0, ONE, [done.offset])
    await asyncio.to_thread(owner.retry, 0, ONE, poison.offset, "it failed")
    await asyncio.to_thread(owner.retry, 0, ONE, poison.offset, "it failed again")
    await asyncio.to_thread(owner.retry, 0, ONE, failed.offset, "it failed, too")
    records = [await asyncio.to_thread(records_of, queue, queue.group)]
    ((letter,),) = await asyncio.to_thread(committed_messages, queue.broker, letters)
    await queue.operator.pause(0, ONE, 30.0, Ownership(Uid("pod-b"), TWO))

    async def announced() -> Any:
        (found,) = await asyncio.to_thread(records_of, queue, f"{queue.group}/announcements")
        return found if "pods" in found["metadata"] else None

    announcement = await eventually(announced, "it is announced who is next")
    await queue.granted("pod-b", 2)
    records.append(await asyncio.to_thread(records_of, queue, queue.group))
    headers = [(header[0], str(header[1], "utf-8")) for header in cast("list[tuple[str, bytes]]", letter.headers())]
    same("kafka.json", {"records": records, "announcement": announcement, "dead letter's headers": headers}, VOLATILE)


def records_of(queue: Queue, group: str) -> Any:
    """Return what is in a group, as any client sees it."""
    consumer = Consumer({"bootstrap.servers": queue.broker.servers, "group.id": group})
    try:
        places = consumer.committed([TopicPartition(queue.topic, number) for number in range(2)], PATIENCE)
        found = [place for place in places if place.offset >= 0]
        return [{"partition": one.partition, "offset": one.offset, "metadata": json.loads(str(one.metadata))} for one in found]
    finally:
        consumer.close()
