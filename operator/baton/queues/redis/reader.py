"""A partitioned queue on Redis streams, as its consumers see it.

Every request names its owner and epoch, and is refused by the server where that is not who owns the partition.
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
    """What `told` in partition.lua answers, in order. The first `again` of these were handed out before, as were those up to the
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


AT_ONCE = 2**20
"""Entries: as good as no bound of their own."""


@dataclass(slots=True)
class Position:
    """Where this reader is in a partition, under one epoch."""

    epoch: int
    nth: int
    """Of all that this reader had."""
    received: int = 0
    """The last entry that it received singly under this epoch."""
    tail: int | None = None
    """Nothing up to this entry is to be had; None: no new entry would be handed out now (paused, or not ours)."""
    more: bool = True
    """There may be something to read right now."""
    began: bool = False
    """This process has read it singly under this epoch. From then on the queue refuses it once another process of the pod has."""
    outstanding: int = 0
    """What the member holds of it, as the server last said."""
    asked: int = 0
    """When it was last asked for, in this reader's count of requests."""
    most: int = AT_ONCE
    """Entries that are asked for at once."""
    in_line: int = 0
    """Since when it waits for the member to finish with other entries; 0: it does not."""
    kept: bool = False
    """The queue was asked to count it as in use until it is let go of."""
    counting: dict[str, int] = field(default_factory=dict)
    """How often entries have been handed out, with a time that the queue is being told of: it may have heard, and its answer be
    lost."""


