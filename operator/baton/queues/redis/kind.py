"""The kind Redis: queues on Redis streams."""

from baton.queues.kind import QueueKind
from baton.queues.redis.url import SCHEMES, SOCKET

KIND = QueueKind(
    name="Redis",
    about="For type Redis.",
    resource="baton.queues.redis.resource:RedisSource",
    needs=("url", "urlSecretRef"),
    fenced=True,
    announces=True,
    answers_within=600.0,  # includes waiting for a connection; a hanging round trip ends by `connection.WITHIN`
    session_required=True,
    most_partitions=1024,  # the number of routing slots; a partition without a slot would stay empty
    limits_deliveries=True,
    operator="baton.queues.redis.operator_side:open_queue",
    variable="BATON_REDIS_URL",
    consumer="baton.queues.redis.consumer_side:RedisConsumerSide",
    producer="baton.queues.redis.producer:RedisProducer",
    schemes=(*SCHEMES, SOCKET),
    spark="baton.queues.redis.ranges:RedisRanges",
    dead_letters="baton.queues.redis.dead_letters:RedisDeadLetters",
    onlooker="baton.queues.redis.operator_side:open_onlooker",
    address="baton.queues.redis.operator_side:address",
)
