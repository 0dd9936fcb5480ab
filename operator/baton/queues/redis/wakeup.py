"""Waits for streams to grow without polling. Another thread can interrupt the wait.

A blocking read of a consumer group cannot be fenced. So a plain XREAD blocks on streams that only wake readers and carry no
entries; the entries are read by script.
"""

import threading
import time
from collections.abc import Mapping, Sequence
from typing import Any

from redis.exceptions import RedisError

from baton.queues.redis.connection import client
from baton.queues.redis.url import RedisUrl

ONLY_GRANTS = 2**64 - 1
"""As the position in an epoch to wait from: no entry of this epoch ends the wait, only a later grant."""
_LONGEST_BLOCK = 4.0
"""Seconds. A server that died silently is noticed a little later."""
_TAKES_WRITES = ("EVAL", "#!lua flags=allow-oom\nreturn 0", 0)
"""A script that the server must assume to write. A replica refuses it, while it would accept a blocking read."""
MOST = 64
"""Entries of a stream in one answer."""
_UNBLOCK_TRIES = 50
_UNBLOCK_PAUSE = 0.002
_UNBLOCK_WITHIN = 0.5
"""Seconds."""

Found = Mapping[str, Sequence[object]]
"""By stream, raw entries: the id, and the flat list of fields and values."""


class Wakeup:
    """A blocking connection, and a way to end the block from another thread."""

    def __init__(self, url: RedisUrl, key: str) -> None:
        """`key`: as of `client`."""
        self._client = client(url, key, block=_LONGEST_BLOCK)
        self._unblocking = client(url, key, within=_UNBLOCK_WITHIN)
        self._interrupted = threading.Event()
        self._connection: Any = None
        self._connected_as: int | None = None
        """The last connection's id at the server; None: no connection yet."""
        self._asked_at = 0.0
        """When the server last confirmed that it takes writes (monotonic). A server that becomes a replica later ends the
        block."""
        self._blocked: tuple[Any, int | None] | None = None
        """A connection that may be blocked, and its id at its server (None: it does not block yet)."""
        self._free = threading.Event()
        """Set while the connection is not blocked."""

    def wait(self, streams: Mapping[str, str], timeout: float) -> Found:
        """Return the streams that have entries after the given ids, with some of these entries; empty after `timeout` seconds or
        an interrupt.

        Returns all streams, without entries, after the connection was lost. Raises the library's errors.
        """
        deadline = time.monotonic() + timeout
        try:
            while not self._interrupted.is_set() and (left := deadline - time.monotonic()) > 0:
                if not streams:
                    self._interrupted.wait(left)
                elif found := self._block(streams, min(left, _LONGEST_BLOCK)):
                    return found
            return {}
        except Exception:
            if self._interrupted.is_set():
                return {}  # perhaps `interrupt` cut the connection; otherwise the next request will fail too
            raise
        finally:
            self._interrupted.clear()

    def interrupt(self) -> None:
        """End the current wait, or the next one, at once.

        Asks the server to end it, which keeps the connection intact. After a failover that request may go to another server, or
        the old one may not answer. Then the connection is cut here, so that the wait ends in any case.
        """
        self._interrupted.set()
        for _ in range(_UNBLOCK_TRIES):
            if (blocked := self._blocked) is None:
                return
            # For a moment between publishing its id and blocking, the server has nothing to unblock.
            _, known_as = blocked
            try:
                if known_as is not None:
                    self._unblocking.client_unblock(known_as)
            except (RedisError, OSError):
                break
            if self._free.wait(_UNBLOCK_PAUSE):
                return
        if (blocked := self._blocked) is not None:
            blocked[0].disconnect()  # the waiting thread gets an error of some kind

    def close(self) -> None:
        self._unblocking.close()
        self._client.close()

    def _block(self, streams: Mapping[str, str], seconds: float) -> Found:
        try:
            self._free.clear()
            if self._connection is not None and _gone(self._connection):
                self._leave()
            if self._connection is None:
                again = self._connected_as is not None
                self._connection = self._client.connection_pool.get_connection()
                self._blocked = (self._connection, None)
                self._connected_as, _ = self._ask(("CLIENT", "ID"), _TAKES_WRITES)
                if again:
                    return dict.fromkeys(streams, ())  # another run of the server may not know of the waiting client
            elif time.monotonic() - self._asked_at >= _LONGEST_BLOCK:
                self._blocked = (self._connection, None)
                self._ask(_TAKES_WRITES)
            self._blocked = (self._connection, self._connected_as)
            if self._interrupted.is_set():
                return {}
            milliseconds = max(1, int(seconds * 1000))
            (reply,) = self._ask(("XREAD", "COUNT", MOST, "BLOCK", milliseconds, "STREAMS", *streams, *streams.values()))
        except BaseException:
            self._leave()
            raise
        finally:
            self._blocked = None
            self._free.set()
        return {key.decode(): entries for key, entries in reply or ()}

    def _ask(self, *commands: tuple[str | int, ...]) -> list[Any]:
        """Return the answers, in one round trip. Not repeated after a failure: the caller checks again."""
        if _TAKES_WRITES in commands:
            self._asked_at = time.monotonic()
        self._connection.send_packed_command(self._connection.pack_commands(commands), check_health=False)
        return [self._connection.read_response() for _ in commands]

    def _leave(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.disconnect()
            self._client.connection_pool.release(connection)


def _gone(connection: Any) -> bool:
    """True if the server closed the connection, or sent an answer to no request."""
    try:
        return bool(connection.can_read())
    except (RedisError, OSError):
        return True
