"""The public place of producers, and the one that the environment asks for."""

import pytest

import baton.producers
from baton.producers import QueueUnreachable, RedisProducer, producer_from_environment


def test_every_name_can_be_had() -> None:
    assert all(getattr(baton.producers, name) is not None for name in baton.producers.__all__)
    with pytest.raises(AttributeError, match="no_such_producer"):
        _ = baton.producers.no_such_producer


def test_redis_is_asked_for_by_its_url(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("BATON_KAFKA_URL", raising=False)
    monkeypatch.setenv("BATON_REDIS_URL", "redis://127.0.0.1:1/0")
    with producer_from_environment("shop/orders", patience=0.01) as producer:
        assert isinstance(producer, RedisProducer)
        with pytest.raises(QueueUnreachable, match=r"127\.0\.0\.1:1"):
            producer.send("k", "v")


@pytest.mark.parametrize(
    ("environment", "said"),
    [
        ({}, "set BATON_REDIS_URL or BATON_KAFKA_URL"),
        ({"BATON_REDIS_URL": "redis://r:1", "BATON_KAFKA_URL": "kafka://k:1"}, "keep the one"),
    ],
)
def test_no_address_or_two_are_refused(monkeypatch: pytest.MonkeyPatch, environment: dict[str, str], said: str) -> None:
    for name in ("BATON_REDIS_URL", "BATON_KAFKA_URL"):
        monkeypatch.delenv(name, raising=False)
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    with pytest.raises(ValueError, match=said):
        producer_from_environment("shop/orders")
