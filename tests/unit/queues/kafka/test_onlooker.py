"""Errors of commands and producers when no broker answers."""

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest
from confluent_kafka import KafkaError, KafkaException

from baton.queues.kafka.address import read
from baton.queues.kafka.onlooker import KafkaOnlooker
from baton.queues.kafka.producer import KafkaProducer
from baton.queues.protocol import QueueUnreachable

REFUSED = KafkaError(KafkaError._TRANSPORT, "kafka:9092/bootstrap: Connect failed: Connection refused")
ALL_DOWN = KafkaError(KafkaError._ALL_BROKERS_DOWN, "1/1 brokers are down")


class Silent:
    """librdkafka's consumer and producer where no broker answers."""

    def __init__(self, errors: list[KafkaError], error_cb: Callable[[KafkaError], None]) -> None:
        self._errors, self._error_cb = errors, error_cb
        self._waiting: list[Callable[[KafkaError, None], None]] = []
        self.answers = False

    def list_topics(self, topic: str, timeout: float) -> Any:
        if self.answers:
            return SimpleNamespace(topics={topic: SimpleNamespace(error=None, partitions={0: None})})
        raise KafkaException(KafkaError(KafkaError._TRANSPORT))

    def produce(self, topic: str, *, on_delivery: Callable[[KafkaError, None], None], **message: object) -> None:
        self._waiting.append(on_delivery)

    def poll(self, timeout: float) -> None:
        for error in self._errors:
            self._error_cb(error)
        while self._waiting:
            self._waiting.pop()(KafkaError(KafkaError._MSG_TIMED_OUT), None)

    flush = poll


@pytest.fixture
def errors(monkeypatch: pytest.MonkeyPatch) -> list[KafkaError]:
    """The errors that clients report."""
    errors: list[KafkaError] = []
    monkeypatch.setattr("baton.queues.kafka.producer.Client", lambda settings: Silent(errors, settings["error_cb"]))
    monkeypatch.setattr("baton.queues.kafka.onlooker.fetching_client", lambda *_, error_cb, **__: Silent(errors, error_cb))
    return errors


def look() -> object:
    return KafkaOnlooker(read("kafka://kafka:9092"), "orders").partitions()


def send() -> object:
    with KafkaProducer("kafka://kafka:9092", "orders") as producer:
        return producer.send("k", b"v")


@pytest.mark.parametrize("ask", [look, send])
@pytest.mark.parametrize(
    ("heard", "cause"), [([REFUSED, ALL_DOWN], REFUSED), ([ALL_DOWN, REFUSED], REFUSED), ([ALL_DOWN], ALL_DOWN)]
)
def test_the_message_names_why_no_broker_answers(
    errors: list[KafkaError], ask: Callable[[], object], heard: list[KafkaError], cause: KafkaError
) -> None:
    errors[:] = heard
    with pytest.raises(QueueUnreachable) as told:
        ask()
    assert f"({cause.str()})" in str(told.value)


def test_a_cause_from_before_the_last_answer_is_not_named(errors: list[KafkaError]) -> None:
    errors.append(REFUSED)
    onlooker = KafkaOnlooker(read("kafka://kafka:9092"), "orders")
    client: Any = onlooker._client
    with pytest.raises(QueueUnreachable, match="refused"):
        onlooker.partitions()
    client.answers = True
    assert onlooker.partitions() == 1
    client.answers = False
    errors.clear()
    with pytest.raises(QueueUnreachable) as told:
        onlooker.partitions()
    assert "refused" not in str(told.value)
