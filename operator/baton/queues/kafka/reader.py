"""A topic of Kafka, as its consumers see it.

Reading is Kafka's own, and cannot be refused: so the reader asks for the owner records where it has not seen them for a while.
Every commit names the token of its grant, and is refused by the broker where another is in force.
"""

import logging
import threading
import time
from collections.abc import Callable, Sequence, Set
from contextlib import suppress
from secrets import token_hex
from typing import cast

from confluent_kafka import Message

from baton.model.ids import Epoch, QueueName, Uid
from baton.queues.entry import Entry
from baton.queues.fence import StaleOwner
from baton.queues.kafka.address import KafkaAddress
from baton.queues.kafka.answers import StaleToken
from baton.queues.kafka.background_commits import BackgroundCommits
from baton.queues.kafka.dead_letters import DeadLetterTopic
from baton.queues.kafka.fetcher import Fetcher
from baton.queues.kafka.group_offsets import GroupOffsets
from baton.queues.kafka.read_position import ReadPosition, names, taken_up
from baton.queues.kafka.record import Committed, Record
from baton.queues.protocol import Owner, QueueUnreachable

log = logging.getLogger(__name__)

_MOST_BYTES = 64_000_000
_LAST_WORD_WITHIN = 1.0
"""Seconds for the word that a partition is let go."""
_SURE_FOR = 1.5
"""Seconds for which a look at the owner records is enough to hand out what was fetched: a commit is one, too."""
_AGAIN_AFTER = 6 * 3600.0
"""Seconds after which an idle partition is committed again: what nobody commits expires."""
_GRANTED_WITHIN = 0.2
"""Seconds that an operator has between its two requests for a grant, before its owner takes a new token itself."""
_TRIES = 5
"""To commit, one after the other, before that is somebody's trouble."""
_NOBODY = Owner(None, Epoch(0))
_ENDED = "its process has ended while it was worked on, more often than maxRedeliveries"


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
        self._process = token_hex(8)
        self._silent_at = float("-inf")
        """When the broker did not take a last word (monotonic)."""
        self._in_hand = 0
        """Entries, of all partitions."""
        self._positions: dict[int, ReadPosition] = {}
        self._asking = threading.RLock()
        """Two commits of one partition at a time would be one transaction."""
        self._background = BackgroundCommits(self._commit_several)
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
        self._set_hopeless_aside(partition, position)
        most = position.most(self._in_hand)
        if most == 0:
            return []
        messages = self._take(partition, position, count if most is None else min(count, most), most_bytes)
        entries = [self._entry(partition, position, message) for message in messages]
        position.progress.handed_out(int(entry.offset) for entry in entries)
        position.read.update((message.offset() or 0, message) for message in messages)
        self._in_hand += len(entries)
        hopeless = [entry.offset for entry in entries if position.too_often(int(entry.offset))]
        position.hopeless.extend(hopeless)
        self._set_hopeless_aside(partition, position)
        return [entry for entry in entries if entry.offset not in hopeless]

    def ack(self, partition: int, epoch: Epoch, offsets: Sequence[str], *, soon: bool = False) -> None:
        """Finish with entries. The group's offset goes over those that are finished without a gap. `soon`: it does so a moment
        later, at the latest when the partition is let go of."""
        position = self._of(partition, epoch)
        numbers = [int(offset) for offset in offsets]
        for number in numbers:
            position.read.pop(number, None)
        before, careful = position.progress.unfinished, position.careful
        ahead = position.progress.finish(numbers)
        self._in_hand -= before - position.progress.unfinished
        self._pass_marks(partition, position)
        behind = ahead or position.progress.offset != position.committed
        if behind and (careful or not soon):
            self._commit(partition, position)
            return
        if time.monotonic() - position.sure_at > _SURE_FOR:
            self._look(partition)
        if behind:
            self._background.due(partition)

    def retry(self, partition: int, epoch: Epoch, offset: str, why: str) -> bool:
        """Count one more delivery, for the owners to come, too. False: it was one too many (maxRedeliveries), and the entry is a
        dead letter."""
        position = self._of(partition, epoch)
        if not position.record.most:
            self._look(partition)
            return True
        self._commit(partition, position, lambda: position.failed(int(offset)))
        if not position.too_often(int(offset)):
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
        """Nothing more is done with what was read under this epoch. The record says how far that was, and where all of it is
        finished it says so: the next owner need not wait, and gets nothing marked redelivered."""
        position = self._positions.get(partition)
        if position is None or position.epoch != epoch:
            return
        del self._positions[partition]
        self._in_hand -= position.progress.unfinished
        if self._fetcher is not None:
            self._fetcher.end(partition)
        if position.lost is not None or time.monotonic() - self._silent_at < _LAST_WORD_WITHIN:
            return
        if not self._asking.acquire(timeout=_LAST_WORD_WITHIN):  # a commit of several is under way, and hangs
            self._silent_at = time.monotonic()
            return
        try:
            self._commit(partition, position, position.left_record, within=_LAST_WORD_WITHIN)
        except StaleOwner:
            return
        except QueueUnreachable:  # the operator waits for the Lease, or the deadline
            self._silent_at = time.monotonic()
        finally:
            self._asking.release()

    def verify(self, partition: int, epoch: Epoch) -> None:
        """Ask whether the partition still is the owner's."""
        self._of(partition, epoch)
        self._look(partition)

    def ready(self, partition: int, epoch: Epoch) -> bool:
        position = self._positions.get(partition)
        if position is None or position.epoch != epoch:
            return position is None or position.epoch < epoch
        if position.hopeless:
            return True
        return self._fetcher is not None and self._fetcher.has(partition) and position.most(self._in_hand) != 0

    def wait(self, partitions: Sequence[int], timeout: float) -> set[int]:
        """Until there may be something to read in one of these, or an interrupt: at once for one that was not read yet."""
        self._commit_idle()
        unread = {partition for partition in partitions if partition not in self._positions}
        if unread:
            return unread
        held = [(number, self._positions.get(number)) for number in partitions]  # another thread may let go of some
        with_room = [number for number, position in held if position is not None and position.most(self._in_hand) != 0]
        if self._fetcher is None or not with_room:
            self._interrupted.wait(timeout)
            self._interrupted.clear()
            return set()
        return self._fetcher.wait(with_room, timeout)

    def interrupt(self) -> None:
        """End the wait that another thread is in, or the next one."""
        self._interrupted.set()
        if self._fetcher is not None:
            self._fetcher.interrupt()

    def close(self) -> None:
        self._background.close()
        if self._fetcher is not None:
            self._fetcher.close()
        self._dead_letters.close()
        self._offsets.close()

    # -- positions

    def _of(self, partition: int, epoch: Epoch) -> ReadPosition:
        """Raises StaleOwner."""
        position = self._positions.get(partition)
        if position is None or position.epoch < epoch:
            position = self._begin(partition, epoch)
        if position.epoch != epoch:
            raise self._stale(partition, epoch, Owner(position.record.uid, position.epoch))
        if position.lost is not None:
            raise self._stale(partition, epoch, position.lost, other_process=position.other_process)
        return position

    def _begin(self, partition: int, epoch: Epoch) -> ReadPosition:
        """Where the group's offset is, if the record beside it names this pod at this epoch. The record gets the mark of this
        process before it hands anything out; where it has that of an earlier one, a new token shuts that one out."""
        now = time.monotonic()
        for _ in range(_TRIES):
            try:
                seen = self._taken_up(partition, epoch)
                break
            except StaleToken:
                time.sleep(_GRANTED_WITHIN / _TRIES)
        else:
            raise self._granted_on(partition)
        record = seen.record
        if not names(record, self._uid, epoch):
            raise self._stale(partition, epoch, _owner(record))
        position = ReadPosition.begun(seen, now)
        if self._fetcher is None:
            self._fetcher = Fetcher(self._address, self._group, self._offsets.topic)
        self._fetcher.begin(partition, seen.offset)
        if (former := self._positions.get(partition)) is not None:
            self._in_hand -= former.progress.unfinished
        self._positions[partition] = position
        return position

    def _taken_up(self, partition: int, epoch: Epoch) -> Committed:
        """What is committed, with this process in the record if it is the pod's. Raises StaleToken."""
        with self._asking:
            found, _ = self._offsets.now((partition,))
            seen = found.get(partition)
            if seen is not None and not names(seen.record, self._uid, epoch):
                return seen
            if seen is not None and seen.record is not None and not seen.record.reader:
                record = taken_up(seen.record, seen.offset, 0, self._process)
                self._offsets.commit(partition, seen.offset, record)
                return seen._replace(record=record)

            def change(seen: Committed, end: int) -> Record | None:
                if seen.record is None or not names(seen.record, self._uid, epoch):
                    return None
                return taken_up(seen.record, seen.offset, end, self._process)

            return self._offsets.renewed(partition, change)

    def _set_hopeless_aside(self, partition: int, position: ReadPosition) -> None:
        while position.hopeless:
            offset = position.hopeless[0]
            self.set_aside(partition, position.epoch, offset, _ENDED)
            log.error("%s/%d entry %s is set aside as a dead letter: %s", self._queue, partition, offset, _ENDED)
            position.hopeless.pop(0)

    def _take(self, partition: int, position: ReadPosition, count: int, most_bytes: int) -> list[Message]:
        assert self._fetcher is not None
        first = self._fetcher.next(partition)
        if first is not None and first >= position.record.reserved:
            self._commit(partition, position, lambda: position.next_record(upto=first + count))
        messages = self._fetcher.take(partition, count, most_bytes, position.record.reserved)
        if not messages and self._pass_marks(partition, position):
            self._commit(partition, position)
        return messages

    def _pass_marks(self, partition: int, position: ReadPosition) -> bool:
        """Where everything was handed out, go over what stands behind it: marks of transactions are no entries. True: there is
        more to commit now."""
        end = self._fetcher.end_of_log(partition) if self._fetcher is not None else None
        if end is None:
            return False
        position.progress.nothing_before(end)
        return position.progress.offset != position.committed

    def _look(self, partition: int) -> None:
        """At all owner records at once; of commits that are under way only this partition's is waited for. Raises StaleOwner
        where it is somebody else's."""
        asked_at = time.monotonic()
        before = {number: position.record for number, position in self._positions.items()}
        found, pending = self._offsets.now(tuple(before))
        for number, seen in found.items():
            self._see(self._positions[number], seen.record, asked_at, before[number])
        if partition in pending:
            with self._asking:
                self._see(self._positions[partition], self._offsets.stable(partition).record, asked_at)
        position = self._positions[partition]
        if position.lost is not None:
            raise self._stale(partition, position.epoch, position.lost, other_process=position.other_process)

    def _see(self, position: ReadPosition, record: Record | None, asked_at: float, before: Record | None = None) -> None:
        """What stands in the record. `before`: what was known when it was asked for; what was committed since then is newer."""
        if record is not None and names(record, self._uid, position.epoch) and record.reader == self._process:
            if before is None or position.record is before:
                position.record = record
            position.sure_at = max(position.sure_at, asked_at)
        else:
            position.lost = _owner(record)
            position.other_process = names(record, self._uid, position.epoch)

    def _commit(
        self, partition: int, position: ReadPosition, record: Callable[[], Record] | None = None, within: float | None = None
    ) -> None:
        """With what `record` answers, or the usual one. Raises StaleOwner and QueueUnreachable."""
        with self._asking:
            for _ in range(_TRIES):
                asked_at, offset, written = time.monotonic(), position.progress.offset, (record or position.next_record)()
                try:
                    self._offsets.commit(partition, offset, written, within)
                except StaleToken:
                    self._follow(partition, position, written)
                    continue
                position.taken(offset, written, asked_at)
                return
        raise self._granted_on(partition)

    def _commit_several(self, partitions: Set[int]) -> None:
        """What is finished of these. Raises QueueUnreachable."""
        with self._asking:
            positions = {number: self._positions[number] for number in partitions & self._positions.keys()}
            due = {number: one for number, one in positions.items() if one.lost is None and one.progress.offset != one.committed}
            asked_at = time.monotonic()
            wanted = {number: (position.progress.offset, position.next_record()) for number, position in due.items()}
            refused = self._offsets.commit_several(wanted)
            for number, (offset, written) in wanted.items():
                problem = refused.get(number)
                if problem is None:
                    due[number].taken(offset, written, asked_at)
                elif isinstance(problem, StaleToken):
                    with suppress(StaleOwner):  # whoever reads it next is told
                        self._commit(number, due[number])
        for problem in refused.values():
            if isinstance(problem, QueueUnreachable):
                raise problem

    def _follow(self, partition: int, position: ReadPosition, tried: Record) -> None:
        """Another token is in force: it is this owner's own where the record names it still. Where the record has the one that
        was refused, whoever has taken another is between two requests, or has ended there."""
        record = self._offsets.stable(partition).record
        if record is not None and record.token == tried.token:
            time.sleep(_GRANTED_WITHIN)
            record = self._offsets.stable(partition).record
            if record is not None and record.token == tried.token and names(record, self._uid, position.epoch):
                try:
                    record = self._offsets.renewed(partition, lambda seen, end: None).record
                except StaleToken:
                    return  # it was only slow
        self._see(position, record, time.monotonic())
        if position.lost is not None:
            raise self._stale(partition, position.epoch, position.lost, other_process=position.other_process)

    def _granted_on(self, partition: int) -> QueueUnreachable:
        return QueueUnreachable(
            f"{self._address.place}: {self._queue}/{partition} is granted again and again: see that only one operator does"
        )

    def _commit_idle(self) -> None:
        due = time.monotonic() - _AGAIN_AFTER
        for partition, position in list(self._positions.items()):
            if position.committed_at < due and position.lost is None:
                self._commit(partition, position)

    def _stale(self, partition: int, epoch: Epoch, owner: Owner, *, other_process: bool = False) -> StaleOwner:
        return StaleOwner(partition, self._uid, epoch, owner, other_process=other_process)

    def _entry(self, partition: int, position: ReadPosition, message: Message) -> Entry:
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
