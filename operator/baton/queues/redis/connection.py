"""redis-py's connections to Redis, for threads and for tasks.

They connect to the primary that Sentinels name, or to the cluster node that has a queue, and leave a server that is not, or no
longer, the primary. After a failover an open connection stays with the old server, which refuses requests. Such a refusal closes
the connection, and the request is repeated on a new one, as after a lost connection.
"""

import asyncio
import builtins
import random
import re
import threading
from collections import deque
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from math import inf
from typing import Any, Literal

import redis
import redis.asyncio as aioredis
from redis.asyncio.retry import Retry as AsyncRetry
from redis.backoff import ExponentialWithJitterBackoff, NoBackoff
from redis.exceptions import (
    AskError,
    BusyLoadingError,
    ClusterDownError,
    ConnectionError,  # noqa: A004 - the library's name
    InvalidResponse,
    MovedError,
    NoPermissionError,
    ReadOnlyError,
    RedisError,
    ResponseError,
    TimeoutError,  # noqa: A004 - likewise
    TryAgainError,
)
from redis.retry import Retry

from baton.queues.opening import LOOKUP_NAMESPACE
from baton.queues.redis.records import OddAnswerError
from baton.queues.redis.url import SOCKET, Address, RedisUrl, can_be_resolved
from baton.queues.redis.url_files import Credentials, TlsFiles, on_own_thread

OLDEST = (7, 0)

CONNECTION_OPTIONS: Mapping[str, Any] = {
    "protocol": 2,  # scripts' answers have the same shape in 2 and 3, and 2 has no server notifications to handle
    "socket_connect_timeout": 2.0,
    "socket_timeout": 3.0,
    "socket_keepalive": True,
}
"""Defaults of all clients, which options of the URL override. Times in seconds."""

RETRY: Mapping[str, Any] = {
    "backoff": ExponentialWithJitterBackoff(base=0.02, cap=0.2),
    "retries": 2,
    "supported_errors": (ConnectionError,),
}
"""After a lost connection the request is repeated at once, as all of Baton's requests are idempotent. After a timeout it is not
repeated, so that the caller learns of it.
"""

_ONCE = Retry(NoBackoff(), 0)
ASK_WITHIN = 1.0
"""Seconds for a Sentinel or cluster node to answer where to connect, before the next one is asked."""
MOST_BYTES = 256 * 1024
"""Limit for the answers of one round trip of tasks. The largest real answers: 256 refusals (batches.py) of 500 bytes, one INFO (7
KB, plus about 60 bytes for each database and replica), three routing tables (7 KB each), or the sequences of some 300 producers
(script sequences)."""
_LINE = 40
"""Minimum bytes that a line counts as, because a list of many small items costs more to parse than to send."""
WITHIN = 5.0
"""Seconds for the answers of one round trip of tasks."""

_NOT_PRIMARY = (ReadOnlyError, ClusterDownError, MovedError, AskError, TryAgainError, BusyLoadingError)
"""READONLY; MASTERDOWN and CLUSTERDOWN; MOVED; ASK and TRYAGAIN, while a cluster moves a slot; LOADING."""
_UNBLOCKED = "UNBLOCKED"
"""Error that blocked connections get when their server becomes a replica."""
_DENIED_IN_SCRIPT = re.compile(r"The user executing the script can't|ACL failure in script")


class NotPrimaryError(ConnectionError):
    """The server cannot serve requests now; perhaps another one at the same address can. `status` has why: READONLY, LOADING,
    …"""

    def __init__(self, answer: ResponseError | BusyLoadingError) -> None:
        super().__init__(str(answer))
        self.status = answer.status_code or _UNBLOCKED
        self.moved_to: Address | None = (answer.host, answer.port) if isinstance(answer, MovedError) else None


class UnlocatedError(ConnectionError):
    """No Sentinel or cluster node returned an address. `trouble`: none answers, they reject the password, or they do not know the
    primary."""

    def __init__(self, trouble: Literal["silent", "refused", "unknown"], text: object = "") -> None:
        super().__init__(str(text))
        self.trouble = trouble


def client(url: RedisUrl, key: str, *, block: float = 0.0, within: float = inf, once: bool = False) -> "redis.Redis":
    """Return a client for threads. `key`: in a cluster, connect to the node that has this key. `block`: seconds for which a
    command may block. `within`: upper limit in seconds for an answer or a connection, even if the URL has a higher one. `once`:
    do not repeat a request after a lost connection; the caller does."""
    options = _options(url, within)
    kind = _kind(_ThreadConnection, redis.connection, url, TlsFiles())
    finder = None
    if url.sentinels is not None or url.cluster is not None:
        finder = _ThreadFinder(url, key, _askers(url, options, redis, kind, _ONCE))
    pool = redis.ConnectionPool(
        connection_class=type(kind.__name__, (kind,), {"finder": finder}),
        **options | {"socket_timeout": options["socket_timeout"] + block, "retry": _ONCE if once else Retry(**RETRY)},
    )
    return redis.Redis.from_pool(pool)


