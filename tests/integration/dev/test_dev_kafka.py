"""`baton dev` with a topic of Kafka."""

import subprocess
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
from confluent_kafka import Producer

from tests.integration.dev.test_dev import BATON, Dev, says, share_and_hand_over, stopped
from tests.kafka_broker import ORDERED, KafkaBroker
from tests.waiting import PATIENCE, until


@pytest.fixture(scope="module")
def broker() -> Iterator[KafkaBroker]:
    with KafkaBroker() as running:
        running.make_topic("orders", 4)
        running.make_topic("payments", 2)
        yield running


def test_two_consumers_share_a_topic_and_hand_over_in_order(dev: Dev, broker: KafkaBroker) -> None:
    process = dev.start("--kafka-url", f"kafka://{broker.servers}", "--delay", "0")
    producer = Producer({"bootstrap.servers": broker.servers, **ORDERED})

    def send_many(those: Iterator[tuple[str, str]]) -> None:
        for key, value in those:
            producer.produce("orders", value, key)
        assert producer.flush(PATIENCE) == 0

    until(says(dev, "unowned: 0-3"), "it says who owns what")
    assert f"with 4 partitions, topic orders and group dev.orders of Kafka at {broker.servers}" in dev.said.read_text()
    assert "producer.py" not in dev.said.read_text(), "the environment names no Redis to send to"
    share_and_hand_over(dev, send_many, stopped)
    stopped(process)
    assert "Traceback" not in dev.said.read_text()


def test_partitions_granted_together_are_one_line(dev: Dev, broker: KafkaBroker) -> None:
    broker.make_topic("many", 12)
    dev.start("--kafka-url", f"kafka://{broker.servers}", "--queue", "many", "--delay", "0")
    until(says(dev, ": 0-11"), "it says who owns what")
    dev.consumer("a")
    until(says(dev, "many-1: 0-11"), "it has all")
    lines = [line for line in dev.said.read_text().splitlines() if "many-1" in line]
    assert len(lines) <= 3, "one, and one a second where the broker is slow"


def test_a_second_baton_dev_on_a_topic_waits_for_the_first(dev: Dev, broker: KafkaBroker, tmp_path: Path) -> None:
    with ExitStack() as stack:
        arguments = ("--kafka-url", f"kafka://{broker.servers}", "--topic", "payments", "--queue", "bills", "--delay", "0")
        first = dev.start(*arguments)
        until(dev.address.exists, "it says where it is")
        dev.consumer("a")
        until(says(dev, "bills-1: 0-1"), "it has all")
        (tmp_path / "other").mkdir()
        other = Dev(tmp_path / "other", stack)
        other.start(*arguments)
        until(says(other, "belongs to another `baton dev`", "--group dev.bills"), "the second says whose it is")
        stopped(first)
        until(says(other, "unowned: 0-1"), "it has what the first gave up")


def test_a_missing_topic_is_reported_and_waited_for(dev: Dev, broker: KafkaBroker) -> None:
    dev.start("--kafka-url", f"kafka://{broker.servers}", "--topic", "later", "--queue", "later")
    until(says(dev, "later"), "it reports that")
    broker.make_topic("later", 3)
    until(says(dev, "unowned: 0-2"), "it goes on")


def test_a_missing_topic_leaves_no_connection_open(dev: Dev, broker: KafkaBroker) -> None:
    dev.environment["PYTHONWARNINGS"] = "always::ResourceWarning"
    process = dev.start("--kafka-url", f"kafka://{broker.servers}", "--topic", "never", "--queue", "never")
    until(says(dev, "never"), "the missing topic is reported")
    stopped(process)
    assert "nclosed" not in dev.said.read_text()


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--kafka-url", "127.0.0.1:9092"], "not the URL of a Kafka"),
        (["--kafka-url", "kafka://127.0.0.1"], "not host:port"),
        (["--kafka-url", "kafka://127.0.0.1:9092", "--partitions", "3"], "omit --partitions"),
        (["--kafka-url", "kafka://127.0.0.1:9092", "--redis-url", "redis://127.0.0.1:6379/0"], "one server"),
        (["--kafka-url", "kafka://127.0.0.1:9092", "--topic", "a b"], "an invalid topic"),
        (["--topic", "orders"], "--topic needs --kafka-url"),
    ],
)
def test_invalid_options_are_reported_in_one_line(dev: Dev, arguments: list[str], said: str) -> None:
    done = subprocess.run([BATON, "dev", *arguments], env=dev.environment, capture_output=True, text=True, check=False)
    assert done.returncode in (1, 2) and said in done.stderr.splitlines()[-1], done.stderr
    assert "Traceback" not in done.stderr


def test_an_unreachable_broker_is_reported_once(dev: Dev) -> None:
    dev.start("--kafka-url", "kafka://127.0.0.1:1")
    until(says(dev, "Kafka at 127.0.0.1:1 does not answer"), "it reports that")
    assert "Unable connect" not in dev.said.read_text()
