"""What a test asks a Redis directly, where redis-py has no typed method or says less of the answer than is known."""

from collections.abc import Callable

import redis

from baton.queues.redis.keys import queue_key
from baton.queues.redis.routing import RoutingTable


def command(client: redis.Redis, *words: str | bytes | int) -> object:
    """Sends them, and answers as the server does."""
    send: Callable[..., object] = client.execute_command
    return send(*words)


def table_of(client: redis.Redis, queue: str) -> RoutingTable:
    """The queue's table, with its version."""
    version, text = client.hmget(queue_key(queue), "version", "table")
    assert isinstance(version, bytes) and isinstance(text, bytes)
    return RoutingTable.from_text(int(version), text.decode())


def history_of(client: redis.Redis) -> str:
    """The server's history, as the scripts read it."""
    replication = client.info("replication")
    assert isinstance(replication, dict)
    return str(replication["master_replid"])
