"""How Baton connects to Redis."""

from collections.abc import Mapping
from math import inf
from typing import Any

import redis
import redis.asyncio as aioredis
from redis.asyncio.retry import Retry as AsyncRetry
from redis.backoff import ExponentialWithJitterBackoff
from redis.exceptions import ConnectionError  # noqa: A004 - the library's name
from redis.retry import Retry

from baton.queues.redis.bounded_replies import WITHIN, BoundedParser, bounded
from baton.queues.redis.credentials import Credentials
from baton.queues.redis.primary import leaving
from baton.queues.redis.server_discovery import NodeSearch, PrimarySearch, Search, asking
from baton.queues.redis.tls_files import TlsFiles, reading
from baton.queues.redis.url import RedisUrl

OLDEST = (7, 0)

CONNECTION_OPTIONS: Mapping[str, Any] = {
    "protocol": 2,  # the scripts' answers have the same shape in both, and 2 has no server notifications to handle
    "socket_connect_timeout": 2.0,
    "socket_timeout": 3.0,
    "socket_keepalive": True,
}
"""For every client, unless the URL says otherwise. Seconds."""

RETRY: Mapping[str, Any] = {
    "backoff": ExponentialWithJitterBackoff(base=0.02, cap=0.2),
    "retries": 2,
    "supported_errors": (ConnectionError,),
}
"""A lost connection is made again at once: everything that Baton asks of Redis may be asked twice. A server that does not answer
in time is not asked again at once: its user should know.
"""


def client(url: RedisUrl, key: str, *, block: float = 0.0, within: float = inf) -> "redis.Redis":
    """A client for threads. `key`: in a cluster it goes to the node that has this one. `block`: for how long a command may block
    (seconds). `within`: it waits no longer for an answer, or a connection, whatever the URL says."""
    options = _options(url)
    options |= {name: min(options[name], within) for name in ("socket_timeout", "socket_connect_timeout")}
    kind = leaving(_class_of(url, redis, TlsFiles(), tasks=False), tasks=False)
    pool = redis.ConnectionPool(
        connection_class=_located(kind, url, key, options, tasks=False),
        **options | {"socket_timeout": options["socket_timeout"] + block, "retry": Retry(**RETRY)},
    )
    return redis.Redis.from_pool(pool)


def async_client(url: RedisUrl, key: str, *, connections: int, files: TlsFiles, namespace: str | None = None) -> "aioredis.Redis":
    """A client for tasks, which share so many connections: the operator's, and that of AsyncRedisProducer. `key`: as of `client`.
    It reads `files` only, and looks its host up for that namespace. It waits for nothing longer than WITHIN, whatever the URL
    says, and gives answers as they come: what they should be is in server_answers.py, and not with the library."""
    options = _options(url)
    options |= {name: min(options[name], WITHIN) for name in ("socket_timeout", "socket_connect_timeout")}
    options["parser_class"] = BoundedParser
    kind = leaving(bounded(_class_of(url, aioredis, files, tasks=True), namespace), tasks=True)
    pool = aioredis.BlockingConnectionPool(
        connection_class=_located(kind, url, key, options, tasks=True),
        max_connections=connections,
        timeout=options["socket_timeout"],
        **options | {"retry": AsyncRetry(**RETRY)},
    )
    made = aioredis.Redis.from_pool(pool)
    made.response_callbacks.clear()
    return made


def _options(url: RedisUrl) -> dict[str, Any]:
    known = url.user is not None or url.password is not None or url.files
    secret = {"credential_provider": Credentials(url)} if known else {}
    return {**CONNECTION_OPTIONS, **url.options, **secret}


def _class_of(url: RedisUrl, library: Any, files: TlsFiles, *, tasks: bool) -> Any:
    kinds = library.connection
    match url.scheme:
        case "rediss":
            return reading(kinds.SSLConnection, files, url.options, tasks=tasks)
        case "unix":
            return kinds.UnixDomainSocketConnection
    return kinds.Connection


def _located(kind: type, url: RedisUrl, key: str, options: Mapping[str, object], *, tasks: bool) -> type:
    """Connections of this kind to where the URL leads."""
    if url.cluster is not None:
        search: Search = NodeSearch(url.cluster, key)
        return asking(kind, search, options, tasks=tasks)
    if url.sentinels is None:
        return kind
    not_theirs = {"db"} if url.sentinels.password else {"db", "credential_provider"}
    theirs = {name: value for name, value in options.items() if name not in not_theirs}
    return asking(kind, PrimarySearch(url.sentinels), theirs, tasks=tasks)
