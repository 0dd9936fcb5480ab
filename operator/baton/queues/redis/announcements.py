"""Announcements: who is concerned by a pause or a grant looks at the partition at once.

Those of the operator travel behind the requests that they are about, in the same round trip, and not in their scripts: in a Redis
Cluster a pod's announcements are on another node than its partitions, and go there by themselves. One that is lost costs time
only, for the ledger says the same a little later.

An announcement says nothing that is believed: who owns a partition stands in its owner record alone, which is asked each time. So
one that is forged, old or repeated costs a question.
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
"""Announcements that wait for a round trip; the oldest are forgotten first."""


class Announcer:
    """Of one queue, to the pods of its group."""

    def __init__(self, url: RedisUrl, queue: str, group: str) -> None:
        """`queue` and `group` are namespace/name."""
        self._url = url
        self._queue = queue
        self._group = group
        self.key = announcements_key(group, "")
        """None that is used, on the node that has them all."""
        self._owners: dict[int, Uid] = {}
        self._fails = False

    def owned(self, partition: int, uid: Uid | None) -> None:
        """The queue says so."""
        if uid is None:
            self._owners.pop(partition, None)
        else:
            self._owners[partition] = uid

    def hints(self, partition: int, receiver: Uid | None = None) -> tuple[Hint, ...]:
        """For a pause or a grant: who owns the partition, and who is to."""
        uids = dict.fromkeys((receiver, self._owners.get(partition)))
        return tuple(Hint(uid, partition) for uid in uids if uid is not None)

    def requests(self, about: Iterable[ScriptRun]) -> list[ScriptRun]:
        """The announcements of these: one for each pod."""
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
        """What became of them."""
        failure = next((answer for answer in answers if isinstance(answer, Exception)), None)
        if failure is not None and not self._fails:
            log.warning(
                "%s: changes of owner in %s cannot be announced (%s), so its consumers wait for their ledgers. Let the "
                "operator's user write the keys pg:{%s}:*.",
                *(self._url.place, self._queue, self._url.hidden(failure), self._group),
            )
        if answers:
            self._fails = failure is not None


class Aside:
    """Sends announcements on a separate connection. Nothing waits for them; those that come meanwhile are sent next, together."""

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
        """What is under way is given up."""
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
"""Records in one round trip."""
_LONGEST = 16_384
"""Characters of one that are read."""
_MOST_QUEUES = 64
"""Connections to nodes of a cluster that are open for records: an announcement can name any queue."""
_BEGIN = "0-0"
_FIELDS = (b"queue", b"partitions")


class RedisAnnouncements:
    """Of one pod, for all queues of its group on one server. One thread waits; any may look, or interrupt it.

    Raises QueueUnreachable; the next call begins with the last announcements again.
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
        """In a cluster, by queue. The one that was used last is the last."""
        self._looking = threading.Lock()
        """By who uses these."""
        self._after = _BEGIN
        """The last announcement that was read."""

    def wait(self, timeout: float) -> Mapping[Partition, Heard]:
        """The owner records of what is announced, as they are now; nothing after `timeout` seconds."""
        try:
            with self._explained():
                woken = self._wakeup.wait({self._key: self._after}, timeout)
                found, failure = self._looked(self._announced(woken[self._key])) if woken else ({}, None)
            if failure is not None and not found:  # else the other queues are not to wait
                raise failure
            return found
        except QueueUnreachable:
            self._after = _BEGIN
            raise

    def look(self, partitions: Iterable[Partition]) -> Mapping[Partition, Heard]:
        """The owner records of these, as they are now. Without those that there are not."""
        found, failure = self._looked(partitions)
        if failure is not None:
            raise failure
        return found

    def _looked(self, partitions: Iterable[Partition]) -> tuple[dict[Partition, Heard], QueueUnreachable | None]:
        """What is found, and what became of the rest: in a cluster each queue may be on another node."""
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
        """End the wait that another thread is in, or the next one."""
        self._wakeup.interrupt()

    def close(self) -> None:
        self._wakeup.close()
        for each in (self._client, *self._clients.values()):
            each.close()

    def _announced(self, news: Sequence[Any]) -> set[Partition]:
        """Partitions. Where there are no news, for the connection is another one: of all that there are."""
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
    """None: there is no such record, or it is none of Baton's, or not ours to read: an announcement can name anything."""
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
    """That one announcement names; none where it does not read as one."""
    queue, named = (fields.get(name, b"")[: _LONGEST + 1].decode(errors="replace") for name in _FIELDS)
    if not fullmatch(r"[a-z0-9.-]{1,253}", queue, ASCII) or len(named) > _LONGEST or count_named(named) > SLOTS:
        return set()
    try:
        return {Partition(QueueName(queue), number) for number in parse_numbers(named)}
    except ValueError:
        return set()
