"""A topic of Kafka, as the operator sees it for one group."""

import asyncio
import logging
import random
import time
from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from math import inf

from baton.model.ids import Epoch, Uid
from baton.queues.kafka.address import KafkaAddress
from baton.queues.kafka.announcements import KafkaAnnouncer
from baton.queues.kafka.client import KafkaClient, StaleToken
from baton.queues.kafka.event_loop import AskedTogether, each
from baton.queues.kafka.fence import GRANTED_WITHIN, PartitionTransactions, committed
from baton.queues.kafka.guard import CLIENT_ID, GuardMember, refuse_members
from baton.queues.kafka.kind import KIND
from baton.queues.kafka.record import BY_GIVER, Committed, Record, Token
from baton.queues.kafka.topic import (
    CutOff,
    LogEnd,
    OpenTransactions,
    Topic,
    both_ends,
    cut_off,
    describe,
    lag,
    lost_entries,
    offsets,
    offsets_of,
    place_warnings,
    unfinished,
)
from baton.queues.offsets import PartitionOffsets, Reached
from baton.queues.protocol import (
    IN_USE,
    NO_OWNER,
    Claimant,
    Ownership,
    PartitionUnavailable,
    QueueCheck,
    QueueConflict,
    QueueUnreachable,
)

log = logging.getLogger(__name__)

# -- What the operator opens a topic with.


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicToOpen:
    """What the spec of a PartitionedQueue says of its topic."""

    topic: str
    queue: str
    """The PartitionedQueue's name."""
    latest: bool = False
    """A group that has committed nothing begins at the end."""
    max_redeliveries: int = 0
    max_unacknowledged: int = 0
    """0: any number."""
    dead_letters: str = ""
    """The topic for dead letters; empty: the default."""


# -- What has become of paused partitions, by their records: their owners still have them, have let go, or have handed them
# over. Pure.


class Pauses:
    """Of one topic, as its operator has paused them."""

    def __init__(self) -> None:
        self._paused: dict[int, Epoch] = {}
        self.let_go: set[int] = set()
        """Whose owners were seen to have let go since they were paused: they may be granted without another look."""
        self._told: dict[int, Epoch] = {}
        """The epoch of each partition's owner, as it was told last."""

    def begin(self, partition: int, epoch: Epoch) -> None:
        """It is paused under this epoch."""
        self._paused[partition] = epoch
        self.let_go.discard(partition)

    def epoch(self, partition: int) -> Epoch | None:
        """Under which it was paused last."""
        return self._paused.get(partition)

    def outstanding(self, partition: int, epoch: Epoch | None, record: Record | None) -> int | Ownership:
        """How much is left of what was paused under this epoch, where this record stands. IN_USE: the owner has not let go, and
        only it knows how much it has in hand. One to whom it was handed over: until that was `told`; who asks again grants."""
        if record is None or epoch is None or record.epoch < epoch:
            return 0
        if record.epoch == epoch:
            if not record.released:
                return IN_USE
            self.let_go.add(partition)
            return 0
        return Ownership(record.uid, record.epoch) if self.is_news(partition, record) else 0

    def is_news(self, partition: int, record: Record) -> bool:
        """True if the paused owner has handed the partition over to this one, and neither that nor a later grant was told: a look
        may be older than the last grant."""
        paused = self._paused.get(partition)
        handed_over = record.reader == BY_GIVER if paused is None else record.epoch > paused
        return record.uid is not None and handed_over and record.epoch > self._told.get(partition, Epoch(0))

    def told(self, partition: int, epoch: Epoch) -> None:
        """That its owner has it under this epoch."""
        self._told[partition] = epoch


# -- The adapter.

_TRIES = 6
"""To grant, while another operator grants, too. After the first, the pause is at most as long as the try took,"""
_LONGEST_TRY = 0.2
"""which counts as so many seconds at most."""
_ELECTS_WITHIN, _PAUSE = 2.0, 0.02
"""Seconds for which a partition without a leader is waited for, and between looks for it: a new one has none for a moment."""
_A_RELEASE = 2.0
"""Seconds after which one answer to `release` gives up no further partition."""


