"""Connections that ask Sentinels where the primary is, each time that they are made.

The library has pools for this, one for threads and one for tasks. Neither bounds what is read, which in the operator comes from
a tenant's server, and that for tasks does not wait for a free connection. So a connection of ours asks by itself, and the rest is
as ever: one that leaves its server (primary.py) asks again. https://redis.io/docs/latest/develop/reference/sentinel-clients/
"""

import threading
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from re import ASCII, fullmatch
from typing import Any, Literal

from redis.asyncio.retry import Retry as AsyncRetry
from redis.backoff import NoBackoff
from redis.exceptions import (
    AuthenticationError,
    AuthorizationError,
    ConnectionError,  # noqa: A004 - the library's name
    RedisError,
)
from redis.retry import Retry

from baton.queues.redis.url import Address, Sentinels, can_be_resolved

ASK_WITHIN = 1.0
"""Seconds for a Sentinel to be connected to, and to answer: then the next one is asked."""

Trouble = Literal["silent", "refused", "unknown"]
"""No Sentinel answers; they want a password, or another one; they know no primary of that name."""


class UnlocatedError(ConnectionError):
    """No Sentinel says where the primary is. The message is the last one's own."""

    def __init__(self, trouble: Trouble, words: object = "") -> None:
        super().__init__(str(words))
        self.trouble = trouble


class Search:
    """For the connections of one client. Each begins with another Sentinel: one that answers may be behind."""

    def __init__(self, sentinels: Sentinels) -> None:
        self.question = ("SENTINEL", "GET-MASTER-ADDR-BY-NAME", sentinels.service)
        self._hosts = deque(sentinels.hosts)
        self._lock = threading.Lock()

    def hosts(self) -> Iterator[Mapping[str, Any]]:
        """In the order in which they are to be asked."""
        with self._lock:
            hosts = list(self._hosts)
            self._hosts.rotate(-1)
        for host, port in hosts:
            yield {"host": host, "port": port}


class _Asked:
    """What the Sentinels have answered to one connection."""

    def __init__(self) -> None:
        self._error: UnlocatedError = UnlocatedError("silent")

    def failed(self, error: Exception) -> None:
        if self._error.trouble == "silent":
            refused = isinstance(error, (AuthenticationError, AuthorizationError)) or "NOAUTH" in str(error)
            self._error = UnlocatedError("refused" if refused else "silent", error)

    def address(self, answer: Any) -> Address | None:
        """None: ask the next one."""
        if isinstance(answer, list) and len(answer) == 2 and all(isinstance(part, bytes) for part in answer):
            host, port = (part.decode(errors="replace") for part in answer)
            if can_be_resolved(host) and fullmatch("[0-9]{1,5}", port, ASCII) and 0 < int(port) < 2**16:
                return host, int(port)
            self.failed(ConnectionError("no address where one belongs"))
        elif answer is None:
            self._error = UnlocatedError("unknown")
        else:
            self.failed(ConnectionError("no address where one belongs"))
        return None

    def nowhere(self) -> UnlocatedError:
        return self._error


class _ThreadConnection:
    """Mixed into the library's connections."""

    host: str
    port: int
    _search: Search
    _at: Callable[..., Any]

    def _connect(self) -> Any:
        self.host, self.port = self._primary()
        return super()._connect()  # type: ignore[misc]

    def _primary(self) -> Address:
        asked = _Asked()
        for host in self._search.hosts():
            sentinel = self._at(**host, retry=Retry(NoBackoff(), 0))
            try:
                sentinel.connect()
                sentinel.send_command(*self._search.question)
                if found := asked.address(sentinel.read_response()):
                    return found
            except (RedisError, OSError) as error:
                asked.failed(error)
            finally:
                sentinel.disconnect()
        raise asked.nowhere()


class _TaskConnection:
    """Likewise, for tasks."""

    host: str
    port: int
    _search: Search
    _at: Callable[..., Any]

    async def _connect(self) -> None:
        self.host, self.port = await self._primary()
        await super()._connect()  # type: ignore[misc]

    async def _primary(self) -> Address:
        asked = _Asked()
        for host in self._search.hosts():
            sentinel = self._at(**host, retry=AsyncRetry(NoBackoff(), 0))
            try:
                await sentinel.connect()
                await sentinel.send_command(*self._search.question)
                if found := asked.address(await sentinel.read_response()):
                    return found
            except (RedisError, OSError) as error:
                asked.failed(error)
            finally:
                await sentinel.disconnect(nowait=True)
        raise asked.nowhere()


def asking(kind: type, sentinels: Sentinels, options: Mapping[str, Any], *, tasks: bool) -> type:
    """A kind of the library's connections to whatever server is the primary. `options`: of the connections to Sentinels."""
    soon = {name: min(options[name], ASK_WITHIN) for name in ("socket_timeout", "socket_connect_timeout")}

    def at(**more: Any) -> Any:
        return kind(**{**options, **soon, **more})

    mixed = _TaskConnection if tasks else _ThreadConnection
    return type(f"Asking{kind.__name__}", (mixed, kind), {"_search": Search(sentinels), "_at": staticmethod(at)})
