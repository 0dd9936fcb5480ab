"""The queue of `baton dev`: on Redis, or a topic of Kafka."""

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
    """A queue and its server."""

    name: str
    """The name of the queue and of the group."""
    kind: QueueKind
    url: str = field(repr=False)
    """The URL for consumers."""
    place: str
    """The server's name in messages."""
    partitions: int | None
    """None: discovered."""
    taken: str
    """The message if the queue belongs to another `baton dev` or operator."""
    open: Callable[[Claimant], QueueAdapter]

    @property
    def full_name(self) -> str:
        """namespace/name"""
        return f"{NAMESPACE}/{self.name}"


def on_redis(url: str, name: str, partitions: int, max_redeliveries: int) -> DevQueue:
    """A queue on Redis. Raises QueueUnreachable for an invalid URL."""
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
            f"{full_name} at this Redis belongs to another `baton dev` or an operator: choose another name with --queue, or "
            f"another database in --redis-url. If its owner no longer runs: {_redis_cli(server)} HDEL "
            f"'pq:{{{full_name}}}:queue' group uid"
        ),
        open=lambda claimant: RedisQueue(url, full_name, claimant, max_redeliveries=max_redeliveries, stands_in="--redis-url"),
    )


def _redis_cli(server: "RedisUrl") -> str:
    """The redis-cli command for this server, without the password."""
    options = server.options
    if "path" in options:
        return f"redis-cli -s {shlex.quote(str(options['path']))} -n {options.get('db', 0)}"
    if server.password or server.user or server.files or "host" not in options:
        return 'redis-cli -u "$BATON_REDIS_URL"'
    host = f"[{options['host']}]" if ":" in str(options["host"]) else options["host"]
    return "redis-cli -u " + shlex.quote(f"{server.scheme}://{host}:{options['port']}/{options.get('db', 0)}")


def on_kafka(url: str, name: str, topic: str, max_redeliveries: int) -> DevQueue:
    """A queue on a topic of Kafka. Raises QueueUnreachable for an invalid URL, and MissingExtraError."""
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
            f"the group {group} of {address.place} belongs to another `baton dev` or an operator, or has members by Kafka's "
            f"protocol: stop them, or choose another name with --queue. If its owner no longer runs: kafka-consumer-groups.sh "
            f"--delete --group {group}"
        ),
        open=lambda claimant: KafkaQueue(
            address, group, TopicToOpen(topic=topic, queue=name, max_redeliveries=max_redeliveries), claimant
        ),
    )
