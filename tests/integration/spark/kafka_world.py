"""A fleet without Kubernetes, over a topic of a real Kafka."""

import re
import subprocess
from collections.abc import Mapping
from operator import itemgetter
from pathlib import Path
from types import MappingProxyType

from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaError, Producer, TopicPartition
from pyspark.sql import SparkSession

from baton.queues.kafka.adapter import KafkaQueue, TopicToOpen
from baton.queues.kafka.address import KafkaAddress
from tests.integration.spark.world import CLAIMANT, World
from tests.kafka_broker import ORDERED, KafkaBroker, jars
from tests.waiting import PATIENCE

_DESCRIBE = "org.apache.kafka.tools.consumer.group.ConsumerGroupCommand"


class KafkaWorld(World):
    """A `World` whose queue is a topic."""

    def __init__(
        self,
        spark: SparkSession,
        broker: KafkaBroker,
        folder: Path,
        partitions: int,
        epoch: int = 0,
        topic: Mapping[str, str] = MappingProxyType({}),
    ) -> None:
        """`topic`: configuration of the topic, with underscores."""
        self.broker = broker
        self.topic = f"{folder.parent.name}-{folder.name}".replace("_", "-").lower()
        self.group = f"shop.{self.topic}"
        if epoch == 0:
            broker.make_topic(self.topic, partitions, **topic)
        super().__init__(spark, f"kafka://{broker.servers}/?group={self.group}", folder, partitions, epoch)

    def operator(self) -> KafkaQueue:
        spec = TopicToOpen(topic=self.topic, queue=self.name)
        return KafkaQueue(KafkaAddress((self.broker.servers,)), self.group, spec, CLAIMANT)

    def replace_queue(self) -> None:
        """Replace the queue by one with another topic, with the same grants."""
        self.topic = f"{self.topic}-latter"
        self.broker.make_topic(self.topic, self._partitions)
        self._ask(lambda queue: queue.ensure(None))
        self.give({number: owner for number, (owner, _) in self._grants.items()})

    def send(self, *values: str, codec: str = "none") -> None:
        """Send to the partitions in turn."""
        producer = Producer({**ORDERED, "bootstrap.servers": self.broker.servers, "compression.type": codec, "linger.ms": 50})
        for number, value in enumerate(values):
            producer.produce(self.topic, value, f"key-{number}", number % self._partitions)
        assert producer.flush(PATIENCE) == 0

    def forget(self, before: Mapping[int, int]) -> None:
        """Delete the messages of these partitions before these offsets, as retention does."""
        admin = self.broker.admin()
        done = admin.delete_records([TopicPartition(self.topic, number, offset) for number, offset in before.items()])
        for one in done.values():
            one.result(PATIENCE)

    def messages_there(self) -> list[tuple[int, int, bytes | None, bytes | None]]:
        """Partition, offset, key and value of each committed message, read by Kafka's own consumer."""
        settings = {"group.id": "looks", "isolation.level": "read_committed", "enable.partition.eof": True}
        consumer = Consumer({**settings, "bootstrap.servers": self.broker.servers})
        consumer.assign([TopicPartition(self.topic, number, OFFSET_BEGINNING) for number in range(self._partitions)])
        found: list[tuple[int, int, bytes | None, bytes | None]] = []
        at_end = 0
        try:
            while at_end < self._partitions:
                [message] = consumer.consume(1, PATIENCE)
                if (error := message.error()) is None:
                    found.append((message.partition() or 0, message.offset() or 0, message.key(), message.value()))
                else:
                    assert error.code() == KafkaError._PARTITION_EOF, error
                    at_end += 1
        finally:
            consumer.close()
        return sorted(found, key=itemgetter(0, 1))

    def described(self) -> Mapping[int, tuple[int, int, int]]:
        """Offset, end and lag by partition, from Kafka's own command."""
        command = jars.java(
            _DESCRIBE, "--bootstrap-server", self.broker.servers, "--describe", "--group", self.group, lib=jars.place() / "lib"
        )
        said = subprocess.run(command, capture_output=True, text=True, check=True, timeout=4 * PATIENCE).stdout
        rows = re.findall(rf"{re.escape(self.topic)}\s+(\d+)\s+(\d+)\s+(\d+)\s+(\d+)", said)
        return {int(number): (int(offset), int(end), int(lag)) for number, offset, end, lag in rows}
