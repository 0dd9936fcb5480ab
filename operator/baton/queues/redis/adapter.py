"""A partitioned queue on Redis streams, as the operator sees it."""

import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from secrets import token_hex
from typing import Any, TypeVar

from redis.exceptions import NoScriptError, ResponseError

from baton.model.ids import Epoch, Uid
from baton.queues.protocol import Claimant, Owner, QueueConflict, QueueUnreachable
from baton.queues.redis import answers, records, scripts
from baton.queues.redis.announcing import Announcing
from baton.queues.redis.batch import Batches, Hint, Request
from baton.queues.redis.connection import OLDEST, async_client, explained, not_primary
from baton.queues.redis.keys import PartitionKeys, partition_keys, queue_key
from baton.queues.redis.records import ForeignRecord
from baton.queues.redis.routing import RoutingTable
from baton.queues.redis.server import Server
from baton.queues.redis.taken import taken
from baton.queues.redis.url import read

T = TypeVar("T")

log = logging.getLogger(__name__)

_CONNECTIONS = 8
_AT_ONCE = 256
"""Questions to partitions in one round trip: so few that the event loop is free again in a few milliseconds."""
_DURABLE_WITHIN = 1000
"""Milliseconds that pauses and grants wait for disk and replicas. A grant that did not get there in time still stands; should a
crash undo it, the server's new run id makes the operator assert its owners again."""


