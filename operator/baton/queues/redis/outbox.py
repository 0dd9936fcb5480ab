"""What a producer has still to send: in which order, in which requests, when to try again, and what became of it.

Decided without a clock, a lock or a connection: threads and tasks both work by it. Of one slot no more than one batch is under
way, and what comes back goes before what is behind it; so entries of a key never overtake each other.
"""

from collections import deque
from collections.abc import Callable, Iterable, Sequence
from math import inf
from typing import NamedTuple

from baton.queues.producer_side import Sent
from baton.queues.protocol import QueueUnreachable
from baton.queues.redis.routing import SLOTS, RoutingTable

_BATCH_BYTES = 1_000_000


class Failed(NamedTuple):
    """An entry that may not be in the queue."""

    why: str
    error: type[Exception] = QueueUnreachable


class Waiting:
    """An entry on its way."""

    __slots__ = (
        "deadline", "due", "headers", "key", "may_be_there", "outcome", "producer", "sequence", "size", "slot", "told", "value",
    )  # fmt: skip

    def __init__(
        self,
        slot: int | None,
        key: bytes,
        value: bytes,
        headers: bytes,
        deadline: float,
        *,
        due: float = -inf,
        producer: str = "",
        told: "SendListener | None" = None,
    ) -> None:
        """`slot`: None for any; below 0 for a partition, `to_partition` of it. `headers`: packed. `due`: when it is to be sent at
        the latest, by the same clock as `deadline`. `producer`: who counts; '' for the outbox's own."""
        self.slot = slot
        self.key, self.value, self.headers = key, value, headers
        self.deadline, self.due = deadline, due
        self.producer = producer
        self.sequence = 1 if producer else 0
        self.may_be_there = bool(producer)
        """It was sent before, by this producer or, under this name, by any producer."""
        self.told = told
        self.size = len(key) + len(value) + len(headers)
        self.outcome: Sent | Failed | None = None


class SendListener:
    """Gets the outcome of an entry."""

    def settled(self) -> None:
        raise NotImplementedError


def to_partition(number: int) -> int:
    """As `slot` of an entry: whichever slot the partition has when the entry is sent for the first time. Its own inverse."""
    return -1 - number


def all_known(entries: Iterable[Waiting]) -> Callable[[], bool]:
    """Asks whether each of them has an outcome; together, all calls look at each entry about once."""
    left = list(entries)

    def known() -> bool:
        while left and left[-1].outcome is not None:
            left.pop()
        return not left

    return known


def next_batch(queue: deque[Waiting], most: int) -> list[Waiting]:
    """What one script takes: of one producer."""
    batch: list[Waiting] = []
    size = 0
    while queue and len(batch) < most:
        entry = queue[0]
        if entry.outcome is None:
            if batch and (size + entry.size > _BATCH_BYTES or entry.producer != batch[0].producer):
                break
            batch.append(entry)
            size += entry.size
        queue.popleft()
    return batch


Round = dict[int, list[Waiting]]
"""What a producer is to send in one round trip, by partition (`Outbox.answered` or `failed` for each)."""

_FIRST_PAUSE, _LONGEST_PAUSE = 0.02, 1.0


class RetryPause(NamedTuple):
    """After a try that failed."""

    until: float
    pause: float
    why: str


def pause_after(rest: RetryPause | None, now: float, why: str) -> RetryPause:
    """Twice as long as the last one."""
    pause = _FIRST_PAUSE if rest is None else min(2 * rest.pause, _LONGEST_PAUSE)
    return RetryPause(now + pause, pause, why)


_BATCH = 200
"""Entries per script: long ones keep others waiting."""
_AROUND = 200
"""Bytes of memory that an entry needs beside its own."""
_ADDED, _AWAY, _BEHIND, _THERE = "a", "m", "w", "d"
"""Codes of an answer (script add): it was added; its slot is not accepted there; it waits for foreign entries; it was there
before."""
_ADDED_BY_HAND = (
    "Entries were added to partition {} of {} by hand (XADD), with ids beyond those of its producers: "
    "new entries wait until its consumers have finished those."
)
_COPIED = (
    "{} has another entry under this one's number, and did not take it: a copy of this process sends there too (from a "
    "snapshot that was restored?). Make a producer in each copy, after it was restored."
)
_MOVING = "The slots of some keys of {} are moving between partitions."


