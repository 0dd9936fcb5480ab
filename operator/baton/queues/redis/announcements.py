"""Announcements tell a pod to read owner records at once after a pause or a grant.

The operator sends them in the same round trip as the requests they announce, but not inside their scripts: in a Redis Cluster a
pod's announcements are on another node than its partitions, and are sent separately. A lost announcement only costs time, because
the ledger has the same a little later.

Pods do not trust announcements: after each one they read the owner record, which alone defines the owner. So a forged, old or
repeated announcement costs one request.
"""

import asyncio
import logging
import threading
from collections import defaultdict, deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from re import ASCII, fullmatch
from typing import Any

import redis
import redis.asyncio as aioredis
from redis.exceptions import ResponseError

from baton.model.ids import Partition, QueueName, Uid
from baton.model.ranges import count_named, format_numbers, parse_numbers
from baton.queues.protocol import Heard, QueueUnreachable
from baton.queues.redis import records
from baton.queues.redis.batches import Hint, ScriptRun, round_trip
from baton.queues.redis.connection import client, is_denial
from baton.queues.redis.explanations import denied_command, explained
from baton.queues.redis.keys import announcements_key, partition_keys, queue_key
from baton.queues.redis.records import ForeignRecord
from baton.queues.redis.routing import SLOTS
from baton.queues.redis.scripts import ANNOUNCE
from baton.queues.redis.url import RedisUrl, read
from baton.queues.redis.wakeup import MOST, Wakeup

log = logging.getLogger(__name__)

_MOST_WAITING = 1024
"""Announcements that may wait for a round trip; the oldest are dropped first."""


class Announcer:
    """Creates the announcements of one queue to the pods of its group."""

    def __init__(self, url: RedisUrl, queue: str, group: str) -> None:
        """`queue` and `group` are namespace/name."""
        self._url = url
        self._queue = queue
        self._group = group
        self.key = announcements_key(group, "")
        """An unused key on the cluster node that has all announcements of the group."""
        self._owners: dict[int, Uid] = {}
        self._fails = False

    def set_owner(self, partition: int, uid: Uid | None) -> None:
        if uid is None:
            self._owners.pop(partition, None)
        else:
            self._owners[partition] = uid

    def hints(self, partition: int, receiver: Uid | None = None) -> tuple[Hint, ...]:
        """Return the pods that a pause or a grant concerns: the owner and the receiver."""
        uids = dict.fromkeys((receiver, self._owners.get(partition)))
        return tuple(Hint(uid, partition) for uid in uids if uid is not None)

    def requests(self, about: Iterable[ScriptRun]) -> list[ScriptRun]:
        """Return the announcements of these requests: one for each pod."""
        found: defaultdict[Uid, set[int]] = defaultdict(set)
        for request in about:
            for hint in request.hints:
                found[hint.uid].add(hint.partition)
        name = self._queue.rpartition("/")[2]
        return [
            ScriptRun(ANNOUNCE, [announcements_key(self._group, uid)], (name, format_numbers(partitions)))
            for uid, partitions in found.items()
        ]

    def answered(self, answers: Sequence[object]) -> None:
        """Handle the answers to announcements: log a failure, once until they succeed again."""
        failure = next((answer for answer in answers if isinstance(answer, Exception)), None)
        if failure is not None and not self._fails:
            log.warning(
                "%s: changes of owner in %s cannot be announced (%s), so its consumers wait for their ledgers. Let the "
                "operator's user write the keys pg:{%s}:*.",
                *(self._url.place, self._queue, self._url.hidden(failure), self._group),
            )
        if answers:
            self._fails = failure is not None


