"""A topic of Kafka, as its consumers see it.

Reading is Kafka's own, and cannot be refused: so the reader asks for the owner records where it has not seen them for a while.
Every commit names the token of its grant, and is refused by the broker where another is in force.
"""

import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import cast

from confluent_kafka import Message

from baton.model.ids import Epoch, QueueName, Uid
from baton.queues.entry import Entry
from baton.queues.fence import StaleOwner
from baton.queues.kafka.address import KafkaAddress
from baton.queues.kafka.answers import StaleToken
from baton.queues.kafka.dead_letters import DeadLetterTopic
from baton.queues.kafka.fetcher import Fetcher
from baton.queues.kafka.finished_offsets import FinishedOffsets
from baton.queues.kafka.group_offsets import GroupOffsets
from baton.queues.kafka.record import Record
from baton.queues.protocol import Owner, QueueUnreachable

_MOST_BYTES = 64_000_000
_LAST_WORD_WITHIN = 1.0
"""Seconds for the word that a partition is let go."""
_SURE_FOR = 0.5
"""Seconds for which a look at the owner records is enough to hand out what was fetched."""
_AGAIN_AFTER = 6 * 3600.0
"""Seconds after which an idle partition is committed again: what nobody commits expires."""
_GRANTS = 3
"""New tokens for the same owner, one after the other, before that is somebody's trouble."""
_NOBODY = Owner(None, Epoch(0))


@dataclass(slots=True)
class _Position:
    """Of this reader in a partition, under one epoch."""

    epoch: Epoch
    record: Record
    progress: FinishedOffsets
    committed: int
    """The offset that the broker has."""
    sure_at: float
    committed_at: float
    lost: Owner | None = None
    """Whose it is now."""
    tries: dict[int, int] = field(default_factory=dict)
    """Failed ones, by offset."""
    read: dict[int, Message] = field(default_factory=dict)
    """What is in the consumer's hands, by offset: a dead letter is all of the message."""


