"""Sends the operator's requests to one Redis: batched, durable where required, and with every failure explained."""

import asyncio
import logging
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any, TypeVar
from weakref import WeakKeyDictionary

from redis.exceptions import ResponseError

from baton.queues.protocol import QueueConflict, QueueUnreachable
from baton.queues.redis import records, scripts
from baton.queues.redis.announcements import Announcer, BackgroundSender
from baton.queues.redis.batches import Batches, ScriptRun, round_trip
from baton.queues.redis.connection import OLDEST, async_client, bounded
from baton.queues.redis.explanations import explained, not_primary
from baton.queues.redis.keys import queue_key
from baton.queues.redis.url import RedisUrl
from baton.queues.redis.url_files import TlsFiles

_FSYNC: dict[bytes | None, str] = {b"always": "always", b"everysec": "everysec", b"no": "no"}


@dataclass(frozen=True, slots=True)
class Server:
    """One run of a server, read from its INFO."""

    run_id: str
    replica: bool
    """Whether it is a replica, which accepts no writes."""
    clustered: bool
    """Whether it is a node of a Redis Cluster."""
    version: tuple[int, ...]
    append_only_file: bool
    fsync: str | None
    """Its setting of appendfsync; None: not known."""
    replicas: int
    evicts: bool
    """Whether its maxmemory policy may evict keys without a time to live."""

    @classmethod
    def from_answers(cls, info: object, fsync: object) -> "Server":
        """Parse the answers of INFO and of CONFIG GET appendfsync, which users are often denied (None). Raises OddAnswerError."""
        lines = records.info(info)
        return cls(
            run_id=records.line(lines, "run_id", "[0-9A-Za-z]{1,64}"),
            replica=records.line(lines, "role", "[a-z]{1,20}", "master") == "slave",
            clustered=records.line(lines, "cluster_enabled", "[01]", "0") == "1",
            version=tuple(map(int, records.line(lines, "redis_version", r"[0-9]{1,5}(\.[0-9]{1,5}){0,3}").split("."))),
            append_only_file=records.line(lines, "aof_enabled", "[01]", "0") == "1",
            fsync=_FSYNC.get(records.fields(2)(fsync)[1]) if fsync else None,
            replicas=int(records.line(lines, "connected_slaves", "[0-9]{1,6}", "0")),
            evicts=records.line(lines, "maxmemory_policy", "[a-z-]{1,40}", "noeviction").startswith("allkeys"),
        )

    def warnings(self, place: str) -> tuple[str, ...]:
        """Return the risks of its configuration, each as a sentence with the cure."""
        found = []
        if not self.append_only_file and self.replicas == 0:
            found.append(
                f"{place} has no append-only file and no replica: a restart loses entries and acknowledgements "
                "since its last snapshot. Set appendonly yes."
            )
        elif self.append_only_file and self.fsync not in (None, "always"):
            last = "seconds" if self.fsync == "everysec" else "half minute"
            found.append(
                f"{place} has appendfsync {self.fsync}: a crash of its machine, or of Redis alone while the disk is slow, loses "
                f"entries and acknowledgements of the last {last} that were answered already. Set appendfsync always."
            )
        if self.evicts:
            found.append(f"{place} may evict unread entries. Set maxmemory-policy noeviction.")
        return tuple(found)


T = TypeVar("T")

log = logging.getLogger(__name__)

_CONNECTIONS, _ASKING, _WRITING = 16, 4, 10
"""Connections: the total, those for `Connections.asking`, and those for changes of owners, which may wait for a replica."""
_DESCRIBED_FOR = 1.0
"""Seconds for which queues that share connections also share the server's description."""
_DURABLE_WITHIN = 1000
"""Milliseconds that a durable change waits for a replica. A grant that did not reach one in time still stands; if a crash undoes
it, the server's new run id makes the operator assert its owners again."""

_shared: "WeakKeyDictionary[asyncio.AbstractEventLoop, dict[object, Connections]]" = WeakKeyDictionary()


