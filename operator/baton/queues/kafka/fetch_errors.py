"""Why a partition cannot be read, in librdkafka's words, and what helps."""

from confluent_kafka import KafkaError

from baton.queues.kafka.address import KafkaAddress

END_OF_LOG = KafkaError._PARTITION_EOF
CORRUPT = KafkaError._BAD_MSG
"""Also of a batch whose checksum is wrong."""
_GONE = frozenset({KafkaError._AUTO_OFFSET_RESET, KafkaError.OFFSET_OUT_OF_RANGE})
_NO_TOPIC = frozenset({KafkaError._UNKNOWN_TOPIC, KafkaError._UNKNOWN_PARTITION, KafkaError.UNKNOWN_TOPIC_OR_PART})


def why_not_read(address: KafkaAddress, topic: str, partition: int | None, error: KafkaError) -> str:
    """A sentence with the cure."""
    place = f"{topic}/{partition}"
    if error.code() in _GONE:
        return (
            f"{address.place}: the place of the group in {place} is not in its log: retention has deleted what was not done, the "
            "log was cut off before it, or the topic was made again. The queue's condition Durable says which: set the place "
            "again by `baton offsets reset`, as the guide to Kafka says"
        )
    if error.code() in _NO_TOPIC:
        return f"{address.place} has no {place}: create the topic"
    if error.code() == KafkaError.TOPIC_AUTHORIZATION_FAILED:
        return f"{address.place}: {address.who} may not READ the topic {topic}: allow it by an ACL"
    if error.code() == CORRUPT:
        return (
            f"{address.place}: {place} has messages that are corrupt ({error.str()}): see to the disk of the broker that leads "
            "it, and have a replica lead that is whole; where none is, set the place behind them by `baton offsets "
            "reset`, as the guide to Kafka says"
        )
    return f"{address.place}: {place} cannot be read: {error.str()}"
