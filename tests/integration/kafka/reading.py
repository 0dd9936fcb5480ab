"""Reading until entries come, and reading what was committed."""

from collections.abc import Sequence

from confluent_kafka import Consumer, KafkaError, Message, TopicPartition

from baton.model.ids import Epoch
from baton.queues.entry import Entries, Entry
from baton.queues.kafka.reader import KafkaReader
from baton.queues.protocol import QueueUnreachable
from tests.kafka_broker import KafkaBroker
from tests.waiting import PATIENCE, until


def read_some(reader: KafkaReader, partition: int, epoch: int, count: int) -> Sequence[Entry]:
    """Read what there is, and begin all of it: nothing comes behind an unbegun entry of an earlier process."""
    entries = Entries.of(reader.read(partition, Epoch(epoch), count))
    for offset, times in entries.times.items():
        assert reader.begin_again(partition, Epoch(epoch), offset, times)
    return entries


def read(reader: KafkaReader, partition: int, epoch: int, count: int) -> list[Entry]:
    """Read so many entries, in order."""
    found: list[Entry] = []

    def enough() -> bool:
        found.extend(read_some(reader, partition, epoch, count - len(found)))
        return len(found) == count

    until(enough, f"there are {count} entries in partition {partition}")
    return found


def refusal_of(reader: KafkaReader, epoch: int = 1) -> str:
    """Return why the queue refuses to read the first partition on; it may have no entries."""
    try:
        assert not reader.read(0, Epoch(epoch))
    except QueueUnreachable as problem:
        return str(problem)
    return ""


def committed_values(broker: KafkaBroker, topic: str) -> list[list[bytes | None]]:
    """The values in `committed_messages`."""
    return [[message.value() for message in messages] for messages in committed_messages(broker, topic)]


def committed_messages(broker: KafkaBroker, topic: str) -> list[list[Message]]:
    """Return each partition's messages in order, as readers of committed messages see them, up to the first open transaction."""
    settings = {"bootstrap.servers": broker.servers, "group.id": "who-only-reads", "enable.partition.eof": True}
    consumer = Consumer({**settings, "isolation.level": "read_committed", "auto.offset.reset": "earliest"})
    try:
        numbers = sorted(consumer.list_topics(topic, PATIENCE).topics[topic].partitions)
        found: list[list[Message]] = [[] for _ in numbers]
        consumer.assign([TopicPartition(topic, number, 0) for number in numbers])
        left = set(numbers)
        while left:
            message = consumer.poll(PATIENCE)
            assert message is not None, f"{topic}: nothing is heard of the partitions {left}"
            number = message.partition() or 0
            error = message.error()
            if error is not None:
                assert error.code() == KafkaError._PARTITION_EOF, error
                left.discard(number)
            else:
                found[number].append(message)
        return found
    finally:
        consumer.close()
