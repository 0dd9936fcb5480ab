"""Topics of Kafka, as a kind of queue."""

from baton.queues.kind import QueueKind

KIND = QueueKind(
    name="Kafka",
    about="For type Kafka.",
    resource="baton.queues.kafka.resource:KafkaSource",
    needs=("bootstrapServers", "topic"),
    needs_all=True,
    fenced=True,
    announces=True,
    answers_within=60.0,  # some forty answers of a slow broker; one that does not answer is given up after four
    session_required=True,
    partitions_are_changed="the topic's partitions in Kafka",
    keeps_finished=True,
    limits_deliveries=True,
    tells_zones=True,
    transactions=True,
    operator="baton.queues.kafka.operator_side:open_queue",
    variable="BATON_KAFKA_URL",
    spark="baton.queues.kafka.ranges:KafkaRanges",
    consumer="baton.queues.kafka.consumer_side:KafkaConsumerSide",
    producer="baton.queues.kafka.producer:KafkaProducer",
    schemes=("kafka", "kafkas"),
    onlooker="baton.queues.kafka.operator_side:open_onlooker",
)
