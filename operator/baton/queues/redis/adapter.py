"""A partitioned queue on Redis streams, as the operator sees it."""

import asyncio
import logging
from collections.abc import Callable, Mapping, Sequence
from secrets import token_hex
from typing import Any

import redis.asyncio as aioredis
from redis.asyncio.retry import Retry
from redis.exceptions import NoScriptError, ResponseError

from baton.model.ids import Epoch, Uid
from baton.queues.protocol import Claimant, Owner, QueueConflict, QueueUnreachable
from baton.queues.redis import scripts
from baton.queues.redis.connection import CONNECTION_OPTIONS, OLDEST, RETRY, explained, where
from baton.queues.redis.keys import PartitionKeys, partition_keys, queue_key
from baton.queues.redis.routing import RoutingTable
from baton.queues.redis.server import Server
from baton.queues.redis.taken import taken

log = logging.getLogger(__name__)

_CONNECTIONS = 8
_DURABLE_WITHIN = 1000
"""Milliseconds that a pause or a grant waits for disk and replicas. A grant that did not get there in time still stands; should a
crash undo it, the server's new run id makes the operator assert its owners again."""


class RedisQueue:
    """QueueAdapter (queues/protocol.py) for one queue and one group.

    `queue` is namespace/name. Methods raise QueueUnreachable, with a sentence for the user, while the server is
    down, refuses the password or is too old; the next call tries again. The constructor raises it for a text that is no
    Redis URL.
    """

    fenced = True

    def __init__(
        self, url: str, queue: str, claimant: Claimant, *, max_delivered_unacked: int = 10_000, max_redeliveries: int = 0
    ) -> None:
        """The limits are those of the queue's spec; `ensure` writes them to all partitions, where readers meet them.
        `max_redeliveries` 0: any number.
        """
        self._queue = queue
        self._limits = (max_delivered_unacked, max_redeliveries)
        self._claimant = claimant
        self._place = where(url)
        pool = aioredis.BlockingConnectionPool.from_url(
            url,
            max_connections=_CONNECTIONS,
            timeout=5,
            retry=Retry(**RETRY),
            **CONNECTION_OPTIONS,
        )
        self._client: aioredis.Redis = aioredis.Redis.from_pool(pool)
        self._server: Server | None = None
        self._made: tuple[str, int] | None = None
        """Run id and partition count for which all partitions were seen to exist."""

    async def incarnation(self) -> str | None:
        """The server's run id and the queue's birth mark: a restart, a failover and a flushed database all give a new one.

        None: the queue has not been made yet.
        """
        server = await self._discover()
        with self._explained():
            born: Any = await self._client.hget(queue_key(self._queue), "born")
        return None if born is None else f"{server.run_id}/{born.decode()}"

    async def warnings(self) -> tuple[str, ...]:
        """What the server's configuration puts at risk ("nothing is lost" needs an append-only file): sentences with the cure."""
        return (self._server or await self._discover()).warnings(self._place)

    async def partitions(self) -> int | None:
        with self._explained():
            count = await self._client.hget(queue_key(self._queue), "partitions")
        return None if count is None else int(count)

    async def ensure(self, count: int) -> None:
        """See QueueAdapter. Costs one round trip once the queue is there. Raises QueueConflict, also for another count."""
        table = RoutingTable.even(1, count)
        key = queue_key(self._queue)
        us = self._claimant
        arguments = (us.group, us.uid, count, table.version, table.to_text(), token_hex(4), *sorted(us.takes_over))
        group, uid, recorded, version, text, ready, *limits = await self._run(scripts.CLAIM, [key], arguments)
        if uid.decode() != us.uid:
            raise QueueConflict(taken(self._queue, us, group, uid))
        if int(recorded) != count:
            raise QueueConflict(
                f"The Redis queue {self._queue} has {int(recorded)} partitions, and their number cannot be changed yet. "
                f"Set spec.partitions to {int(recorded)}, or make a new queue with {count}."
            )
        server = self._server or await self._discover()
        known = tuple(None if limit is None else int(limit) for limit in limits) == self._limits
        if ready and known and self._made == (server.run_id, count):
            return
        await self._create(RoutingTable.from_text(int(version), text.decode()), count)
        await self._run(scripts.READY, [key], self._limits)  # the last: until then all is done again
        self._made = (server.run_id, count)

    async def pause(self, partition: int, epoch: Epoch) -> int:
        return int(await self._run_durably(scripts.PAUSE, self._keys(partition), (epoch,)))

    async def outstanding(self, partition: int) -> int:
        return int(await self._run(scripts.OUTSTANDING, self._keys(partition)))

    async def grant(self, partition: int, uid: Uid | None, epoch: Epoch) -> Owner:
        return _owner(await self._run_durably(scripts.GRANT, self._keys(partition), (uid or "", epoch)))

    async def owners(self) -> Mapping[int, Owner]:
        records = await self._from_each(lambda pipe, keys: pipe.hmget(keys.owner, "uid", "epoch", "paused"))
        return {partition: _owner(record) for partition, record in records.items() if record[1] is not None}

    async def lag(self) -> Mapping[int, int]:
        """Entries added and not finished with, per partition."""
        progress = await self._from_each(lambda pipe, keys: pipe.hmget(keys.progress, "last", "done"))
        return {partition: int(last or 0) - int(done or 0) for partition, (last, done) in progress.items()}

    async def stale_refused(self) -> Mapping[int, int]:
        refused = await self._from_each(lambda pipe, keys: pipe.get(keys.refused))
        return {partition: int(count or 0) for partition, count in refused.items()}

    async def dead_letters(self) -> Mapping[int, int]:
        dead = await self._from_each(lambda pipe, keys: pipe.hget(keys.progress, "dead"))
        return {partition: int(count or 0) for partition, count in dead.items()}

    async def release(self) -> None:
        await self._run(scripts.RELEASE, [queue_key(self._queue)], (self._claimant.uid,))

    async def close(self) -> None:
        await self._client.aclose()

    async def _create(self, table: RoutingTable, count: int) -> None:
        creations = (
            self._run(scripts.CREATE, self._keys(partition), (*self._limits, table.version, *table.slots(partition)))
            for partition in range(count)
        )
        await asyncio.gather(*creations)

    async def _discover(self) -> Server:
        with self._explained():
            server = Server.from_info(await self._client.info())
        if server.version < OLDEST:
            version = ".".join(map(str, server.version))
            raise QueueUnreachable(f"{self._place} is version {version}; {self._queue} needs Redis 7.0 or later, or Valkey.")
        self._server = server
        return server

    async def _run(self, script: scripts.Script, keys: Sequence[str], arguments: Sequence[Any] = ()) -> Any:
        with self._explained():
            try:
                return await self._client.evalsha(script.sha, len(keys), *keys, *arguments)
            except NoScriptError:
                return await self._client.eval(script.text, len(keys), *keys, *arguments)

    async def _run_durably(self, script: scripts.Script, keys: Sequence[str], arguments: Sequence[Any]) -> Any:
        """Run a script, and wait on its connection until disk and replicas have what it wrote, as far as the server can tell."""
        server = self._server or await self._discover()
        if not server.can_wait_for_disk and not server.replicas:
            return await self._run(script, keys, arguments)
        with self._explained():
            async with self._client.pipeline(transaction=False) as pipe:
                pipe.eval(script.text, len(keys), *keys, *arguments)
                if server.can_wait_for_disk:
                    pipe.execute_command("WAITAOF", 1, 0, _DURABLE_WITHIN)
                if server.replicas:
                    pipe.execute_command("WAIT", 1, _DURABLE_WITHIN)
                answer, *waited = await pipe.execute(raise_on_error=False)
            if isinstance(answer, Exception):
                raise answer
        if not all(_arrived(reply) for reply in waited):
            log.warning("%s: a change of owner in %s is not durable after %d ms", self._place, self._queue, _DURABLE_WITHIN)
            self._server = None  # its replicas may have changed: look again next time
        return answer

    async def _from_each(self, ask: Callable[[Any, PartitionKeys], Any]) -> dict[int, Any]:
        """One question to every partition, in one round trip."""
        count = await self.partitions() or 0
        with self._explained():
            async with self._client.pipeline(transaction=False) as pipe:
                for partition in range(count):
                    ask(pipe, self._keys(partition))
                return dict(enumerate(await pipe.execute()))

    def _keys(self, partition: int) -> PartitionKeys:
        return partition_keys(self._queue, partition)

    def _explained(self) -> Any:
        return explained(self._place, self._queue)


def _owner(record: Sequence[Any]) -> Owner:
    uid, epoch, paused = record
    return Owner(Uid(uid.decode()) if uid else None, Epoch(int(epoch or 0)), int(paused or 0) == 1)


def _arrived(reply: Any) -> bool:
    """WAIT answers a number, WAITAOF a pair. An error: the server does not have the command, and there is nothing to wait for."""
    if isinstance(reply, ResponseError):
        return True
    return not isinstance(reply, Exception) and int(reply[0] if isinstance(reply, list) else reply) >= 1
