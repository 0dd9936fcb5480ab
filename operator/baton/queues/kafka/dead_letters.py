"""Dead letters: entries that failed too often, or that no retry would help, go to a topic unchanged."""

import threading
import time
from typing import NamedTuple

from confluent_kafka import KafkaError, KafkaException, Message, Producer

from baton.queues.kafka.address import KafkaAddress
from baton.queues.kafka.messages import headers_of
from baton.queues.protocol import PartitionUnavailable

_WITHIN = 5.0
_FIRST_PAUSE, _LONGEST_PAUSE = 0.5, 30.0
"""Seconds between two tries with a topic that refuses dead letters."""
_A_PART = 4
"""Tries take at most one fifth of the time (one part in this number plus one), because the caller has other partitions to
read."""
_ANY_SIZE = 1_000_000_000
"""Bytes: librdkafka's maximum. Its default is a megabyte; here the topic limits the size."""


class _Refusal(NamedTuple):
    why: str
    pause: float
    until: float
    """No try before this time (monotonic)."""


class DeadLetterTopic:
    """Any thread may call. After a topic refused a dead letter, others for it are refused at once until a pause is over."""

    def __init__(self, address: KafkaAddress) -> None:
        self._address = address
        self._lock = threading.Lock()
        self._producer: Producer | None = None
        self._refusals: dict[str, _Refusal] = {}
        """The last refusal of each topic."""

    def put(self, topic: str, message: Message, why: str, group: str) -> None:
        """Send the message unchanged, with headers that say where it comes from and why. Returns when the brokers have it. Raises
        PartitionUnavailable."""
        with self._lock:
            last = self._refusals.get(topic)
            if last is not None and time.monotonic() < last.until:
                raise PartitionUnavailable(last.why)
            begun = time.monotonic()
            error = self._sent(topic, message, why, group)
            if error is None:
                self._refusals.pop(topic, None)
                return
            self._producer = None
            refused = f"{self._address.place}: {self._why(topic, error)}"
            if error.code() != KafkaError.MSG_SIZE_TOO_LARGE:  # which only concerns this one
                now = time.monotonic()
                pause = min(max(2 * last.pause if last else _FIRST_PAUSE, _A_PART * (now - begun)), _LONGEST_PAUSE)
                self._refusals[topic] = _Refusal(refused, pause, now + pause)
        raise PartitionUnavailable(refused)

    def close(self) -> None:
        self._producer = None

    def _sent(self, topic: str, message: Message, why: str, group: str) -> KafkaError | None:
        """Return the error, or None if the message was sent."""
        about = (
            ("baton-why", why.encode()),
            ("baton-group", group.encode()),
            ("baton-topic", (message.topic() or "").encode()),
            ("baton-partition", str(message.partition()).encode()),
            ("baton-offset", str(message.offset()).encode()),
            ("baton-timestamp", str(message.timestamp()[1]).encode()),
        )
        outcome: list[KafkaError | None] = []
        try:
            producer = self._connected()
            producer.produce(
                topic,
                key=message.key(),
                value=message.value(),
                headers=[*(headers_of(message) or ()), *about],
                on_delivery=lambda error, _: outcome.append(error),
            )
            producer.flush(2 * _WITHIN)
        except KafkaException as error:
            refused: KafkaError = error.args[0]
            return refused
        except BufferError as error:
            return KafkaError(KafkaError._QUEUE_FULL, str(error))
        return outcome[0] if outcome else KafkaError(KafkaError._TIMED_OUT, "no answer")

    def _connected(self) -> Producer:
        if self._producer is None:
            bounds = {"message.timeout.ms": int(_WITHIN * 1000), "topic.metadata.propagation.max.ms": 1000, "log_level": 0}
            bounds["message.max.bytes"] = _ANY_SIZE
            self._producer = Producer({**self._address.for_librdkafka(), "acks": "all", "enable.idempotence": True, **bounds})
        return self._producer

    def _why(self, topic: str, error: KafkaError) -> str:
        """Return what is wrong, and the cure."""
        code = error.code()
        if code in (KafkaError._UNKNOWN_TOPIC, KafkaError.UNKNOWN_TOPIC_OR_PART):
            return f"there is no topic {topic} for dead letters: create it, or name another in spec.source.kafka.deadLetterTopic"
        if code == KafkaError.MSG_SIZE_TOO_LARGE:
            return f"a dead letter is larger than the topic {topic} takes: raise its max.message.bytes"
        if code == KafkaError.TOPIC_AUTHORIZATION_FAILED:
            return f"{self._address.who} may not WRITE the topic {topic}: allow it by an ACL"
        return f"a dead letter cannot be sent to {topic} ({error.str()})"