def async_client(
    url: RedisUrl,
    key: str,
    *,
    connections: int,
    files: TlsFiles,
    namespace: Callable[[], str | None] = lambda: None,
    once: bool = False,
) -> "aioredis.Redis":
    """Return a client for tasks with this number of connections, for the operator and for AsyncRedisProducer. `key` and `once`:
    as for `client`. It reads no other files than `files`, and each connection looks its host up for the next `namespace`. No wait
    is longer than WITHIN, even if the URL has a higher limit. Answers are not converted by the library: records.py parses
    them."""
    options = _options(url, WITHIN)
    kind = type(
        "BoundedConnection", (_kind(_TaskConnection, aioredis.connection, url, files),), {"namespace": staticmethod(namespace)}
    )
    options["redis_connect_func"] = _bound
    finder = None
    if url.sentinels is not None or url.cluster is not None:
        finder = _TaskFinder(url, key, _askers(url, options, aioredis, kind, AsyncRetry(NoBackoff(), 0)))
    pool = aioredis.BlockingConnectionPool(
        connection_class=type(kind.__name__, (kind,), {"finder": finder}),
        max_connections=connections,
        timeout=options["socket_timeout"],
        **options | {"retry": AsyncRetry(NoBackoff(), 0) if once else AsyncRetry(**RETRY)},
    )
    made = aioredis.Redis.from_pool(pool)
    made.response_callbacks.clear()
    return made


@asynccontextmanager
async def bounded() -> AsyncIterator[None]:
    """Limit a round trip of tasks, including connecting, to WITHIN. Raises the library's TimeoutError."""
    try:
        async with asyncio.timeout(WITHIN):
            yield
    except builtins.TimeoutError:
        raise TimeoutError(f"no answer within {WITHIN:.0f} s") from None


def is_denial(error: Exception) -> bool:
    """Whether the server's access control list denied the request."""
    return isinstance(error, NoPermissionError) or (
        isinstance(error, ResponseError) and bool(_DENIED_IN_SCRIPT.search(str(error)))
    )


def _options(url: RedisUrl, within: float) -> dict[str, Any]:
    known = url.user is not None or url.password is not None or url.files
    secret = {"credential_provider": Credentials(url)} if known else {}
    options = {**CONNECTION_OPTIONS, **url.options, **secret}
    if url.scheme == SOCKET:
        del options["socket_keepalive"]  # not an option of Unix sockets
    return options | {name: min(options[name], within) for name in ("socket_timeout", "socket_connect_timeout")}


def _kind(ours: type, kinds: Any, url: RedisUrl, files: TlsFiles) -> Any:
    """Combine our mix-in `ours` with the library's connection class for the URL."""
    base = {"rediss": kinds.SSLConnection, SOCKET: kinds.UnixDomainSocketConnection}.get(url.scheme, kinds.Connection)
    check = (lambda: files.check(url.options)) if url.scheme == "rediss" else None
    return type(f"Primary{base.__name__}", (ours, base), {"check": staticmethod(check) if check else None})


def _askers(url: RedisUrl, options: Mapping[str, Any], library: Any, kind: Any, retry: object) -> dict[Address, Any]:
    """Return clients of the Sentinels or nodes that a URL names, in random order. In a fixed order a program that gives up after
    some time and creates a new client would never get past a few silent hosts."""
    hosts = (url.sentinels or url.cluster).hosts  # type: ignore[union-attr]
    left_out = set() if url.sentinels is None else {"db"} if url.sentinels.password else {"db", "credential_provider"}
    limits = {name: min(options[name], ASK_WITHIN) for name in ("socket_timeout", "socket_connect_timeout")}
    used = {name: value for name, value in options.items() if name not in left_out} | limits
    return {
        (host, port): library.Redis.from_pool(
            library.ConnectionPool(connection_class=kind, host=host, port=port, retry=retry, **used)
        )
        for host, port in random.sample(hosts, len(hosts))
    }


