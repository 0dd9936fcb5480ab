"""spec.source.kafka of a PartitionedQueue."""

from typing import Annotated

from pydantic import ConfigDict, Field

from baton.schema.shape import rule, rules
from baton.schema.source_fields import SourceFields


class KafkaSource(SourceFields):
    """A topic of a Kafka cluster. Its partitions are discovered; stale owners are fenced through transactional ids."""

    model_config = ConfigDict(
        json_schema_extra=rules(
            rule(
                "self.topic == oldSelf.topic",
                "spec.source.kafka.topic cannot change, for its offsets mean nothing in another topic: make a second "
                "PartitionedQueue and add it to the ConsumerGroup's spec.queues",
                field=".topic",
                reason="FieldValueForbidden",
            ),
        )
    )

    bootstrap_servers: Annotated[str, Field(min_length=1, max_length=4096)]
    """Brokers to start from: host:port, separated by commas."""
    topic: Annotated[str, Field(min_length=1, max_length=249, pattern=r"^[a-zA-Z0-9._-]+$")]
    """The topic."""
