"""The operator's announcements to the pods of a group between two ledgers: which pods a pause or a grant concerns, and to which
pod an owner hands over.

They are the metadata of offsets in a separate group, `<group id>/announcements`, which pods read five times a second: of one
offset, or of several for a moment if many partitions change at once. Only the owner record says who owns a partition: an
announcement that is lost or old costs time or a request, and never order. A forged one can make an owner hand its partition to a
pod that does not exist, which costs time: the operator sees that, and grants above it.
"""

import asyncio
import json
import logging
import math
import threading
import time
from bisect import bisect_right
from collections.abc import Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from typing import Any, NamedTuple
from zlib import crc32

from baton.model.ids import Epoch, Partition, QueueName, Uid
from baton.model.session import LONGEST_UID
from baton.model.wording import quoted
from baton.queues.kafka.address import KafkaAddress
from baton.queues.kafka.client import ASKED_WITHIN, CommittedOffsets, KafkaClient, OffsetCommitRequest
from baton.queues.kafka.direct_handoffs import DirectHandoffs, HandedOver
from baton.queues.kafka.event_loop import EventLoopThread
from baton.queues.kafka.fence import committed
from baton.queues.kafka.fetcher import PodFetchers
from baton.queues.kafka.record import BY_GIVER, Committed, Record
from baton.queues.protocol import Heard, Ownership, QueueUnreachable

# -- The text of announcements. Pure.

LONGEST = 4000
"""Characters; a broker accepts 4,095 by default."""
_PARTITIONS = 2**31
"""Limit of partition numbers in Kafka's protocol."""
_FURTHEST = 2**20
"""A partition's next epoch is at most so much higher."""


def announcing_group(group: str) -> str:
    """Return the group that has a group's announcements. No queue's group has a slash in its id."""
    return f"{group}/announcements"


EVERY_POD = -1
"""Stands for every pod of the group."""


def mark(uid: str | None) -> int:
    """Return a short number for a pod; 0: none. Two pods may share one: then one of them looks without need."""
    return 1 + crc32(uid.encode()) % 9999 if uid else 0


class Change(NamedTuple):
    """A change in a partition."""

    number: int
    """The change's number, which grows. A text is committed with the number of its last change as the offset."""
    partition: int
    epoch: int
    within: int
    """Milliseconds that the owner has for the release; -1: the partition was granted."""
    owner: int
    """`mark` of the present owner."""
    receiver: int
    """`mark` of the next owner."""
    next_epoch: int = 0
    """Under which epoch the owner hands the partition over itself; 0: the operator grants it."""


@dataclass(frozen=True, slots=True)
class Announcement:
    """The latest changes of a queue."""

    queue: str
    changes: tuple[Change, ...]
    pods: Mapping[int, Uid] = field(default_factory=dict)
    """The pods to which partitions are handed over, by their marks, which are unique among them."""

    def to_text(self) -> str:
        """Return the metadata string."""
        named = sorted({one.receiver for one in self.changes if one.next_epoch} & self.pods.keys())
        said = [one if one.next_epoch else one[:-1] for one in self.changes]
        fields: dict[str, Any] = {"baton": 1, "queue": self.queue, "said": said}
        if named:
            fields["pods"] = [[one, self.pods[one]] for one in named]
        return json.dumps(fields, separators=(",", ":"))

    def receiver(self, one: Change) -> Uid | None:
        """Return the pod to which the owner hands the partition over; None: the operator grants it."""
        return self.pods.get(one.receiver) if one.epoch < one.next_epoch <= one.epoch + _FURTHEST else None


def read(text: str | None) -> Announcement | None:
    """Return the announcement, or None if the text is not Baton's."""
    if not text or len(text) > LONGEST + 100:
        return None
    try:
        fields = json.loads(text.partition("\0")[0])
        if fields.get("baton") != 1 or not isinstance(fields["queue"], str):
            return None
        changes = tuple(Change(*one) for one in fields["said"])
        pods = {number: Uid(uid) for number, uid in fields.get("pods", []) if mark(uid) == number and len(uid) <= LONGEST_UID}
        if all(_whole(one) and 0 <= one.partition < _PARTITIONS for one in changes):
            return Announcement(fields["queue"], changes, pods)
    except (ValueError, RecursionError, TypeError, KeyError, AttributeError):
        pass
    return None


