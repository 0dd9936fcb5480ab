"""KafkaProducer with a real broker: where messages go, that none is lost silently, and what its errors say."""

import itertools
import re
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import Producer as Client

from baton.producers import KafkaDelivery, KafkaProducer, Producer, QueueUnreachable, producer_from_environment
from tests.integration.kafka.reading import committed_messages, committed_values
from tests.kafka_broker import KafkaBroker
from tests.kafka_broker.jars import USERS

_topics = itertools.count(1)


@pytest.fixture
def topic(broker: KafkaBroker) -> str:
    name = f"produced-{next(_topics)}"
    broker.make_topic(name, 4)
    return name


@pytest.fixture
def producer(broker: KafkaBroker, topic: str) -> Iterator[KafkaProducer]:
    with KafkaProducer(f"kafka://{broker.servers}", topic) as made:
        yield made


def test_a_message_is_at_the_returned_offset_with_its_headers(broker: KafkaBroker, producer: KafkaProducer, topic: str) -> None:
    sent = producer.send("customer-17", "shipped", {"traceparent": b"00-1"})
    (message,) = committed_messages(broker, topic)[sent.partition]
    assert (message.key(), message.value(), message.headers()) == (b"customer-17", b"shipped", [("traceparent", b"00-1")])
    assert sent.offset == str(message.offset())
    assert producer.send(None, b"x", partition=3).partition == 3


def test_the_guides_producer_prints_its_messages_offset(broker: KafkaBroker) -> None:
    guide = (Path(__file__).parents[3] / "docs" / "guides" / "producer.md").read_text()
    (program,) = re.findall(r"^```python\n([^`]*KafkaProducer.*?)^```", guide, re.DOTALL | re.MULTILINE)
    topic = f"produced-{next(_topics)}"
    broker.make_topic(topic, 4)
    program = program.replace("kafka://broker.shop:9092", f"kafka://{broker.servers}").replace('"orders"', f'"{topic}"')
    done = subprocess.run([sys.executable, "-c", program], check=True, timeout=100, capture_output=True, text=True)
    (partition, message), *others = [(n, one) for n, those in enumerate(committed_messages(broker, topic)) for one in those]
    assert done.stdout == f"{partition} {message.offset()}\n" and others == []
    assert (message.key(), message.value(), message.headers()) == (b"customer-17", b"shipped", [("traceparent", "00-…".encode())])


def test_keys_go_where_javas_clients_put_them(broker: KafkaBroker, producer: KafkaProducer, topic: str) -> None:
    java = Client({"bootstrap.servers": broker.servers, "partitioner": "murmur2_random"})
    placed: dict[str, int | None] = {}
    keys = [f"customer-{number}" for number in range(20)]
    for key in keys:
        java.produce(
            topic,
            b"",
            key=key,
            on_delivery=lambda _, message: placed.update({(message.key() or b"").decode(): message.partition()}),
        )
    java.flush()
    assert {key: producer.send(key, b"").partition for key in keys} == placed


def test_many_messages_are_sent_in_order_per_key(broker: KafkaBroker, producer: KafkaProducer, topic: str) -> None:
    sent = producer.send_many([(f"customer-{number % 7}", str(number)) for number in range(500)])
    assert len(sent) == 500
    for values in committed_values(broker, topic):
        by_customer: dict[int, list[int]] = {}
        for value in values:
            by_customer.setdefault(int(value or 0) % 7, []).append(int(value or 0))
        assert all(numbers == sorted(numbers) for numbers in by_customer.values())


def test_lingering_messages_are_sent_at_the_end_of_with(broker: KafkaBroker, topic: str) -> None:
    heard: list[KafkaDelivery] = []
    with KafkaProducer(f"kafka://{broker.servers}", topic, linger=60, patience=120) as producer:
        deliveries = [producer.produce("k", str(number), on_delivery=heard.append) for number in range(100)]
        assert not deliveries[0].done()
    assert [delivery.result(0).offset for delivery in deliveries] == [str(number) for number in range(100)]
    assert heard == deliveries
    with pytest.raises(RuntimeError, match="closed"):
        producer.send("k", "v")


def test_an_unseen_failure_is_raised_by_close(broker: KafkaBroker) -> None:
    producer = KafkaProducer(f"kafka://{broker.servers}", "nowhere-to-be-found", patience=3)
    producer.produce("k", "v")
    with pytest.raises(QueueUnreachable, match=r"1 message to nowhere-to-be-found not sent: .* has no topic .*: create it"):
        producer.close()
    producer.close()


def test_a_failure_the_program_saw_is_not_raised_by_close(broker: KafkaBroker) -> None:
    told = threading.Event()
    with KafkaProducer(f"kafka://{broker.servers}", "nowhere-to-be-found", patience=3) as producer:
        assert isinstance(producer.produce("k", "v").exception(), QueueUnreachable)
        producer.produce("k", "v", on_delivery=lambda delivery: told.set())
    assert told.is_set()