class _Finder:
    """Finds the address for the connections of one client. It asks a Sentinel for the primary's address. It asks a cluster node
    for a key: the node has the key's slot, or names the node that has it (MOVED). Unlike the requests of redis-py's RedisCluster,
    that needs no additional rights, and the answer is short."""

    def __init__(self, url: RedisUrl, key: str, askers: Mapping[Address, Any]) -> None:
        self._service = url.sentinels.service if url.sentinels is not None else None
        self._question = ("EXISTS", key) if self._service is None else ("SENTINEL", "GET-MASTER-ADDR-BY-NAME", self._service)
        self._askers = deque(askers.items())
        self._lock = threading.Lock()

    def _next(self) -> Sequence[tuple[Address, Any]]:
        """Return the clients in rotating order: one that answers may have outdated information."""
        with self._lock:
            askers = list(self._askers)
            self._askers.rotate(-1)
        return askers

    def _found(self, host: Address, answer: object, why: Exception) -> Address | Exception:
        """Return the address in an answer or refusal; without one, the more informative of the earlier error `why` and this
        one."""
        address: Address | None = None
        if self._service is not None:
            if answer is None:
                return UnlocatedError("unknown")
            if isinstance(answer, list) and len(answer) == 2 and all(isinstance(one, bytes) and one.isascii() for one in answer):
                address = answer[0].decode(), int(answer[1]) if answer[1].isdigit() else 0
        elif isinstance(answer, NotPrimaryError) and answer.moved_to is not None:
            address = answer.moved_to[0] or host[0], answer.moved_to[1]
        elif isinstance(answer, NotPrimaryError) and answer.status == "ASK":
            return host  # the slot is being moved and still belongs to this node
        elif isinstance(answer, int) or (isinstance(answer, Exception) and is_denial(answer)):
            return host  # after a denial, the request itself will be denied too, and that error is explained
        if address is not None and can_be_resolved(address[0]) and 0 < address[1] < 2**16:
            return address
        if isinstance(answer, NotPrimaryError) and address is None:
            return answer
        if not isinstance(why, UnlocatedError) or why.trouble != "silent":
            return why
        odd = address is not None or not isinstance(answer, (RedisError, OSError))
        text = "no address where one belongs" if odd else str(answer)
        refused = any(word in text for word in ("Authentication", "NOAUTH", "WRONGPASS", "password"))
        found = UnlocatedError("refused" if refused else "silent", text)
        found.__cause__ = answer if isinstance(answer, Exception) else None  # such as an unreadable file
        return found


class _ThreadFinder(_Finder):
    def find(self) -> Address:
        """Ask each in turn for the address. Raises the library's errors."""
        why: Exception = UnlocatedError("silent")
        for host, asker in self._next():
            try:
                answer = asker.execute_command(*self._question)
            except Exception as error:
                answer = error
            finally:
                asker.connection_pool.disconnect(inuse_connections=False)
            found = self._found(host, answer, why)
            if not isinstance(found, Exception):
                return found
            why = found
        raise why


class _TaskFinder(_Finder):
    async def find(self) -> Address:
        why: Exception = UnlocatedError("silent")
        for host, asker in self._next():
            try:
                answer = await asker.execute_command(*self._question)
            except Exception as error:
                answer = error
            finally:
                await asker.connection_pool.disconnect(inuse_connections=False)
            found = self._found(host, answer, why)
            if not isinstance(found, Exception):
                return found
            why = found
        raise why


class _ThreadConnection:
    """Mix-in of the library's connections for threads."""

    host: str
    port: int
    finder: _ThreadFinder | None = None
    check: Callable[[], None] | None
    _open = False

    def connect_check_health(self, *arguments: object, **options: object) -> None:
        if self._open:
            return
        if self.check is not None:
            self.check()
        if self.finder is not None:
            self.host, self.port = self.finder.find()
        super().connect_check_health(*arguments, **options)  # type: ignore[misc]
        self._open = True

    def disconnect(self, *arguments: object, **options: object) -> None:
        self._open = False
        super().disconnect(*arguments, **options)  # type: ignore[misc]

    def read_response(self, *arguments: object, **options: object) -> object:
        try:
            return super().read_response(*arguments, **options)  # type: ignore[misc]
        except (ResponseError, BusyLoadingError) as error:
            if not _is_not_primary(error):
                raise
            self.disconnect()
            raise NotPrimaryError(error) from None
        except ValueError:  # such as an address without a port
            self.disconnect()
            raise InvalidResponse("malformed answer") from None