def _whole(values: Iterable[object]) -> bool:
    return all(isinstance(one, int) and not isinstance(one, bool) and -1 <= one < 2**63 for one in values)


# -- Which changes stand beside which offsets. Pure.

READ_WITHIN = 2.0
"""Seconds for which a text stays, so that slow pods read it too. A pod that misses it waits for its ledger."""
MOST_TEXTS = 50
"""Texts at a time: each pod reads all of them five times a second."""
_SHORTEST_CHANGE = 15
"""Characters."""


class Texts:
    """The latest changes of a queue, as texts beside the offsets of its topic's first partitions. A change is added to the last
    text; if that is full, another one begins. Texts before the last are removed after all pods have read them."""

    def __init__(self, queue: str, number: int = 0) -> None:
        """`number`: that of the last change so far."""
        self._queue = queue
        self._number = number
        self._changes: dict[int, list[Change]] = {}
        """The changes of each text, by the partition whose offset has it."""
        self._pods: Mapping[int, Uid] = {}
        self._unsent: set[int] = set()
        """Partitions whose text has changed."""
        self._read_at: dict[int, float] = {}
        """When all pods have read the texts that were sent (monotonic)."""

    def begin(self, sent: Mapping[int, int]) -> None:
        """Replace the texts of an earlier operator, given the offset of each."""
        self._number = max(sent.values(), default=0)
        self._unsent |= sent.keys()

    def of_another_topic(self) -> "Texts":
        """Return the texts after the topic was created again: its offsets are gone."""
        return Texts(self._queue, self._number)

    @property
    def several(self) -> bool:
        return len(self._changes) > 1

    @property
    def receivers(self) -> set[int]:
        return {one.receiver for changes in self._changes.values() for one in changes}

    def left(self, now: float) -> float | None:
        """Return the seconds until pods have read the oldest text, so that its offset is free; None: it was not sent."""
        at = self._read_at.get(next(iter(self._changes), -1))
        return None if at is None else max(0.0, at - now)

    def add(self, changes: Sequence[Change], pods: Mapping[int, Uid], partitions: int, now: float) -> int:
        """Add as many of these changes as there is room for, and return how many. `partitions`: those of the topic."""
        self._pods = pods
        for partition in [*self._changes][:-1]:
            if self._is_read(partition, now):
                self._remove(partition)
        numbered = [one._replace(number=self._number + nth) for nth, one in enumerate(changes, 1)]
        added = 0
        while added < len(numbered):
            last = next(reversed(self._changes), None)
            count = 0 if last is None else self._fitting(self._changes[last], numbered[added:])
            if last is None or not count:
                last = self._free(min(partitions, MOST_TEXTS), now)
                if last is None:
                    break
                self._changes[last] = []
                count = max(1, self._fitting([], numbered[added:]))
            self._changes[last] += numbered[added : added + count]
            self._unsent.add(last)
            self._read_at.pop(last, None)
            added += count
        self._number += added
        return added

    def unsent(self) -> list[tuple[int, int, str]]:
        """Return the partitions whose text has changed, with their offsets and texts; an empty text removes the last one."""
        return [(one, *self._beside(self._changes.get(one, []))) for one in sorted(self._unsent)]

    def sent(self, partitions: Collection[int], now: float) -> None:
        self._unsent -= set(partitions)
        self._read_at |= {one: now + READ_WITHIN for one in partitions if one in self._changes}

    def _beside(self, changes: Sequence[Change]) -> tuple[int, str]:
        if not changes:
            return self._number, ""
        return changes[-1].number, Announcement(self._queue, tuple(changes), self._pods).to_text() + "\0"  # as in records

    def _fitting(self, before: Sequence[Change], changes: Sequence[Change]) -> int:
        """Return how many of these changes fit into a text that has others before them."""

        def length(count: int) -> int:
            return len(Announcement(self._queue, (*before, *changes[:count]), self._pods).to_text())

        most = min(len(changes), LONGEST // _SHORTEST_CHANGE)
        return bisect_right(range(most + 1), LONGEST, key=length) - 1

    def _free(self, partitions: int, now: float) -> int | None:
        """Return a partition whose offset has no text, or one that all pods have read."""
        free = next((one for one in range(partitions) if one not in self._changes), None)
        oldest = next(iter(self._changes), None)
        if free is None and oldest is not None and self._is_read(oldest, now):
            self._remove(oldest)
            return oldest
        return free

    def _is_read(self, partition: int, now: float) -> bool:
        return self._read_at.get(partition, math.inf) <= now

    def _remove(self, partition: int) -> None:
        del self._changes[partition], self._read_at[partition]
        self._unsent.add(partition)


# -- The operator's announcements.

log = logging.getLogger(__name__)

_NO_GENERATION, _NO_MEMBER, _KEPT_AS_USUAL = -1, "", -1


class KafkaAnnouncer:
    """Announces one queue's changes to the pods of its group. Nothing waits for an announcement, and a failure is only logged,
    because the ledger says the same a little later."""

    def __init__(self, address: KafkaAddress, group: str, client_id: str, topic: str, queue: str) -> None:
        self._client = KafkaClient(address, announcing_group(group), client_id)
        self._topic = topic
        self._queue = queue
        self._waiting: list[tuple[float, Change]] = []
        """Changes to send, and when they were made (monotonic). They get their number when they are sent."""
        self._added = asyncio.Event()
        """Set when a change is added to those."""
        self._texts = Texts(queue)
        self._begun = False
        """Whether the texts of an earlier operator are known."""
        self._task: asyncio.Task[None] | None = None
        self._fails = False
        self._owners: dict[int, int] = {}
        """The owners' marks by partition, as far as known."""
        self._topic_id, self._partitions = "", 1
        self._pods: dict[int, Uid | None] = {}
        """The pods that were to receive a partition, by mark; None: two have the same."""

    def described(self, topic_id: str, partitions: int) -> None:
        """Take in the topic's id and number of partitions. A topic with another id, or fewer partitions, was created again."""
        if self._topic_id and (topic_id != self._topic_id or partitions < self._partitions):
            self._texts = self._texts.of_another_topic()
            self._owners = {number: owner for number, owner in self._owners.items() if number < partitions}
        self._topic_id, self._partitions = topic_id, partitions

    def owned(self, partition: int, uid: Uid | None) -> None:
        self._owners[partition] = mark(uid)

    def paused(self, partition: int, epoch: int, within: float | None, then: Ownership | None, *, direct: bool) -> None:
        """Announce a pause. `within`: seconds that the owner has. `then`: the next owner. `direct`: the present owner hands over
        itself."""
        receiver = then.uid if then is not None else None
        epoch_then = 0
        if then is not None and receiver is not None and direct:
            number = mark(receiver)
            if self._pods.setdefault(number, receiver) != receiver:
                self._pods[number] = None
            epoch_then = then.epoch
        self._add(partition, epoch, int(1000 * (within or 0.0)), receiver, epoch_then)

    def granted(self, partition: int, epoch: int, uid: Uid | None) -> None:
        self._add(partition, epoch, -1, uid)
        self.owned(partition, uid)

    async def close(self) -> None:
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
        await self._client.close()

    def _add(self, partition: int, epoch: int, within: int, receiver: Uid | None, then: int = 0) -> None:
        change = Change(0, partition, epoch, within, self._owners.get(partition, EVERY_POD), mark(receiver), then)
        self._waiting.append((time.monotonic(), change))
        self._added.set()
        if self._task is None or self._task.done():
            self._task = asyncio.create_task(self._send(), name="baton-announcer")

    async def _send(self) -> None:
        """Send changes as they come, and remove texts that were read, until there is one text."""
        while self._waiting or self._texts.several:
            with suppress(TimeoutError):
                async with asyncio.timeout(self._texts.left(time.monotonic())):
                    await self._added.wait()
            self._added.clear()
            waiting, self._waiting = self._waiting, []
            try:
                self._waiting[:0] = await self._announce(waiting)
                self._fails = False
            except Exception as problem:  # nothing awaits this task
                if not self._fails:
                    log.warning(
                        "cannot announce changes of owner in %s (%s); its consumers wait for their ledgers",
                        self._queue,
                        quoted(str(problem) or repr(problem), 300),
                        exc_info=None if isinstance(problem, QueueUnreachable) else problem,
                    )
                self._fails = True

    async def _announce(self, waiting: list[tuple[float, Change]]) -> list[tuple[float, Change]]:
        """Announce these changes. Return those for which there is no room until pods have read earlier ones."""
        if not self._begun:
            self._texts.begin(await self._sent_before())
            self._begun = True
        named = self._texts.receivers | {one.receiver for _, one in (*waiting, *self._waiting)}
        self._pods = {number: uid for number, uid in self._pods.items() if number in named}
        pods = {number: uid for number, uid in self._pods.items() if uid is not None}
        now = time.monotonic()
        changes = [_left_of(one, int(now - at)) for at, one in waiting]
        added = self._texts.add(changes, pods, self._partitions, now)
        if offsets := self._texts.unsent():
            request = OffsetCommitRequest(
                self._client.group, _NO_GENERATION, _NO_MEMBER, _KEPT_AS_USUAL, [(self._topic, offsets)]
            )
            ask = partial(self._client.to_group, request)
            await self._client.until_taken("OffsetCommit", ask, self._topic, code_of=_worst)
            self._texts.sent([partition for partition, _, _ in offsets], time.monotonic())
        return waiting[added:]

    async def _sent_before(self) -> dict[int, int]:
        """Return the offsets of the texts that this operator, or an earlier one, has sent, by partition."""
        ask = partial(self._client.to_group, CommittedOffsets(self._client.group))
        answer = await self._client.until_taken("OffsetFetch", ask, self._topic)
        those = [one for topic, partitions, _ in answer.topics if topic == self._topic for one in partitions]
        return {partition: offset for partition, offset, _, text, _, _ in those if read(text) is not None}


def _left_of(change: Change, waited: int) -> Change:
    """Return the change after it has waited for room (whole seconds): the owner of a paused partition has less time left."""
    return change._replace(within=max(1, change.within - 1000 * waited)) if change.within > 0 else change


def _worst(answer: Any) -> int:
    return next((code for _, partitions in answer.topics for _, code in partitions if code), 0)


# -- A pod's announcements.

_EVERY, _SHORT_PAUSE = 0.2, 0.015
"""Seconds between two requests for announcements, and at least between two looks at a partition that the pod is to receive."""
_LESS_OFTEN = 40
"""The pause after a longer wait is this fraction (1/n) of the time waited."""
_LOOKED_FOR = 30.0
"""Seconds for which a partition with news is looked at. After that its record, or its topic, cannot be read."""
_HEARD_WITHIN = 0.3
"""Seconds after which all pods have read an announcement. Until then the owner of a paused partition goes on; then it hands the
partition to a pod that expects it."""
_LONG = 1000
"""Milliseconds that the owner of a paused partition needs for a direct hand-off."""
_GRANTED_WITHIN = 3.0
"""Seconds for the operator's grant, once the owner's time is up."""


class KafkaAnnouncements:
    """`Announcements` (baton.queues.consumer_side) to one pod, for all queues of its group. One thread waits; any thread may
    look, or interrupt it."""

    def __init__(
        self,
        address: KafkaAddress,
        group: str,
        uid: Uid,
        loop: EventLoopThread,
        handoffs: DirectHandoffs,
        fetchers: PodFetchers,
    ) -> None:
        """`group`: the group id in Kafka. `loop`: the pod's. `handoffs`: told about hand-offs, for the pod's readers. `fetchers`:
        the pod's."""
        self._handoffs = handoffs
        self._fetchers = fetchers
        self._uid = uid
        self._mark = mark(uid)
        self._loop = loop.user()
        self._announced = KafkaClient(address, announcing_group(group), "baton")
        self._records = KafkaClient(address, group, "baton")
        self._seen: dict[tuple[str, int], tuple[int, str]] = {}
        """The last text beside each offset, by topic and partition, and the offset."""
        self._topics: dict[QueueName, str] = {}
        self._paused: dict[Partition, tuple[int, float]] = {}
        """The last pause of each: its epoch, and until when the owner has it (monotonic)."""
        self._paused_at: dict[Partition, float] = {}
        """When to report pauses of this pod's partitions (monotonic): by then their receivers have read of them."""
        self._due: dict[Partition, float] = {}
        """Partitions with news whose records were not seen yet, and when they were heard of (monotonic): the records are just
        being written, or a look has failed."""
        self._awaited: set[Partition] = set()
        """Partitions that this pod is about to receive."""
        self._awaited_since = 0.0
        """When the last of them was announced (monotonic)."""
        self._awaited_until = float("-inf")
        """When all of them should have been received (monotonic)."""
        self._expected: set[Partition] = set()
        """The awaited partitions that are prefetched."""
        self._ask_at = 0.0
        """When the next request for announcements is due (monotonic)."""
        self._interrupted = threading.Event()

    def wait(self, timeout: float) -> Mapping[Partition, Heard]:
        until = time.monotonic() + timeout
        while not self._interrupted.is_set():
            if time.monotonic() >= self._ask_at:
                self._add_due(self._news())
                self._ask_at = time.monotonic() + _EVERY
            now = time.monotonic()
            self._add_due(one for one, at in self._paused_at.items() if at <= now)
            self._paused_at = {one: at for one, at in self._paused_at.items() if at > now}
            awaited = self._awaited if now < self._awaited_until else set()
            seen, problem = self._look_once(self._due.keys() | awaited)
            took = time.monotonic() - now
            if found := {one: heard for one, heard in seen.items() if one in self._due or heard.uid == self._uid}:
                self._due = {one: at for one, at in self._due.items() if one not in found}
                self._awaited -= {one for one, heard in found.items() if heard.uid == self._uid}
                return found
            self._due = {one: at for one, at in self._due.items() if now - at < _LOOKED_FOR}
            if problem is not None and not self._due:
                raise problem
            if time.monotonic() >= until:
                break
            next_at = min(self._ask_at, *self._paused_at.values()) if self._paused_at else self._ask_at
            rest = max(0.0, next_at - time.monotonic())
            if problem is None and (self._due or awaited):
                since = max(self._awaited_since, *self._due.values(), 0.0)
                rest = min(rest, max(_SHORT_PAUSE, took, (now - since) / _LESS_OFTEN))
            self._interrupted.wait(rest)
        self._interrupted.clear()
        return {}

    def look(self, partitions: Iterable[Partition], *, beside_pending: bool = True) -> Mapping[Partition, Heard]:
        """See Announcements. While a record is being written, the one before counts, so a partition with a commit under way is
        not taken for one that is gone; `beside_pending` False: it is left out."""
        wanted = {(self._topics[one.queue], one.number): one for one in partitions if one.queue in self._topics}
        found: dict[Partition, Heard] = {}
        for topic in {topic for topic, _ in wanted}:
            numbers = tuple(sorted(number for name, number in wanted if name == topic))
            asked_at = time.monotonic()
            asked = committed(self._records, topic, numbers, beside_pending=beside_pending)
            seen, _ = self._loop.run(asked, ASKED_WITHIN)
            for key, one in seen.items():
                if one.record is None:
                    continue
                self._handoffs.saw(wanted[key], one.record.epoch)
                self._expect(wanted[key], topic, one)
                if one.record.uid == self._uid and one.record.reader == BY_GIVER:
                    self._handoffs.handed_over(wanted[key], HandedOver(topic, one, asked_at))
                found[wanted[key]] = self._as_heard(wanted[key], one.record)
        return found

    def interrupt(self) -> None:
        self._interrupted.set()

    def close(self) -> None:
        self._loop.close(self._announced.close, self._records.close)
        self._fetchers.close()

    def _look_once(self, partitions: Iterable[Partition]) -> tuple[Mapping[Partition, Heard], Exception | None]:
        """Look at the partitions of one queue after the other, so that a bad announcement does not block other queues. Return
        what was seen, and an error. After an error, do not await the queue's partitions: their grants are announced too."""
        found: dict[Partition, Heard] = {}
        problem: Exception | None = None
        by_queue: dict[QueueName, set[Partition]] = {}
        for one in partitions:
            by_queue.setdefault(one.queue, set()).add(one)
        for those in by_queue.values():
            try:
                found |= self.look(those, beside_pending=False)
            except Exception as failed:
                problem = failed
                self._awaited -= those
                self._expected -= those
        return found, problem

    def _add_due(self, partitions: Iterable[Partition]) -> None:
        now = time.monotonic()
        self._due |= dict.fromkeys(partitions, now)

    def _expect(self, partition: Partition, topic: str, seen: Committed) -> None:
        """Prefetch the partition from its owner's offset if this pod is about to receive it."""
        if partition in self._awaited and partition not in self._expected and seen.offset >= 0:
            self._expected.add(partition)
            self._fetchers.expect(topic, partition.number, seen.offset)

    def _as_heard(self, partition: Partition, record: Record) -> Heard:
        epoch, until = self._paused.get(partition, (0, 0.0))
        paused = epoch == record.epoch
        return Heard(record.uid, Epoch(record.epoch), paused, max(0.0, until - time.monotonic()) if paused else None)

    def _news(self) -> set[Partition]:
        """Return partitions announced since the last request."""
        answer = self._loop.run(self._ask(), ASKED_WITHIN)
        found: set[Partition] = set()
        for topic, those, _ in answer:
            found |= self._apply(topic, {one: (offset, text) for one, offset, _, text, code, _ in those if not code})
        return found

    def _apply(self, topic: str, texts: Mapping[int, tuple[int, str]]) -> set[Partition]:
        """Take in the texts beside the offsets of a topic. Return the partitions whose changes concern this pod now."""
        unseen: list[tuple[Change, Announcement]] = []
        for place, (offset, text) in texts.items():
            last, known = self._seen.get((topic, place), (0, ""))
            announcement = read(text) if (offset, text) != (last, known) else None
            if announcement is not None:
                after = last if last < offset else 0  # otherwise another operator numbers them
                unseen += [(one, announcement) for one in announcement.changes if one.number > after]
                self._seen[topic, place] = offset, text
        concerned: set[Partition] = set()
        for one, announcement in sorted(unseen, key=lambda found: found[0].number):
            queue = QueueName(announcement.queue)
            self._topics[queue] = topic
            partition = Partition(queue, one.partition)
            self._awaited.discard(partition)
            self._expected.discard(partition)
            self._paused_at.pop(partition, None)
            if not {EVERY_POD, self._mark} & {one.owner, one.receiver}:
                continue
            if one.within < 0:
                concerned.add(partition)
                continue
            now = time.monotonic()
            if one.receiver == self._mark:
                self._awaited.add(partition)
                self._awaited_since = now
                self._awaited_until = max(self._awaited_until, now + one.within / 1000 + _GRANTED_WITHIN)
            if one.owner in (EVERY_POD, self._mark):
                self._paused[partition] = one.epoch, now + one.within / 1000
                uid = announcement.receiver(one) if one.within >= _LONG else None
                then = Ownership(uid, Epoch(one.next_epoch)) if uid and uid != self._uid else None
                self._handoffs.set_next_owner(partition, Epoch(one.epoch), then)
                if then is not None:
                    self._paused_at[partition] = now + _HEARD_WITHIN
                else:
                    concerned.add(partition)
        return concerned

    async def _ask(self) -> list[tuple[str, list[tuple[int, int, int, str, int, dict[int, bytes]]], dict[int, bytes]]]:
        ask = partial(self._announced.to_group, CommittedOffsets(self._announced.group))
        return list((await self._announced.until_taken("OffsetFetch", ask, "")).topics)
