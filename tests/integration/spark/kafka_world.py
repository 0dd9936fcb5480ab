"""The same fleet without Kubernetes, over a topic of a real Kafka."""

import re
import subprocess
from collections.abc import Mapping
from pathlib import Path

from confluent_kafka import Producer
from pyspark.sql import SparkSession

from baton.queues.kafka.adapter import KafkaQueue, TopicToOpen
from baton.queues.kafka.address import KafkaAddress
from tests.integration.spark.world import CLAIMANT, World
from tests.kafka_broker import ORDERED, KafkaBroker, jars
from tests.waiting import PATIENCE

_DESCRIBE = "org.apache.kafka.tools.consumer.group.ConsumerGroupCommand"


class KafkaWorld(World):
    """`World`, whose queue is a topic."""

    def __init__(self, spark: SparkSession, broker: KafkaBroker, folder: Path, partitions: int, epoch: int = 0) -> None:
        self.broker = broker
        self.topic = f"{folder.parent.name}-{folder.name}".replace("_", "-").lower()
        self.group = f"shop.{self.topic}"
        if epoch == 0:
            broker.make_topic(self.topic, partitions)
        self.messages = Producer({**ORDERED, "bootstrap.servers": broker.servers})
        super().__init__(spark, f"kafka://{broker.servers}/?group={self.group}", folder, partitions, epoch)

    def operator(self) -> KafkaQueue:
        spec = TopicToOpen(topic=self.topic, queue=self.topic)
        return KafkaQueue(KafkaAddress((self.broker.servers,)), self.group, spec, CLAIMANT)

    def send(self, *values: str) -> None:
        """Over the partitions in turn."""
        for number, value in enumerate(values):
            self.messages.produce(self.topic, value, f"key-{number}", number % self._partitions)
        assert self.messages.flush(PATIENCE) == 0

    def described(self) -> Mapping[int, tuple[int, int, int]]:
        """By partition: offset, end and lag, as Kafka's own command shows them."""
        command = jars.java(
            _DESCRIBE, "--bootstrap-server", self.broker.servers, "--describe", "--group", self.group, lib=jars.place() / "lib"
        )
        said = subprocess.run(command, capture_output=True, text=True, check=True, timeout=4 * PATIENCE).stdout
        rows = re.findall(rf"{re.escape(self.topic)}\s+(\d+)\s+(\d+)\s+(\d+)\s+(\d+)", said)
        return {int(number): (int(offset), int(end), int(lag)) for number, offset, end, lag in rows}
