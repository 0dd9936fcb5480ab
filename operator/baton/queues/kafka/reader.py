"""A topic of Kafka, as its consumers see it.

Reading is Kafka's own, and cannot be refused: so the reader asks for the owner records where it has not seen them for a while.
"""

import logging
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import cast

from confluent_kafka import Message

from baton.model.ids import Epoch, QueueName, Uid
from baton.queues.consumer_side import SURE_FOR
from baton.queues.entries import Entries
from baton.queues.entry import Entry
from baton.queues.fence import StaleOwner
from baton.queues.kafka.address import KafkaAddress
from baton.queues.kafka.background_commits import BackgroundCommits
from baton.queues.kafka.client import ASKED_WITHIN
from baton.queues.kafka.commits import OwnerCommits
from baton.queues.kafka.dead_letters import DeadLetterTopic
from baton.queues.kafka.direct_handoffs import DirectHandoffs
from baton.queues.kafka.event_loop import EventLoopThread
from baton.queues.kafka.fetcher import Fetcher, PodFetchers
from baton.queues.kafka.group_offsets import GroupOffsets
from baton.queues.kafka.messages import MessageEntries
from baton.queues.kafka.read_position import ReadPosition
from baton.queues.kafka.take_up import TakingUp
from baton.queues.output import FinishedTogether
from baton.queues.protocol import Ownership, QueueUnreachable

log = logging.getLogger(__name__)

_MOST_BYTES = 64_000_000
_MOST_PENDING = 4_000_000
"""Weight of a partition's outputs, before their commit is waited for."""
_TAKEN_UP_WITHIN = 0.5
"""Seconds for which a reader waits for a partition that it lets go of while it is still taken up: of many, or at a slow
broker, that takes longer, and the others are read meanwhile."""
_FULL = "as much is finished behind it, or is to be sent of that, as may wait: no other is handed out before it is finished"
_ENDED = "its process has ended while it was worked on, more often than maxRedeliveries"


