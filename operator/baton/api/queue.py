"""PartitionedQueue: where the partitions of one queue are, and how gently they may be moved."""

from enum import StrEnum
from typing import Annotated

from pydantic import ConfigDict, Field

from baton.api.attributes import PartitionAttributes
from baton.api.condition import Conditions
from baton.api.enums import OnDeadline
from baton.api.shape import NonNegativeSeconds, Shape, rule, rules
from baton.model.redis_url import EXAMPLES, FORMS

MOST_REDIS_PARTITIONS = 1024
"""A Redis queue routes keys over 1,024 slots; a partition without a slot would stay empty."""

REDIS_OPTIONS = {
    "db": "[0-9]{1,9}",
    "client_name": "[^&]+",
    "health_check_interval": "[0-9]{1,9}",
    "sentinel_auth": "(true|false)",
    "socket_connect_timeout": "[0-9.]{1,8}",
    "socket_keepalive": "(true|false)",
    "socket_timeout": "[0-9.]{1,8}",
    "ssl_ca_certs": "[^&]+",
    "ssl_ca_data": "[^&]*",
    "ssl_ca_path": "[^&]+",
    "ssl_cert_reqs": "(required|optional|none)",
    "ssl_certfile": "[^&]+",
    "ssl_check_hostname": "(true|false)",
    "ssl_ciphers": "[^&]+",
    "ssl_keyfile": "[^&]+",
}
"""What may stand behind the ? of a URL, and what it may be. The adapter (baton.queues.redis.url) reads them."""

_FORM = "|".join(f"{kind.replace('+', '[+]')}://{form}" for kind, form in FORMS.items()).replace("\\", "\\\\")
"""What follows redis or rediss, as it stands in a rule."""
_OPTION = f"({'|'.join(f'{name}={value}' for name, value in REDIS_OPTIONS.items())})"

ObjectName = Annotated[str, Field(min_length=1, max_length=253, pattern=r"^[a-z0-9]([-a-z0-9.]*[a-z0-9])?$")]


class SourceType(StrEnum):
    """Where the partitions are."""

    REDIS = "Redis"
    KAFKA = "Kafka"
    EXTERNAL = "External"


class AccessType(StrEnum):
    """Whether the members share the partitions, or one has them all. Solace's words."""

    NON_EXCLUSIVE = "NonExclusive"
    EXCLUSIVE = "Exclusive"


class PartitionScaleStatus(StrEnum):
    """In the words of Solace's broker."""

    READY = "Ready"
    SCALING_UP = "ScalingUp"
    SCALING_DOWN = "ScalingDown"
    INVALID_EXCLUSIVE = "InvalidExclusive"


class SecretKey(Shape):
    """A key of a Secret in the queue's namespace."""

    name: ObjectName
    """The Secret's name."""
    key: Annotated[str, Field(min_length=1, max_length=253)] = "url"
    """The key in the Secret."""