class Positions:
    """By partition. A member may hold so many entries of all partitions together (maxDeliveredUnacked); those of its partitions
    that are refused for that wait in line."""

    def __init__(self) -> None:
        self._positions: dict[int, Position] = {}
        self._requests = 0
        self._made = 0

    @property
    def full(self) -> bool:
        """Some wait in line. Any thread may ask."""
        return any(position.in_line for position in list(self._positions.values()))

    def found(self, partition: int) -> Position | None:
        """None: it was not read yet."""
        return self._positions.get(partition)

    def of(self, partition: int, epoch: int) -> Position:
        """Under this epoch. A late word of an earlier epoch does not make a reader lose its place."""
        position = self._positions.get(partition)
        if position is None or position.epoch != epoch:
            newer = self._new(epoch)
            if position is not None and epoch < position.epoch:
                return newer
            position = self._positions[partition] = newer
        return position

    def recorded(self, partition: int, epoch: int, *, ours: bool) -> None:
        """The queue has this epoch on record. `ours`: it is the reader's, and its ledger has not told it yet, so there may be
        something to read."""
        position = self._positions.get(partition)
        if position is None or position.epoch != epoch:
            self._positions[partition] = self._new(epoch, more=ours)

    def let_go(self, partition: int, epoch: int) -> None:
        """What was read under this epoch does not count any more."""
        position = self._positions.get(partition)
        if position is not None and position.epoch == epoch:
            del self._positions[partition]
            self.finished(position, 0)

    def elsewhere(self, position: Position) -> int:
        """How many entries the member may not have of this partition: what it holds of others, and one for each that waits
        longer. One that was not asked for since this one last was does not wait any more.
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

    def finished(self, position: Position, outstanding: int) -> None:
        """So much is left of it. There may be room for those that wait in line."""
        position.outstanding = outstanding
        for other in self._positions.values():
            if other.in_line:
                other.more = True

    def _new(self, epoch: int, *, more: bool = True) -> Position:
        self._made += 1
        return Position(epoch, self._made, more=more)


def holds(position: Position, outstanding: int, *, full: bool = False) -> None:
    """The member holds so much of it; `full`: it may not have more, and waits in line."""
    position.outstanding = outstanding
    position.in_line = (position.in_line or position.asked) if full else 0


_ACKS = 5000
MOST_BYTES = 64_000_000
"""In one answer, if its user does not say so."""


class RedisReader:
    """Reads partitions for their owner, the pod with this UID.

    `queue` is namespace/name. Reading and acknowledging raise StaleOwner where (uid, epoch) is not the partition's owner,
    PartitionPaused where nothing new is handed out because it is changing hands, and QueueUnreachable. All of it may be
    repeated after an error. One thread reads; another may be in `wait` meanwhile.
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
        """Up to `count` entries in order, perhaps none: first those that were handed out before and not acknowledged, marked
        redelivered, then new ones. What was handed out is not handed out again to this reader; a new reader gets it again.
        They have no more than `most_bytes` of keys, values and headers, unless the first alone has.

        A member holds no more than the queue's maxDeliveredUnacked over all partitions that this reader reads for it; beyond
        that the answer is empty until something is acknowledged. The answer says how often entries were handed out before
        (`Entries.times`).
        `new` False: only what this owner was handed out before, by another reader (its process was restarted).
        """
        position = self._positions.of(partition, epoch)
        elsewhere = self._positions.elsewhere(position)
        begins = int(not position.began)
        most = min(count, position.most)
        arguments = (self._uid, epoch, position.received, most, elsewhere, int(new), self._process(position), begins, most_bytes)
        try:
            answer = self._ask(scripts.READ, partition, arguments)
        except QueueUnreachable:
            position.most = 1  # perhaps they are so large that it took too long
            raise
        position.most = min(2 * position.most, AT_ONCE)
        _, pending, seen, last, more, full, outstanding, about, texts, times, redeliveries = answer
        entries = list(entries_of_reply(self._name, partition, epoch, about, texts, again=pending, seen=seen))
        position.began = True
        if entries:
            position.received = entry_number(entries[-1].offset)
            position.in_line = 0
        position.more = more == 1 or not new
        position.tail = last
        holds(position, outstanding, full=full == 1)
        if not times:
            return entries
        found = Entries(entries)
        found.times = dict(zip((entry.offset for entry in entries), map(int, times.split()), strict=False))
        found.bounded = redeliveries > 0
        return found

    def ack(self, partition: int, epoch: Epoch, offsets: Sequence[str], *, soon: bool = False) -> None:
        """Finish with entries that were read under `epoch`. Those that are finished with already are passed over. It is one short
        request, so `soon` is at once."""
        position = self._positions.of(partition, epoch)
        for begin in range(0, len(offsets), _ACKS):
            ids = " ".join(offsets[begin : begin + _ACKS])
            _, _, outstanding = self._ask(scripts.ACK, partition, (self._uid, epoch, self._known_as(position), ids))
            self._positions.finished(position, outstanding)

    def retry(self, partition: int, epoch: Epoch, offset: str, why: str) -> bool:
        """Count one more delivery of an entry that its owner has failed with: one, however often this is asked for before it is
        answered. False: it was one too many (maxRedeliveries), and the entry is with the dead letters now, with `why` it failed;
        or it was finished with before.
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
        """See `Reader`."""
        why = f"handed out {times} times and never acknowledged"
        again, _ = self._failed(partition, epoch, offset, why, deliveries=times + 1)
        return again

    def set_aside(self, partition: int, epoch: Epoch, offset: str, why: str) -> None:
        """Finish with an entry that no other try would help: it goes to the dead letters, with `why`."""
        self._failed(partition, epoch, offset, why, hopeless=True)

    def verify(self, partition: int, epoch: Epoch) -> None:
        """Ask whether the partition still is the owner's: for one who was away and holds entries that he has not begun."""
        position = self._positions.of(partition, epoch)
        self._ask(scripts.VERIFY, partition, (self._uid, epoch, self._known_as(position)))

    def keep(self, partition: int, epoch: Epoch) -> None:
        """Have the partition count as in use until it is let go of, also while nothing of it is outstanding."""
        self._keep(self._positions.of(partition, epoch), partition, kept=True)

    def sure_at(self, partition: int) -> float:
        """When it was last asked for with success (monotonic; 0: never): each question is one whether it still is the owner's."""
        return self._sure_at.get(partition, 0.0)

    def is_full(self) -> bool:
        """The member has as many entries as it may have without acknowledging one (maxDeliveredUnacked). Any thread may ask."""
        return self._positions.full

    def lag(self, partitions: Sequence[int]) -> int:
        """Entries of these partitions that are not finished with. Any thread may ask."""
        with explained(self._url, self._queue):
            return unfinished(self._client, map(self._keys, partitions))

    def let_go(self, partitions: Mapping[int, Epoch], within: float, *, give_up: bool = False) -> Mapping[int, QueueUnreachable]:
        """Nothing more is done with what was read under these epochs: it does not count for maxDeliveredUnacked any more, and
        comes again should this reader be asked for it. The queue has all that was acknowledged, so it is only told of what was
        kept (`keep`), and of nothing that is given up."""
        untaken: dict[int, QueueUnreachable] = {}
        for partition, epoch in partitions.items():
            position = self._positions.found(partition)
            if position is not None and position.epoch == epoch and position.kept and not give_up:
                try:
                    if untaken:
                        raise next(iter(untaken.values()))
                    self._keep(position, partition, kept=False)
                except QueueUnreachable as problem:
                    untaken[partition] = problem
                    continue
                except StaleOwner:
                    pass
            self._positions.let_go(partition, epoch)
        return untaken

    def ready(self, partition: int, epoch: Epoch) -> bool:
        """There may be something to read right now, as far as reading, acknowledging and waiting have shown. Sends no request."""
        position = self._positions.found(partition)
        return position is None or position.epoch < epoch or (position.epoch == epoch and position.more)

    def wait(self, partitions: Sequence[int], timeout: float) -> set[int]:
        """Wait until there may be something to read in one of these partitions, or a new grant.

        Answers which; the empty set after `timeout` seconds. Read before you wait: a partition
        that was not read yet, or not to its end, ends the wait at once. The server wakes the waiter; nothing is polled.
        No partitions: waits for the timeout or an interrupt.
        """
        positions = {partition: self._positions.found(partition) for partition in partitions}
        ready = {partition for partition, position in positions.items() if position is None or position.more}
        if ready:
            return ready
        partition_of = {self._keys(partition).wake: partition for partition in partitions}
        streams = {
            key: f"{position.epoch}-{ONLY_GRANTS if position.tail is None else position.tail}"
            for key, partition in partition_of.items()
            if (position := positions[partition])
        }
        woken = set(partitions)  # after a failure the server may have forgotten who waits
        try:
            with explained(self._url, self._queue):
                woken = {partition_of[key] for key in self._wakeup.wait(streams, timeout)}
        finally:
            for partition in woken:
                if position := positions[partition]:
                    position.more = True
        return woken

    def wait_for(self, partitions: frozenset[int], woken: Callable[[], None]) -> None:
        """`wait` in a thread of its own, and call `woken` then. A wait for all of these that is under way goes on."""
        if self._waiting is None:
            self._waiting = WaitingThread(self.wait, self.interrupt, woken)
        self._waiting.wait_for(partitions)

    def interrupt(self) -> None:
        """End the wait that another thread is in, or the next one."""
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
        self, partition: int, epoch: Epoch, offset: str, why: str, *, hopeless: bool = False, deliveries: int = 0
    ) -> tuple[bool, int]:
        position = self._positions.of(partition, epoch)
        arguments = (self._uid, epoch, self._known_as(position), offset, why, int(hopeless), deliveries)
        _, again, outstanding, before = self._ask(scripts.RETRY, partition, arguments)
        self._positions.finished(position, outstanding)
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
                position.tail, position.more, position.in_line = None, False, 0
                raise PartitionPaused(partition)
        self._sure_at[partition] = asked_at
        return answer

    def _keys(self, partition: int) -> PartitionKeys:
        return partition_keys(self._queue, partition)

    def _process(self, position: Position) -> str:
        """Who reads, from where: what was let go of and is read again was handed out before. A process that is forked from this
        one is another."""
        return f"{self._token}-{os.getpid()}-{position.nth}"

    def _known_as(self, position: Position) -> str:
        """The process, where the queue knows which one reads."""
        return self._process(position) if position.began else ""
