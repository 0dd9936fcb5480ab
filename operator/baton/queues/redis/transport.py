"""How the operator's requests reach one Redis: many in a round trip, durable where they have to be, each failure explained."""

import asyncio
import logging
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, TypeVar

from redis.exceptions import ResponseError

from baton.queues.protocol import QueueConflict, QueueUnreachable
from baton.queues.redis import records, scripts
from baton.queues.redis.announcements import Announcer, Aside
from baton.queues.redis.batches import Batches, ScriptRun, round_trip
from baton.queues.redis.connection import OLDEST, async_client
from baton.queues.redis.explanations import explained, not_primary
from baton.queues.redis.keys import queue_key
from baton.queues.redis.records import ForeignRecord
from baton.queues.redis.url import RedisUrl
from baton.queues.redis.url_files import TlsFiles

_FSYNC: dict[bytes | None, str] = {b"always": "always", b"everysec": "everysec", b"no": "no"}


@dataclass(frozen=True, slots=True)
class Server:
    """One run of a server, read from its INFO."""

    run_id: str
    replica: bool
    """It follows a primary, and takes no writes."""
    clustered: bool
    """It is a node of a Redis Cluster."""
    version: tuple[int, ...]
    append_only_file: bool
    fsync: str | None
    """When it has its append-only file written to the disk (appendfsync); None: it does not say."""
    replicas: int
    evicts: bool
    """Its maxmemory policy may throw away keys that have no time to live."""

    @classmethod
    def from_answers(cls, info: object, fsync: object) -> "Server":
        """Of INFO and of CONFIG GET appendfsync, which many do not let their users ask (None). Raises OddAnswerError."""
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
        """What its configuration puts at risk, each a sentence with the cure."""
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
            found.append(f"{place} may evict entries that nobody has read. Set maxmemory-policy noeviction.")
        return tuple(found)


T = TypeVar("T")

log = logging.getLogger(__name__)

_CONNECTIONS = 8
_DURABLE_WITHIN = 1000
"""Milliseconds that what must be durable waits for a replica. A grant that did not get there in time still stands; should
a crash undo it, the server's new run id makes the operator assert its owners again."""


class Transport:
    """Of one queue. Whatever goes wrong is raised as QueueUnreachable, with a sentence for the user."""

    def __init__(self, url: RedisUrl, queue: str, announcing: Announcer, files: TlsFiles) -> None:
        self._key = queue_key(queue)
        namespace = queue.partition("/")[0]
        self.client = async_client(url, self._key, connections=_CONNECTIONS, files=files, namespace=namespace)
        self._aside = None
        if url.cluster is not None:
            self._aside = Aside(async_client(url, announcing.key, connections=1, files=files, namespace=namespace), announcing)
        self.server: Server | None = None
        """As it was last seen; None: it has to be looked at (again)."""
        self.durably = Batches(self._send_durably)
        self.asking = Batches(self.send)
        self._url = url
        self._queue = queue
        self._announcing = announcing

    async def close(self) -> None:
        await self.durably.close()
        await self.asking.close()
        await self.client.aclose()
        if self._aside is not None:
            await self._aside.close()

    async def discover(self) -> Server:
        """Ask the server what it is. Raises QueueUnreachable also where it is too old, takes no writes, or is a node of a cluster
        and the URL names none."""
        with self.explained():
            server = await self._described()
            if server.replica:  # it was the primary, perhaps, and another has its address now
                await self.client.connection_pool.disconnect(inuse_connections=False)
                server = await self._described()
        if server.replica:
            raise QueueUnreachable(not_primary("READONLY", self._url, self._queue))
        if server.clustered and not self._url.cluster:
            raise QueueUnreachable(not_primary("MOVED", self._url, self._queue))
        if self._url.cluster and not server.clustered:
            raise QueueUnreachable(
                f"{self._url.place} is no Redis Cluster. Begin the URL of {self._queue} with redis:// (rediss:// for TLS)."
            )
        if server.version < OLDEST:
            version = ".".join(map(str, server.version))
            raise QueueUnreachable(f"{self._url.place} is version {version}; {self._queue} needs Redis 7.0 or later, or Valkey.")
        self.server = server
        return server

    async def _described(self) -> Server:
        async with self.client.pipeline(transaction=False) as pipe:
            pipe.exists(self._key)  # a node of a cluster that has the queue no more refuses this alone
            pipe.info()
            pipe.config_get("appendfsync")
            _, info, fsync = await pipe.execute(raise_on_error=False)
        if isinstance(info, Exception):
            raise info
        return Server.from_answers(info, None if isinstance(fsync, ResponseError) else fsync)

    async def run(self, script: scripts.Script, keys: Sequence[str], arguments: Sequence[Any], read: Callable[[Any], T]) -> T:
        """One script."""
        return await self.batched(self.asking, read, ScriptRun(script, keys, arguments))

    async def batched(self, batches: Batches, read: Callable[[object], T], request: ScriptRun) -> T:
        """Together with what others ask in the same turn of the event loop. `batches`: `durably` or `asking`."""
        with self.explained():
            return read(await batches.ask(request))

    async def all(self, batches: Batches, requests: Sequence[ScriptRun], read: Callable[[object], T]) -> list[T]:
        """The answers to many requests, in order."""
        return list(await asyncio.gather(*(self.batched(batches, read, request) for request in requests)))

    async def send(self, requests: Sequence[ScriptRun]) -> list[object]:
        """In one round trip. Answers in order; what was refused is answered with the exception."""
        return await self._round_trip(requests)

    async def _send_durably(self, requests: Sequence[ScriptRun]) -> list[object]:
        """The same, and announced; and wait on the connection until a replica has what was written, where there is one."""
        server = self.server or await self.discover()
        waits = [("WAIT", 1, _DURABLE_WITHIN)] if server.replicas else []
        announcements = self._announcing.requests(requests)
        beside = announcements if self._aside is None else []
        answered = await self._round_trip([*requests, *beside], waits)
        waited_from = len(answered) - len(waits)
        self._announcing.answered(answered[len(requests) : waited_from])
        if self._aside is not None:
            self._aside.send(announcements)
        if not all(_arrived(reply) for reply in answered[waited_from:]):
            log.warning("%s: a change of owner in %s has no replica after %d ms", self._url.place, self._queue, _DURABLE_WITHIN)
            self.server = None  # its replicas may have changed: look again next time
        return answered[: len(requests)]

    async def _round_trip(self, requests: Sequence[ScriptRun], others: Sequence[tuple[object, ...]] = ()) -> list[object]:
        return await round_trip(self.client, requests, others)

    @contextmanager
    def explained(self) -> Iterator[None]:
        """Whatever goes wrong at the queue is said in a sentence, also what nobody thought of: its words may be secret."""
        try:
            with explained(self._url, self._queue):
                yield
        except (QueueUnreachable, QueueConflict):
            raise
        except ForeignRecord as what:
            raise QueueUnreachable(
                f"{self._url.place} has records of {self._queue} that Baton did not write ({what}). Move the keys "
                f"pq:{{{self._queue}}}:… away, or use another database for {self._queue}."
            ) from None
        except Exception as error:
            words = f"{type(error).__name__}: {self._url.hidden(error)}"
            raise QueueUnreachable(f"{self._url.place}: unexpected failure at {self._queue} ({words}).") from None


def _arrived(reply: object) -> bool:
    """A replica has it. An error: the server does not let Baton ask, and there is nothing to wait for."""
    return isinstance(reply, ResponseError) or records.number(reply) >= 1
