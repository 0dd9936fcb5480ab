"""A partitioned queue on Redis streams, as its consumers see it.

Every request names its owner and epoch, and is refused by the server where that is not who owns the partition.
"""

import os
import time
from collections.abc import Callable, Mapping, Sequence
from secrets import token_hex
from typing import Any, Self

from baton.model.ids import Epoch, QueueName, Uid
from baton.queues.entries import Entries
from baton.queues.entry import Entry
from baton.queues.fence import PartitionPaused, StaleOwner
from baton.queues.protocol import Owner, QueueUnreachable
from baton.queues.redis import scripts
from baton.queues.redis.backlog import unfinished
from baton.queues.redis.connection import client
from baton.queues.redis.entry_replies import entries_of_reply
from baton.queues.redis.explanations import absent, explained
from baton.queues.redis.keys import KeysOfPartitions, entry_number, queue_key
from baton.queues.redis.positions import AT_ONCE, Position, Positions, holds
from baton.queues.redis.url import read
from baton.queues.redis.wakeup import ONLY_GRANTS, Wakeup
from baton.queues.waiting_thread import WaitingThread

_ACKS = 5000
_ENDED = "its processes have ended while it was worked on"
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
        self._keys = KeysOfPartitions(queue)
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
        that the answer is empty until something is acknowledged. Where the queue has maxRedeliveries, what was handed out
        before comes one by one, and what was handed out too often has gone to the dead letters; else the answer says how often it
        was handed out (`Entries.times`).
        `new` False: only what this owner was handed out before, by another reader (its process was restarted).
        """
        position = self._positions.of(partition, epoch)
        elsewhere = self._positions.elsewhere(position)
        begins = int(not position.began)
        most = min(count, position.most)
        arguments = (self._uid, epoch, position.received, most, elsewhere, int(new), self._process(position), begins, most_bytes)
        answer = self._entries(scripts.READ, position, partition, arguments)
        _, pending, seen, last, more, full, outstanding, about, texts, times = answer
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
        again, _ = self._failed(partition, epoch, offset, _ENDED, deliveries=times + 1)
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
            return unfinished(self._client, map(self._keys.of, partitions))

    def let_go(self, partitions: Mapping[int, Epoch], within: float, *, give_up: bool = False) -> Mapping[int, QueueUnreachable]:
        """Nothing more is done with what was read under these epochs: it does not count for maxDeliveredUnacked any more, and
        comes again should this reader be asked for it. The queue has all that was acknowledged, so it is only told of what was
        kept (`keep`), and of nothing that is given up."""
        untaken: dict[int, QueueUnreachable] = {}
        for partition, epoch in partitions.items():
            position = self._positions.found(partition)
            if position is not None and position.epoch == epoch and position.kept and not give_up:
                problem = next(iter(untaken.values()), None) or self._no_longer_kept(position, partition)
                if problem is not None:
                    untaken[partition] = problem
                    continue
            self._positions.let_go(partition, epoch)
        return untaken

    def ready(self, partition: int, epoch: Epoch) -> bool:
        """There may be something to read right now, as far as reading, acknowledging and waiting have shown. Asks nobody."""
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
        partition_of = {self._keys.of(partition).wake: partition for partition in partitions}
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

    def _no_longer_kept(self, position: Position, partition: int) -> QueueUnreachable | None:
        """The answer: why the queue has not taken that."""
        try:
            self._keep(position, partition, kept=False)
        except QueueUnreachable as problem:
            return problem
        except StaleOwner:
            pass
        return None

    def _failed(
        self, partition: int, epoch: Epoch, offset: str, why: str, *, hopeless: bool = False, deliveries: int = 0
    ) -> tuple[bool, int]:
        position = self._positions.of(partition, epoch)
        arguments = (self._uid, epoch, self._known_as(position), offset, why, int(hopeless), deliveries)
        _, again, outstanding, before = self._ask(scripts.RETRY, partition, arguments)
        self._positions.finished(position, outstanding)
        return bool(again), before

    def _entries(self, script: scripts.Script, position: Position, partition: int, arguments: Sequence[Any]) -> list[Any]:
        try:
            answer = self._ask(script, partition, arguments)
        except QueueUnreachable:
            position.most = 1  # perhaps they are so large that it took too long
            raise
        position.most = min(2 * position.most, AT_ONCE)
        return answer

    def _ask(self, script: scripts.Script, partition: int, arguments: Sequence[Any]) -> list[Any]:
        asked_at = time.monotonic()
        with explained(self._url, self._queue):
            answer: list[Any] = script.run(self._client, self._keys.of(partition), arguments)
        uid, epoch = arguments[0], arguments[1]
        match answer[0]:
            case b"STALE":
                _, recorded, recorded_epoch, paused, other_process = answer
                record = Owner(Uid(recorded.decode()) if recorded else None, Epoch(recorded_epoch), paused == 1)
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

    def _process(self, position: Position) -> str:
        """Who reads, from where: what was let go of and is read again was handed out before. A process that is forked from this
        one is another."""
        return f"{self._token}-{os.getpid()}-{position.nth}"

    def _known_as(self, position: Position) -> str:
        """The process, where the queue knows which one reads."""
        return self._process(position) if position.began else ""
