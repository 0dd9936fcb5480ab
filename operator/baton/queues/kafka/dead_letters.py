"""Entries that failed too often, or that no other try would help: they go to a topic, as they came."""

import threading

from confluent_kafka import KafkaError, KafkaException, Message, Producer

from baton.queues.kafka.address import KafkaAddress
from baton.queues.kafka.message_headers import headers_of
from baton.queues.protocol import QueueUnreachable

_WITHIN = 5.0
_ANY_SIZE = 1_000_000_000
"""Bytes: librdkafka's largest. Its own bound is a megabyte; here the topic says how large a message may be."""


class DeadLetterTopic:
    """Any thread may call."""

    def __init__(self, address: KafkaAddress) -> None:
        self._address = address
        self._lock = threading.Lock()
        self._producer: Producer | None = None

    def put(self, topic: str, message: Message, why: str, group: str) -> None:
        """Key, value and headers as they came, and headers that say where from and why. Returns when the brokers have it. Raises
        QueueUnreachable."""
        about = (
            ("baton-why", why.encode()),
            ("baton-group", group.encode()),
            ("baton-topic", (message.topic() or "").encode()),
            ("baton-partition", str(message.partition()).encode()),
            ("baton-offset", str(message.offset()).encode()),
            ("baton-timestamp", str(message.timestamp()[1]).encode()),
        )
        outcome: list[KafkaError | None] = []
        with self._lock:
            producer = self._connected()
            try:
                producer.produce(
                    topic,
                    key=message.key(),
                    value=message.value(),
                    headers=[*(headers_of(message) or ()), *about],
                    on_delivery=lambda error, _: outcome.append(error),
                )
                producer.flush(2 * _WITHIN)
            except (KafkaException, BufferError) as error:
                raise QueueUnreachable(f"{self._address.place}: a dead letter cannot be sent to {topic}: {error}") from None
        if outcome and outcome[0] is None:
            return
        self._refused(topic, outcome[0] if outcome else None)

    def close(self) -> None:
        self._producer = None

    def _connected(self) -> Producer:
        if self._producer is None:
            bounds = {"message.timeout.ms": int(_WITHIN * 1000), "topic.metadata.propagation.max.ms": 1000, "log_level": 0}
            bounds["message.max.bytes"] = _ANY_SIZE
            self._producer = Producer({**self._address.for_librdkafka(), "acks": "all", "enable.idempotence": True, **bounds})
        return self._producer

    def _refused(self, topic: str, error: KafkaError | None) -> None:
        self._producer = None
        code = error.code() if error is not None else None
        if code in (KafkaError._UNKNOWN_TOPIC, KafkaError.UNKNOWN_TOPIC_OR_PART):
            why = f"there is no topic {topic} for dead letters: create it, or name another in spec.source.kafka.deadLetterTopic"
        elif code == KafkaError.MSG_SIZE_TOO_LARGE:
            why = f"a dead letter is larger than the topic {topic} takes: raise its max.message.bytes"
        elif code == KafkaError.TOPIC_AUTHORIZATION_FAILED:
            why = f"{self._address.who} may not WRITE the topic {topic}: allow it by an ACL"
        else:
            why = f"a dead letter cannot be sent to {topic} ({error.str() if error is not None else 'no answer'})"
        raise QueueUnreachable(f"{self._address.place}: {why}")
