"""What a grant writes, after what is committed: the record of the new owner, and the offset beside it."""

import asyncio
import time
from collections.abc import Mapping
from dataclasses import replace

from baton.model.ids import Epoch, Uid
from baton.queues.kafka.client import KafkaClient
from baton.queues.kafka.followed_topic import FollowedTopic
from baton.queues.kafka.record import Committed, Record, Token
from baton.queues.kafka.topic import LogEnd, Topic, offsets
from baton.queues.kafka.topic_to_open import TopicToOpen
from baton.queues.protocol import Claimant, PartitionUnavailable

_PAUSE = 0.02
"""Seconds between looks for a partition's leader."""
_ELECTS_WITHIN = 2.0
"""Seconds for which a partition without a leader is waited for: a new one has none for a moment."""


class GrantRecords:
    """Of one queue of a group."""

    def __init__(self, client: KafkaClient, spec: TopicToOpen, claimant: Claimant, topic: FollowedTopic) -> None:
        self._client = client
        self._spec = spec
        self._claimant = claimant
        self._topic = topic

    async def following(self, partition: int, uid: Uid | None, epoch: Epoch, token: Token, seen: Committed) -> tuple[int, Record]:
        """The offset and the record of this owner, after what is `seen`. Raises QueueUnreachable."""
        before = seen.record
        topic = self._topic.last or await self._topic.described()
        same = before is None or before.topic_id == topic.topic_id
        offset = seen.offset if seen.offset >= 0 and same else await self._start(topic, partition)
        again, stale, tries = await self._read_before(topic, partition, before, offset) if before and same else (0, 0, {})
        record = Record(
            group=self._claimant.uid,
            queue=self._spec.queue,
            uid=uid,
            epoch=epoch,
            topic_id=topic.topic_id,
            token=token,
            first=self._topic.first if self._topic.first is not None else topic.partitions,
            again=again,
            stale=stale,
            tries=tries,
            released=uid is None,
            most=self._spec.max_redeliveries,
            unacked=self._spec.max_unacknowledged,
            dead_letters=self._spec.dead_letters,
        )
        if before is not None and same and before.query:  # a query's place does not depend on who owns the partition
            record = replace(record, query=before.query, reserved=before.reserved)
        return offset, record

    def change_only_owner(self, record: Record | None) -> bool:
        """A grant would change nothing else in it: the spec has changed nothing of what an owner is to know."""
        topic, spec = self._topic.last, self._spec
        if record is None or record.query or topic is None:
            return False
        known = record.group, record.topic_id, record.most, record.unacked, record.dead_letters
        now = self._claimant.uid, topic.topic_id, spec.max_redeliveries, spec.max_unacknowledged, spec.dead_letters
        return known == now

    async def _start(self, topic: Topic, partition: int) -> int:
        """Where a group begins that has committed nothing."""
        until = time.monotonic() + _ELECTS_WITHIN
        while (
            partition not in (found := await offsets(self._client, topic, {partition: self._place_of_start(partition)}))
            and time.monotonic() < until
        ):
            await asyncio.sleep(_PAUSE)
            topic = await self._topic.described()
        if partition not in found:
            raise PartitionUnavailable(
                f"{self._client.address.place}: partition {partition} of {topic.name} has no leader: see whether its brokers run"
            )
        return found[partition]

    def _place_of_start(self, partition: int) -> LogEnd:
        """What came with a new partition or a new topic is all read."""
        return LogEnd.END if self._spec.latest and not self._topic.is_new(partition) else LogEnd.BEGINNING

    async def _read_before(self, topic: Topic, partition: int, before: Record, offset: int) -> tuple[int, int, Mapping[int, int]]:
        """How far an owner may have read that did not let go, how far it may yet, and on what it may have ended: see `Record`. A
        query reads on."""
        if before.query or not before.left_behind:
            return before.again, before.stale, before.tries
        found = await offsets(self._client, topic, {partition: LogEnd.END})
        if partition not in found:  # another broker leads it since the last look
            topic = await self._topic.described()
            found = await offsets(self._client, topic, {partition: LogEnd.END})
        end = found.get(partition, before.reserved)
        return before.comes_again(end), before.still_read(), before.ended_on(offset, end)