class KafkaQueue:
    """QueueAdapter (queues/protocol.py) and SetsOffsets (queues/offsets.py) for one topic and one group. Methods raise
    QueueUnreachable, with a sentence for the user; the next call tries again."""

    fenced = KIND.fenced
    answers_within = KIND.answers_within

    def __init__(self, address: KafkaAddress, group: str, spec: TopicToOpen, claimant: Claimant) -> None:
        self._spec = spec
        self._claimant = claimant
        self._client = KafkaClient(address, group, CLIENT_ID)
        self._transactions = PartitionTransactions(self._client, spec.topic)
        self._now = AskedTogether(self._transactions.now)
        self._announcer = KafkaAnnouncer(address, group, CLIENT_ID, spec.topic, spec.queue)
        self._guard = GuardMember(address, group, spec.topic)
        self._given_up = False
        """Another group may have the queue."""
        self._open = OpenTransactions(self._client, spec.topic)
        self._topic: Topic | None = None
        """As it was described last."""
        self._begun_with = claimant.incarnation
        """The id of the topic with which the group began."""
        self._first: int | None = None
        """How many partitions it had when the group began, once that is known: what it has got since is read from its beginning.
        0: it is another one, made again since."""
        self._cut_off: dict[int, CutOff] = {}
        self._pauses = Pauses()

    async def check(self) -> QueueCheck:
        """See QueueAdapter. The topic's id is its incarnation: one that was deleted and made again has another."""
        topic = await self._described()
        committed = await self._committed(topic)
        over_place = self._transactions.unsettled
        asked = offsets(self._client, topic, dict.fromkeys(committed, LogEnd.END), uncommitted=True)
        (begins, ends), last = await asyncio.gather(both_ends(self._client, topic, committed), asked)
        owners = {number: self._owner(number, one.record) for number, one in committed.items() if one.record is not None}
        for number, owner in owners.items():
            self._announcer.owned(number, owner.uid)
        lost = lost_entries(committed, begins)
        self._cut_off = cut_off(_of_this(topic, committed), last, self._cut_off)
        self._open.saw(ends, last, over_place)
        warnings = place_warnings(self._client.address.place, self._client.group, topic.name, lost, self._cut_off)
        return QueueCheck(
            topic.topic_id,
            topic.partitions,
            owners,
            lag(committed, begins, ends),
            finished=sum(max(0, one.offset) for one in committed.values()),
            warnings=warnings + self._open.warnings() + self._guard.warnings(),
            zones=topic.racks,
            unfinished=unfinished(committed, ends),
        )

    async def ensure(self, count: int | None) -> None:
        """See QueueAdapter. The topic is made by its owner, so this only makes sure that the group has no other user, and the
        queue one topic."""
        await refuse_members(self._client, self._spec.topic)
        found, _ = await committed(self._client)
        for (name, _), one in found.items():
            self._refuse_others(one.record, name)
        self._guard.start()  # first: even if the topic is wrong, no other may commit, and the offset is kept
        topic = await self._described()
        await self._give_up_elsewhere(found)
        await self._note_beginning(topic)

    async def pause(
        self, partition: int, epoch: Epoch, within: float | None = None, then: Ownership | None = None
    ) -> int | Ownership:
        """The broker cannot keep an owner from reading: it is told; its record says when it let go, or whose the partition is
        since then."""
        self._pauses.begin(partition, epoch)
        now = await self._now.of(partition)
        direct = self._changes_only_owner((now or await self._before(partition)).record)
        self._announcer.paused(partition, epoch, within, then, direct=direct)
        return self._outstanding(partition, epoch, now)

    async def outstanding(self, partition: int) -> int | Ownership:
        """See `Pauses.outstanding`."""
        return self._outstanding(partition, self._pauses.epoch(partition), await self._now.of(partition))

    async def grant(self, partition: int, uid: Uid | None, epoch: Epoch) -> Ownership:
        """See QueueAdapter. First a new token, which shuts out holders of earlier ones; then the offset is read, which cannot
        change any more under an earlier one; then offset and record are written under the new one."""
        owner = await self._granted_in_time(partition, uid, epoch)
        self._pauses.told(partition, owner.epoch)
        return owner

    async def release(self) -> bool:
        """See QueueAdapter. Its PartitionedQueue may name another topic since the last look, or one that is not there."""
        found, _ = await committed(self._client, beside_pending=True)
        if not await self._give_up_elsewhere(found, _A_RELEASE):
            return False
        topic = await describe(self._client, self._spec.topic)
        records = {number: one.record for number, one in (await self._committed(topic)).items() if one.record is not None}
        ours = [n for n, one in records.items() if (one.group, one.queue) == (self._claimant.uid, self._spec.queue)]
        self._given_up = await self._give_up(self._spec.topic, ours, _A_RELEASE)
        return self._given_up

    async def offsets(self) -> Mapping[int, PartitionOffsets]:
        """See TellsOffsets. A commit under way is left alone."""
        topic = await self._described()
        return await self._offsets_of(topic, tuple(sorted(topic.leaders)))

    async def reach(self, partition: int, end: int, since: int | None = None) -> Reached:
        """See SetsOffsets. `entries` counts offsets: marks of transactions and what was compacted away, too."""
        topic = self._topic or await self._described()
        now = (await self._offsets_of(topic, (partition,))).get(partition)
        found = {partition: end} if since is None else await offsets(self._client, topic, {partition: since})
        if now is None or partition not in found:
            raise self._without_leader(partition)
        offset = min(end, found[partition]) if found[partition] >= 0 else end
        return Reached(offset, max(0, offset - max(now.committed or 0, now.earliest)))

    async def set_offset(self, partition: int, epoch: Epoch, offset: int) -> None:
        """See SetsOffsets. A grant without an owner, at the epoch that there is. The broker refuses earlier tokens; a process
        that takes a later one finds no owner in the record, and commits nothing."""
        for _ in range(_TRIES):
            self._refuse_granted(partition, epoch, await self._before(partition))  # first: a new token would hold an owner up
            try:
                return await self._set(partition, epoch, offset)
            except StaleToken:  # an operator grants just now
                await asyncio.sleep(GRANTED_WITHIN)
        raise self._others_grant(partition)

    async def close(self) -> None:
        await (self._guard.leave() if self._given_up else self._guard.close())
        await self._announcer.close()
        await self._client.close()

    # -- grants

    async def _granted_in_time(self, partition: int, uid: Uid | None, epoch: Epoch) -> Ownership:
        """The same as `_granted`, also where others grant at the same time."""
        for tries in range(_TRIES):
            if partition not in self._pauses.let_go:
                record = (await self._now.of(partition) or await self._before(partition)).record  # what is under way may stay so
                if record is not None and self._pauses.is_news(partition, record):
                    return self._handed_over(partition, record)
                if record is not None and record.epoch >= epoch:
                    self._refuse_others(record)
                    return Ownership(record.uid, record.epoch)
            self._pauses.let_go.discard(partition)
            began = time.monotonic()
            try:
                return await self._granted(partition, uid, epoch)
            except StaleToken:  # another operator grants: it goes first, however long a grant takes here
                took = min(time.monotonic() - began, _LONGEST_TRY)
                await asyncio.sleep(random.uniform(0, took) * 2**tries)
        raise self._others_grant(partition)

    async def _granted(self, partition: int, uid: Uid | None, epoch: Epoch) -> Ownership:
        """Raises StaleToken where another had a token since."""
        token = await self._transactions.init(partition)
        seen, _ = await asyncio.gather(self._transactions.stable(partition), self._transactions.begin(partition, token))
        self._refuse_others(seen.record)
        offset, record = await self._next(partition, uid, epoch, token, seen)
        await self._transactions.end(partition, offset, record, seen)
        self._announcer.granted(partition, record.epoch, record.uid)
        return Ownership(record.uid, record.epoch)

    async def _next(self, partition: int, uid: Uid | None, epoch: Epoch, token: Token, seen: Committed) -> tuple[int, Record]:
        """The offset and the record to be written. A record that is as high already keeps its owner, and gets the token."""
        before = seen.record
        ours = before is not None and before.group == self._claimant.uid
        if before is not None and ours and (before.epoch >= epoch or self._pauses.is_news(partition, before)):
            return seen.offset, replace(before, token=token)
        return await self._following(partition, uid, epoch, token, seen)

    async def _following(
        self, partition: int, uid: Uid | None, epoch: Epoch, token: Token, seen: Committed
    ) -> tuple[int, Record]:
        """The offset and the record of this owner, after what is `seen`."""
        before, spec = seen.record, self._spec
        topic = self._topic or await self._described()
        same = before is None or before.topic_id == topic.topic_id
        offset = seen.offset if seen.offset >= 0 and same else await self._start(topic, partition)
        again, stale, ends = await self._read_before(topic, partition, before, offset) if before and same else (0, 0, {})
        record = Record(
            group=self._claimant.uid,
            queue=spec.queue,
            uid=uid,
            epoch=epoch,
            topic_id=topic.topic_id,
            token=token,
            first=self._first if self._first is not None else topic.partitions,
            again=again,
            stale=stale,
            tries=before.tries if before and same else {},
            ends=ends,
            released=uid is None,
            most=spec.max_redeliveries,
            unacked=spec.max_unacknowledged,
            dead_letters=spec.dead_letters,
        )
        if before is not None and same and before.query:  # a query's place does not depend on who owns the partition
            record = replace(record, query=before.query, reserved=before.reserved)
        return offset, record

    def _changes_only_owner(self, record: Record | None) -> bool:
        """A grant would change nothing else in it: the spec has changed nothing of what an owner is to know."""
        topic, spec = self._topic, self._spec
        if record is None or record.query or topic is None:
            return False
        known = record.group, record.topic_id, record.most, record.unacked, record.dead_letters
        now = self._claimant.uid, topic.topic_id, spec.max_redeliveries, spec.max_unacknowledged, spec.dead_letters
        return known == now

    async def _start(self, topic: Topic, partition: int) -> int:
        """Where a group begins that has committed nothing. What came with a new partition or a new topic is all read."""
        is_new = self._first is not None and partition >= self._first
        place = LogEnd.END if self._spec.latest and not is_new else LogEnd.BEGINNING
        until = time.monotonic() + _ELECTS_WITHIN
        while partition not in (found := await offsets(self._client, topic, {partition: place})):
            if time.monotonic() >= until:
                raise self._without_leader(partition)
            await asyncio.sleep(_PAUSE)
            topic = await self._described()
        return found[partition]

    async def _read_before(self, topic: Topic, partition: int, before: Record, offset: int) -> tuple[int, int, Mapping[int, int]]:
        """How far an owner may have read that did not let go, how far it may yet, and on what it may have ended: see `Record`. A
        query reads on."""
        if before.query or not before.left_behind:
            return before.again, before.stale, before.ends
        found = await offsets(self._client, topic, {partition: LogEnd.END})
        if partition not in found:  # another broker leads it since the last look
            found = await offsets(self._client, await self._described(), {partition: LogEnd.END})
        end = found.get(partition, before.reserved)
        return before.again_for_next(end), before.stale_for_next(), before.ends_for_next(offset, end)

    # -- giving up owner records: those of the queue, or what it has in a topic that is not its own

    async def _give_up_elsewhere(self, found: Mapping[tuple[str, int], Committed], within: float = inf) -> bool:
        """Give up the queue's records in other topics, which come from an earlier PartitionedQueue or a foreign commit. `found`:
        all records of the group. Return False if `within` seconds were not enough."""
        ours = {self._claimant.uid, *self._claimant.takes_over}
        others = {place: one.record for place, one in found.items() if place[0] != self._spec.topic and one.record is not None}
        places = [place for place, one in others.items() if one.queue == self._spec.queue and one.group in ours]
        for topic in sorted({topic for topic, _ in places}):
            log.warning(
                "the group %s has owner records of the queue %s in the topic %s, and not in %s alone: its PartitionedQueue had "
                "that topic, or a foreign user has committed them there. They are given up",
                *(self._client.group, self._spec.queue, topic, self._spec.topic),
            )
            try:
                if not await self._give_up(topic, [number for name, number in places if name == topic], within):
                    return False
            except QueueUnreachable as problem:
                raise QueueUnreachable(
                    f"Queue {self._spec.queue} was read from the topic {topic} before, and its records there cannot be given up, "
                    "by which pods would read on there. Let the operator READ that topic, or take them out by "
                    f"kafka-consumer-groups.sh --delete-offsets --topic {topic}: {problem}"
                ) from None
        return True

    async def _give_up(self, topic: str, partitions: Collection[int], within: float) -> bool:
        """These partitions of a topic; answers as `_give_up_elsewhere`."""
        transactions = PartitionTransactions(self._client, topic)

        async def give_up(partition: int) -> None:
            try:
                await transactions.renewed(partition, _given_up)
            except StaleToken:
                raise self._others_grant(partition, topic) from None

        given_up = await each(give_up, partitions, within)
        return len(given_up) == len(partitions)

    # -- setting the offset

    async def _set(self, partition: int, epoch: Epoch, offset: int) -> None:
        """Raises StaleToken where another had a token since."""
        token = await self._transactions.init(partition)
        topic = await self._described()
        await self._note_beginning(topic)
        seen, (begins, ends), _ = await asyncio.gather(
            self._transactions.stable(partition),
            both_ends(self._client, topic, (partition,)),
            self._transactions.begin(partition, token),
        )
        self._refuse_granted(partition, epoch, seen)
        if partition not in begins or partition not in ends:
            raise self._without_leader(partition)
        if not begins[partition] <= offset <= ends[partition]:
            raise QueueConflict(f"{self._spec.topic}/{partition} has no offset {offset} any more: begin again")
        _, record = await self._following(partition, None, epoch, token, seen)
        there = seen.record is None or seen.record.topic_id == record.topic_id
        place = min(seen.offset, ends[partition]) if there else -1
        await self._transactions.end(partition, offset, _set_to(record, offset, place), seen)

    def _refuse_granted(self, partition: int, epoch: Epoch, seen: Committed) -> None:
        self._refuse_others(seen.record)
        if seen.record is not None and seen.record.epoch > epoch:
            raise QueueConflict(f"{self._spec.topic}/{partition} was granted to a member meanwhile")

    # -- what is there

    async def _described(self) -> Topic:
        """As it is now. All of one that was made in the place of the first is read, as of new partitions."""
        topic = self._topic = await describe(self._client, self._spec.topic)
        self._begun_with = self._begun_with or topic.topic_id
        if topic.topic_id != self._begun_with:
            self._first = 0
        return topic

    async def _note_beginning(self, topic: Topic) -> None:
        """How many partitions the topic had when the group began."""
        if self._first is None:
            records = [one.record for one in (await self._committed(topic)).values() if one.record is not None]
            known = [record.first if record.topic_id == topic.topic_id else 0 for record in records]
            self._first = min(known, default=topic.partitions)

    async def _offsets_of(self, topic: Topic, partitions: tuple[int, ...]) -> dict[int, PartitionOffsets]:
        committed = await self._transactions.before_pending(partitions)
        begins, ends = await both_ends(self._client, topic, committed)
        return offsets_of(committed, begins, ends)

    def _without_leader(self, partition: int) -> PartitionUnavailable:
        place, topic = self._client.address.place, self._spec.topic
        return PartitionUnavailable(f"{place}: partition {partition} of {topic} has no leader: check whether all brokers run")

    async def _committed(self, topic: Topic) -> dict[int, Committed]:
        return await self._transactions.committed(tuple(sorted(topic.leaders)))

    async def _before(self, partition: int) -> Committed:
        """What was committed before the commit that is under way."""
        return (await self._transactions.before_pending((partition,)))[partition]

    def _outstanding(self, partition: int, epoch: Epoch | None, now: Committed | None) -> int | Ownership:
        """How much is left where this is seen of it. A partition whose owner is just committing is asked about again: this waits
        for no commit, and aborts none."""
        if now is None:
            return IN_USE
        left = self._pauses.outstanding(partition, epoch, now.record)
        return self._handed_over(partition, now.record) if now.record is not None and isinstance(left, Ownership) else left

    def _handed_over(self, partition: int, record: Record) -> Ownership:
        """To this owner: it is told, and announced."""
        self._refuse_others(record)
        self._pauses.told(partition, record.epoch)
        self._announcer.granted(partition, record.epoch, record.uid)
        return Ownership(record.uid, record.epoch)

    def _owner(self, partition: int, record: Record | None) -> Ownership:
        if record is None:
            return NO_OWNER
        return Ownership(record.uid, record.epoch, paused=self._pauses.epoch(partition) == record.epoch)

    # -- who else is there

    def _refuse_others(self, record: Record | None, topic: str | None = None) -> None:
        """A group of Kafka is one ConsumerGroup's, and there each topic is one queue's: by the records of the group pods find the
        topic of their queue, so a foreign record is refused in any `topic`; None: in the queue's own."""
        us, queue, place = self._claimant, self._spec.queue, f"The group {self._client.group} of {self._client.address.place}"
        if record is None or not record.group:
            return
        if record.group != us.uid and record.group not in us.takes_over:
            namespace, _, name = us.group.partition("/")
            raise QueueConflict(
                f"{place} belongs to another ConsumerGroup (uid {record.group}), for the topic {topic or self._spec.topic}: "
                f"delete that one, or make queue {queue} with another spec.source.kafka.groupId. If it is gone for good, or a "
                f"tool has copied its offsets, take them over: kubectl annotate consumergroup {name} -n {namespace} --overwrite "
                f"baton.dev/take-over={record.group}"
            )
        second = topic in (None, self._spec.topic) and record.group == us.uid and record.queue != queue
        if second and us.uid not in us.takes_over:
            raise QueueConflict(
                f"{place} reads the topic {self._spec.topic} for the queue {record.queue}: take one of the two out of the "
                f"ConsumerGroup's spec.queues, or make queue {queue} with another spec.source.kafka.groupId; if the queue "
                f"{record.queue} is gone, say so by the annotation baton.dev/take-over with the ConsumerGroup's own uid, {us.uid}"
            )

    def _others_grant(self, partition: int, topic: str | None = None) -> PartitionUnavailable:
        """Another takes its tokens."""
        return PartitionUnavailable(
            f"{self._client.address.place}: another operator grants partition {partition} of {topic or self._spec.topic} just "
            f"now, under the group {self._client.group}: see that only one does"
        )


def _given_up(seen: Committed) -> Record | None:
    """The record without its group and owner; what the owner had in hand stays written down for the next one."""
    return replace(seen.record, group="", uid=None) if seen.record is not None else None


def _set_to(record: Record, offset: int, place: int) -> Record:
    """What the next owner is to know that begins at this offset; the group was at `place` of this log; -1: it never was there.
    What comes again there is marked as redelivered, and not handed out one by one: no process has ended on it."""
    if offset < place:
        record = replace(record, again=0, stale=max(record.marked, place))
    return replace(record.at(offset), query=record.query + 1 if record.query else 0)


def _of_this(topic: Topic, committed: Mapping[int, Committed]) -> dict[int, Committed]:
    """Without those that were committed in one that was there before."""
    return {n: one for n, one in committed.items() if one.record is None or one.record.topic_id == topic.topic_id}
