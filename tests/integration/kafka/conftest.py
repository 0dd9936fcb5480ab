"""One broker for the tests that do not harm it, with its own topic and group for each."""

import asyncio
import itertools
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition

from baton.model.ids import Epoch, QueueName, Uid
from baton.queues.entry import Entry
from baton.queues.kafka.adapter import KafkaQueue, TopicToOpen
from baton.queues.kafka.address import KafkaAddress
from baton.queues.kafka.reader import KafkaReader
from baton.queues.kafka.record import Committed, Record
from baton.queues.protocol import Claimant, QueueUnreachable
from tests.integration.kafka.reading import read
from tests.kafka_broker import ORDERED, KafkaBroker
from tests.kafka_pod import shared
from tests.waiting import PATIENCE, eventually, until

GROUP = Claimant("shop/orders-group", "uid-of-the-group")
_names = itertools.count(1)


@pytest.fixture(scope="session")
def broker() -> Iterator[KafkaBroker]:
    with KafkaBroker() as running:
        yield running


@dataclass
class Queue:
    """A topic with the operator's side, readers and a producer, all closed after the test."""

    broker: KafkaBroker
    topic: str
    group: str
    address: KafkaAddress
    operator: KafkaQueue
    producer: Producer
    _readers: list[KafkaReader] = field(default_factory=list)
    _operators: list[KafkaQueue] = field(default_factory=list)

    def reader(self, uid: str) -> KafkaReader:
        reader = KafkaReader(self.address, self.group, QueueName("orders"), Uid(uid), *shared(self.address, self.group))
        self._readers.append(reader)
        return reader

    def another(self, claimant: Claimant = GROUP, *, topic: str = "", queue: str = "orders", **spec: Any) -> KafkaQueue:
        """Return a second operator's side, perhaps of another queue or topic, under the same group id. `spec`: more fields of
        TopicToOpen."""
        made = KafkaQueue(self.address, self.group, TopicToOpen(topic=topic or self.topic, queue=queue, **spec), claimant)
        self._operators.append(made)
        return made

    async def granted(self, uid: str, epoch: int, partition: int = 0) -> KafkaReader:
        """Grant the partition, and return the owner's reader."""
        owner = await self.operator.grant(partition, Uid(uid), Epoch(epoch))
        assert owner == (uid, epoch, False)
        return self.reader(uid)

    def send(
        self, *values: str | None, partition: int = 0, key: str | None = "k", headers: Mapping[str, bytes | None] | None = None
    ) -> None:
        """Returns when the broker has them."""
        with_headers: list[tuple[str, str | bytes | None]] = [*(headers or {}).items()]
        for value in values:
            self.producer.produce(self.topic, value, key, partition, headers=with_headers)
        assert self.producer.flush(PATIENCE) == 0

    def commit_plainly(self, offset: int) -> None:
        """Commit for the first partition without a token, outside the group."""
        plain = Consumer({"bootstrap.servers": self.broker.servers, "group.id": self.group})
        try:
            plain.commit(offsets=[TopicPartition(self.topic, 0, offset)], asynchronous=False)
        finally:
            plain.close()

    async def at_hand(
        self, *values: str | None, uid: str = "a", epoch: int = 1, partition: int = 0, count: int | None = None, **how: Any
    ) -> tuple[KafkaReader, list[Entry]]:
        """Send these values, grant their partition, and return the owner's reader with so many entries (all of them) in hand."""
        self.send(*values, partition=partition, **how)
        reader = await self.granted(uid, epoch, partition)
        return reader, await asyncio.to_thread(read, reader, partition, epoch, len(values) if count is None else count)

    def delete_before(self, offset: int) -> None:
        """Delete the first partition's messages before this offset, as retention does."""
        admin = self.broker.admin()  # which has to live as long as its futures
        for future in admin.delete_records([TopicPartition(self.topic, 0, offset)]).values():
            future.result(PATIENCE)

    async def ensured(self) -> None:
        """Wait until the operator has opened the topic."""

        async def ready() -> bool:
            with suppress(QueueUnreachable):  # the broker has just begun
                await self.operator.ensure(None)
                return True
            return False

        await eventually(ready, "the topic is open")

    async def guarded(self) -> None:
        """Wait until the operator is in the group."""
        await asyncio.to_thread(until, lambda: self.operator._guard.joined, "the operator is in the group", 3 * PATIENCE)

    async def record(self, partition: int = 0) -> Record:
        """Return the owner record."""
        record = (await self.seen(partition)).record
        assert record is not None
        return record

    async def committed(self, partition: int = 0) -> int:
        """Return the group's offset."""
        return (await self.seen(partition)).offset

    async def seen(self, partition: int = 0) -> Committed:
        """Return the group's offset with the record."""
        return (await self.operator._transactions.committed((partition,)))[partition]

    async def remade(self) -> None:
        """Recreate the topic; returns when the operator sees the new one, without records."""
        before = (await self.operator.check()).incarnation
        admin = self.broker.admin()
        admin.delete_topics([self.topic])[self.topic].result(PATIENCE)

        async def gone() -> bool:
            try:
                await self.operator.check()
            except QueueUnreachable as problem:
                return f"there is no topic {self.topic}" in str(problem)
            return False

        await eventually(gone, "it is said that there is no topic")
        self.broker.make_topic(self.topic, 1)

        async def again() -> bool:
            try:
                seen = await self.operator.check()
                return seen.incarnation not in (None, before) and not seen.owners
            except QueueUnreachable:
                return False

        await eventually(again, "the new topic is another, without a record")

    async def released(self, partition: int = 0) -> None:
        """Wait until the operator sees the owner's release: a commit stays under way for a moment after it was taken."""

        async def so() -> bool:
            return not await self.operator.outstanding(partition)

        await eventually(so, "its owner has released it")

    async def close(self) -> None:
        for reader in self._readers:
            await asyncio.to_thread(reader.close)
        for operator in (self.operator, *self._operators):
            await operator.close()


MakeQueue = Callable[..., "Queue"]


@pytest.fixture
async def make(broker: KafkaBroker) -> AsyncIterator[MakeQueue]:
    """`make(partitions=4, latest=False, …)`: a queue whose operator's side has not been used yet."""
    made: list[Queue] = []

    def one(
        partitions: int = 4, *, latest: bool = False, redeliveries: int = 0, unacknowledged: int = 0, **configuration: str
    ) -> Queue:
        number = next(_names)
        topic, group = f"orders-{number}", f"shop.orders-{number}"
        broker.make_topic(topic, partitions, **configuration)
        address = KafkaAddress((broker.servers,))
        spec = TopicToOpen(
            topic=topic, queue="orders", latest=latest, max_redeliveries=redeliveries, max_unacknowledged=unacknowledged
        )
        operator = KafkaQueue(address, group, spec, GROUP)
        made.append(Queue(broker, topic, group, address, operator, Producer({**ORDERED, "bootstrap.servers": broker.servers})))
        return made[-1]

    yield one
    for queue in made:
        await queue.close()


@pytest.fixture
async def queue(make: MakeQueue) -> Queue:
    """A queue with four partitions, which the operator has opened."""
    made = make()
    await made.ensured()
    return made
