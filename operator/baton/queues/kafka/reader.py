"""A topic of Kafka, as its consumers read it.

Kafka rejects no reader, so the reader itself checks the owner records after some time without a look or a commit.
"""

import logging
import time
from collections.abc import Callable, Mapping, Sequence, Set
from contextlib import suppress
from typing import cast

from confluent_kafka import Message

from baton.model.ids import Epoch, QueueName, Uid
from baton.queues.consumer_side import SURE_FOR
from baton.queues.entry import Entries, Entry
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
"""Weight of a partition's outputs from which an acknowledgement waits for the commit."""
_TAKEN_UP_WITHIN = 0.5
"""Seconds that a release waits for a partition that is still being taken up: with many partitions, or a slow broker, that takes
longer, and the others are read meanwhile."""
_FULL = "as many finished entries or outputs as allowed wait behind it: nothing more is handed out until it is finished"
_ENDED = "it failed, or processes ended on it, more often than maxRedeliveries allows"


class KafkaReader:
    """Reads the topic of one queue for its owner, the pod with this UID. Methods raise StaleOwner if (uid, epoch) is not the
    partition's owner, and QueueUnreachable; every call may be repeated after an error. One thread reads."""

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
        """`group`: the group id in Kafka. `loop`, `fetchers`: shared by the pod. `handoffs`: what the pod's announcements say
        about hand-offs."""
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
        """Entries handed out and not finished, of all partitions."""
        self._positions: dict[int, ReadPosition] = {}
        self._commits = OwnerCommits(self._offsets, queue, uid, self._positions, handoffs)
        self._background = BackgroundCommits(
            self._loop, self._commit_several, self._commits.check_all, self._commits.is_about_to_release
        )
        self._taking_up = TakingUp(self._loop, self._commits, self._fetching, self._end, lambda: self._woken())
        self._woken: Callable[[], None] = lambda: None
        """The last argument of `wait_for`."""

    def read(
        self, partition: int, epoch: Epoch, count: int = 100, *, most_bytes: int = _MOST_BYTES, new: bool = True
    ) -> Sequence[Entry]:
        """Return up to `count` entries in order, perhaps none, with `most_bytes` in all unless the first alone has more. `new`
        False: none, as the entries of an earlier process of this pod are read as new ones."""
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
        with suppress(QueueUnreachable):  # the next read tries again: the others were taken and would not come again
            self._set_exhausted_aside(partition, position)
        if not exhausted:
            return entries
        others = Entries([entry for entry in entries if entry.offset not in exhausted])
        others.attempts, others.without_key = entries.attempts, entries.without_key
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
        """Finish entries. The group's offset passes those that are finished without a gap. `soon`: it may do so a moment later,
        at the latest when the partition is released. `together`: outputs that go in the transaction in which the offset passes
        their entries."""
        position = self._of(partition, epoch)
        for those, outputs in together:
            places = [int(offset) for offset in those]
            if position.progress.is_unfinished(places[0]):  # else an earlier call has added them
                position.outputs.add(places, outputs)
        finished = [message for offset in offsets if (message := position.read.pop(offset, None)) is not None]
        before, one_by_one = position.progress.unfinished, position.one_by_one
        position.progress.finish(cast("list[int]", list(map(Message.offset, finished))))
        self._in_hand -= before - position.progress.unfinished
        self._pass_marks(partition, position)
        if position.is_full and not position.full_logged:
            log.warning("%s/%d entry %s is not finished, and %s", self._queue, partition, position.offset, _FULL)
        position.full_logged = position.is_full
        if position.uncommitted and (one_by_one or not soon or position.outputs.weight > _MOST_PENDING):
            self._commit(partition, position)
            return
        self._check_if_due(partition, position)
        if position.uncommitted:
            self._background.due(partition, at_once=bool(position.outputs))

    def retry(self, partition: int, epoch: Epoch, offset: str, why: str) -> bool:
        """Count one more delivery, for later owners too: at once with maxRedeliveries, otherwise with the next commit. Return
        False if that was one too many and the entry is now a dead letter."""
        position = self._of(partition, epoch)
        position.failed(int(offset))
        if position.record.most:
            self._commit(partition, position)
        else:
            self._check_if_due(partition, position)
            self._background.due(partition, at_once=position.outlived)
        exhausted = position.too_often(int(offset))
        if exhausted:
            self.set_aside(partition, epoch, offset, why)
        position.counted(int(offset))
        return not exhausted

    def begin_again(self, partition: int, epoch: Epoch, offset: str, times: int) -> bool:
        """See `Reader`. From now on the entry counts a process that ends."""
        position = self._of(partition, epoch)
        if position.record.reserved > int(offset):  # an earlier call has reserved it
            self._check_owner(partition, position)
            return True
        position.first_not_begun = False
        self._loop.run(self._commits.reserve(partition, position, int(offset) + 1))
        return True

    def survived(self, partition: int, epoch: Epoch, offset: str) -> None:
        """See `Reader`. A commit in the background records it, at once: entries of other keys may wait for it."""
        position = self._positions.get(partition)
        if position is not None and position.epoch == epoch and position.survived(int(offset)):
            self._background.due_again([partition], at_once=True)

    def set_aside(self, partition: int, epoch: Epoch, offset: str, why: str) -> None:
        """Write the entry to the topic for dead letters, then finish it."""
        position = self._of(partition, epoch)
        self._check_owner(partition, position)
        message = position.read.get(offset)
        if message is not None:
            topic = position.record.dead_letters or f"{self._offsets.topic}.dead-letters"
            self._dead_letters.put(topic, message, why, self._group)
        self.ack(partition, epoch, [offset])

    def release(self, partitions: Mapping[int, Epoch], within: float, *, give_up: bool = False) -> Mapping[int, QueueUnreachable]:
        """See `Reader.release`. The records say how far the partitions were read and whether everything was finished: then the
        next owner need not wait, and gets nothing marked redelivered."""
        until = time.monotonic() + min(within, ASKED_WITHIN)
        untaken = self._release_taken_up(partitions, until, give_up=give_up)
        left = min(max(0.0, until - time.monotonic()), _TAKEN_UP_WITHIN)
        taken_up, under_way = self._taking_up.withdraw(partitions, left, give_up=give_up)
        for partition, position in taken_up.items():
            self._hold(partition, position)
        untaken |= self._release_taken_up({number: partitions[number] for number in taken_up}, until, give_up=give_up)
        place = f"{self._address.place}: {self._queue}"
        return untaken | {number: QueueUnreachable(f"{place}/{number} is still being taken up") for number in under_way}

    def verify(self, partition: int, epoch: Epoch) -> None:
        self._check_owner(partition, self._of(partition, epoch))

    def sure_at(self, partition: int) -> float:
        """See `Reader`. A look or a commit confirms the ownership."""
        position = self._positions.get(partition)
        return position.sure_at if position is not None else 0.0

    def is_full(self) -> bool:
        mosts = [position.record.unacked for position in list(self._positions.values())]
        return any(most and self._in_hand >= most for most in mosts)

    def lag(self, partitions: Sequence[int]) -> int:
        """Return how many entries of these partitions are not committed. Any thread may call; reading goes on meanwhile."""
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
        """See `Reader.wait_for`. Calls `woken` at once if one of the partitions was not read yet."""
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
        """Return the partition's position, taking it up if needed. Raises StaleOwner."""
        position = self._positions.get(partition)
        if position is None or position.epoch < epoch:
            position = self._taking_up.take(partition, epoch)
            self._hold(partition, position)
        if position.epoch != epoch:
            raise StaleOwner(partition, self._uid, epoch, Ownership(position.record.uid, position.epoch))
        self._commits.raise_if_lost(partition, position)
        return position

    def _hold(self, partition: int, position: ReadPosition) -> None:
        """Keep this position, replacing that of an earlier epoch."""
        former = self._positions.get(partition)
        self._in_hand -= former.progress.unfinished if former is not None else 0
        self._positions[partition] = position
        if position.handed_over:
            self._background.due_again([partition], to_mark=True)

    def _release_taken_up(self, partitions: Mapping[int, Epoch], until: float, *, give_up: bool) -> dict[int, QueueUnreachable]:
        """Release those that were taken up."""
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
        """Check the owner record unless it was seen lately; a commit counts as a look."""
        if time.monotonic() - position.sure_at > SURE_FOR:
            self._check_owner(partition, position)

    def _check_owner(self, partition: int, position: ReadPosition) -> None:
        self._loop.run(self._commits.check_owner(partition, position))

    def _commit(self, partition: int, position: ReadPosition) -> None:
        self._loop.run(self._commits.commit(partition, position))

    async def _commit_several(self, partitions: Set[int]) -> Mapping[int, QueueUnreachable]:
        """Commit these in the background. Report partitions of which more may be read since."""
        held_up = [one for number in partitions if (one := self._positions.get(number)) is not None and one.ended]
        problems = await self._commits.commit_several(partitions)
        if not all(one.ended for one in held_up):
            self._woken()
        return problems

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
            upto = first + 1  # `begin_again` reserves it
        if first is not None and first >= max(position.record.reserved, upto):
            self._loop.run(self._commits.reserve(partition, position, first + count))
        messages = self._fetcher.take(partition, count, most_bytes, max(position.record.reserved, upto))
        if not messages and self._pass_marks(partition, position):
            self._commit(partition, position)
        return messages

    def _pass_marks(self, partition: int, position: ReadPosition) -> bool:
        """Once everything was handed out, skip the transaction markers behind it. Return whether there is something to commit."""
        end = self._fetcher.end_of_log(partition) if self._fetcher is not None else None
        if end is None:
            return False
        position.reached_end(time.monotonic())
        position.progress.skip_to(end)
        return position.uncommitted