def test_without_a_broker_a_send_fails_after_its_patience() -> None:
    with KafkaProducer("kafka://127.0.0.1:1", "orders", patience=1) as producer:
        with pytest.raises(QueueUnreachable, match=r"Kafka at 127\.0\.0\.1:1"):
            producer.send("k", "v")
        producer.produce("k", "v")
        with pytest.raises(QueueUnreachable, match=r"1 message to orders not sent"):
            producer.flush()


def test_a_full_buffer_rejects_messages(broker: KafkaBroker) -> None:
    producer = KafkaProducer("kafka://127.0.0.1:1", "orders", patience=1, buffer_bytes=100_000)

    def fill() -> None:
        while True:
            producer.produce("k", b"x" * 10_000, on_delivery=lambda delivery: None)

    with pytest.raises(QueueUnreachable, match="buffer is full"):
        fill()
    producer.close(0)


def test_an_error_that_no_retry_helps_is_a_value_error(broker: KafkaBroker, producer: KafkaProducer, topic: str) -> None:
    with pytest.raises(ValueError, match=r"larger than the topic .* takes: raise its max\.message\.bytes"):
        producer.send("k", b"x" * 2_000_000)
    with pytest.raises(ValueError, match="no such partition"):
        producer.send("k", "v", partition=9)
    for partition in (-1, 2**31):
        with pytest.raises(ValueError, match="a partition is a number from 0 to 2147483647"):
            producer.send("k", "v", partition=partition)
    with pytest.raises(TypeError, match="a value is bytes or str, not int"):
        producer.send("k", 1)  # type: ignore[arg-type]


def test_the_url_in_the_environment_selects_the_queue(broker: KafkaBroker, topic: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("BATON_REDIS_URL", raising=False)
    monkeypatch.setenv("BATON_KAFKA_URL", f"kafka://{broker.servers}")
    producer: Producer
    with producer_from_environment(topic) as producer:
        producer.send("k", "v")
    assert [value for values in committed_values(broker, topic) for value in values] == [b"v"]


def test_callbacks_come_one_at_a_time_in_the_order_of_a_key(producer: KafkaProducer) -> None:
    order: list[str | None] = []
    at_work = threading.Lock()

    def heard(delivery: KafkaDelivery) -> None:
        assert at_work.acquire(blocking=False)
        order.append(delivery.result().offset)
        at_work.release()

    for number in range(2000):
        producer.produce("k", str(number), on_delivery=heard)
        if number % 500 == 0:
            producer.send("k", "between")
    producer.flush()
    assert len(order) == 2000 and order == sorted(order, key=lambda offset: int(offset or 0))


def test_a_callback_that_fails_or_waits_for_itself_breaks_nothing(producer: KafkaProducer) -> None:
    raised: list[Exception] = []

    def heard(delivery: KafkaDelivery) -> None:
        for call in (producer.flush, producer.close, lambda: producer.send("k", "v")):
            try:
                call()
            except RuntimeError as error:
                raised.append(error)
        raise SystemExit

    producer.produce("k", "v", on_delivery=heard)
    producer.flush()
    assert len(raised) == 3
    assert producer.send("k", "after").offset is not None

    async def never_awaited(delivery: KafkaDelivery) -> None: ...

    with pytest.raises(TypeError, match="coroutine function"):
        producer.produce("k", "v", on_delivery=never_awaited)


def test_no_message_is_sent_if_one_of_many_is_invalid(broker: KafkaBroker, producer: KafkaProducer, topic: str) -> None:
    with pytest.raises(TypeError, match="a value is bytes or str, not int"):
        producer.send_many([("k", "a"), ("k", 5)])  # type: ignore[list-item]
    producer.flush()
    assert not any(committed_values(broker, topic))


def test_lingering_messages_are_sent_at_process_exit(broker: KafkaBroker, topic: str) -> None:
    program = (
        "import sys; from baton.producers import KafkaProducer; "
        "KafkaProducer(sys.argv[1], sys.argv[2], linger=60, patience=120).produce('k', 'v')"
    )
    subprocess.run([sys.executable, "-c", program, f"kafka://{broker.servers}", topic], check=True, timeout=100)
    assert [value for values in committed_values(broker, topic) for value in values] == [b"v"]


def test_every_call_names_the_missing_write_right(broker: KafkaBroker, topic: str) -> None:
    url = f"kafka://pod:{USERS['pod'].replace(' ', '%20')}@127.0.0.1:{broker.sasl_port}"
    producer = KafkaProducer(url, topic)
    for _ in range(2):
        with pytest.raises(QueueUnreachable, match=f"user pod may not WRITE the topic {topic}: allow it by an ACL"):
            producer.send("k", "v")
    with pytest.raises(QueueUnreachable, match="may not WRITE"):
        producer.send_many([("k", "v")])
    producer.flush()
    producer.close()
