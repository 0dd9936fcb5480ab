"""Connections that ask where they are to go, each time that they are made: Sentinels for the primary, or the nodes of a Redis
Cluster for the one that has a queue.

The library has clients for this, for threads and for tasks. None bounds what is read, which in the operator comes from a tenant's
server. So a connection of ours asks by itself, and the rest is as ever: one that leaves its server (primary.py) asks again.
https://redis.io/docs/latest/develop/reference/sentinel-clients/, https://redis.io/docs/latest/operate/oss_and_stack/reference/cluster-spec/
"""

import random
import threading
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from re import ASCII, fullmatch
from typing import Any, Literal

from redis.asyncio.retry import Retry as AsyncRetry
from redis.backoff import NoBackoff
from redis.exceptions import (
    AuthenticationError,
    AuthorizationError,
    ConnectionError,  # noqa: A004 - the library's name
    RedisError,
    ResponseError,
)
from redis.retry import Retry

from baton.queues.redis.primary import NotPrimaryError, is_denial
from baton.queues.redis.url import Address, Nodes, Sentinels, can_be_resolved

ASK_WITHIN = 1.0
"""Seconds for who is asked to be connected to, and to answer: then the next one is asked."""

Trouble = Literal["silent", "refused", "unknown"]
"""Nobody answers; they want a password, or another one; they know no primary of that name."""


class UnlocatedError(ConnectionError):
    """Nobody says where to go. The message is the last one's own."""

    def __init__(self, trouble: Trouble, words: object = "") -> None:
        super().__init__(str(words))
        self.trouble = trouble


class Search:
    """For the connections of one client. Each begins with another host: one that answers may be behind. And each client has an
    order of its own: who waits for an answer for so long only, and then makes a new client, would never get beyond a few hosts
    that are silent."""

    def __init__(self, hosts: Sequence[Address], question: Sequence[str]) -> None:
        self.question = question
        self._hosts = deque(random.sample(hosts, len(hosts)))
        self._lock = threading.Lock()

    def hosts(self) -> Iterator[Address]:
        """In the order in which they are to be asked."""
        with self._lock:
            hosts = list(self._hosts)
            self._hosts.rotate(-1)
        return iter(hosts)

    def address(self, asked: Address, answer: object) -> Address:
        """What this host's answer says. Raises the library's errors: the next one is to be asked."""
        raise NotImplementedError


class PrimarySearch(Search):
    """Sentinels know it by its name."""

    def __init__(self, sentinels: Sentinels) -> None:
        super().__init__(sentinels.hosts, ("SENTINEL", "GET-MASTER-ADDR-BY-NAME", sentinels.service))

    def address(self, asked: Address, answer: object) -> Address:
        if answer is None:
            raise UnlocatedError("unknown")
        if isinstance(answer, list) and len(answer) == 2 and all(isinstance(part, bytes) for part in answer):
            host, port = (part.decode(errors="replace") for part in answer)
            return _checked(host, int(port) if fullmatch("[0-9]{1,5}", port, ASCII) else 0)
        raise _said(answer)


class NodeSearch(Search):
    """A node is asked for a key: it has the key's slot, or knows who has (MOVED). No right is needed that the key's user lacks,
    and the answer is short, unlike that to CLUSTER SLOTS."""

    def __init__(self, nodes: Nodes, key: str) -> None:
        super().__init__(nodes.hosts, ("EXISTS", key))

    def address(self, asked: Address, answer: object) -> Address:
        if isinstance(answer, NotPrimaryError) and answer.moved_to is not None:
            host, port = answer.moved_to
            return _checked(host or asked[0], port)
        # ASK: the slot is on its way, and still this node's. A denial: the request itself will be denied, and that is explained.
        ours = isinstance(answer, int) or (isinstance(answer, NotPrimaryError) and answer.status == "ASK")
        if ours or (isinstance(answer, ResponseError) and is_denial(answer)):
            return asked
        raise _said(answer)


def _checked(host: str, port: int) -> Address:
    if can_be_resolved(host) and 0 < port < 2**16:
        return host, port
    raise _said(None)


def _said(answer: object) -> Exception:
    return answer if isinstance(answer, Exception) else UnlocatedError("silent", "no address where one belongs")


class _Asked:
    """Why those that one connection has asked so far do not say where to go."""

    def __init__(self) -> None:
        self.error: ConnectionError = UnlocatedError("silent")

    def failed(self, error: Exception) -> None:
        if isinstance(error, NotPrimaryError) or (isinstance(error, UnlocatedError) and error.trouble == "unknown"):
            self.error = error
        elif isinstance(self.error, UnlocatedError) and self.error.trouble == "silent":
            refused = isinstance(error, (AuthenticationError, AuthorizationError)) or "NOAUTH" in str(error)
            self.error = UnlocatedError("refused" if refused else "silent", error)
            self.error.__cause__ = error  # such as a file that may not be read


class _ThreadConnection:
    """Mixed into the library's connections."""

    host: str
    port: int
    _search: Search
    _at: Callable[..., Any]

    def _connect(self) -> Any:
        self.host, self.port = self._found()
        return super()._connect()  # type: ignore[misc]

    def _found(self) -> Address:
        asked = _Asked()
        for host, port in self._search.hosts():
            connection = self._at(host=host, port=port, retry=Retry(NoBackoff(), 0))
            try:
                connection.connect()
                connection.send_command(*self._search.question)
                try:
                    answer = connection.read_response()
                except (ResponseError, NotPrimaryError) as refusal:
                    answer = refusal
                return self._search.address((host, port), answer)
            except (RedisError, OSError) as error:
                asked.failed(error)
            finally:
                connection.disconnect()
        raise asked.error


class _TaskConnection:
    """Likewise, for tasks."""

    host: str
    port: int
    _search: Search
    _at: Callable[..., Any]

    async def _connect(self) -> None:
        self.host, self.port = await self._found()
        await super()._connect()  # type: ignore[misc]

    async def _found(self) -> Address:
        asked = _Asked()
        for host, port in self._search.hosts():
            connection = self._at(host=host, port=port, retry=AsyncRetry(NoBackoff(), 0))
            try:
                await connection.connect()
                await connection.send_command(*self._search.question)
                try:
                    answer = await connection.read_response()
                except (ResponseError, NotPrimaryError) as refusal:
                    answer = refusal
                return self._search.address((host, port), answer)
            except (RedisError, OSError) as error:
                asked.failed(error)
            finally:
                await connection.disconnect(nowait=True)
        raise asked.error


def asking(kind: type, search: Search, options: Mapping[str, Any], *, tasks: bool) -> type:
    """A kind of the library's connections to what the search finds. `options`: of the connections to those that are asked."""
    soon = {name: min(options[name], ASK_WITHIN) for name in ("socket_timeout", "socket_connect_timeout")}

    def at(**more: object) -> object:
        return kind(**{**options, **soon, **more})

    mixed = _TaskConnection if tasks else _ThreadConnection
    return type(f"Asking{kind.__name__}", (mixed, kind), {"_search": search, "_at": staticmethod(at)})
