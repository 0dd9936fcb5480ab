"""A topic of Kafka, as the operator sees it for one group."""

import asyncio
import random
import time
from collections.abc import Mapping
from dataclasses import replace

from baton.model.ids import Epoch, Uid
from baton.queues.kafka.address import KafkaAddress
from baton.queues.kafka.announcer import KafkaAnnouncer
from baton.queues.kafka.answers import StaleToken
from baton.queues.kafka.asked_together import AskedTogether
from baton.queues.kafka.believed_records import BelievedRecords
from baton.queues.kafka.claims import refuse_others
from baton.queues.kafka.client import KafkaClient
from baton.queues.kafka.followed_topic import FollowedTopic
from baton.queues.kafka.giving_up import GivingUp, others_grant
from baton.queues.kafka.grant_records import GrantRecords
from baton.queues.kafka.guard import CLIENT_ID, GuardMember
from baton.queues.kafka.kind import KIND
from baton.queues.kafka.members import refuse_members
from baton.queues.kafka.open_transactions import OpenTransactions
from baton.queues.kafka.pauses import Pauses
from baton.queues.kafka.place_warnings import place_warnings
from baton.queues.kafka.positions_in_log import CutOff, cut_off, lag, lost_entries, offsets_of, unfinished
from baton.queues.kafka.record import Committed, Record, Token
from baton.queues.kafka.topic import LogEnd, Topic, both_ends, describe, offsets
from baton.queues.kafka.topic_to_open import TopicToOpen
from baton.queues.kafka.transaction import GRANTED_WITHIN, PartitionTransactions, committed
from baton.queues.offsets import PartitionOffsets, Reached
from baton.queues.protocol import Claimant, Owner, PartitionUnavailable, QueueCheck, QueueConflict