class BackgroundSender:
    """Sends announcements on a separate connection, in the background. Those that are added meanwhile are sent next, together."""

    def __init__(self, client: "aioredis.Redis", announcing: Announcer) -> None:
        self._client = client
        self._announcing = announcing
        self._waiting: deque[ScriptRun] = deque(maxlen=_MOST_WAITING)
        self._task: asyncio.Task[None] | None = None

    def send(self, announcements: Iterable[ScriptRun]) -> None:
        self._waiting.extend(announcements)
        if self._waiting and (self._task is None or self._task.done()):
            self._task = asyncio.create_task(self._send())

    async def close(self) -> None:
        """Cancel announcements in progress and close the connection."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
        await self._client.aclose()

    async def _send(self) -> None:
        while self._waiting:
            announcements = list(self._waiting)
            self._waiting.clear()
            try:
                answers = await round_trip(self._client, announcements)
            except Exception as error:
                answers = [error]
            self._announcing.answered(answers)


_AT_ONCE = 256
"""Owner records per round trip."""
_LONGEST = 16_384
"""Characters of an announcement that are read at most."""
_MOST_QUEUES = 64
"""Open connections to cluster nodes for owner records. Bounded, as an announcement can name any queue."""
_BEGIN = "0-0"
_FIELDS = (b"queue", b"partitions")


class RedisAnnouncements:
    """`Announcements` (baton.queues.consumer_side) to one pod, for all queues of its group on one server. One thread waits; any
    thread may look, or interrupt it.

    Methods raise QueueUnreachable; the next call starts from the last announcements again.
    """

    def __init__(self, url: str, group: str, uid: Uid) -> None:
        """`group` is namespace/name."""
        self._url = read(url, own=True)
        self._group = group
        self._namespace = group.partition("/")[0]
        self._key = announcements_key(group, uid)
        self._client = client(self._url, self._key)
        self._wakeup = Wakeup(self._url, self._key)
        self._clients: dict[QueueName, redis.Redis] = {}
        """Clients of cluster nodes by queue, the most recently used last."""
        self._looking = threading.Lock()
        """Guards `_clients`."""
        self._after = _BEGIN
        """Id of the last announcement that was read."""

    def wait(self, timeout: float) -> Mapping[Partition, Heard]:
        try:
            with self._explained():
                woken = self._wakeup.wait({self._key: self._after}, timeout)
                found, failure = self._looked(self._announced(woken[self._key])) if woken else ({}, None)
            if failure is not None and not found:  # otherwise handle the reachable queues first
                raise failure
            return found
        except QueueUnreachable:
            self._after = _BEGIN
            raise

    def look(self, partitions: Iterable[Partition]) -> Mapping[Partition, Heard]:
        found, failure = self._looked(partitions)
        if failure is not None:
            raise failure
        return found

    def _looked(self, partitions: Iterable[Partition]) -> tuple[dict[Partition, Heard], QueueUnreachable | None]:
        """Return the owner records, and the last failure: in a cluster each queue may be on another node."""
        by_queue: dict[QueueName, list[Partition]] = {}
        for partition in partitions:
            by_queue.setdefault(partition.queue, []).append(partition)
        if self._url.cluster is None:
            with self._explained():
                return self._look(self._client, [partition for asked in by_queue.values() for partition in asked]), None
        found: dict[Partition, Heard] = {}
        failure = None
        for queue, asked in by_queue.items():
            try:
                with self._looking, explained(self._url, f"{self._namespace}/{queue}"):
                    found |= self._look(self._client_of(queue), asked)
            except QueueUnreachable as problem:
                failure = problem
        return found, failure

    def _look(self, client: "redis.Redis", asked: Sequence[Partition]) -> dict[Partition, Heard]:
        found: dict[Partition, Heard] = {}
        for start in range(0, len(asked), _AT_ONCE):
            some = asked[start : start + _AT_ONCE]
            with client.pipeline(transaction=False) as pipe:
                for queue, number in some:
                    pipe.hmget(partition_keys(f"{self._namespace}/{queue}", number).owner, "uid", "epoch", "paused", "within")
                answers = pipe.execute(raise_on_error=False)
            found |= {partition: heard for partition, raw in zip(some, answers, strict=True) if (heard := _heard(raw))}
        return found

    def _client_of(self, queue: QueueName) -> "redis.Redis":
        found = self._clients.pop(queue, None) or client(self._url, queue_key(f"{self._namespace}/{queue}"))
        self._clients[queue] = found
        if len(self._clients) > _MOST_QUEUES:
            self._clients.pop(next(iter(self._clients))).close()
        return found

    def interrupt(self) -> None:
        self._wakeup.interrupt()

    def close(self) -> None:
        self._wakeup.close()
        for each in (self._client, *self._clients.values()):
            each.close()

    def _announced(self, news: Sequence[Any]) -> set[Partition]:
        """Return the partitions that `news` name. Without news (the connection is new) read all existing announcements."""
        if news:
            found: Any = [(entry, dict(zip(raw[::2], raw[1::2], strict=True))) for entry, raw in news]
        else:
            found = self._client.xrange(self._key, count=MOST)
        self._after = found[-1][0].decode() if found else _BEGIN
        return {partition for _, fields in found for partition in _partitions(fields)}

    @contextmanager
    def _explained(self) -> Iterator[None]:
        with explained(self._url, f"group {self._group}"):
            try:
                yield
            except ResponseError as error:
                if not is_denial(error):
                    raise
                raise QueueUnreachable(
                    f"{self._url.place} does not permit its user what {self._key} needs: {denied_command(error) or 'the key'}. "
                    f"Give it the rights that the guide for Redis names by ACL SETUSER, on the keys %R~pg:{{{self._group}}}:*."
                ) from None


def _heard(answer: Any) -> Heard | None:
    """Parse an owner record. None: it does not exist, Baton did not write it, or it may not be read (an announcement can name any
    queue)."""
    if isinstance(answer, Exception) and denied_command(answer):
        raise answer
    try:
        if not isinstance(answer, list) or answer[1] is None:
            return None
        *record, within = answer
        return Heard(*records.owner(record), records.recorded(within, "within") / 1000 if within else None)
    except ForeignRecord:
        return None


def _partitions(fields: Mapping[bytes, bytes]) -> set[Partition]:
    """Return the partitions that an announcement names; none if it is malformed."""
    queue, named = (fields.get(name, b"")[: _LONGEST + 1].decode(errors="replace") for name in _FIELDS)
    if not fullmatch(r"[a-z0-9.-]{1,253}", queue, ASCII) or len(named) > _LONGEST or count_named(named) > SLOTS:
        return set()
    try:
        return {Partition(QueueName(queue), number) for number in parse_numbers(named)}
    except ValueError:
        return set()