class KafkaReader:
    """Reads the topic of one queue for its owner, the pod with this UID. Its methods raise StaleOwner where (uid, epoch) is not
    the partition's owner, and QueueUnreachable; all of it may be repeated after an error. One thread reads; another may be in
    `wait` meanwhile."""

    def __init__(self, address: KafkaAddress, group: str, queue: QueueName, uid: Uid) -> None:
        """`group`: the group id in Kafka."""
        self._address = address
        self._group = group
        self._queue = queue
        self._uid = uid
        self._offsets = GroupOffsets(address, group, queue)
        self._fetcher: Fetcher | None = None
        self._dead_letters = DeadLetterTopic(address)
        self._positions: dict[int, _Position] = {}
        self._asking = threading.RLock()
        """Two commits of one partition at a time would be one transaction."""
        self._interrupted = threading.Event()

    def read(
        self, partition: int, epoch: Epoch, count: int = 100, *, most_bytes: int = _MOST_BYTES, new: bool = True
    ) -> list[Entry]:
        """Up to `count` entries in order, perhaps none. They have no more than `most_bytes`, unless the first alone has. `new`
        False: none, for what an earlier process of this pod had in hand is read as new."""
        if not new:
            return []
        position = self._of(partition, epoch)
        if time.monotonic() - position.sure_at > _SURE_FOR:
            self._look(partition)
        assert self._fetcher is not None
        messages = self._fetcher.take(partition, count, most_bytes)
        entries = [self._entry(partition, position, message) for message in messages]
        position.progress.handed_out(int(entry.offset) for entry in entries)
        position.read.update((message.offset() or 0, message) for message in messages)
        return entries

    def ack(self, partition: int, epoch: Epoch, offsets: Sequence[str]) -> None:
        """Finish with entries. The group's offset goes over those that are finished without a gap."""
        position = self._of(partition, epoch)
        numbers = [int(offset) for offset in offsets]
        for number in numbers:
            position.read.pop(number, None)
            position.tries.pop(number, None)
        ahead = position.progress.finish(numbers)
        if ahead or position.progress.offset != position.committed:
            self._commit(partition, position)
        elif time.monotonic() - position.sure_at > _SURE_FOR:
            self._look(partition)

    def retry(self, partition: int, epoch: Epoch, offset: str, why: str) -> bool:
        """Count one more delivery. False: it was one too many (maxRedeliveries), and the entry is a dead letter."""
        position = self._of(partition, epoch)
        self._look(partition)
        tries = position.tries[int(offset)] = position.tries.get(int(offset), 0) + 1
        if not position.record.most or tries <= position.record.most:
            return True
        self.set_aside(partition, epoch, offset, why)
        return False

    def set_aside(self, partition: int, epoch: Epoch, offset: str, why: str) -> None:
        """The entry goes to the topic for dead letters; then it is finished with."""
        position = self._of(partition, epoch)
        self._look(partition)
        message = position.read.get(int(offset))
        if message is not None:
            topic = position.record.dead_letters or f"{self._offsets.topic}.dead-letters"
            self._dead_letters.put(topic, message, why, self._group)
        self.ack(partition, epoch, [offset])

    def let_go(self, partition: int, epoch: Epoch) -> None:
        """Nothing more is done with what was read under this epoch. Where all of it is finished, the record says so: the next
        owner need not wait, and gets nothing marked redelivered."""
        position = self._positions.get(partition)
        if position is None or position.epoch != epoch:
            return
        del self._positions[partition]
        if self._fetcher is not None:
            self._fetcher.end(partition)
        if position.lost is not None or position.progress.unfinished:
            return
        position.record = replace(position.record, released=True)
        try:
            self._commit(partition, position, within=_LAST_WORD_WITHIN)
        except (StaleOwner, QueueUnreachable):
            return  # the operator waits for the Lease, or the deadline

    def verify(self, partition: int, epoch: Epoch) -> None:
        """Ask whether the partition still is the owner's."""
        self._of(partition, epoch)
        self._look(partition)

    def ready(self, partition: int, epoch: Epoch) -> bool:
        position = self._positions.get(partition)
        if position is None or position.epoch != epoch:
            return position is None or position.epoch < epoch
        return self._fetcher is not None and self._fetcher.has(partition)

    def wait(self, partitions: Sequence[int], timeout: float) -> set[int]:
        """Until there may be something to read in one of these, or an interrupt: at once for one that was not read yet."""
        self._commit_idle()
        unread = {partition for partition in partitions if partition not in self._positions}
        if unread:
            return unread
        if self._fetcher is None or not partitions:
            self._interrupted.wait(timeout)
            self._interrupted.clear()
            return set()
        return self._fetcher.wait(partitions, timeout)

    def interrupt(self) -> None:
        """End the wait that another thread is in, or the next one."""
        self._interrupted.set()
        if self._fetcher is not None:
            self._fetcher.interrupt()

    def close(self) -> None:
        if self._fetcher is not None:
            self._fetcher.close()
        self._dead_letters.close()
        self._offsets.close()

    # -- positions

    def _of(self, partition: int, epoch: Epoch) -> _Position:
        """Raises StaleOwner."""
        position = self._positions.get(partition)
        if position is None or position.epoch < epoch:
            position = self._begin(partition, epoch)
        if position.epoch != epoch:
            raise self._stale(partition, epoch, Owner(position.record.uid, position.epoch))
        if position.lost is not None:
            raise self._stale(partition, epoch, position.lost)
        return position

    def _begin(self, partition: int, epoch: Epoch) -> _Position:
        """Where the group's offset is, if the record beside it names this pod at this epoch."""
        now = time.monotonic()
        offset, record = self._offsets.committed((partition,))[partition]
        if record is None or (record.uid, record.epoch) != (self._uid, epoch):
            raise self._stale(partition, epoch, _owner(record))
        position = _Position(epoch, record, FinishedOffsets(offset), offset, now, now)
        if record.released:  # by an earlier process of this pod
            position.record = replace(record, released=False)
            self._commit(partition, position)
        if self._fetcher is None:
            self._fetcher = Fetcher(self._address, self._group, self._offsets.topic)
        self._fetcher.begin(partition, offset)
        self._positions[partition] = position
        return position

    def _look(self, partition: int) -> None:
        """At all owner records at once. Raises StaleOwner where this partition is somebody else's."""
        with self._asking:
            asked_at = time.monotonic()
            found = self._offsets.committed(tuple(self._positions))
            for number, position in self._positions.items():
                record = found[number].record
                if record is not None and (record.uid, record.epoch) == (self._uid, position.epoch):
                    position.record, position.sure_at = record, asked_at
                else:
                    position.lost = _owner(record)
        position = self._positions[partition]
        if position.lost is not None:
            raise self._stale(partition, position.epoch, position.lost)

    def _commit(self, partition: int, position: _Position, within: float | None = None) -> None:
        """Raises StaleOwner and QueueUnreachable."""
        with self._asking:
            for _ in range(_GRANTS):
                asked_at, offset, record = time.monotonic(), position.progress.offset, position.record
                if offset >= record.again:
                    record = replace(record, again=0)
                try:
                    self._offsets.commit(partition, offset, record, within)
                except StaleToken:
                    self._follow(partition, position, record)
                    continue
                position.committed, position.committed_at, position.sure_at = offset, time.monotonic(), asked_at
                return
        raise QueueUnreachable(
            f"{self._address.place}: {self._queue}/{partition} is granted again and again: see that only one operator does"
        )

    def _follow(self, partition: int, position: _Position, tried: Record) -> None:
        """Another token is in force: it is this owner's own where the record names it still."""
        record = self._offsets.committed((partition,))[partition].record
        if record is None or (record.uid, record.epoch) != (self._uid, position.epoch):
            position.lost = _owner(record)
            raise self._stale(partition, position.epoch, position.lost)
        if record.token == tried.token:
            raise QueueUnreachable(f"{self._address.place}: {self._queue}/{partition} is just being granted")
        position.record = replace(record, released=tried.released)

    def _commit_idle(self) -> None:
        due = time.monotonic() - _AGAIN_AFTER
        for partition, position in list(self._positions.items()):
            if position.committed_at < due and position.lost is None:
                self._commit(partition, position)

    def _stale(self, partition: int, epoch: Epoch, owner: Owner) -> StaleOwner:
        return StaleOwner(partition, self._uid, epoch, owner)

    def _entry(self, partition: int, position: _Position, message: Message) -> Entry:
        offset = message.offset() or 0
        return Entry(
            self._queue,
            partition,
            str(offset),
            cast("bytes", message.key()),
            cast("bytes", message.value()),
            message.timestamp()[1],
            position.epoch,
            redelivered=offset < position.record.again,
            headers=cast("dict[str, bytes]", dict(message.headers() or ())),
        )


def _owner(record: Record | None) -> Owner:
    return _NOBODY if record is None else Owner(record.uid, record.epoch)