class Connections:
    """Connections to one server as one user. Methods raise the library's errors.

    A request waits for a connection without a time limit; the limit of a round trip starts when it is sent.
    """

    def __init__(self, url: RedisUrl, key: str, files: TlsFiles, ended: Callable[[], object] | None = None) -> None:
        """`key`: in a cluster, connect to the node that has this key. `ended` is called when the last queue has left; None: the
        connections belong to one queue."""
        self.client = async_client(url, key, connections=_CONNECTIONS, files=files, namespace=self._next_namespace)
        self.asking = Batches(self.round_trip, _ASKING)
        self.writing = asyncio.Semaphore(_WRITING)
        self._key = key if url.cluster is not None else None
        self._ended = ended
        self._namespaces: dict[str, int] = {}
        """Number of queues of each namespace."""
        self._described: tuple[float, asyncio.Task[Server]] | None = None
        """Time and answer of the last request for the server's description."""

    @classmethod
    def shared(cls, url: RedisUrl, files: TlsFiles) -> "Connections":
        """Return one object for all queues of this event loop with the same URL. With TLS also of the same namespace, as each
        namespace has its own TLS files."""
        known = _shared.setdefault(asyncio.get_running_loop(), {})
        target = url.scheme, tuple(sorted(url.options.items())), url.sentinels, url.user, url.password
        same = (*target, files if url.scheme == "rediss" else None)
        if (found := known.get(same)) is None:
            found = known[same] = cls(url, "", files, partial(known.pop, same))
        return found

    def join(self, namespace: str) -> None:
        self._namespaces[namespace] = self._namespaces.get(namespace, 0) + 1

    @property
    def queues(self) -> int:
        """Number of queues that use these connections."""
        return sum(self._namespaces.values())

    async def leave(self, namespace: str) -> None:
        """Remove a queue of this namespace. The last one closes the connections."""
        self._namespaces[namespace] -= 1
        if not self._namespaces[namespace]:
            del self._namespaces[namespace]
        if self._namespaces:
            return
        if self._ended is not None:
            self._ended()
        if self._described is not None:
            self._described[1].cancel()
        await self.asking.close()
        await self.client.aclose()

    def _next_namespace(self) -> str | None:
        """Return the namespace for which the next connection looks its host up. Namespaces take turns, as all lookups of one may
        hang."""
        namespace = next(iter(self._namespaces), None)
        if namespace is not None:
            self._namespaces[namespace] = self._namespaces.pop(namespace)
        return namespace

    async def round_trip(self, requests: Sequence[ScriptRun], others: Sequence[tuple[object, ...]] = ()) -> list[object]:
        """Return the answers in order; the answer of a refused request is the exception."""
        async with bounded():
            return await round_trip(self.client, requests, others)

    async def described(self) -> Server:
        """Return the server's description, at most a second old if the connections are shared."""
        if self._ended is None:
            return await self._describe()
        now, known = asyncio.get_running_loop().time(), self._described
        if known is None or (known[1].done() and now - known[0] > _DESCRIBED_FOR):
            known = self._described = now, asyncio.create_task(self._describe())
        return await asyncio.shield(known[1])

    def changed(self) -> None:
        """Forget the description: the server may be another one by now."""
        self._described = None

    async def _describe(self) -> Server:
        async with bounded(), self.client.pipeline(transaction=False) as pipe:
            if self._key is not None:
                pipe.exists(self._key)  # refused (MOVED) by a node that no longer has the queue; the others are not
            pipe.info()
            pipe.config_get("appendfsync")
            *_, info, fsync = await pipe.execute(raise_on_error=False)
        if isinstance(info, Exception):
            raise info
        return Server.from_answers(info, None if isinstance(fsync, ResponseError) else fsync)