class Outbox:
    """Of one producer. `now` is by one clock; it never goes back."""

    def __init__(self, queue: str, name: str, most_entries: int, most_bytes: int) -> None:
        """So many entries or bytes are sent at once, and without waiting for more."""
        self.open: dict[Waiting, None] = {}
        """Entries that have no outcome yet, in the order in which they came."""
        self.settled: list[SendListener] = []
        """Listeners whose outcome is known; after an interruption some are here twice. The caller that tells them removes
        them."""
        self._queue, self._name = queue, name
        self._most_entries, self._most_bytes = most_entries, most_bytes
        self._last_numbers = [0] * SLOTS
        """By slot. Where a change is interrupted, a number may be left out, and none is given twice."""
        self._without_key = 0
        """The slot of the last entry that had none."""
        self._begin()

    def _begin(self) -> None:
        self.bytes = 0
        """That the open entries need."""
        self.stale = True
        """The table is to be read before more is sent."""
        self.under_way: Round = {}
        """Entries that are being sent, or whose sending was interrupted."""
        self._table: RoutingTable | None = None
        self._table_rest: RetryPause | None = None
        self._due = inf
        self._new_entries = self._new_bytes = 0
        self._unplaced: deque[Waiting] = deque()
        """While there is no table."""
        self._queues: dict[int, deque[Waiting]] = {}
        """By partition, none of them empty; whose turn is next comes first."""
        self._resting: dict[int, RetryPause] = {}
        """By partition."""
        self._held: dict[int, deque[Waiting]] = {}
        """By slot: entries that the partition refused, and those that came after them. Others go on meanwhile."""
        self._slot_rests: dict[int, RetryPause] = {}
        """By slot, until one of its entries is added: a slot that is refused again has a longer pause."""

    def mend(self) -> None:
        """Repair the outbox after a change, or a sending thread, was interrupted at any point: all open entries are sent again by
        their numbers, as after a lost answer."""
        for entry in list(self.open):
            entry.may_be_there |= entry.sequence > 0
            if entry.outcome is not None:
                self._close(entry)
        self._begin()
        self._unplaced = deque(self.open)
        self.bytes = sum(entry.size + _AROUND for entry in self.open)
        self._due = -inf

    def add(self, entry: Waiting) -> None:
        self.open[entry] = None
        self.bytes += entry.size + _AROUND
        self._new_entries, self._new_bytes = self._new_entries + 1, self._new_bytes + entry.size
        full = self._new_entries >= self._most_entries or self._new_bytes >= self._most_bytes
        self._due = min(self._due, -inf if full else entry.due)
        if self._table is None:
            self._unplaced.append(entry)
        else:
            self._place(entry, self._table)

    def hurry(self) -> list[Waiting]:
        """What is there now waits for no more: that."""
        self._due = -inf
        return list(self.open)

    @property
    def due(self) -> float:
        """When something is to be sent, where nothing is held; -inf: at once."""
        return self._due if self.open else inf

    def give_up(self, entries: Iterable[Waiting], why: str) -> None:
        """What of these has no outcome yet is not sent any more; what is under way may arrive."""
        for each in filter(self.open.__contains__, entries):
            self._settle(each, Failed(why))

    def next(self, now: float) -> Round | float | None:
        """What to send; None: the table is to be read (`routed`); or when to ask again, and inf: when something was added.
        No thread may be sending."""
        if self.under_way:
            self.mend()
        if not self.open:
            return inf
        released = self._release(now) if self._held else inf
        if self._due > now:
            return min(self._due, released)
        if self.stale:
            return None if self._table_rest is None or self._table_rest.until <= now else self._table_rest.until
        if found := self._gather(now):
            return found
        # What is left in a queue rests, and what is added for another partition meanwhile does not wait for that.
        self._due = min((self._resting[partition].until for partition in self._queues), default=inf)
        return min(self._due, released)

    def routed(self, table: RoutingTable | None, why: str, now: float) -> None:
        """The table as it is now; None: it was not to be had, for that reason."""
        if table is None:
            self._table_rest = rest = pause_after(self._table_rest, now, why)
            for part in (self._unplaced, *self._queues.values()):
                self._expire(part, rest)
            return
        self._table_rest, self.stale = None, False
        if self._table is not None and table.partitions != self._table.partitions:
            queues, self._queues = self._queues, {}
            for queue in queues.values():
                for entry in queue:
                    self._append(entry, table)
        self._table = table
        unplaced, self._unplaced = self._unplaced, deque()
        for entry in unplaced:
            self._place(entry, table)

    def answered(self, partition: int, codes: str, numbers: Iterable[str], now: float) -> None:
        """A batch has got there. `codes`: one for each entry; `numbers`: the offsets of those that were added, in order."""
        batch, added = self.under_way.pop(partition, ()), iter(numbers)  # none: it is sent again (`mend`)
        self._resting.pop(partition, None)
        away: list[Waiting] = []
        behind: list[Waiting] = []
        for entry, code in zip(batch, codes, strict=False):
            if code == _AWAY:
                away.append(entry)
            elif code == _BEHIND:
                behind.append(entry)
            elif code == _THERE and not entry.may_be_there:
                self._settle(entry, Failed(_COPIED.format(self._queue)))
            else:
                self._settle(entry, Sent(partition, next(added) if code == _ADDED else None, code == _THERE))
                self._slot_rests.pop(entry.slot or 0, None)
        if behind:
            self._put_back(partition, behind, _ADDED_BY_HAND.format(partition, self._queue), now)
        if away:
            self._hold(partition, away, now)

    def failed(self, partition: int, why: str, now: float, *, passing: bool) -> None:
        """A batch may not have got there. `passing`: it is worth another try."""
        batch = self.under_way.pop(partition, ())
        if passing:
            self._put_back(partition, batch, why, now)
        else:
            for entry in batch:
                self._settle(entry, Failed(why))

    def repeat(self, partition: int) -> None:
        """Nothing was done of a batch, and it may be sent at once."""
        if batch := self.under_way.pop(partition, None):
            self._queues.setdefault(partition, deque()).extendleft(reversed(batch))
            self._due = -inf

    def waits_for(self, entry: Waiting) -> str | None:
        """Why its last try, or the one before it in its way, came to nothing."""
        if self._table_rest is not None:
            return self._table_rest.why
        if entry.slot in self._held:
            return self._slot_rests[entry.slot].why
        partition = self._table.partitions[entry.slot] if self._table and entry.slot is not None and entry.slot >= 0 else None
        return self._resting[partition].why if partition in self._resting else None

    def _settle(self, entry: Waiting, outcome: Sent | Failed) -> None:
        if entry.outcome is None:
            entry.outcome = outcome
            self._close(entry)

    def _close(self, entry: Waiting) -> None:
        self.bytes -= entry.size + _AROUND
        if entry.told is not None:
            self.settled.append(entry.told)
        del self.open[entry]

    def _place(self, entry: Waiting, table: RoutingTable) -> None:
        """Gives it its slot, for good, and its number there."""
        slot = entry.slot
        if slot is None:
            slot = self._without_key = (self._without_key + 1) % SLOTS
        elif slot < 0:
            partition = to_partition(slot)
            if partition not in table.partitions:
                count = len(set(table.partitions))
                why = f"{self._queue} has no partition {partition}: it has {count}, from 0 to {count - 1}."
                return self._settle(entry, Failed(why, ValueError))
            slot = table.partitions.index(partition)
        entry.slot = slot
        if not entry.sequence:
            self._last_numbers[slot] += 1
            entry.producer, entry.sequence = self._name, self._last_numbers[slot]
        self._append(entry, table)

    def _append(self, entry: Waiting, table: RoutingTable) -> None:
        assert entry.slot is not None
        queue = self._held.get(entry.slot)
        if queue is None:
            queue = self._queues.setdefault(table.partitions[entry.slot], deque())
        queue.append(entry)

    def _gather(self, now: float) -> Round:
        """A batch of each partition that has something and does not rest; of so many of them as one round trip takes."""
        entries = size = 0
        for partition in list(self._queues):
            if partition in self._resting and self._resting[partition].until > now:
                continue
            queue = self._queues.pop(partition)
            batch = next_batch(queue, min(_BATCH, self._most_entries))
            if queue:
                self._queues[partition] = queue
            if batch:
                self.under_way[partition] = batch
                entries += len(batch)
                size += sum(entry.size for entry in batch)
            if entries >= self._most_entries or size >= self._most_bytes:
                break
        self._due = -inf if self._queues else inf
        self._new_entries = self._new_bytes = 0
        return dict(self.under_way)

    def _put_back(self, partition: int, batch: Sequence[Waiting], why: str, now: float) -> None:
        """To be sent again after a rest, before what is behind it."""
        self._resting[partition] = rest = pause_after(self._resting.get(partition), now, why)
        queue = self._queues.setdefault(partition, deque())
        queue.extendleft(reversed(batch))
        for entry in batch:
            entry.may_be_there = True
        self._expire(queue, rest)
        if not queue:
            del self._queues[partition]
        self._due = -inf

    def _hold(self, partition: int, away: Sequence[Waiting], now: float) -> None:
        """Slots that moved: none of theirs is sent before the rest is over, by another table. All others go on."""
        self.stale = True
        slots = {entry.slot for entry in away if entry.slot is not None}
        for slot in slots:
            self._slot_rests[slot] = pause_after(self._slot_rests.get(slot), now, _MOVING.format(self._queue))
            self._held[slot] = deque()
        others: deque[Waiting] = deque()
        for entry in (*away, *self._queues.pop(partition, ())):
            (self._held[entry.slot] if entry.slot in slots else others).append(entry)
        if others:
            self._queues[partition] = others
        for slot in slots:
            self._expire(self._held[slot], self._slot_rests[slot])

    def _release(self, now: float) -> float:
        """What was held goes to its partition where its rest is over. When the next one's is."""
        assert self._table is not None
        for slot in [slot for slot in self._held if self._slot_rests[slot].until <= now]:
            if entries := self._held.pop(slot):
                self._queues.setdefault(self._table.partitions[slot], deque()).extendleft(reversed(entries))
                self._due = -inf
            else:
                del self._slot_rests[slot]
        return min((self._slot_rests[slot].until for slot in self._held), default=inf)

    def _expire(self, part: deque[Waiting], rest: RetryPause) -> None:
        """Gives up what has no time for another try; all are patient for equally long."""
        while part and (part[0].deadline < rest.until or part[0].outcome is not None):
            self._settle(part.popleft(), Failed(rest.why))