_TRIES = 6
"""To grant, while another operator grants, too. After the first, the pause is at most as long as the try took,"""
_LONGEST_TRY = 0.2
"""which counts as so many seconds at most."""
_A_RELEASE = 2.0
"""Seconds after which one answer to `release` gives up no further partition."""
_NOBODY = Owner(None, Epoch(0))


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
        self._giving_up = GivingUp(self._client, spec, claimant)
        self._guard = GuardMember(address, group, spec.topic)
        self._given_up = False
        """Another group may have the queue."""
        self._records = BelievedRecords(self._client, spec.topic)
        self._open = OpenTransactions(self._client, spec.topic)
        self._topic = FollowedTopic(self._client, spec.topic, claimant.incarnation)
        self._grant_records = GrantRecords(self._client, spec, claimant, self._topic)
        self._cut_off: dict[int, CutOff] = {}
        self._pauses = Pauses()

    async def check(self) -> QueueCheck:
        """See QueueAdapter. The topic's id is its incarnation: one that was deleted and made again has another."""
        topic = await self._topic.described()
        committed = self._records.all_believed(await self._committed(topic))
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
            warnings=warnings + self._open.warnings() + self._records.warnings() + self._guard.warnings(),
            zones=topic.racks,
            unfinished=unfinished(committed, ends),
        )

    async def ensure(self, count: int | None) -> None:
        """See QueueAdapter. The topic is made by its owner, so this only sees to it that nobody else uses the group, and that the
        queue has one topic."""
        await refuse_members(self._client, self._spec.topic)
        found, _ = await committed(self._client)
        for (name, _), one in found.items():
            self._refuse_others(one.record, name)
        self._guard.start()  # first: whatever is wrong with the topic, nobody else is to commit, and the place is kept
        topic = await self._topic.described()
        await self._giving_up.elsewhere(found)
        await self._see_beginning(topic)

    async def pause(self, partition: int, epoch: Epoch, within: float | None = None, then: Owner | None = None) -> int | Owner:
        """The broker cannot keep an owner from reading: it is told; its record says when it let go, or whose the partition is
        since then."""
        self._pauses.begin(partition, epoch)
        self._records.asked_for(partition, epoch if then is None else then.epoch)
        now = await self._now.of(partition)
        direct = self._grant_records.change_only_owner((now or await self._before(partition)).record)
        self._announcer.paused(partition, epoch, within, then, direct=direct)
        return self._left(partition, epoch, now)

    async def outstanding(self, partition: int) -> int | Owner:
        """See `Pauses.left`."""
        return self._left(partition, self._pauses.epoch(partition), await self._now.of(partition))

    async def grant(self, partition: int, uid: Uid | None, epoch: Epoch) -> Owner:
        """See QueueAdapter. First a new token, which shuts out whoever has an earlier one; then the offset is read, which cannot
        change any more under an earlier one; then offset and record are written under the new one."""
        self._records.asked_for(partition, epoch)
        owner = await self._granted_in_time(partition, uid, epoch)
        self._pauses.told(partition, owner.epoch)
        return owner

    async def release(self) -> bool:
        """See QueueAdapter. Its PartitionedQueue may name another topic since the last look, or one that is not there."""
        found, _ = await committed(self._client, beside_pending=True)
        if not await self._giving_up.elsewhere(found, _A_RELEASE):
            return False
        topic = await describe(self._client, self._spec.topic)
        records = {number: one.record for number, one in (await self._committed(topic)).items() if one.record is not None}
        ours = [n for n, one in records.items() if (one.group, one.queue) == (self._claimant.uid, self._spec.queue)]
        self._given_up = await self._giving_up.of(self._spec.topic, ours, _A_RELEASE)
        return self._given_up

    async def offsets(self) -> Mapping[int, PartitionOffsets]:
        """See TellsOffsets. A commit that is under way is left to whoever began it."""
        topic = await self._topic.described()
        return await self._offsets_of(topic, tuple(sorted(topic.leaders)))

    async def reach(self, partition: int, end: int, since: int | None = None) -> Reached:
        """See SetsOffsets. `entries` counts offsets: marks of transactions and what was compacted away, too."""
        topic = self._topic.last or await self._topic.described()
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
        raise others_grant(self._client, self._spec.topic, partition)

    async def close(self) -> None:
        await (self._guard.leave() if self._given_up else self._guard.close())
        await self._announcer.close()
        await self._client.close()

    # -- grants

    async def _granted_in_time(self, partition: int, uid: Uid | None, epoch: Epoch) -> Owner:
        """The same as `_granted`, also where others grant at the same time."""
        for tries in range(_TRIES):
            if not self._pauses.let_go(partition):
                now = await self._now.of(partition) or await self._before(partition)  # what is under way is not waited for
                record = self._records.believed(partition, now).record
                if record is not None and self._pauses.is_news(partition, record):
                    return self._handed_over(partition, record)
                if record is not None and record.epoch >= epoch:
                    self._refuse_others(record)
                    return Owner(record.uid, record.epoch)
            self._pauses.granting(partition)
            began = time.monotonic()
            try:
                return await self._granted(partition, uid, epoch)
            except StaleToken:  # another operator grants: it goes first, however long a grant takes here
                took = min(time.monotonic() - began, _LONGEST_TRY)
                await asyncio.sleep(random.uniform(0, took) * 2**tries)
        raise others_grant(self._client, self._spec.topic, partition)

    async def _granted(self, partition: int, uid: Uid | None, epoch: Epoch) -> Owner:
        """Raises StaleToken where another had a token since."""
        token = await self._transactions.init(partition)
        seen, _ = await asyncio.gather(self._transactions.stable(partition), self._transactions.begin(partition, token))
        self._refuse_others(seen.record)
        offset, record = await self._next(partition, uid, epoch, token, seen)
        await self._transactions.end(partition, offset, record, seen)
        self._announcer.granted(partition, record.epoch, record.uid)
        return Owner(record.uid, record.epoch)

    async def _next(self, partition: int, uid: Uid | None, epoch: Epoch, token: Token, seen: Committed) -> tuple[int, Record]:
        """The offset and the record to be written. A record that is as high already keeps its owner, and gets the token."""
        seen = self._records.believed(partition, seen)
        before = seen.record
        ours = before is not None and before.group == self._claimant.uid
        if before is not None and ours and (before.epoch >= epoch or self._pauses.is_news(partition, before)):
            return seen.offset, replace(before, token=token)
        return await self._grant_records.following(partition, uid, epoch, token, seen)

    # -- setting the offset

    async def _set(self, partition: int, epoch: Epoch, offset: int) -> None:
        """Raises StaleToken where another had a token since."""
        token = await self._transactions.init(partition)
        topic = await self._topic.described()
        await self._see_beginning(topic)
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
        before = self._records.believed(partition, seen)
        _, record = await self._grant_records.following(partition, None, epoch, token, before)
        there = before.record is None or before.record.topic_id == record.topic_id
        place = min(before.offset, ends[partition]) if there else -1
        await self._transactions.end(partition, offset, _set_to(record, offset, place), seen)

    def _refuse_granted(self, partition: int, epoch: Epoch, seen: Committed) -> None:
        self._refuse_others(seen.record)
        record = self._records.believed(partition, seen).record
        if record is not None and record.epoch > epoch:
            raise QueueConflict(f"{self._spec.topic}/{partition} was granted to a member meanwhile")

    # -- what is there

    async def _see_beginning(self, topic: Topic) -> None:
        """How many partitions the topic had when the group began."""
        if self._topic.first is None:
            believed = self._records.all_believed(await self._committed(topic))
            self._topic.began(topic, [one.record for one in believed.values() if one.record is not None])

    async def _offsets_of(self, topic: Topic, partitions: tuple[int, ...]) -> dict[int, PartitionOffsets]:
        committed = await self._transactions.before_pending(partitions)
        begins, ends = await both_ends(self._client, topic, committed)
        return offsets_of(committed, begins, ends)

    def _without_leader(self, partition: int) -> PartitionUnavailable:
        place, topic = self._client.address.place, self._spec.topic
        return PartitionUnavailable(f"{place}: partition {partition} of {topic} has no leader: see whether all brokers run")

    async def _committed(self, topic: Topic) -> dict[int, Committed]:
        return await self._transactions.committed(tuple(sorted(topic.leaders)))

    async def _before(self, partition: int) -> Committed:
        """What was committed before the commit that is under way."""
        return (await self._transactions.before_pending((partition,)))[partition]

    def _left(self, partition: int, epoch: Epoch | None, now: Committed | None) -> int | Owner:
        """How much is left where this is seen of it. Who is just committing is asked about again: nobody waits for a commit
        here, and none is aborted."""
        if now is None:
            return 1
        record = self._records.believed(partition, now).record
        left = self._pauses.left(partition, epoch, record)
        return self._handed_over(partition, record) if record is not None and isinstance(left, Owner) else left

    def _handed_over(self, partition: int, record: Record) -> Owner:
        """To this owner: it is told, and announced."""
        self._refuse_others(record)
        self._pauses.told(partition, record.epoch)
        self._announcer.granted(partition, record.epoch, record.uid)
        return Owner(record.uid, record.epoch)

    def _owner(self, partition: int, record: Record | None) -> Owner:
        if record is None:
            return _NOBODY
        return Owner(record.uid, record.epoch, paused=self._pauses.epoch(partition) == record.epoch)

    # -- who else is there

    def _refuse_others(self, record: Record | None, topic: str | None = None) -> None:
        """`topic`: the record's; None: the queue's own."""
        same = topic in (None, self._spec.topic)
        place = f"The group {self._client.group} of {self._client.address.place}"
        refuse_others(record, self._claimant, self._spec.queue, place, topic or self._spec.topic, same_topic=same)


def _set_to(record: Record, offset: int, place: int) -> Record:
    """What the next owner is to know that begins at this offset; the group was at `place` of this log; -1: it never was there.
    What comes again there is marked as redelivered, and not handed out one by one: no process has ended on it."""
    if offset < place:
        record = replace(record, again=0, stale=max(record.marked, place))
    return replace(record.at(offset), query=record.query + 1 if record.query else 0)


def _of_this(topic: Topic, committed: Mapping[int, Committed]) -> dict[int, Committed]:
    """Without those that were committed in one that was there before."""
    return {n: one for n, one in committed.items() if one.record is None or one.record.topic_id == topic.topic_id}