class KafkaReader:
    """Reads the topic of one queue for its owner, the pod with this UID. Its methods raise StaleOwner where (uid, epoch) is not
    the partition's owner, and QueueUnreachable; all of it may be repeated after an error. One thread reads; another may be in
    `wait` meanwhile."""

    def __init__(
        self,
        address: KafkaAddress,
        group: str,
        queue: QueueName,
        uid: Uid,
        loop: EventLoopThread,
        handoffs: DirectHandoffs,
        fetchers: PodFetchers,
    ) -> None:
        """`group`: the group id in Kafka. `loop`, `fetchers`: the pod's. `handoffs`: what its announcements tell of hand-offs."""
        self._loop = loop.user()
        self._fetchers = fetchers
        self._address = address
        self._group = group
        self._queue = queue
        self._uid = uid
        self._offsets = GroupOffsets(address, group, queue)
        self._fetcher: Fetcher | None = None
        self._dead_letters = DeadLetterTopic(address)
        self._in_hand = 0
        """Entries, of all partitions."""
        self._positions: dict[int, ReadPosition] = {}
        self._commits = OwnerCommits(self._offsets, queue, uid, self._positions, handoffs)
        self._background = BackgroundCommits(
            self._loop, self._commits.commit_several, self._commits.check_all, self._commits.is_about_to_let_go
        )
        self._taking_up = TakingUp(self._loop, self._commits, self._fetching, self._end, lambda: self._woken())
        self._woken: Callable[[], None] = lambda: None
        """What was last given to `wait_for`."""

    def read(
        self, partition: int, epoch: Epoch, count: int = 100, *, most_bytes: int = _MOST_BYTES, new: bool = True
    ) -> Sequence[Entry]:
        """Up to `count` entries in order, perhaps none. They have no more than `most_bytes`, unless the first alone has. `new`
        False: none, for what an earlier process of this pod had in hand is read as new."""
        if not new:
            return []
        position = self._of(partition, epoch)
        self._check_if_due(partition, position)
        self._set_exhausted_aside(partition, position)
        most = position.room(self._in_hand)
        if most == 0:
            return []
        messages = self._take(partition, position, count if most is None else min(count, most), most_bytes)
        offsets = cast("list[int]", list(map(Message.offset, messages)))
        entries = MessageEntries(self._queue, partition, position.epoch, messages, offsets, position.marked)
        position.handed_out(offsets)
        entries.times = position.times
        position.read.update(zip(entries.offsets, messages, strict=True))
        self._in_hand += len(entries)
        if not (position.record.tries or position.ended):
            return entries
        entries.attempts = {str(offset): tried for offset in offsets if (tried := position.tried(offset))}
        exhausted = [str(offset) for offset in filter(position.too_often, offsets)]
        position.exhausted.extend(exhausted)
        self._set_exhausted_aside(partition, position)
        if not exhausted:
            return entries
        others = Entries([entry for entry in entries if entry.offset not in exhausted])
        others.attempts = entries.attempts
        return others

    def ack(
        self,
        partition: int,
        epoch: Epoch,
        offsets: Sequence[str],
        *,
        soon: bool = False,
        together: Sequence[FinishedTogether] = (),
    ) -> None:
        """Finish with entries. The group's offset goes over those that are finished without a gap. `soon`: it does so a moment
        later, at the latest when the partition is let go of. `together`: what is sent in the transaction in which it goes over
        some of them."""
        position = self._of(partition, epoch)
        for those, outputs in together:
            places = [int(offset) for offset in those]
            if position.progress.is_unfinished(places[0]):  # else it was taken in before, and this is the same once more
                position.outputs.add(places, outputs)
        finished = [message for offset in offsets if (message := position.read.pop(offset, None)) is not None]
        before, careful = position.progress.unfinished, position.one_by_one
        position.progress.finish(cast("list[int]", list(map(Message.offset, finished))))
        self._in_hand -= before - position.progress.unfinished
        self._pass_marks(partition, position)
        if position.is_full and not position.full_logged:
            log.warning("%s/%d entry %s is not finished, and %s", self._queue, partition, position.offset, _FULL)
        position.full_logged = position.is_full
        if position.uncommitted and (careful or not soon or position.outputs.weight > _MOST_PENDING):
            self._commit(partition, position)
            return
        self._check_if_due(partition, position)
        if position.uncommitted:
            self._background.due(partition, at_once=bool(position.outputs))

    def retry(self, partition: int, epoch: Epoch, offset: str, why: str) -> bool:
        """Count one more delivery, for the owners to come, too: at once where there is a limit, else with the next commit. False:
        it was one too many (maxRedeliveries), and the entry is a dead letter."""
        position = self._of(partition, epoch)
        position.failed(int(offset))
        if position.record.most:
            self._commit(partition, position)
        else:
            self._check_if_due(partition, position)
            self._background.due(partition)
        exhausted = position.too_often(int(offset))
        if exhausted:
            self.set_aside(partition, epoch, offset, why)
        position.counted(int(offset))
        return not exhausted

    def begin_again(self, partition: int, epoch: Epoch, offset: str, times: int) -> bool:
        """See `Reader`: from here on a process that ends counts for this entry."""
        position = self._of(partition, epoch)
        if position.record.reserved > int(offset):  # it was asked for before
            self._check_owner(partition, position)
            return True
        position.first_not_begun = False
        self._loop.run(self._commits.reserve(partition, position, int(offset) + 1))
        return True

    def survived(self, partition: int, epoch: Epoch, offset: str) -> None:
        """See `Reader`. The next commit records it."""
        position = self._positions.get(partition)
        if position is not None and position.epoch == epoch and position.survived(int(offset)):
            with suppress(QueueUnreachable):  # the commit that was refused is tried again
                self._background.due(partition)

    def set_aside(self, partition: int, epoch: Epoch, offset: str, why: str) -> None:
        """The entry goes to the topic for dead letters; then it is finished with."""
        position = self._of(partition, epoch)
        self._check_owner(partition, position)
        message = position.read.get(offset)
        if message is not None:
            topic = position.record.dead_letters or f"{self._offsets.topic}.dead-letters"
            self._dead_letters.put(topic, message, why, self._group)
        self.ack(partition, epoch, [offset])

    def let_go(self, partitions: Mapping[int, Epoch], within: float, *, give_up: bool = False) -> Mapping[int, QueueUnreachable]:
        """Nothing more is done with what was read under these epochs. The records say how far that was, and where all of it is
        finished they say so: the next owner need not wait, and gets nothing marked redelivered. See `Reader.let_go`."""
        until = time.monotonic() + min(within, ASKED_WITHIN)
        untaken = self._release(partitions, until, give_up=give_up)
        left = min(max(0.0, until - time.monotonic()), _TAKEN_UP_WITHIN)
        taken_up, under_way = self._taking_up.withdraw(partitions, left, give_up=give_up)
        for partition, position in taken_up.items():
            self._hold(partition, position)
        untaken |= self._release({number: partitions[number] for number in taken_up}, until, give_up=give_up)
        place = f"{self._address.place}: {self._queue}"
        return untaken | {number: QueueUnreachable(f"{place}/{number} is still being taken up") for number in under_way}

    def verify(self, partition: int, epoch: Epoch) -> None:
        """Ask whether the partition still is the owner's."""
        self._check_owner(partition, self._of(partition, epoch))

    def sure_at(self, partition: int) -> float:
        """When the broker was asked for what was seen last of its record: a commit asks, too (monotonic). Of a partition that was
        not taken up yet nothing was asked: 0."""
        position = self._positions.get(partition)
        return position.sure_at if position is not None else 0.0

    def is_full(self) -> bool:
        """The pod has as many entries as it may have without finishing one (maxDeliveredUnacked). Any thread may ask."""
        mosts = [position.record.unacked for position in list(self._positions.values())]
        return any(most and self._in_hand >= most for most in mosts)

    def lag(self, partitions: Sequence[int]) -> int:
        """Entries of these partitions that are not committed. Any thread may ask; reading goes on meanwhile."""
        return self._loop.run(self._offsets.lag(tuple(partitions)), ASKED_WITHIN)

    def ready(self, partition: int, epoch: Epoch) -> bool:
        position = self._positions.get(partition)
        if position is None or position.epoch < epoch:
            return self._taking_up.ready(partition, epoch)
        if position.epoch != epoch:
            return False
        if position.exhausted:
            return True
        return self._fetcher is not None and self._fetcher.has(partition) and position.room(self._in_hand) != 0

    def wait_for(self, partitions: frozenset[int], woken: Callable[[], None]) -> None:
        """See `Reader.wait_for`; at once for one that was not read yet."""
        self._woken = woken
        if idle := self._commits.idle():
            self._background.due_again(idle)
        held = {number: self._positions.get(number) for number in partitions}
        with_room = frozenset(one for one, position in held.items() if position is not None and position.room(self._in_hand) != 0)
        if any(position is None and not self._taking_up.under_way(one) for one, position in held.items()):
            woken()
        elif self._fetcher is not None:
            self._fetcher.wait_for(with_room, woken)

    def close(self) -> None:
        self._background.close()
        self._taking_up.close()
        self._loop.close(self._offsets.close)
        if self._fetcher is not None:
            self._fetcher.close()
        self._dead_letters.close()

    # -- positions

    def _of(self, partition: int, epoch: Epoch) -> ReadPosition:
        """Raises StaleOwner."""
        position = self._positions.get(partition)
        if position is None or position.epoch < epoch:
            position = self._taking_up.take(partition, epoch)
            self._hold(partition, position)
        if position.epoch != epoch:
            raise StaleOwner(partition, self._uid, epoch, Ownership(position.record.uid, position.epoch))
        self._commits.raise_if_lost(partition, position)
        return position

    def _hold(self, partition: int, position: ReadPosition) -> None:
        """Instead of that of an earlier epoch."""
        former = self._positions.get(partition)
        self._in_hand -= former.progress.unfinished if former is not None else 0
        self._positions[partition] = position
        if position.handed_over:
            self._background.due_to_mark(partition)

    def _release(self, partitions: Mapping[int, Epoch], until: float, *, give_up: bool) -> dict[int, QueueUnreachable]:
        """Of those that are read."""
        left = {number: one for number, one in self._positions.items() if one.epoch == partitions.get(number)}
        for partition in left:
            self._end(partition)
        untaken = dict(self._loop.run(self._commits.release(left, until - time.monotonic()))) if left else {}
        for partition, position in left.items():
            if give_up or partition not in untaken:
                del self._positions[partition]
                self._in_hand -= position.progress.unfinished
        self._background.forget(left.keys() - self._positions.keys())
        return untaken

    def _check_if_due(self, partition: int, position: ReadPosition) -> None:
        """Look where that was not done for a while: a commit is a look, too."""
        if time.monotonic() - position.sure_at > SURE_FOR:
            self._check_owner(partition, position)

    def _check_owner(self, partition: int, position: ReadPosition) -> None:
        self._loop.run(self._commits.check_owner(partition, position))

    def _commit(self, partition: int, position: ReadPosition) -> None:
        self._loop.run(self._commits.commit(partition, position))

    # -- fetching

    def _end(self, partition: int) -> None:
        if self._fetcher is not None:
            self._fetcher.end(partition)

    def _fetching(self) -> Fetcher:
        former, topic = self._fetcher, self._offsets.topic
        if former is not None and former.topic == topic:
            return former
        made = self._fetcher = self._fetchers.take(topic)
        if former is not None:
            former.stop()
        return made

    def _set_exhausted_aside(self, partition: int, position: ReadPosition) -> None:
        while position.exhausted:
            offset = position.exhausted[0]
            self.set_aside(partition, position.epoch, offset, _ENDED)
            position.first_not_begun = False
            log.error("%s/%d entry %s moved to dead letters: %s", self._queue, partition, offset, _ENDED)
            position.exhausted.pop(0)

    def _take(self, partition: int, position: ReadPosition, count: int, most_bytes: int) -> list[Message]:
        assert self._fetcher is not None
        first = self._fetcher.next(partition)
        upto = 0
        if first is not None and position.first_not_begun and position.first is None:
            upto = first + 1  # it is reserved when it is begun
        if first is not None and first >= max(position.record.reserved, upto):
            self._loop.run(self._commits.reserve(partition, position, first + count))
        messages = self._fetcher.take(partition, count, most_bytes, max(position.record.reserved, upto))
        if not messages and self._pass_marks(partition, position):
            self._commit(partition, position)
        return messages

    def _pass_marks(self, partition: int, position: ReadPosition) -> bool:
        """Where everything was handed out, go over what stands behind it: marks of transactions are no entries. True: there is
        more to commit now."""
        end = self._fetcher.end_of_log(partition) if self._fetcher is not None else None
        if end is None:
            return False
        position.reached_end(time.monotonic())
        position.progress.skip_to(end)
        return position.uncommitted
