"""Reads a partitioned queue on Redis streams for a consumer.

Every request carries the owner and its epoch. The server rejects it unless they match the partition's owner record.
"""

import os
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from secrets import token_hex
from typing import Any, Self

from baton.model.ids import Epoch, QueueName, Uid
from baton.queues.entry import Entries, Entry
from baton.queues.fence import PartitionPaused, StaleOwner
from baton.queues.protocol import Ownership, QueueUnreachable
from baton.queues.redis import scripts
from baton.queues.redis.backlog import unfinished
from baton.queues.redis.connection import client
from baton.queues.redis.explanations import absent, explained
from baton.queues.redis.headers import unpack
from baton.queues.redis.keys import PartitionKeys, entry_number, partition_keys, queue_key
from baton.queues.redis.url import read
from baton.queues.redis.wakeup import ONLY_GRANTS, Wakeup
from baton.queues.waiting_thread import WaitingThread


def entries_of_reply(
    queue: QueueName, partition: int, epoch: Epoch, about: bytes, texts: bytes, *, again: int = 0, seen: int
) -> Iterator[Entry]:
    """Parse the answer of `told` in partition.lua. The first `again` entries were handed out before, as were those up to the
    number `seen`."""
    words = iter(about.decode().split())
    end, new = 0, False
    for nth, (offset, timestamp, of_key, of_value, of_headers) in enumerate(zip(words, words, words, words, words, strict=True)):
        value = end + int(of_key)
        headers = value + int(of_value)
        begin, end = end, headers + int(of_headers)
        new = new or (nth >= again and entry_number(offset) > seen)
        key, payload, others = texts[begin:value], texts[value:headers], texts[headers:end]
        yield Entry(queue, partition, offset, key, payload, int(timestamp), epoch, not new, unpack(others))


MOST_ENTRIES = 2**20
"""Entries per read: effectively no limit besides the caller's."""


@dataclass(slots=True)
class Position:
    """A reader's position in a partition, under one epoch."""

    epoch: int
    number: int
    """Counts all positions of this reader."""
    received: int = 0
    """The last entry that was received singly under this epoch."""
    tail: int | None = None
    """There is nothing to read up to this entry. None: no new entries are handed out now (the partition is paused or not
    owned)."""
    more: bool = True
    """Whether there may be something to read now."""
    began: bool = False
    """Whether this process has read the partition singly under this epoch. From then on the queue rejects this process once
    another process of the pod has read."""
    outstanding: int = 0
    """Entries that the member holds, according to the last answer."""
    asked: int = 0
    """The reader's request count at the last read."""
    most: int = MOST_ENTRIES
    """Entries to request in one read."""
    in_line: int = 0
    """Request count since which it waits for the member to finish other entries; 0: it does not wait."""
    kept: bool = False
    """Whether the queue counts the partition as in use until `release`."""
    counting: dict[str, int] = field(default_factory=dict)
    """By offset, the delivery count that is being written to the queue. The queue may have it already if its answer was lost."""


