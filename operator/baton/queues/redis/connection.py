"""How Baton connects to Redis, and what it tells the user when that fails: what, where and the cure, never a password."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any
from urllib.parse import urlsplit

from redis.backoff import ExponentialWithJitterBackoff
from redis.exceptions import (
    AuthenticationError,
    AuthorizationError,
    BusyLoadingError,
    ConnectionError,  # noqa: A004 - the library's name
    NoPermissionError,
    OutOfMemoryError,
    ReadOnlyError,
    RedisError,
    ResponseError,
    TimeoutError,  # noqa: A004 - likewise
)
from redis.retry import Retry

from baton.queues.protocol import QueueUnreachable

OLDEST = (7, 0)

CONNECTION_OPTIONS: dict[str, Any] = {
    "protocol": 2,  # the scripts' answers have the same shape in both, and 2 has no server notifications to handle
    "socket_connect_timeout": 2.0,
    "socket_timeout": 3.0,
    "socket_keepalive": True,
}
"""For every client. Seconds."""

RETRY: Mapping[str, Any] = {
    "backoff": ExponentialWithJitterBackoff(base=0.02, cap=0.2),
    "retries": 2,
    "supported_errors": (ConnectionError,),
}
"""A lost connection is made again at once: everything that Baton asks of Redis may be asked twice. A server that does not answer
in time is not asked again at once: its user should know.
"""


def retry() -> Retry:
    """For the clients that block; the operator's asyncio client has a class of its own."""
    return Retry(**RETRY)


def where(url: str) -> str:
    """`Redis at host:port`, without user and password. Raises QueueUnreachable for a text that is no Redis URL."""
    try:
        parts = urlsplit(url)
        port = parts.port or 6379
    except ValueError:
        parts, port = urlsplit(""), 0
    if parts.scheme == "unix" and parts.path:
        return f"Redis at {parts.path}"
    if parts.scheme not in ("redis", "rediss") or not parts.hostname:
        raise QueueUnreachable(
            "The queue's URL is not a Redis URL. Write it as redis://[user:password@]host:6379/0, or rediss:// for TLS."
        )
    return f"Redis at {parts.hostname}:{port}"


@contextmanager
def explained(place: str, queue: str) -> Iterator[None]:
    """Turns the library's errors into QueueUnreachable with a sentence. `place` is `where(url)`."""
    try:
        yield
    except (RedisError, OSError) as error:
        raise QueueUnreachable(explain(error, place, queue)) from error


def explain(error: Exception, place: str, queue: str) -> str:
    """What an error of the library means for a queue, and the cure. `place` is `where(url)`."""
    text = str(error).strip() or type(error).__name__
    match error:
        case AuthenticationError() | AuthorizationError():
            return _refused_password(place, queue)
        case ResponseError() if "NOAUTH" in text or "WRONGPASS" in text or "unauthenticated" in text:
            return _refused_password(place, queue)
        case NoPermissionError():
            return f"{place} does not permit what the queue {queue} needs ({text}). Give its user +@all on the keys pq:*."
        case BusyLoadingError():
            return f"{place} is still loading its data. Work on {queue} goes on when it is done."
        case ConnectionError() | TimeoutError() | OSError():
            return f"{place} does not answer ({text}). Work on {queue} goes on when it is back."
        case OutOfMemoryError():
            return f"{place} is full (maxmemory), so {queue} takes nothing new. Raise maxmemory, or let the consumers catch up."
        case ReadOnlyError():
            return f"{place} is a read-only replica. Point the URL of {queue} at the primary."
        case ResponseError() if text.startswith("WRONGTYPE"):
            return f"{place} has other data under the keys pq:{{{queue}…. Move them away, or use another database for {queue}."
        case ResponseError() if text.startswith("MISCONF"):
            return f"{place} cannot write to its disk and refuses changes. Free its disk; work on {queue} goes on then."
        case ResponseError() if "NOGROUP" in text or "ERR The XGROUP subcommand requires the key" in text:
            return f"{place} has lost partitions of {queue}. The operator makes them again; entries come back only from a backup."
    return f"{place} refused a request for {queue}: {text}"


def _refused_password(place: str, queue: str) -> str:
    return f"{place} refused the user or password for {queue}. Put the right one into the URL in its Secret."