class _TaskConnection:
    """Mix-in of the library's connections for tasks. It also limits the size of answers, because a user who may create a queue
    can point the operator at any server."""

    host: str
    port: int
    ssl_context: Any
    finder: _TaskFinder | None = None
    check: Callable[[], None] | None
    namespace: Callable[[], str | None]
    is_connected: bool
    reader: "_BoundedReader | None" = None
    _until = 0.0

    async def connect_check_health(self, *arguments: object, **options: object) -> None:
        if self.is_connected:
            return
        before = LOOKUP_NAMESPACE.set(self.namespace())
        try:
            if self.check is not None and self.ssl_context.context is None:
                await on_own_thread(self._read_files)
            if self.finder is not None:
                self.host, self.port = await self.finder.find()
            await super().connect_check_health(*arguments, **options)  # type: ignore[misc]
        finally:
            LOOKUP_NAMESPACE.reset(before)

    def _read_files(self) -> None:
        assert self.check is not None
        self.check()
        self.ssl_context.get()

    async def send_packed_command(self, *arguments: object, **options: object) -> None:
        task = asyncio.current_task()
        assert task is not None
        before = task.cancelling()
        await super().send_packed_command(*arguments, **options)  # type: ignore[misc]
        if task.cancelling() > before:
            # The library sends by asyncio.wait_for. Before Python 3.12 that loses a cancellation at the moment at which all was
            # sent (https://github.com/python/cpython/issues/86296), and a task is cancelled only once.
            await self.disconnect(nowait=True)  # type: ignore[attr-defined]
            raise asyncio.CancelledError
        if self.reader is not None:
            self.reader.left = MOST_BYTES
        self._until = asyncio.get_running_loop().time() + WITHIN

    async def read_response(self, *arguments: object, **options: object) -> object:
        try:
            async with asyncio.timeout_at(self._until):
                return await super().read_response(*arguments, **options)  # type: ignore[misc]
        except builtins.TimeoutError:
            await self.disconnect(nowait=True)  # type: ignore[attr-defined]
            raise TimeoutError(f"its answers are incomplete after {WITHIN:.0f} s") from None
        except (ResponseError, BusyLoadingError) as error:
            if not _is_not_primary(error):
                raise
            await self.disconnect(nowait=True)  # type: ignore[attr-defined]
            raise NotPrimaryError(error) from None
        except (ValueError, RecursionError):
            await self.disconnect(nowait=True)  # type: ignore[attr-defined]
            raise InvalidResponse("malformed answer") from None


def _is_not_primary(error: ResponseError | BusyLoadingError) -> bool:
    return isinstance(error, _NOT_PRIMARY) or str(error).startswith(_UNBLOCKED)


class _BoundedReader:
    """A stream reader that limits the bytes of each round trip."""

    def __init__(self, stream: asyncio.StreamReader) -> None:
        self._stream = stream
        self.left = MOST_BYTES

    async def read(self, count: int) -> bytes:
        return self._taken(await self._stream.read(count))

    async def readline(self) -> bytes:
        line = await self._stream.readline()
        self.left -= max(0, _LINE - len(line))
        return self._taken(line)

    async def readexactly(self, count: int) -> bytes:
        if count > self.left:
            raise _too_much()
        return self._taken(await self._stream.readexactly(count))

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)

    def _taken(self, read: bytes) -> bytes:
        self.left -= len(read)
        if self.left < 0:
            raise _too_much()
        return read


def _too_much() -> OddAnswerError:
    return OddAnswerError(f"more than {MOST_BYTES // 1024} KiB at once")


async def _bound(connection: Any) -> None:
    """Wrap the connection's stream reader. The library has no public API for that."""
    connection.reader = connection._reader = _BoundedReader(connection._reader)
    await connection.on_connect()


Command = Sequence[bytes | str | int]


def ask(client: "redis.Redis", commands: Sequence[Command]) -> list[Any]:
    """Run commands in one round trip. The answer of a refused one is its ResponseError. Raises RedisError and OSError."""
    if len(commands) == 1:
        try:
            return [client.execute_command(*commands[0])]  # type: ignore[no-untyped-call]
        except ResponseError as refusal:
            return [refusal]
    with client.pipeline(transaction=False) as pipe:
        for command in commands:
            pipe.execute_command(*command)  # type: ignore[no-untyped-call]
        answers: list[Any] = pipe.execute(raise_on_error=False)
        return answers


async def ask_by_task(client: "aioredis.Redis", commands: Sequence[Command]) -> list[Any]:
    """As `ask`, for tasks."""
    async with client.pipeline(transaction=False) as pipe:
        for command in commands:
            pipe.execute_command(*command)
        answers: list[Any] = await pipe.execute(raise_on_error=False)
        return answers