class RedisSource(Shape):
    """A queue on Redis streams, kept by Baton. The server itself refuses stale owners."""

    model_config = ConfigDict(
        json_schema_extra=rules(
            rule(
                "has(self.url) != has(self.urlSecretRef)",
                "spec.source.redis: give exactly one of url and urlSecretRef",
                reason="FieldValueInvalid",
            ),
            rule(
                "!has(self.url) || !(self.url.contains('@') || self.url.matches('[?&](username|password|ssl_password)='))",
                "spec.source.redis.url holds a user or a password: put the URL into a Secret and name it in "
                "spec.source.redis.urlSecretRef",
                field=".url",
                reason="FieldValueForbidden",
            ),
        )
    )

    url: (
        Annotated[
            str,
            Field(
                max_length=2048,
                json_schema_extra=rules(
                    rule(
                        f"self.contains('@') || self.matches('^rediss?({_FORM})([?].*)?$')",
                        f"spec.source.redis.url is no URL of a Redis: write {'; or '.join(EXAMPLES.values())}",
                        reason="FieldValueInvalid",
                    ),
                    rule(
                        "!self.contains('?') || self.matches('[?&](username|password|ssl_password)=') || "
                        f"self.matches('^[^?]*[?]{_OPTION}(&{_OPTION})*$')",
                        "spec.source.redis.url has an option that there is not, or that cannot be so. There are "
                        f"{', '.join(REDIS_OPTIONS)}; db and health_check_interval are numbers, as in ?db=1",
                        reason="FieldValueInvalid",
                    ),
                    rule(
                        "!self.matches('^redis(://|[+]).*[?&]ssl_')",
                        "spec.source.redis.url has an option for TLS: begin it with rediss://",
                        reason="FieldValueInvalid",
                    ),
                    rule(
                        "!self.matches('^rediss?(|[+]cluster)://.*[?&]sentinel_')",
                        "spec.source.redis.url has an option for Sentinels: begin it with redis+sentinel://",
                        reason="FieldValueInvalid",
                    ),
                    rule(
                        "!self.matches('^rediss?[+]cluster://.*[?&]db=')",
                        "spec.source.redis.url has the option db, but a Redis Cluster has database 0 alone: take it out",
                        reason="FieldValueInvalid",
                    ),
                ),
            ),
        ]
        | None
    ) = None
    """Where the server is, for example redis://redis.shop:6379/0 (rediss:// for TLS), or who knows which one is the primary:
    redis+sentinel://sentinel.shop:26379/name-of-the-primary/0, or a Redis Cluster: redis+cluster://redis.shop:6379, both with
    several hosts between commas. Without a user or password: a URL with these belongs into a Secret, see urlSecretRef."""
    url_secret_ref: SecretKey | None = None
    """A Secret that holds the URL. It is read again whenever the connection is made anew, so a password may be changed."""


class KafkaSource(Shape):
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


class ExternalSource(Shape):
    """A queue that Baton cannot talk to: its partitions are only numbers, and nothing but the consumers' word says that one was
    let go."""

    on_deadline: OnDeadline = OnDeadline.WAIT
    """What a hand-off does whose owner has not released the partition by the deadline: Wait for its word (nothing else is safe
    where nothing can be enforced), or Force, which goes on without it."""


class Source(Shape):
    """Exactly the source that `type` names."""

    model_config = ConfigDict(
        json_schema_extra=rules(
            rule(
                "self.type != 'Redis' || has(self.redis)",
                "spec.source.redis is missing: spec.source.type Redis needs spec.source.redis.url or "
                "spec.source.redis.urlSecretRef",
                field=".redis",
                reason="FieldValueRequired",
            ),
            rule(
                "self.type == 'Redis' || !has(self.redis)",
                "spec.source.redis belongs to spec.source.type Redis only: remove it, or change the type (one queue has one "
                "source)",
                field=".redis",
                reason="FieldValueForbidden",
            ),
            rule(
                "self.type != 'Kafka' || has(self.kafka)",
                "spec.source.kafka is missing: spec.source.type Kafka needs spec.source.kafka.bootstrapServers and "
                "spec.source.kafka.topic",
                field=".kafka",
                reason="FieldValueRequired",
            ),
            rule(
                "self.type == 'Kafka' || !has(self.kafka)",
                "spec.source.kafka belongs to spec.source.type Kafka only: remove it, or change the type (one queue has one "
                "source)",
                field=".kafka",
                reason="FieldValueForbidden",
            ),
            rule(
                "self.type == 'External' || !has(self.external)",
                "spec.source.external belongs to spec.source.type External only: remove it, or change the type (one queue has "
                "one source)",
                field=".external",
                reason="FieldValueForbidden",
            ),
            rule(
                "self.type == oldSelf.type",
                "spec.source.type cannot change, for what is in the old source would be left behind: make a second "
                "PartitionedQueue and name it in the ConsumerGroup's spec.queues",
                field=".type",
                reason="FieldValueForbidden",
            ),
        )
    )

    type: SourceType
    """Where the queue is. Cannot be changed."""
    redis: RedisSource | None = None
    """For type Redis."""
    kafka: KafkaSource | None = None
    """For type Kafka, which this version of the operator cannot speak to yet: the group says UnsupportedSource."""
    external: ExternalSource | None = None
    """For type External; may be left out."""