class Positions:
    """A reader's positions by partition. A member holds a limited number of entries of all its partitions together
    (maxDeliveredUnacked); partitions whose reads hit that limit wait in line."""

    def __init__(self) -> None:
        self._positions: dict[int, Position] = {}
        self._requests = 0
        self._made = 0

    @property
    def full(self) -> bool:
        """Whether any partition waits in line. Safe from any thread."""
        return any(position.in_line for position in list(self._positions.values()))

    def get(self, partition: int) -> Position | None:
        """None: not read yet."""
        return self._positions.get(partition)

    def of(self, partition: int, epoch: int) -> Position:
        """Return the position under this epoch. For an earlier epoch than the current one the answer is not kept, so that a late
        request does not lose the current position."""
        position = self._positions.get(partition)
        if position is None or position.epoch != epoch:
            newer = self._new(epoch)
            if position is not None and epoch < position.epoch:
                return newer
            self._replace(partition, newer)
            position = newer
        return position

    def recorded(self, partition: int, epoch: int, *, ours: bool) -> None:
        """Note the epoch of the owner record. `ours`: the reader's pod is the owner but does not know it from its ledger yet, so
        there may be something to read."""
        position = self._positions.get(partition)
        if position is None or position.epoch != epoch:
            self._replace(partition, self._new(epoch, more=ours))

    def release(self, partition: int, epoch: int) -> None:
        """Forget the position under this epoch; its entries no longer count."""
        position = self._positions.get(partition)
        if position is not None and position.epoch == epoch:
            self._replace(partition, None)

    def elsewhere(self, position: Position) -> int:
        """Return the part of the member's limit that this partition may not use: entries held of other partitions, and one for
        each partition that has waited longer. A partition that was not read since the last read of this one no longer waits.
        """
        since = position.in_line or self._requests + 1
        ahead = held = 0
        for other in self._positions.values():
            if (other.outstanding or other.in_line) and other is not position:
                held += other.outstanding
                ahead += 0 < other.in_line < since and other.asked > position.asked
        self._requests += 1
        position.asked = self._requests
        return held + ahead

    def note(self, position: Position, outstanding: int, in_line: int) -> None:
        """Note how many entries the partition holds, and its place in line. If it takes less of the member's limit than before,
        there may be room for the partitions that wait in line."""
        before = position.outstanding + (position.in_line > 0)
        now = outstanding + (0 < in_line == position.in_line)
        position.outstanding, position.in_line = outstanding, in_line
        if now < before:
            for other in self._positions.values():
                if other.in_line:
                    other.more = True

    def _replace(self, partition: int, position: Position | None) -> None:
        former = self._positions.get(partition)
        if position is not None:
            self._positions[partition] = position
        else:
            del self._positions[partition]
        if former is not None:
            self.note(former, 0, 0)

    def _new(self, epoch: int, *, more: bool = True) -> Position:
        self._made += 1
        return Position(epoch, self._made, more=more)


_ACKS = 5000
MOST_BYTES = 64_000_000
"""Default limit of an answer, in bytes."""


