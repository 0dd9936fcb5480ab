"""Kafka's own commands, of the broker's distribution."""

import subprocess

from baton.model.ids import Partition, QueueName
from tests.kafka_broker import SOON, KafkaBroker, jars


def consumer_groups(broker: KafkaBroker, group: str, *arguments: str) -> str:
    """What `kafka-consumer-groups.sh --group <group>` says, of what it does and of what it refuses."""
    command = jars.java(
        "org.apache.kafka.tools.consumer.group.ConsumerGroupCommand",
        *("--bootstrap-server", broker.servers, "--group", group, *arguments),
        lib=jars.place() / "lib",
        options=SOON,
    )
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    return done.stdout + done.stderr


def described(broker: KafkaBroker, group: str) -> dict[Partition, tuple[int, int, int]]:
    """By partition that has a place: the place, the log's end, and the lag."""
    said = consumer_groups(broker, group, "--describe")
    rows = [row for line in said.splitlines() if line.startswith(f"{group} ") and (row := line.split())[3] != "-"]
    return {Partition(QueueName(topic), int(n)): (int(at), int(end), int(lag)) for _, topic, n, at, end, lag, *_ in rows}


def reset(broker: KafkaBroker, group: str, topic: str, *place: str) -> str:
    """`--reset-offsets --topic <topic> <place> --execute`; what it says."""
    return consumer_groups(broker, group, "--reset-offsets", "--topic", topic, *place, "--execute")
