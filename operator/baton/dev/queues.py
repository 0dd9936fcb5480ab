"""The queue of a `baton dev`: on a Redis, or a topic of Kafka."""

import shlex
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from baton.model.extras import extra
from baton.queues.kind import QueueKind
from baton.queues.kinds import kind
from baton.queues.protocol import Claimant, QueueAdapter

if TYPE_CHECKING:
    from baton.queues.redis.url import RedisUrl

NAMESPACE = "dev"


@dataclass(frozen=True, slots=True, kw_only=True)
class DevQueue:
    """A queue, and where it is."""

    name: str
    """Of the queue and of the group."""
    kind: QueueKind
    url: str = field(repr=False)
    """As its pods get it."""
    place: str
    """For messages."""
    partitions: int | None
    """None: the queue says."""
    taken: str
    """What to say and do if the queue belongs to another `baton dev` or operator."""
    open: Callable[[Claimant], QueueAdapter]

    @property
    def full_name(self) -> str:
        """namespace/name"""
        return f"{NAMESPACE}/{self.name}"


def on_redis(url: str, name: str, partitions: int, max_redeliveries: int) -> DevQueue:
    """Raises QueueUnreachable where it is no URL of a Redis."""
    from baton.queues.redis import RedisQueue
    from baton.queues.redis.url import read

    full_name = f"{NAMESPACE}/{name}"
    server = read(url, stands_in="--redis-url")
    return DevQueue(
        name=name,
        kind=kind("Redis"),
        url=url,
        place=server.place,
        partitions=partitions,
        taken=(
            f"{full_name} at this Redis is another `baton dev`'s, or an operator's: choose another name with --queue, or a "
            f"database of your own in --redis-url. If nothing runs there any more: {_redis_cli(server)} HDEL "
            f"'pq:{{{full_name}}}:queue' group uid"
        ),
        open=lambda claimant: RedisQueue(url, full_name, claimant, max_redeliveries=max_redeliveries, stands_in="--redis-url"),
    )


def _redis_cli(server: "RedisUrl") -> str:
    """The command that reaches this server, without its password."""
    options = server.options
    if "path" in options:
        return f"redis-cli -s {shlex.quote(str(options['path']))} -n {options.get('db', 0)}"
    if server.password or server.user or server.files or "host" not in options:
        return 'redis-cli -u "$BATON_REDIS_URL"'
    host = f"[{options['host']}]" if ":" in str(options["host"]) else options["host"]
    return "redis-cli -u " + shlex.quote(f"{server.scheme}://{host}:{options['port']}/{options.get('db', 0)}")


def on_kafka(url: str, name: str, topic: str, max_redeliveries: int) -> DevQueue:
    """Raises QueueUnreachable where it is no URL of a Kafka, and MissingExtraError."""
    with extra("kafka"):
        from baton.queues.kafka.adapter import KafkaQueue, TopicToOpen
        from baton.queues.kafka.address import read

    address = read(url)
    group = address.group or f"{NAMESPACE}.{name}"
    return DevQueue(
        name=name,
        kind=kind("Kafka"),
        url=url,
        place=f"topic {topic} and group {group} of {address.place}",
        partitions=None,
        taken=(
            f"the group {group} of {address.place} is another `baton dev`'s, or an operator's, or has members of Kafka's own: "
            f"stop those, or choose another name with --queue. If nothing runs there any more: kafka-consumer-groups.sh --delete "
            f"--group {group}"
        ),
        open=lambda claimant: KafkaQueue(
            address, group, TopicToOpen(topic=topic, queue=name, max_redeliveries=max_redeliveries), claimant
        ),
    )
