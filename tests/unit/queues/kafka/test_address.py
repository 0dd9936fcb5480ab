"""The URL by which a pod finds its Kafka."""

from pathlib import Path

import pytest

from baton.queues.kafka.address import KafkaAddress, read
from baton.queues.protocol import QueueUnreachable


def test_a_url_names_brokers_user_and_settings(tmp_path: Path) -> None:
    ca = tmp_path / "ca.pem"
    ca.write_text("PEM")
    url = f"kafkas://me:p%40ss@a.kafka:9092,[::1]:9093/?mechanism=SCRAM-SHA-256&group=g&ca={ca}&fetch.max.bytes=1000"
    address = read(f"{url}&cert={ca}&key={ca}")
    assert address == KafkaAddress(
        ("a.kafka:9092", "[::1]:9093"),
        user="me",
        password="p@ss",
        mechanism="SCRAM-SHA-256",
        tls=True,
        ca="PEM",
        certificate="PEM",
        key="PEM",
        group="g",
        settings={"fetch.max.bytes": "1000"},
    )
    assert "PEM" not in repr(address)
    assert "p@ss" not in repr(address)
    assert address.for_librdkafka()["security.protocol"] == "SASL_SSL"
    assert read("kafka://broker:9092").protocol == "PLAINTEXT"


@pytest.mark.parametrize(
    ("url", "said"),
    [
        ("redis://broker:9092", "no URL of a Kafka: write kafka://"),
        ("kafka://me:secret@broker:9092/?mechanism=PLAIN", "PLAIN, which sends the password as it is, and no TLS"),
        ("kafka://broker", "is no host:port"),
        ("kafka://", "there is no host:port"),
        ("kafka://broker:9092/orders", "no URL of a Kafka"),
        ("kafka://user@broker:9092", "a user without a password"),
        ("kafka://me:secret@broker:9092/?mechanism=GSSAPI", "take one of SCRAM-SHA-512"),
        ("kafka://broker:9092/?mechanism=SCRAM-SHA-256", "mechanism=, and no user: write user:password@"),
        ("kafka://broker:9092/?enable.auto.commit=true", "'enable.auto.commit', which Baton makes itself: take it out"),
        ("kafka://broker:9092/?isolation.level=read_uncommitted", "which Baton makes itself"),
        ("kafkas://broker:9093/?ca=/nowhere/ca.pem", "the option ca, which names no file that can be read"),
        ("kafkas://broker:9093/?cert=/etc/tls.crt", "without its key, or a key alone"),
        ("kafka://broker:9092/?cert=/etc/tls.crt&key=/etc/tls.key", "begin it with kafkas://"),
        ("kafka://me:secret@broker:9092/?ca=/etc/ca.crt", "ca=, and no TLS: begin it with kafkas://"),
        ("kafka://broker:9092/?group=", "group= without a value: give it one, or take it out"),
        ("kafkas://broker:9093/?ca=", "ca= without a value"),
    ],
)
def test_what_cannot_be_used_is_said_with_the_cure(url: str, said: str) -> None:
    with pytest.raises(QueueUnreachable) as problem:
        read(url)
    assert said in str(problem.value)


@pytest.mark.parametrize(
    ("setting", "said"),
    [
        ("fetch.max.byte=1", 'No such configuration property: "fetch.max.byte"'),
        ("compression.codec=brotli", 'Invalid value "brotli" for configuration property "compression.codec"'),
    ],
)
def test_a_setting_that_librdkafka_does_not_have_is_said_before_the_consumer_begins(setting: str, said: str) -> None:
    from baton.model.ids import Uid
    from baton.queues.kafka.consumer_side import KafkaConsumerSide

    with pytest.raises(QueueUnreachable, match="cannot be read with these settings") as problem:
        KafkaConsumerSide(f"kafka://broker:9092/?{setting}", "shop/orders", Uid("a"))
    assert f"{said}: correct it in the address" in str(problem.value)
