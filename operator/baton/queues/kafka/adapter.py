"""A topic of Kafka, as the operator uses it for one group."""

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
    without_leader,
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


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicToOpen:
    """A topic, as the spec of a PartitionedQueue describes it."""

    topic: str
    queue: str
    """The PartitionedQueue's name."""
    latest: bool = False
    """Whether a group that has committed nothing begins at the end."""
    max_redeliveries: int = 0
    max_unacknowledged: int = 0
    """0: no limit."""
    dead_letters: str = ""
    """The topic for dead letters; empty: the default."""


# -- The state of paused partitions, by their records: not released, released, or handed over by their owners. Pure.


class Pauses:
    """The partitions of one topic that the operator has paused."""

    def __init__(self) -> None:
        self._paused: dict[int, Epoch] = {}
        self.released: set[int] = set()
        """Partitions that their owners have released since the pause: they may be granted without another look."""
        self._reported: dict[int, Epoch] = {}
        """The epoch of each partition's owner, as last reported."""

    def begin(self, partition: int, epoch: Epoch) -> None:
        self._paused[partition] = epoch
        self.released.discard(partition)

    def epoch(self, partition: int) -> Epoch | None:
        return self._paused.get(partition)

    def outstanding(self, partition: int, epoch: Epoch | None, record: Record | None) -> int | Ownership:
        """Return what is outstanding of a partition paused under this epoch, given its record. IN_USE: the owner has not released
        it, and only the owner knows how much it has in hand. An owner: the partition was handed over to it, and that was not yet
        `reported`; after that 0, and the next call of grant grants."""
        if record is None or epoch is None or record.epoch < epoch:
            return 0
        if record.epoch == epoch:
            if not record.released:
                return IN_USE
            self.released.add(partition)
            return 0
        return Ownership(record.uid, record.epoch) if self.is_news(partition, record) else 0

    def is_news(self, partition: int, record: Record) -> bool:
        """Whether the paused owner has handed the partition over to this record's owner, and neither that nor a later grant was
        reported: the record may be older than the last grant."""
        paused = self._paused.get(partition)
        handed_over = record.reader == BY_GIVER if paused is None else record.epoch > paused
        return record.uid is not None and handed_over and record.epoch > self._reported.get(partition, Epoch(0))

    def reported(self, partition: int, epoch: Epoch) -> None:
        self._reported[partition] = epoch


# -- The adapter.

_TRIES = 6
"""Tries to grant while another operator grants too. The pause after the first is at most as long as the try took."""
_LONGEST_TRY = 0.2
"""Upper limit, in seconds, for the length of a try when the pause is computed."""
_ELECTS_WITHIN, _PAUSE = 2.0, 0.02
"""Seconds to wait for a leader, and between two looks: a new partition has none for a moment."""
_A_RELEASE = 2.0
"""Seconds after which one call of `release` gives up no further partition."""


