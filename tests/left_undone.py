"""What a Spark driver has begun and is not done with: by its checkpoint, and at a Redis queue. A later driver repeats it."""

from pathlib import Path

import redis

from baton.queues.redis.keys import partition_keys, queue_key


def open_batches(checkpoint: Path) -> list[int]:
    """Those that Spark has not written down as done."""
    begun, done = ({int(one.name) for one in (checkpoint / kind).glob("[0-9]*")} for kind in ("offsets", "commits"))
    return sorted(begun - done)


def logged(client: redis.Redis, queue: str) -> list[int]:
    """Partitions of which a range may have been handed out. `queue` is namespace/name."""
    return [one for one in partitions(client, queue) if client.hexists(partition_keys(queue, one).progress, "logged")]


def waiting(client: redis.Redis, queue: str) -> int:
    """Unfinished entries."""
    return sum(client.xlen(partition_keys(queue, one).stream) for one in partitions(client, queue))


def partitions(client: redis.Redis, queue: str) -> range:
    """As the queue has it itself; none before there is one."""
    return range(int(client.hget(queue_key(queue), "partitions") or 0))