class QueueRebalance(Shape):
    """How gently partitions of this queue are moved."""

    delay_seconds: NonNegativeSeconds = 5
    """How long a change of the fleet is held down before partitions are handed off, so that a pod that comes back in this time
    costs no move. Seconds; 0 acts at once."""
    max_handoff_seconds: NonNegativeSeconds = 3
    """How long an owner may take to finish what it has read of a partition that is taken from it. After that it is fenced off,
    and what it left is redelivered to the next owner, marked. Seconds; 0 does not wait."""


class PartitionedQueueSpec(Shape):
    """What the queue is."""

    model_config = ConfigDict(
        json_schema_extra=rules(
            rule(
                "self.source.type == 'Kafka' || has(self.partitions)",
                "spec.partitions is missing: say into how many partitions the queue is divided (only for Kafka they are "
                "discovered)",
                field=".partitions",
                reason="FieldValueRequired",
            ),
            rule(
                "self.source.type != 'Kafka' || !has(self.partitions)",
                "spec.partitions is discovered for Kafka: remove it, and change the topic's partitions in Kafka",
                field=".partitions",
                reason="FieldValueForbidden",
            ),
            rule(
                f"self.source.type != 'Redis' || !has(self.partitions) || self.partitions <= {MOST_REDIS_PARTITIONS}",
                f"spec.partitions: a Redis queue has at most {MOST_REDIS_PARTITIONS} partitions",
                field=".partitions",
                reason="FieldValueInvalid",
            ),
        )
    )

    source: Source
    """Where the queue is."""
    partitions: Annotated[int, Field(ge=1, le=100_000)] | None = None
    """Into how many partitions the queue is divided. May change at any time; on Redis every key keeps its order meanwhile.
    Discovered for Kafka."""
    partition_attributes: Annotated[
        tuple[PartitionAttributes, ...], Field(max_length=256, json_schema_extra={"x-kubernetes-list-type": "atomic"})
    ] = Field(default_factory=tuple)
    """Where partitions have replicas and what they weigh, by ranges, for assignors that look at it. A change rebalances."""
    access_type: AccessType = AccessType.NON_EXCLUSIVE
    """NonExclusive spreads the partitions over the members of the group; Exclusive gives all of them to one member, and the
    others stand by."""
    rebalance: QueueRebalance = QueueRebalance()
    """How gently partitions are moved."""
    max_delivered_unacked: Annotated[int, Field(ge=1, le=10_000_000)] = 10_000
    """How many entries of all its partitions one member may hold that it has read, or planned for a micro-batch, and not yet
    acknowledged. For Redis; other sources do not use it."""
    max_redeliveries: Annotated[int, Field(ge=0, le=1_000_000)] | None = None
    """After how many redeliveries an entry is set aside as a dead letter, so that it holds up its partition no longer. 0, or
    without it: never. For consumers of single entries on Redis; in micro-batches (Spark) a batch that fails is the application's
    to handle."""


class PartitionedQueueStatus(Shape):
    """What the operator last saw of the queue."""

    observed_generation: int | None = None
    """The generation of the spec that this status is about."""
    partitions: int | None = None
    """How many partitions are in operation."""
    partition_scale_status: PartitionScaleStatus | None = None
    """Whether the number of partitions in operation is the one asked for. InvalidExclusive: an Exclusive queue has more than one
    partition, which gains nothing, as one member gets them all."""
    conditions: Conditions = Field(default_factory=list)
    """Ready: the queue is reachable and as the spec says."""


class PartitionedQueue(Shape):
    """A queue that is divided into partitions. Every partition is owned by at most one pod of a ConsumerGroup at a time."""

    metadata: dict[str, object] = Field(default_factory=dict)
    spec: PartitionedQueueSpec
    status: PartitionedQueueStatus = PartitionedQueueStatus()
