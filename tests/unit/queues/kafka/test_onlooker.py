"""Errors of commands and producers when no broker answers."""

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest
from confluent_kafka import KafkaError, KafkaException

from baton.queues.kafka.address import KafkaAddress, read
from baton.queues.kafka.onlooker import KafkaOnlooker
from baton.queues.kafka.producer import KafkaProducer
from baton.queues.protocol import QueueUnreachable

REFUSED = KafkaError(KafkaError._TRANSPORT, "kafka:9092/bootstrap: Connect failed: Connection refused")
ALL_DOWN = KafkaError(KafkaError._ALL_BROKERS_DOWN, "1/1 brokers are down")


class SilentClient:
    """librdkafka's client where no broker answers."""

    def __init__(self, errors: list[KafkaError], error_cb: Callable[[KafkaError], None]) -> None:
        self._errors, self._error_cb = errors, error_cb

    def list_topics(self, topic: str, timeout: float) -> None:
        raise KafkaException(KafkaError(KafkaError._TRANSPORT))

    def poll(self, timeout: float) -> None:
        for error in self._errors:
            self._error_cb(error)


class SilentProducer:
    """librdkafka's producer where no broker answers."""

    def __init__(self, settings: dict[str, Any]) -> None:
        self._error_cb: Callable[[KafkaError], None] = settings["error_cb"]
        self._waiting: list[Callable[[KafkaError, None], None]] = []

    def produce(self, topic: str, *, on_delivery: Callable[[KafkaError, None], None], **message: object) -> None:
        self._waiting.append(on_delivery)

    def flush(self, timeout: float) -> None:
        for error in ERRORS if self._waiting else ():
            self._error_cb(error)
        while self._waiting:
            self._waiting.pop()(KafkaError(KafkaError._MSG_TIMED_OUT), None)

    poll = flush


ERRORS: list[KafkaError] = []
CAUSES = pytest.mark.parametrize(
    ("errors", "cause"), [([REFUSED, ALL_DOWN], REFUSED), ([ALL_DOWN, REFUSED], REFUSED), ([ALL_DOWN], ALL_DOWN)]
)


@CAUSES
def test_a_producer_names_why_no_broker_answers(
    errors: list[KafkaError], cause: KafkaError, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("baton.queues.kafka.producer.Client", SilentProducer)
    ERRORS[:] = errors
    with KafkaProducer("kafka://kafka:9092", "orders") as producer, pytest.raises(QueueUnreachable) as told:
        producer.send("k", b"v")
    assert f"({cause.str()})" in str(told.value)


@CAUSES
def test_an_onlooker_names_why_no_broker_answers(
    errors: list[KafkaError], cause: KafkaError, monkeypatch: pytest.MonkeyPatch
) -> None:
    def client(address: KafkaAddress, group: str, *, error_cb: Callable[[KafkaError], None], **more: object) -> SilentClient:
        return SilentClient(errors, error_cb)

    monkeypatch.setattr("baton.queues.kafka.onlooker.fetching_client", client)
    onlooker = KafkaOnlooker(read("kafka://kafka:9092"), "orders")
    with pytest.raises(QueueUnreachable) as told:
        onlooker.partitions()
    assert f"({cause.str()})" in str(told.value)


class LostClient(SilentClient):
    """librdkafka's client where a broker answers once."""

    answers = 0

    def list_topics(self, topic: str, timeout: float) -> Any:
        self.answers += 1
        if self.answers == 2:
            return SimpleNamespace(topics={topic: SimpleNamespace(error=None, partitions={0: None})})
        return super().list_topics(topic, timeout)


def test_a_cause_from_before_the_last_answer_is_not_named(monkeypatch: pytest.MonkeyPatch) -> None:
    errors = [REFUSED]

    def client(address: KafkaAddress, group: str, *, error_cb: Callable[[KafkaError], None], **more: object) -> SilentClient:
        return LostClient(errors, error_cb)

    monkeypatch.setattr("baton.queues.kafka.onlooker.fetching_client", client)
    onlooker = KafkaOnlooker(read("kafka://kafka:9092"), "orders")
    with pytest.raises(QueueUnreachable, match="refused"):
        onlooker.partitions()
    assert onlooker.partitions() == 1
    errors.clear()
    with pytest.raises(QueueUnreachable) as told:
        onlooker.partitions()
    assert "refused" not in str(told.value)
