"""What consumes, as a process of its own: `python -m tests.bench.throughput.consuming SIDE SERVERS TOPIC LEDGER COUNT EVERY`.

It says that it is ready, begins at a line on its standard input, handles COUNT messages in batches of EVERY, and says how long
that took: from the moment when it begins to connect until all is committed.
"""

import json
import sys
import time
from collections.abc import Callable
from itertools import cycle
from pathlib import Path

import confluent_kafka

from baton.consumer import AssignmentSource, Consumer
from baton.model.ids import Epoch, MemberId, QueueName, Uid
from baton.queues.entry import Entries
from baton.queues.kafka.address import KafkaAddress
from baton.queues.kafka.reader import KafkaReader
from tests.kafka_pod import shared, wait_for_entries

POD, UID, QUEUE = MemberId("bench"), Uid("bench-uid"), QueueName("orders")
PARTITIONS = 16
EPOCH = Epoch(1)


def confluent(servers: str, topic: str, ledger: Path, count: int, every: int) -> None:
    """What somebody writes who has confluent-kafka alone. Its auto-commit is librdkafka's: every five seconds, and at the end."""
    consumer = confluent_kafka.Consumer(
        {
            "bootstrap.servers": servers,
            "group.id": ledger.name,
            "auto.offset.reset": "earliest",
            "enable.auto.offset.store": False,
        }
    )
    consumer.assign([confluent_kafka.TopicPartition(topic, number) for number in range(PARTITIONS)])
    handled = size = 0
    while handled < count:
        last: dict[int | None, confluent_kafka.Message] = {}
        for message in consumer.consume(every, 1.0):
            if message.error() is not None:  # the broker is just making its topic of offsets
                continue
            size += len(message.value() or b"")
            last[message.partition()] = message
            handled += 1
        for message in last.values():
            consumer.store_offsets(message)
    consumer.close()


def consumer(servers: str, topic: str, ledger: Path, count: int, every: int) -> None:
    """As in a pod, but without the Lease: there is no API server here."""
    left = size = 0

    def handle(batch: object) -> None:
        nonlocal left, size
        for entry in batch:  # type: ignore[attr-defined]
            size += len(entry.value)
            left += 1
        if left >= count:
            made.stop()

    made = Consumer(lambda queue: _reader(servers, ledger), AssignmentSource(ledger, POD, UID), UID, grace=5.0)
    made.run(handle, max_entries=every)


def committed_at_once(servers: str, topic: str, ledger: Path, count: int, every: int) -> None:
    """The reader alone; each batch is committed before the next is read."""
    _read(_reader(servers, ledger), count, every, soon=False)


def committed_soon(servers: str, topic: str, ledger: Path, count: int, every: int) -> None:
    """Likewise; commits are made in the background, as the consumer has them made."""
    _read(_reader(servers, ledger), count, every, soon=True)


def _reader(servers: str, ledger: Path) -> KafkaReader:
    address, group = KafkaAddress((servers,)), ledger.name
    return KafkaReader(address, group, QUEUE, UID, *shared(address, group))


def _read(reader: KafkaReader, count: int, every: int, *, soon: bool) -> None:
    handled = size = 0
    for number in cycle(range(PARTITIONS)):
        if not reader.ready(number, EPOCH):
            wait_for_entries(reader, range(PARTITIONS), 1.0)
            continue
        entries = Entries.of(reader.read(number, EPOCH, every))
        size += sum(map(len, entries.values))
        handled += len(entries)
        if entries:
            reader.ack(number, EPOCH, entries.offsets, soon=soon)
        if handled >= count:
            break
    for number in range(PARTITIONS):
        reader.release({number: EPOCH}, 3)
    reader.close()


SIDES: dict[str, Callable[[str, str, Path, int, int], None]] = {
    "confluent-kafka, auto-commit": confluent,
    "consumer": consumer,
    "reader, committed in the background": committed_soon,
    "reader, each batch committed before the next": committed_at_once,
}


def main() -> None:
    side, servers, topic, ledger, count, every = sys.argv[1:]
    print("ready", flush=True)
    sys.stdin.readline()
    began = time.monotonic(), time.process_time()
    SIDES[side](servers, topic, Path(ledger), int(count), int(every))
    print(json.dumps({"seconds": time.monotonic() - began[0], "worked": time.process_time() - began[1]}), flush=True)


if __name__ == "__main__":
    main()