class KafkaQueue:
    """QueueAdapter (queues/protocol.py) and SetsOffsets (queues/offsets.py) of one topic for one group. Methods raise
    QueueUnreachable with a message for the user; the next call tries again."""

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
        """Whether another group may take the queue."""
        self._open = OpenTransactions(self._client, spec.topic)
        self._topic: Topic | None = None
        """The last description of the topic."""
        self._begun_with = claimant.incarnation
        """The id of the topic with which the group began."""
        self._first: int | None = None
        """How many partitions the topic had when the group began, if known: later ones are read from their beginning. 0 if the
        topic was recreated since."""
        self._cut_off: dict[int, CutOff] = {}
        self._pauses = Pauses()

    async def check(self) -> QueueCheck:
        """See QueueAdapter. The topic's id is the incarnation: a recreated topic has another."""
        topic = await self._described()
        committed = await self._committed(topic)
        over_place = self._transactions.unsettled
        asked = offsets(self._client, topic, dict.fromkeys(committed, LogEnd.END), uncommitted=True)
        (begins, ends), last = await asyncio.gather(both_ends(self._client, topic, committed), asked)
        owners = {number: self._owner(number, one.record) for number, one in committed.items() if one.record is not None}
        for number, owner in owners.items():
            self._announcer.owned(number, owner.uid)
        lost = lost_entries(committed, begins)
        in_topic = {n: one for n, one in committed.items() if one.record is None or one.record.topic_id == topic.topic_id}
        self._cut_off = cut_off(in_topic, last, self._cut_off)
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
        """See QueueAdapter. Users create topics, so this only makes sure that the group has no other user, and the queue only one
        topic."""
        await refuse_members(self._client, self._spec.topic)
        found, _ = await committed(self._client)
        for (name, _), one in found.items():
            self._refuse_others(one.record, name)
        self._guard.start()  # early: even with a wrong topic, no other may commit, and offsets do not expire
        topic = await self._described()
        await self._give_up_elsewhere(found)
        await self._note_beginning(topic)

    async def pause(
        self, partition: int, epoch: Epoch, within: float | None = None, then: Ownership | None = None
    ) -> int | Ownership:
        """See QueueAdapter. The broker cannot keep an owner from reading, so the pause is announced. The record shows when the
        owner has released the partition, or to which pod it has handed it."""
        self._pauses.begin(partition, epoch)
        now = await self._now.of(partition)
        direct = self._changes_only_owner((now or await self._before(partition)).record)
        self._announcer.paused(partition, epoch, within, then, direct=direct)
        return self._outstanding(partition, epoch, now)

    async def outstanding(self, partition: int) -> int | Ownership:
        return self._outstanding(partition, self._pauses.epoch(partition), await self._now.of(partition))

    async def grant(self, partition: int, uid: Uid | None, epoch: Epoch) -> Ownership:
        """See QueueAdapter. First take a new token, which shuts out holders of earlier ones; then read the offset, which can no
        longer change under those; then write offset and record under the new token."""
        owner = await self._granted_in_time(partition, uid, epoch)
        self._pauses.reported(partition, owner.epoch)
        return owner

    async def release(self) -> bool:
        """See QueueAdapter. The PartitionedQueue may name another topic since the last look, or one that does not exist."""
        found, _ = await committed(self._client, beside_pending=True)
        if not await self._give_up_elsewhere(found, _A_RELEASE):
            return False
        topic = await describe(self._client, self._spec.topic)
        records = {number: one.record for number, one in (await self._committed(topic)).items() if one.record is not None}
        ours = [n for n, one in records.items() if (one.group, one.queue) == (self._claimant.uid, self._spec.queue)]
        self._given_up = await self._give_up(self._spec.topic, ours, _A_RELEASE)
        return self._given_up

    async def offsets(self) -> Mapping[int, PartitionOffsets]:
        """See SetsOffsets. Does not wait for commits under way."""
        topic = await self._described()
        return await self._offsets_of(topic, tuple(sorted(topic.leaders)))

    async def reach(self, partition: int, end: int, since: int | None = None) -> Reached:
        """See SetsOffsets. `entries` counts offsets, including transaction markers and compacted messages."""
        topic = self._topic or await self._described()
        now = (await self._offsets_of(topic, (partition,))).get(partition)
        found = {partition: end} if since is None else await offsets(self._client, topic, {partition: since})
        if now is None or partition not in found:
            raise without_leader(self._client, topic.name, partition)
        offset = min(end, found[partition]) if found[partition] >= 0 else end
        return Reached(offset, max(0, offset - max(now.committed or 0, now.earliest)))

    async def set_offset(self, partition: int, epoch: Epoch, offset: int) -> None:
        """See SetsOffsets. A grant without an owner, at the present epoch. The broker refuses earlier tokens; a process that
        takes a later one finds no owner in the record, and commits nothing."""
        for _ in range(_TRIES):
            self._refuse_granted(
                partition, epoch, await self._before(partition)
            )  # before the new token, which would delay an owner
            try:
                return await self._set(partition, epoch, offset)
            except StaleToken:  # an operator is granting
                await asyncio.sleep(GRANTED_WITHIN)
        raise self._others_grant(partition)

    async def close(self) -> None:
        await (self._guard.leave() if self._given_up else self._guard.close())
        await self._announcer.close()
        await self._client.close()

    # -- grants

    async def _granted_in_time(self, partition: int, uid: Uid | None, epoch: Epoch) -> Ownership:
        """Try `_granted` several times, as others may grant at the same time."""
        for tries in range(_TRIES):
            if partition not in self._pauses.released:
                record = (
                    await self._now.of(partition) or await self._before(partition)
                ).record  # a commit under way is not waited for
                if record is not None and self._pauses.is_news(partition, record):
                    return self._handed_over(partition, record)
                if record is not None and record.epoch >= epoch:
                    self._refuse_others(record)
                    return Ownership(record.uid, record.epoch)
            self._pauses.released.discard(partition)
            began = time.monotonic()
            try:
                return await self._granted(partition, uid, epoch)
            except StaleToken:  # another operator grants: let it go first, however long a grant takes here
                took = min(time.monotonic() - began, _LONGEST_TRY)
                await asyncio.sleep(random.uniform(0, took) * 2**tries)
        raise self._others_grant(partition)

    async def _granted(self, partition: int, uid: Uid | None, epoch: Epoch) -> Ownership:
        """Raises StaleToken if another process has taken a token since."""
        token = await self._transactions.init(partition)
        seen, _ = await asyncio.gather(self._transactions.stable(partition), self._transactions.begin(partition, token))
        self._refuse_others(seen.record)
        offset, record = await self._next(partition, uid, epoch, token, seen)
        await self._transactions.end(partition, offset, record, seen)
        self._announcer.granted(partition, record.epoch, record.uid)
        return Ownership(record.uid, record.epoch)

    async def _next(self, partition: int, uid: Uid | None, epoch: Epoch, token: Token, seen: Committed) -> tuple[int, Record]:
        """Return the offset and the record to write. A record at this epoch or a higher one keeps its owner, and gets the
        token."""
        before = seen.record
        ours = before is not None and before.group == self._claimant.uid
        if before is not None and ours and (before.epoch >= epoch or self._pauses.is_news(partition, before)):
            return seen.offset, replace(before, token=token)
        return await self._following(partition, uid, epoch, token, seen)

    async def _following(
        self, partition: int, uid: Uid | None, epoch: Epoch, token: Token, seen: Committed
    ) -> tuple[int, Record]:
        """Return the offset and the record of this owner, after the commit `seen`."""
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
        if before is not None and same and before.query:  # a query goes on under any owner
            record = replace(record, query=before.query, reserved=before.reserved)
        return offset, record

    def _changes_only_owner(self, record: Record | None) -> bool:
        """Whether a grant would change only the owner in the record: what the spec says is in it already."""
        topic, spec = self._topic, self._spec
        if record is None or record.query or topic is None:
            return False
        known = record.group, record.topic_id, record.most, record.unacked, record.dead_letters
        now = self._claimant.uid, topic.topic_id, spec.max_redeliveries, spec.max_unacknowledged, spec.dead_letters
        return known == now

    async def _start(self, topic: Topic, partition: int) -> int:
        """Return the offset at which a group begins that has committed nothing. New partitions and new topics are read from their
        beginning."""
        is_new = self._first is not None and partition >= self._first
        place = LogEnd.END if self._spec.latest and not is_new else LogEnd.BEGINNING
        until = time.monotonic() + _ELECTS_WITHIN
        while partition not in (found := await offsets(self._client, topic, {partition: place})):
            if time.monotonic() >= until:
                raise without_leader(self._client, topic.name, partition)
            await asyncio.sleep(_PAUSE)
            topic = await self._described()
        return found[partition]

    async def _read_before(self, topic: Topic, partition: int, before: Record, offset: int) -> tuple[int, int, Mapping[int, int]]:
        """Return `Record.again`, `stale` and `ends` for the next owner, at this offset. A query reads on."""
        if before.query or not before.left_behind:
            return before.again, before.stale, before.ends
        found = await offsets(self._client, topic, {partition: LogEnd.END})
        if partition not in found:  # it has another leader since the last look
            found = await offsets(self._client, await self._described(), {partition: LogEnd.END})
        end = found.get(partition, before.reserved)
        return before.again_for_next(end), before.stale_for_next(), before.ends_for_next(offset, end)

    # -- giving up owner records, in the queue's topic or another

    async def _give_up_elsewhere(self, found: Mapping[tuple[str, int], Committed], within: float = inf) -> bool:
        """Give up the queue's records in other topics, which come from an earlier PartitionedQueue or a foreign commit. `found`:
        all records of the group. Return False if `within` seconds were not enough."""
        ours = {self._claimant.uid, *self._claimant.takes_over}
        others = {place: one.record for place, one in found.items() if place[0] != self._spec.topic and one.record is not None}
        places = [place for place, one in others.items() if one.queue == self._spec.queue and one.group in ours]
        for topic in sorted({topic for topic, _ in places}):
            log.warning(
                "giving up the owner records that the group %s has of the queue %s in the topic %s besides %s: the "
                "PartitionedQueue had that topic before, or a foreign user has committed them",
                *(self._client.group, self._spec.queue, topic, self._spec.topic),
            )
            try:
                if not await self._give_up(topic, [number for name, number in places if name == topic], within):
                    return False
            except QueueUnreachable as problem:
                raise QueueUnreachable(
                    f"Queue {self._spec.queue} was read from the topic {topic} before, and its records there cannot be given up: "
                    "pods would still read that topic. Let the operator READ it, or remove the records with "
                    f"kafka-consumer-groups.sh --delete-offsets --topic {topic}: {problem}"
                ) from None
        return True

    async def _give_up(self, topic: str, partitions: Collection[int], within: float) -> bool:
        """Give up these partitions of a topic; returns as `_give_up_elsewhere`."""
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
        """Raises StaleToken if another process has taken a token since."""
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
            raise without_leader(self._client, topic.name, partition)
        if not begins[partition] <= offset <= ends[partition]:
            raise QueueConflict(f"{self._spec.topic}/{partition} no longer has the offset {offset}: start over")
        _, record = await self._following(partition, None, epoch, token, seen)
        there = seen.record is None or seen.record.topic_id == record.topic_id
        place = min(seen.offset, ends[partition]) if there else -1
        await self._transactions.end(partition, offset, _set_to(record, offset, place), seen)

    def _refuse_granted(self, partition: int, epoch: Epoch, seen: Committed) -> None:
        self._refuse_others(seen.record)
        if seen.record is not None and seen.record.epoch > epoch:
            raise QueueConflict(f"{self._spec.topic}/{partition} has been granted to a member meanwhile")

    # -- reading

    async def _described(self) -> Topic:
        """Describe the topic. One that was recreated is read from the beginning of all its partitions."""
        topic = self._topic = await describe(self._client, self._spec.topic)
        self._begun_with = self._begun_with or topic.topic_id
        if topic.topic_id != self._begun_with:
            self._first = 0
        self._announcer.described(topic.topic_id, topic.partitions)
        return topic

    async def _note_beginning(self, topic: Topic) -> None:
        """Find out how many partitions the topic had when the group began."""
        if self._first is None:
            records = [one.record for one in (await self._committed(topic)).values() if one.record is not None]
            known = [record.first if record.topic_id == topic.topic_id else 0 for record in records]
            self._first = min(known, default=topic.partitions)

    async def _offsets_of(self, topic: Topic, partitions: tuple[int, ...]) -> dict[int, PartitionOffsets]:
        committed = await self._transactions.before_pending(partitions)
        begins, ends = await both_ends(self._client, topic, committed)
        return offsets_of(committed, begins, ends)

    async def _committed(self, topic: Topic) -> dict[int, Committed]:
        return await self._transactions.committed(tuple(sorted(topic.leaders)))

    async def _before(self, partition: int) -> Committed:
        """Return the commit before the one under way."""
        return (await self._transactions.before_pending((partition,)))[partition]

    def _outstanding(self, partition: int, epoch: Epoch | None, now: Committed | None) -> int | Ownership:
        """See `Pauses.outstanding`. IN_USE while the owner commits: no commit is waited for or aborted."""
        if now is None:
            return IN_USE
        left = self._pauses.outstanding(partition, epoch, now.record)
        return self._handed_over(partition, now.record) if now.record is not None and isinstance(left, Ownership) else left

    def _handed_over(self, partition: int, record: Record) -> Ownership:
        self._refuse_others(record)
        self._pauses.reported(partition, record.epoch)
        self._announcer.granted(partition, record.epoch, record.uid)
        return Ownership(record.uid, record.epoch)

    def _owner(self, partition: int, record: Record | None) -> Ownership:
        if record is None:
            return NO_OWNER
        return Ownership(record.uid, record.epoch, paused=self._pauses.epoch(partition) == record.epoch)

    # -- conflicts

    def _refuse_others(self, record: Record | None, topic: str | None = None) -> None:
        """Raise QueueConflict for a foreign record. A group of Kafka is one ConsumerGroup's, and each topic in it one queue's.
        Pods find their topic by the group's records, so a foreign record is refused in any `topic`; None: the queue's own."""
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
        """Return the error for another operator that takes tokens."""
        return PartitionUnavailable(
            f"{self._client.address.place}: another operator is granting partition {partition} of {topic or self._spec.topic} "
            f"under the group {self._client.group}: see that only one does"
        )


def _given_up(seen: Committed) -> Record | None:
    """Return the record without group and owner; it keeps what the next owner must know about entries."""
    return replace(seen.record, group="", uid=None) if seen.record is not None else None


def _set_to(record: Record, offset: int, place: int) -> Record:
    """Return the record for an offset that was set, for the next owner. `place`: the group's offset before, in this log; -1:
    none. Entries that come again are marked as redelivered but not handed out one by one: no process has ended on them."""
    if offset < place:
        record = replace(record, again=0, stale=max(record.marked, place))
    return replace(record.at(offset), query=record.query + 1 if record.query else 0)
