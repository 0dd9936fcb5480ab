"""spec.source.kafka of a PartitionedQueue."""

from enum import StrEnum
from typing import Annotated

from pydantic import ConfigDict, Field

from baton.queues.kafka.address import Mechanism
from baton.schema.shape import SecretKey, Shape, SourceFields, rule, rules


class StartFrom(StrEnum):
    """Where a group begins that has committed nothing."""

    EARLIEST = "Earliest"
    LATEST = "Latest"


class PasswordKey(SecretKey):
    """A key of a Secret in the queue's namespace."""

    key: Annotated[str, Field(min_length=1, max_length=253)] = "password"
    """The key in the Secret."""


class CertificateKey(SecretKey):
    """A key of a Secret in the queue's namespace."""

    key: Annotated[str, Field(min_length=1, max_length=253)] = "ca.crt"
    """The key in the Secret."""


class ShownCertificateKey(SecretKey):
    """A key of a Secret in the queue's namespace."""

    key: Annotated[str, Field(min_length=1, max_length=253)] = "tls.crt"
    """The key in the Secret."""


class PrivateKeyKey(SecretKey):
    """A key of a Secret in the queue's namespace."""

    key: Annotated[str, Field(min_length=1, max_length=253)] = "tls.key"
    """The key in the Secret."""


class Sasl(Shape):
    """A user of the cluster."""

    mechanism: Mechanism = Mechanism.SCRAM_SHA_512
    """The SASL mechanism. PLAIN sends the password unencrypted, so it needs tls."""
    user: Annotated[str, Field(min_length=1, max_length=255)]
    """The user's name."""
    password_secret_ref: PasswordKey
    """A Secret with the password, read for every new connection."""


class Tls(Shape):
    """The TLS settings."""

    ca_secret_ref: CertificateKey | None = None
    """A Secret with the CA's certificates as PEM. Default: those that the operator's image trusts."""
    certificate_secret_ref: ShownCertificateKey | None = None
    """A Secret with the operator's client certificate and its chain as PEM. Needs keySecretRef."""
    key_secret_ref: PrivateKeyKey | None = None
    """A Secret with that certificate's key as PEM, without a password."""


_SERVER = "([[][0-9a-fA-F:]+[]]|[a-zA-Z0-9._-]+):[0-9]{1,5}"


class KafkaSource(SourceFields):
    """A topic of a Kafka cluster. Its partitions are discovered; the brokers themselves refuse stale commits."""

    model_config = ConfigDict(
        json_schema_extra=rules(
            rule(
                "!has(self.tls) || has(self.tls.certificateSecretRef) == has(self.tls.keySecretRef)",
                "spec.source.kafka.tls has a certificate without a key, or a key alone: give both, certificateSecretRef and "
                "keySecretRef",
                field=".tls",
                reason="FieldValueInvalid",
            ),
            rule(
                "self.topic == oldSelf.topic",
                "spec.source.kafka.topic cannot change, as its offsets mean nothing in another topic: create a second "
                "PartitionedQueue and add it to the ConsumerGroup's spec.queues",
                field=".topic",
                reason="FieldValueForbidden",
            ),
            rule(
                "has(self.groupId) == has(oldSelf.groupId) && (!has(self.groupId) || self.groupId == oldSelf.groupId)",
                "spec.source.kafka.groupId cannot change, as the group's offsets would be lost: create a second "
                "PartitionedQueue and name it in the ConsumerGroup's spec.queues",
                field=".groupId",
                reason="FieldValueForbidden",
            ),
            rule(
                "!has(self.deadLetterTopic) || self.deadLetterTopic != self.topic",
                "spec.source.kafka.deadLetterTopic is the topic itself, so a dead letter would come back as a new message: name "
                "another topic",
                field=".deadLetterTopic",
                reason="FieldValueInvalid",
            ),
            rule(
                "!has(self.sasl) || self.sasl.mechanism != 'PLAIN' || has(self.tls)",
                "spec.source.kafka.sasl.mechanism PLAIN sends the password unencrypted: set spec.source.kafka.tls, or "
                "use SCRAM-SHA-512",
                field=".sasl",
                reason="FieldValueInvalid",
            ),
        )
    )

    bootstrap_servers: Annotated[
        str,
        Field(
            min_length=1,
            max_length=4096,
            json_schema_extra=rules(
                rule(
                    f"self.matches('^{_SERVER}( *, *{_SERVER})*$')",
                    "spec.source.kafka.bootstrapServers: write host:port, several with commas between, such as "
                    "broker-0.kafka:9092,broker-1.kafka:9092",
                    reason="FieldValueInvalid",
                )
            ),
        ),
    ]
    """Brokers to start from: host:port, separated by commas. IPv6 addresses stand in brackets."""
    topic: Annotated[str, Field(min_length=1, max_length=249, pattern=r"^[a-zA-Z0-9._-]+$")]
    """The topic. Cannot be changed."""
    group_id: Annotated[str, Field(min_length=1, max_length=255, pattern=r"^[a-zA-Z0-9._-]+$")] | None = None
    """The group's id in Kafka. Default: namespace.name of the ConsumerGroup. Cannot be changed. If given, the pods'
    BATON_KAFKA_URL needs it too: ?group=…"""
    start_from: StartFrom = StartFrom.EARLIEST
    """Where a group without commits begins: at the oldest message or at the end. New partitions are read from their beginning."""
    dead_letter_topic: Annotated[str, Field(min_length=1, max_length=249, pattern=r"^[a-zA-Z0-9._-]+$")] | None = None
    """The topic for dead letters. Default: the topic's name and .dead-letters. Baton does not create it."""
    sasl: Sasl | None = None
    """The operator's user."""
    tls: Tls | None = None
    """Use TLS."""