class RedisQueue:
    """QueueAdapter (queues/protocol.py) for one queue and one group.

    `queue` is namespace/name. Methods raise QueueUnreachable, with a sentence for the user, while the server is
    down, refuses the password or is too old; the next call tries again. The constructor raises it for a text that is no
    Redis URL.
    """

    fenced = True

    def __init__(
        self,
        url: str,
        queue: str,
        claimant: Claimant,
        *,
        max_delivered_unacked: int = 10_000,
        max_redeliveries: int = 0,
        stands_in: str = "the URL",
    ) -> None:
        """`stands_in`: where the URL is written, for messages.

        The limits are those of the queue's spec; `ensure` writes them to all partitions, where readers meet them.
        `max_redeliveries` 0: any number.
        """
        self._queue = queue
        self._limits = (max_delivered_unacked, max_redeliveries)
        self._claimant = claimant
        self._url = read(url, asker="The operator", stands_in=stands_in)
        self._client = async_client(self._url, connections=_CONNECTIONS)
        self._announcing = Announcing(self._url, queue, claimant.group)
        self._durably = Batches(self._send_durably)
        self._asking = Batches(self._send)
        self._server: Server | None = None
        self._made: tuple[str, int] | None = None
        """Run id and partition count for which all partitions were seen to exist."""
        self._lost: Mapping[int, int] = {}
        """By partition, entries that went with a deleted stream."""

    async def incarnation(self) -> str | None:
        """The server's run id and the queue's birth mark: a restart, a failover and a flushed database all give a new one.

        None: the queue has not been made yet.
        """
        server = await self._discover()
        with self._explained():
            born = answers.text(await self._client.hget(queue_key(self._queue), "born"))
            return None if born is None else f"{records.word(server.run_id, 'run_id')}/{records.word(born, 'born')}"

    async def warnings(self) -> tuple[str, ...]:
        """What the server's configuration puts at risk ("nothing is lost" needs an append-only file): sentences with the cure."""
        return (self._server or await self._discover()).warnings(self._url.place)

    async def partitions(self) -> int | None:
        with self._explained():
            count = answers.text(await self._client.hget(queue_key(self._queue), "partitions"))
            return None if count is None else records.count(count)

    async def ensure(self, count: int) -> None:
        """See QueueAdapter. Costs one round trip once the queue is there. Raises QueueConflict, also for another count."""
        table = RoutingTable.even(1, count)
        key = queue_key(self._queue)
        us = self._claimant
        arguments = (us.group, us.uid, count, table.version, table.to_text(), token_hex(4), *sorted(us.takes_over))
        group, uid, found, version, text, ready, *limits = await self._run(scripts.CLAIM, [key], arguments, answers.fields(8))
        if uid != us.uid.encode():
            raise QueueConflict(taken(self._queue, us, group, uid or b""))
        with self._explained():
            there = records.count(found)
            known = limits == [b"%d" % limit for limit in self._limits]
            if there != count:
                raise QueueConflict(
                    f"The Redis queue {self._queue} has {there} partitions, and their number cannot be changed yet. "
                    f"Set spec.partitions to {there}, or make a new queue with {count}."
                )
            server = self._server or await self._discover()
            if ready and known and self._made == (server.run_id, count):
                return
            await self._create(records.table(version, text, count), count)
            await self._run(scripts.READY, [key], self._limits, answers.number)  # the last: until then all is done again
            self._made = (server.run_id, count)

    async def pause(self, partition: int, epoch: Epoch) -> int:
        hints = self._announcing.hints(partition)
        return await self._batched(self._durably, answers.number, scripts.PAUSE, partition, epoch, hints=hints)

    async def outstanding(self, partition: int) -> int:
        return await self._batched(self._asking, answers.number, scripts.OUTSTANDING, partition)

    async def grant(self, partition: int, uid: Uid | None, epoch: Epoch) -> Owner:
        hints = self._announcing.hints(partition, uid)
        answer = await self._batched(self._durably, answers.scalars(3), scripts.GRANT, partition, uid or "", epoch, hints=hints)
        with self._explained():
            owner = records.owner(answer)
        self._announcing.owned(partition, owner.uid)
        return owner

    async def owners(self) -> Mapping[int, Owner]:
        found = await self._from_each(lambda pipe, keys: pipe.hmget(keys.owner, "uid", "epoch", "paused"), answers.fields(3))
        whole = await self._from_each(lambda pipe, keys: pipe.exists(keys.stream, keys.progress, keys.slots), answers.number)
        if any(keys < 3 for keys in whole.values()):
            self._made = None  # somebody deleted some: `ensure` makes them again
        with self._explained():
            owners = {partition: records.owner(record) for partition, record in found.items() if record[1] is not None}
        for partition, owner in owners.items():
            self._announcing.owned(partition, owner.uid)
        return owners

    async def lag(self) -> Mapping[int, int]:
        """Entries added and not finished with, per partition."""
        progress = await self._from_each(lambda pipe, keys: pipe.hmget(keys.progress, "last", "done", "lost"), answers.fields(3))
        with self._explained():
            self._tell_lost({n: records.number(lost, "lost") for n, (_, _, lost) in progress.items()})
            return {n: records.number(last, "last") - records.number(done, "done") for n, (last, done, _) in progress.items()}

    async def stale_refused(self) -> Mapping[int, int]:
        refused = await self._from_each(lambda pipe, keys: pipe.get(keys.refused), answers.text)
        with self._explained():
            return {partition: records.number(count, "refused") for partition, count in refused.items()}

    async def dead_letters(self) -> Mapping[int, int]:
        dead = await self._from_each(lambda pipe, keys: pipe.hget(keys.progress, "dead"), answers.text)
        with self._explained():
            return {partition: records.number(count, "dead") for partition, count in dead.items()}

    async def release(self) -> None:
        await self._run(scripts.RELEASE, [queue_key(self._queue)], (self._claimant.uid,), answers.number)

    async def close(self) -> None:
        await self._durably.close()
        await self._asking.close()
        await self._client.aclose()

    def _tell_lost(self, lost: Mapping[int, int]) -> None:
        for partition, count in lost.items():
            if count > self._lost.get(partition, 0):
                log.warning(
                    "%s: somebody deleted the stream of %s/%d, with %d entries that were not done; it has been made again",
                    *(self._url.place, self._queue, partition, count - self._lost.get(partition, 0)),
                )
        self._lost = lost

    async def _create(self, table: RoutingTable, count: int) -> None:
        slots = table.by_partition(count)
        for start in range(0, count, _AT_ONCE):
            some = [
                Request(scripts.CREATE, self._keys(partition), (*self._limits, table.version, *slots[partition]))
                for partition in range(start, min(count, start + _AT_ONCE))
            ]
            with self._explained():
                for answer in await self._send(some):
                    if isinstance(answer, Exception):
                        raise answer

    async def _discover(self) -> Server:
        with self._explained():
            server = await self._described()
            if server.replica:  # it was the primary, perhaps, and another has its address now
                await self._client.connection_pool.disconnect(inuse_connections=False)
                server = await self._described()
        if server.replica:
            raise QueueUnreachable(not_primary("READONLY", self._url.place, self._queue))
        if server.version < OLDEST:
            version = ".".join(map(str, server.version))
            raise QueueUnreachable(f"{self._url.place} is version {version}; {self._queue} needs Redis 7.0 or later, or Valkey.")
        self._server = server
        return server

    async def _described(self) -> Server:
        async with self._client.pipeline(transaction=False) as pipe:
            pipe.info()
            pipe.config_get("appendfsync")
            info, fsync = await pipe.execute(raise_on_error=False)
        if isinstance(info, Exception):
            raise info
        return Server.from_answers(info, None if isinstance(fsync, ResponseError) else fsync)

    async def _run(self, script: scripts.Script, keys: Sequence[str], arguments: Sequence[Any], read: Callable[[Any], T]) -> T:
        with self._explained():
            try:
                return read(await self._client.evalsha(script.sha, len(keys), *keys, *arguments))
            except NoScriptError:
                return read(await self._client.eval(script.text, len(keys), *keys, *arguments))

    async def _batched(
        self,
        batches: Batches,
        read: Callable[[Any], T],
        script: scripts.Script,
        partition: int,
        *arguments: Any,
        hints: Sequence[Hint] = (),
    ) -> T:
        with self._explained():
            return read(await batches.ask(Request(script, self._keys(partition), arguments, hints)))

    async def _send(self, requests: Sequence[Request]) -> list[Any]:
        """In one round trip. Answers in order; what was refused is answered with the exception."""
        return await self._pipelined(requests, ())

    async def _send_durably(self, requests: Sequence[Request]) -> list[Any]:
        """The same, and announced; and wait on the connection until disk and replicas have what was written, as far as the
        server can tell."""
        server = self._server or await self._discover()
        waits: list[tuple[Any, ...]] = []
        if server.can_wait_for_disk:
            waits.append(("WAITAOF", 1, 0, _DURABLE_WITHIN))
        if server.replicas:
            waits.append(("WAIT", 1, _DURABLE_WITHIN))
        announcements = self._announcing.requests(requests)
        answered = await self._pipelined([*requests, *announcements], waits)
        waited_from = len(answered) - len(waits)
        self._announcing.answered(answered[len(requests) : waited_from])
        if not all(_arrived(reply) for reply in answered[waited_from:]):
            log.warning("%s: a change of owner in %s is not durable after %d ms", self._url.place, self._queue, _DURABLE_WITHIN)
            self._server = None  # its replicas may have changed: look again next time
        return answered[: len(requests)]

    async def _pipelined(
        self, requests: Sequence[Request], others: Sequence[tuple[Any, ...]], *, loaded: bool = False
    ) -> list[Any]:
        async with self._client.pipeline(transaction=False) as pipe:
            for script, keys, arguments, _ in requests:
                pipe.evalsha(script.sha, len(keys), *keys, *arguments)
            for other in others:
                pipe.execute_command(*other)
            answered: list[Any] = await pipe.execute(raise_on_error=False)
        if loaded or not any(isinstance(answer, NoScriptError) for answer in answered):
            return answered
        for text in {request.script.text for request in requests}:
            await self._client.script_load(text)
        return await self._pipelined(requests, others, loaded=True)  # those that were carried out may be asked twice

    async def _from_each(self, ask: Callable[[Any, PartitionKeys], Any], read: Callable[[Any], T]) -> dict[int, T]:
        """One question to every partition, in a few round trips."""
        count = await self.partitions() or 0
        found: list[T] = []
        for start in range(0, count, _AT_ONCE):
            with self._explained():
                async with self._client.pipeline(transaction=False) as pipe:
                    for partition in range(start, min(count, start + _AT_ONCE)):
                        ask(pipe, self._keys(partition))
                    found += map(read, await pipe.execute())
        return dict(enumerate(found))

    def _keys(self, partition: int) -> PartitionKeys:
        return partition_keys(self._queue, partition)

    @contextmanager
    def _explained(self) -> Iterator[None]:
        """Whatever goes wrong at the queue is said in a sentence, also what nobody thought of: its words may be secret."""
        try:
            with explained(self._url, self._queue):
                yield
        except (QueueUnreachable, QueueConflict):
            raise
        except ForeignRecord as what:
            raise QueueUnreachable(
                f"{self._url.place} has records of {self._queue} that Baton did not write ({what}). Move the keys "
                f"pq:{{{self._queue}…}} away, or use another database for {self._queue}."
            ) from None
        except Exception as error:
            words = f"{type(error).__name__}: {self._url.hidden(error)}"
            raise QueueUnreachable(f"{self._url.place}: unexpected failure at {self._queue} ({words}).") from None


def _arrived(reply: Any) -> bool:
    """WAIT answers a number, WAITAOF a pair. An error: the server does not have the command, and there is nothing to wait for."""
    if isinstance(reply, ResponseError):
        return True
    return answers.number(answers.scalars(2)(reply)[0] if isinstance(reply, list) else reply) >= 1
