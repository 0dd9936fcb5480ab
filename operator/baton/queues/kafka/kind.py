"""Topics of Kafka, as a kind of queue."""

from baton.queues.kind import QueueKind

KIND = QueueKind(
    name="Kafka",
    about="For type Kafka, which this version of the operator cannot speak to yet: the group says UnsupportedSource.",
    resource="baton.queues.kafka.resource:KafkaSource",
    needs=("bootstrapServers", "topic"),
    needs_all=True,
    fenced=True,
    session_required=True,
    partitions_are_changed="the topic's partitions in Kafka",
)
