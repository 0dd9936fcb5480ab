"""The address of a Kafka cluster, and client keys in the only form that Java reads."""

from pathlib import Path

import pytest
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat, load_pem_private_key

from baton.queues.kafka.address import KafkaAddress, pkcs8, read
from baton.queues.protocol import QueueUnreachable

# -- The URL by which a pod finds its Kafka.


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
        ("redis://broker:9092", "is not a URL of Kafka: write kafka://"),
        ("kafka://me:secret@broker:9092/?mechanism=PLAIN", "PLAIN, which sends the password unencrypted, and no TLS"),
        ("kafka://broker", "is not host:port"),
        ("kafka://", "there is no host:port"),
        ("kafka://broker:9092/orders", "not a URL of Kafka"),
        ("kafka://user@broker:9092", "a user without a password"),
        ("kafka://me:secret@broker:9092/?mechanism=GSSAPI", "use one of SCRAM-SHA-512"),
        ("kafka://broker:9092/?mechanism=SCRAM-SHA-256", "mechanism=, but no user: write user:password@"),
        ("kafka://broker:9092/?enable.auto.commit=true", "'enable.auto.commit', which Baton sets itself: remove it"),
        ("kafka://broker:9092/?isolation.level=read_uncommitted", "which Baton sets itself"),
        ("kafkas://broker:9093/?ca=/nowhere/ca.pem", "the option ca, but its file cannot be read"),
        ("kafkas://broker:9093/?cert=/etc/tls.crt", "without its key, or a key alone"),
        ("kafka://broker:9092/?cert=/etc/tls.crt&key=/etc/tls.key", "begin it with kafkas://"),
        ("kafka://me:secret@broker:9092/?ca=/etc/ca.crt", "ca=, but no TLS: begin it with kafkas://"),
        ("kafka://broker:9092/?group=", "group= without a value: give it one, or remove it"),
        ("kafkas://broker:9093/?ca=", "ca= without a value"),
    ],
)
def test_an_unusable_url_is_refused_with_the_cure(url: str, said: str) -> None:
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
def test_an_unknown_librdkafka_setting_is_refused_before_the_consumer_starts(setting: str, said: str) -> None:
    from baton.model.ids import Uid
    from baton.queues.kafka.consumer_side import KafkaConsumerSide

    with pytest.raises(QueueUnreachable, match="cannot be read with these settings") as problem:
        KafkaConsumerSide(f"kafka://broker:9092/?{setting}", "shop/orders", Uid("a"))
    assert f"{said}: correct it in the address" in str(problem.value)


CERTIFICATE = "-----BEGIN CERTIFICATE-----\nMIIB\n-----END CERTIFICATE-----\n"


@pytest.mark.parametrize(
    "key",
    [
        rsa.generate_private_key(65537, 2048),
        ec.generate_private_key(ec.SECP256R1()),
        ec.generate_private_key(ec.SECP384R1()),
        ec.generate_private_key(ec.SECP521R1()),
    ],
    ids=lambda key: str(key.key_size),
)
def test_a_key_in_any_form_is_converted_to_pkcs_8(key: rsa.RSAPrivateKey | ec.EllipticCurvePrivateKey) -> None:
    for form in (PrivateFormat.TraditionalOpenSSL, PrivateFormat.PKCS8):
        text = key.private_bytes(Encoding.PEM, form, NoEncryption()).decode()
        made = pkcs8(CERTIFICATE + text)
        assert made.startswith("-----BEGIN PRIVATE KEY-----\n") and "CERTIFICATE" not in made
        read = load_pem_private_key(made.encode(), None)
        assert isinstance(read, rsa.RSAPrivateKey | ec.EllipticCurvePrivateKey)
        assert read.private_numbers() == key.private_numbers()


@pytest.mark.parametrize(
    "text",
    [
        "",
        CERTIFICATE,
        "-----BEGIN ENCRYPTED PRIVATE KEY-----\nMIIB\n-----END ENCRYPTED PRIVATE KEY-----\n",
        "-----BEGIN EC PRIVATE KEY-----\nMAA=\n-----END EC PRIVATE KEY-----\n",
        "-----BEGIN EC PRIVATE KEY-----\nMIIB\n-----END EC PRIVATE KEY-----\n",
        "-----BEGIN RSA PRIVATE KEY-----\nMII\n-----END RSA PRIVATE KEY-----\n",
    ],
)
def test_a_text_without_such_a_key_is_left_as_it_is(text: str) -> None:
    assert pkcs8(text) == text