class RedisReader:
    """Reads partitions for their owner, the pod with this UID.

    `queue` is namespace/name. Reading and acknowledging raise StaleOwner if (uid, epoch) is not the partition's owner,
    PartitionPaused if no new entries are handed out because the partition is changing hands, and QueueUnreachable. Every call may
    be repeated after an error. One thread reads; another may be in `wait` meanwhile.
    """

    def __init__(self, url: str, queue: str, uid: str) -> None:
        self._queue = queue
        self._name = QueueName(queue.rpartition("/")[2])
        self._uid = uid
        self._url = read(url, own=True)
        self._client = client(self._url, queue_key(queue))
        self._wakeup = Wakeup(self._url, queue_key(queue))
        self._positions = Positions()
        self._sure_at: dict[int, float] = {}
        self._token = token_hex(6)
        self._waiting: WaitingThread | None = None

    def read(
        self,
        partition: int,
        epoch: Epoch,
        count: int = 100,
        *,
        most_bytes: int = MOST_BYTES,
        new: bool = True,
    ) -> Sequence[Entry]:
        """Return up to `count` entries in order, perhaps none: first unacknowledged entries that were handed out before, marked
        redelivered, then new ones. This reader gets each entry once; a new reader gets unacknowledged ones again. Keys, values
        and headers have at most `most_bytes` together, except for a single larger entry.

        A member holds at most maxDeliveredUnacked entries of all partitions that this reader reads; beyond that the answer is
        empty until entries are acknowledged. `Entries.times` has how often entries were handed out before.
        `new` False: only entries that another reader of this owner was handed before (its process was restarted).
        """
        position = self._positions.of(partition, epoch)
        elsewhere = self._positions.elsewhere(position)
        begins = int(not position.began)
        most = min(count, position.most)
        arguments = (self._uid, epoch, position.received, most, elsewhere, int(new), self._process(position), begins, most_bytes)
        try:
            answer = self._ask(scripts.READ, partition, arguments)
        except QueueUnreachable:
            position.most = 1  # perhaps the entries are so large that the answer took too long
            raise
        position.most = min(2 * position.most, MOST_ENTRIES)
        _, pending, seen, last, more, full, outstanding, about, texts, times, redeliveries = answer
        entries = list(entries_of_reply(self._name, partition, epoch, about, texts, again=pending, seen=seen))
        position.began = True
        if entries:
            position.received = entry_number(entries[-1].offset)
        position.more = more == 1 or not new
        position.tail = last
        waited = 0 if entries else position.in_line
        self._positions.note(position, outstanding, (waited or position.asked) if full == 1 else 0)
        if not times:
            return entries
        found = Entries(entries)
        found.times = dict(zip((entry.offset for entry in entries), map(int, times.split()), strict=False))
        found.bounded = redeliveries > 0
        return found

    def ack(self, partition: int, epoch: Epoch, offsets: Sequence[str], *, soon: bool = False) -> None:
        """Finish entries that were read under `epoch`, ignoring those already finished. Always waits for the answer: `soon` has
        no effect, as this is one short request."""
        position = self._positions.of(partition, epoch)
        for begin in range(0, len(offsets), _ACKS):
            ids = " ".join(offsets[begin : begin + _ACKS])
            _, _, outstanding = self._ask(scripts.ACK, partition, (self._uid, epoch, self._known_as(position), ids))
            self._positions.note(position, outstanding, position.in_line)

    def retry(self, partition: int, epoch: Epoch, offset: str, why: str) -> bool:
        """Count one more delivery of an entry that its owner failed to process. Repeating it after an error counts one delivery.
        False: the entry exceeded maxRedeliveries and is a dead letter now, with the reason `why`; or it was finished before.
        """
        counting = self._positions.of(partition, epoch).counting
        if offset not in counting:
            again, before = self._failed(partition, epoch, offset, why)
            if not again:
                return False
            counting[offset] = before + 1
        again, _ = self._failed(partition, epoch, offset, why, deliveries=counting[offset])
        del counting[offset]
        return again

    def begin_again(self, partition: int, epoch: Epoch, offset: str, times: int) -> bool:
        why = f"handed out {times} times and never acknowledged"
        again, _ = self._failed(partition, epoch, offset, why, deliveries=times + 1)
        return again

    def set_aside(self, partition: int, epoch: Epoch, offset: str, why: str) -> None:
        self._failed(partition, epoch, offset, why, final=True)

    def verify(self, partition: int, epoch: Epoch) -> None:
        position = self._positions.of(partition, epoch)
        self._ask(scripts.VERIFY, partition, (self._uid, epoch, self._known_as(position)))

    def keep(self, partition: int, epoch: Epoch) -> None:
        self._keep(self._positions.of(partition, epoch), partition, kept=True)

    def sure_at(self, partition: int) -> float:
        """See `Reader`. Every successful request confirms the ownership."""
        return self._sure_at.get(partition, 0.0)

    def is_full(self) -> bool:
        return self._positions.full

    def lag(self, partitions: Sequence[int]) -> int:
        """Return the number of unfinished entries of these partitions. Safe from any thread."""
        with explained(self._url, self._queue):
            return unfinished(self._client, map(self._keys, partitions))

    def release(self, partitions: Mapping[int, Epoch], within: float, *, give_up: bool = False) -> Mapping[int, QueueUnreachable]:
        """See `Reader`. Entries of these partitions no longer count for maxDeliveredUnacked, and this reader gets them again if
        it reads the partition again. The queue has all acknowledgements already, so only kept partitions (`keep`) need a request,
        and none with `give_up`."""
        failed: dict[int, QueueUnreachable] = {}
        for partition, epoch in partitions.items():
            position = self._positions.get(partition)
            if position is not None and position.epoch == epoch and position.kept and not give_up:
                try:
                    if failed:
                        raise next(iter(failed.values()))
                    self._keep(position, partition, kept=False)
                except QueueUnreachable as problem:
                    failed[partition] = problem
                    continue
                except StaleOwner:
                    pass
            self._positions.release(partition, epoch)
        return failed

    def ready(self, partition: int, epoch: Epoch) -> bool:
        position = self._positions.get(partition)
        return position is None or position.epoch < epoch or (position.epoch == epoch and position.more)

    def wait(self, partitions: Sequence[int], timeout: float) -> set[int]:
        """Wait until there may be something to read in one of these partitions, or a new grant.

        Returns these partitions; the empty set after `timeout` seconds. Read before waiting: a partition that was not read yet,
        or not to its end, ends the wait at once. The server wakes the waiter; nothing is polled. Without partitions, waits for
        the timeout or an interrupt.
        """
        positions = {partition: self._positions.get(partition) for partition in partitions}
        ready = {partition for partition, position in positions.items() if position is None or position.more}
        if ready:
            return ready
        partition_of = {self._keys(partition).wake: partition for partition in partitions}
        streams = {
            key: f"{position.epoch}-{ONLY_GRANTS if position.tail is None else position.tail}"
            for key, partition in partition_of.items()
            if (position := positions[partition])
        }
        woken = set(partitions)  # after a failure the server may have forgotten the waiting client
        try:
            with explained(self._url, self._queue):
                woken = {partition_of[key] for key in self._wakeup.wait(streams, timeout)}
        finally:
            for partition in woken:
                if position := positions[partition]:
                    position.more = True
        return woken

    def wait_for(self, partitions: frozenset[int], woken: Callable[[], None]) -> None:
        """See `Reader`. `wait` runs in a separate thread."""
        if self._waiting is None:
            self._waiting = WaitingThread(self.wait, self.interrupt, woken)
        self._waiting.wait_for(partitions)

    def interrupt(self) -> None:
        self._wakeup.interrupt()

    def close(self) -> None:
        if self._waiting is not None:
            self._waiting.close()
        self._wakeup.close()
        self._client.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    def _keep(self, position: Position, partition: int, *, kept: bool) -> None:
        self._ask(scripts.VERIFY, partition, (self._uid, position.epoch, self._known_as(position), int(kept)))
        position.kept = kept

    def _failed(
        self, partition: int, epoch: Epoch, offset: str, why: str, *, final: bool = False, deliveries: int = 0
    ) -> tuple[bool, int]:
        position = self._positions.of(partition, epoch)
        arguments = (self._uid, epoch, self._known_as(position), offset, why, int(final), deliveries)
        _, again, outstanding, before = self._ask(scripts.RETRY, partition, arguments)
        self._positions.note(position, outstanding, position.in_line)
        return bool(again), before

    def _ask(self, script: scripts.Script, partition: int, arguments: Sequence[Any]) -> list[Any]:
        asked_at = time.monotonic()
        with explained(self._url, self._queue):
            answer: list[Any] = script.run(self._client, self._keys(partition), arguments)
        uid, epoch = arguments[0], arguments[1]
        match answer[0]:
            case b"STALE":
                _, recorded, recorded_epoch, paused, other_process = answer
                record = Ownership(Uid(recorded.decode()) if recorded else None, Epoch(recorded_epoch), paused == 1)
                self._positions.recorded(partition, recorded_epoch, ours=record.uid == uid)
                raise StaleOwner(partition, uid, epoch, record, other_process=other_process == 1)
            case b"UNKNOWN":
                raise QueueUnreachable(absent(self._url, f"partition {partition} of", self._queue))
            case b"PAUSED":
                position = self._positions.of(partition, epoch)
                position.tail, position.more = None, False
                self._positions.note(position, position.outstanding, 0)
                raise PartitionPaused(partition)
        self._sure_at[partition] = asked_at
        return answer

    def _keys(self, partition: int) -> PartitionKeys:
        return partition_keys(self._queue, partition)

    def _process(self, position: Position) -> str:
        """Identify the reading process and position: a partition that is read again after `release` has another position, and a
        forked process is another process."""
        return f"{self._token}-{os.getpid()}-{position.number}"

    def _known_as(self, position: Position) -> str:
        """The identity of `_process` once the queue knows it; empty before the first read."""
        return self._process(position) if position.began else ""