class Transport:
    """Sends requests for one queue. Every failure is raised as QueueUnreachable, with a sentence for the user."""

    def __init__(
        self, url: RedisUrl, queue: str, announcing: Announcer, files: TlsFiles, connections: Connections | None = None
    ) -> None:
        """`connections`: shared connections; None: open separate ones."""
        self._namespace = queue.partition("/")[0]
        self.connections = connections or Connections(url, queue_key(queue), files)
        self.connections.join(self._namespace)
        self._background = None
        if url.cluster is not None:
            other = async_client(url, announcing.key, connections=1, files=files, namespace=lambda: self._namespace)
            self._background = BackgroundSender(other, announcing)
        self.server: Server | None = None
        """The last description of the server; None: ask for it (again)."""
        self.asking, self.durably = self.connections.asking, Batches(self._send_durably)
        self._open = True
        self._url = url
        self._queue = queue
        self._announcing = announcing

    async def close(self) -> None:
        if not self._open:
            return
        self._open = False
        await self.durably.close()
        await self.connections.leave(self._namespace)
        if self._background is not None:
            await self._background.close()

    async def discover(self) -> Server:
        """Read the server's description. Raises QueueUnreachable also if the server is too old or a replica, or if only one of
        server and URL is a Redis Cluster."""
        with self.explained():
            server = await self.connections.described()
            if server.replica:  # perhaps it was the primary, and another server has its address now
                self.connections.changed()
                await self.connections.client.connection_pool.disconnect(inuse_connections=False)
                server = await self.connections.described()
        if server.replica:
            raise QueueUnreachable(not_primary("READONLY", self._url, self._queue))
        if server.clustered and not self._url.cluster:
            raise QueueUnreachable(not_primary("MOVED", self._url, self._queue))
        if self._url.cluster and not server.clustered:
            raise QueueUnreachable(
                f"{self._url.place} is not a Redis Cluster. Begin the URL of {self._queue} with redis:// (rediss:// for TLS)."
            )
        if server.version < OLDEST:
            version = ".".join(map(str, server.version))
            raise QueueUnreachable(f"{self._url.place} is version {version}; {self._queue} needs Redis 7.0 or later, or Valkey.")
        self.server = server
        return server

    async def run(self, script: scripts.Script, keys: Sequence[str], arguments: Sequence[Any], read: Callable[[Any], T]) -> T:
        return await self.batched(self.asking, read, ScriptRun(script, keys, arguments))

    async def batched(self, batches: Batches, read: Callable[[object], T], request: ScriptRun) -> T:
        """Run one script, together with other requests of the same turn of the event loop. `batches`: `durably` or `asking`."""
        with self.explained():
            return read(await batches.ask(request))

    async def all(self, batches: Batches, requests: Sequence[ScriptRun], read: Callable[[object], T]) -> list[T]:
        with self.explained():
            return [read(answer) for answer in await batches.ask_all(requests)]

    async def fields(self, key: str, *names: str) -> list[bytes | None]:
        with self.explained():
            async with bounded():
                answer: object = await self.connections.client.hmget(key, *names)
            return records.fields(len(names))(answer)

    async def _send_durably(self, requests: Sequence[ScriptRun]) -> list[object]:
        """Return answers in order. Announces the changes, and waits until a replica has them if there are replicas."""
        async with self.connections.writing:
            server = self.server or await self.discover()
            waits = [("WAIT", 1, _DURABLE_WITHIN)] if server.replicas else []
            announcements = self._announcing.requests(requests)
            appended = announcements if self._background is None else []
            answered = await self.connections.round_trip([*requests, *appended], waits)
        waited_from = len(answered) - len(waits)
        self._announcing.answered(answered[len(requests) : waited_from])
        if self._background is not None:
            self._background.send(announcements)
        # If the server denies WAIT, there is nothing to wait for.
        if not all(isinstance(reply, ResponseError) or records.number(reply) >= 1 for reply in answered[waited_from:]):
            log.warning(
                "%s: no replica has received a change of owner in %s after %d ms", self._url.place, self._queue, _DURABLE_WITHIN
            )
            self.server = None  # its replicas may have changed, so ask again next time
            self.connections.changed()
        return answered[: len(requests)]

    @contextmanager
    def explained(self) -> Iterator[None]:
        """Raise every failure, even an unexpected one, as a sentence of Baton: the original text may contain a secret."""
        try:
            with explained(self._url, self._queue):
                yield
        except (QueueUnreachable, QueueConflict):
            raise
        except Exception as error:
            words = f"{type(error).__name__}: {self._url.hidden(error)}"
            raise QueueUnreachable(f"{self._url.place}: unexpected failure at {self._queue} ({words}).") from None
