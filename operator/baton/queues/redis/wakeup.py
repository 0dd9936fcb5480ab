"""Waiting for streams to grow, without polling and without outstaying the welcome.

A blocking read of a consumer group cannot be fenced. So a plain XREAD blocks, of streams that carry no entries and only wake up;
entries are taken by script.
"""

import threading
import time
from collections.abc import Mapping, Sequence
from typing import Any

from redis.exceptions import RedisError

from baton.queues.redis.connection import client
from baton.queues.redis.url import RedisUrl

_LONGEST_BLOCK = 4.0
"""Seconds. A server that died without a word is noticed a little later."""
_WRITES = "#!lua flags=allow-oom\nreturn 0"
"""A script that might write, for all that the server knows: a replica refuses it, and would take a blocking read."""
MOST = 64
"""Entries of a stream in one answer."""
_UNBLOCK_TRIES = 50
_UNBLOCK_PAUSE = 0.002

Found = Mapping[str, Sequence[object]]
"""By stream, entries as they come: the id, and the fields one after the other."""


class Wakeup:
    """One connection that blocks, and a way to end the block from another thread."""

    def __init__(self, url: RedisUrl, key: str) -> None:
        """`key`: as of `client`."""
        self._client = client(url, key, block=_LONGEST_BLOCK)
        self._interrupted = threading.Event()
        self._connected_as: int | None = None
        """The connection's id at the server when it last asked; None: it did not."""
        self._blocked_as: int | None = None
        """The connection's id at the server, while it may be blocked."""

    def wait(self, streams: Mapping[str, str], timeout: float) -> Found:
        """The streams that have entries beyond the given id, and some of these; none after `timeout` seconds or an interrupt.

        All of the streams, without entries, after the connection was lost. Raises the library's errors.
        """
        deadline = time.monotonic() + timeout
        try:
            while not self._interrupted.is_set() and (left := deadline - time.monotonic()) > 0:
                if not streams:
                    self._interrupted.wait(left)
                elif found := self._block(streams, min(left, _LONGEST_BLOCK)):
                    return found
            return {}
        finally:
            self._interrupted.clear()

    def interrupt(self) -> None:
        """End the wait that is going on, or the next one, at once."""
        self._interrupted.set()
        for _ in range(_UNBLOCK_TRIES):
            # Between telling its id and blocking there is a moment in which the server has nothing to unblock.
            blocked_as = self._blocked_as
            if blocked_as is None:
                return
            try:
                if self._client.client_unblock(blocked_as):
                    return
            except RedisError:
                return  # then the wait fails as well, or ends by itself after _LONGEST_BLOCK
            time.sleep(_UNBLOCK_PAUSE)

    def close(self) -> None:
        self._client.close()

    def _block(self, streams: Mapping[str, str], seconds: float) -> Found:
        pool = self._client.connection_pool
        connection = pool.get_connection()
        try:
            ours = self._connected_as
            self._blocked_as, _ = _ask(connection, ("CLIENT", "ID"), ("EVAL", _WRITES, 0))
            self._connected_as = self._blocked_as
            if self._interrupted.is_set():
                return {}
            if ours not in (None, self._connected_as):
                return dict.fromkeys(streams, ())  # another run of the server, perhaps, which may not know that somebody waits
            milliseconds = max(1, int(seconds * 1000))
            (reply,) = _ask(connection, ("XREAD", "COUNT", MOST, "BLOCK", milliseconds, "STREAMS", *streams, *streams.values()))
        except BaseException:
            connection.disconnect()  # type: ignore[no-untyped-call]
            raise
        finally:
            self._blocked_as = None
            pool.release(connection)
        return {key.decode(): entries for key, entries in reply or ()}


def _ask(connection: Any, *commands: tuple[Any, ...]) -> list[Any]:
    """The answers, in one round trip. Nothing is asked twice: after a failure it is the caller's to look again."""
    connection.send_packed_command(connection.pack_commands(commands))
    return [connection.read_response() for _ in commands]
