"""What a producer has still to send: in which order, in which requests, when to try again, and what became of it.

Decided without a clock, a lock or a connection: threads and tasks both work by it. Of one slot no more than one batch is under
way, and what comes back goes before what is behind it; so entries of a key never overtake each other.
"""

from collections import deque
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from math import inf
from typing import Final, NamedTuple

from baton.queues.producer_side import Sent
from baton.queues.protocol import QueueUnreachable
from baton.queues.redis.keys import entry_id
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
        """It was sent before, by this producer or under this name by anybody."""
        self.told = told
        self.size = len(key) + len(value) + len(headers)
        self.outcome: Sent | Failed | None = None

    @property
    def chosen_partition(self) -> int:
        """The partition that the program chose, if `slot` is below 0."""
        return to_partition(self.slot or 0)


class SendListener:
    """Whoever is to hear what became of an entry."""

    def settled(self) -> None:
        raise NotImplementedError


def to_partition(number: int) -> int:
    """As `slot` of an entry: whichever slot the partition has when the entry is sent for the first time."""
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


class ReadTable:
    """What a producer is to do next: see which partition has which slot (`Outbox.routed`)."""


READ_TABLE: Final = ReadTable()
Round = dict[int, list[Waiting]]
"""What a producer is to send in one round trip, by partition (`Outbox.answered` or `failed` for each)."""


def added_by_hand(partition: int, queue: str) -> str:
    """Why entries of a partition have to wait."""
    return (
        f"Somebody has added entries to partition {partition} of {queue} by hand (XADD), with ids beyond those of its producers: "
        "new entries wait until its consumers have done all that is there."
    )


def copied(queue: str) -> str:
    """Why the queue refuses a new entry that it takes for a duplicate."""
    return (
        f"{queue} has another entry under this one's number, and did not take it: a copy of this process sends there too (from a "
        "snapshot that was restored?). Make a producer in each copy, after it was restored."
    )


def no_partition(partition: int, count: int, queue: str) -> str:
    """The program asks for a partition that the queue does not have."""
    return f"{queue} has no partition {partition}: it has {count}, from 0 to {count - 1}."


def moving(queue: str) -> str:
    """Keys have to wait for the new table."""
    return f"The slots of some keys of {queue} are moving between partitions."


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


class Numbering:
    """Of one producer. Where it is interrupted, a number may be left out, and none is given twice."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._last = [0] * SLOTS
        self._any = 0

    def number(self, entry: Waiting, slot: int) -> None:
        """The next one of its slot."""
        self._last[slot] += 1
        entry.producer = self._name
        entry.sequence = self._last[slot]

    def any_slot(self) -> int:
        """For an entry without a key: each slot in turn."""
        self._any = (self._any + 1) % SLOTS
        return self._any


class HeldSlots:
    """Of one outbox. Its entries of other slots go on meanwhile."""

    def __init__(self) -> None:
        self.entries: dict[int, deque[Waiting]] = {}
        """By slot: entries that the partition refused, and those that came after them."""
        self.pauses: dict[int, RetryPause] = {}
        """By slot, until one of its entries is added: a slot that is refused again has a longer pause."""

    def hold(self, slots: Collection[int], now: float, why: str) -> None:
        """Begin a pause for these."""
        for slot in slots:
            self.pauses[slot] = pause_after(self.pauses.get(slot), now, why)
            self.entries[slot] = deque()

    def added(self, slot: int | None) -> None:
        """The queue took an entry of this slot."""
        self.pauses.pop(slot or 0, None)

    def released(self, now: float) -> Iterator[tuple[int, deque[Waiting]]]:
        """The slots whose pause is over, each with its entries. They are held no longer."""
        for slot in [slot for slot in self.entries if self.pauses[slot].until <= now]:
            entries = self.entries.pop(slot)
            if entries:
                yield slot, entries
            else:
                del self.pauses[slot]

    @property
    def until(self) -> float:
        """When the next pause is over; inf: nothing is held."""
        return min((self.pauses[slot].until for slot in self.entries), default=inf)


_BATCH = 200
"""Entries per script: long ones keep others waiting."""
_AROUND = 200
"""Bytes of memory that an entry needs beside its own."""
_AWAY, _BEHIND, _THERE = "m", "w", "d"
"""Codes of an answer (script add): its slot is not accepted there; it waits for what somebody else added; it is there."""


class Outbox:
    """Of one producer. `now` is by one clock; it never goes back."""

    def __init__(self, queue: str, name: str, most_entries: int, most_bytes: int) -> None:
        """So many entries or bytes are sent at once, and without waiting for more."""
        self.open: dict[Waiting, None] = {}
        """Entries that have no outcome yet, in the order in which they came."""
        self.bytes = 0
        """That these need."""
        self.torn, self.mended = False, 0
        """Whoever changes something here sets `torn` before, and takes it back after: else somebody was interrupted."""
        self.settled: list[SendListener] = []
        """Who is to hear of an outcome, after an interruption some of them twice. Whoever tells them takes them away."""
        self.stale = True
        """The table is to be read before more is sent."""
        self.under_way: Round = {}
        """Is sent, or whoever sent it was interrupted."""
        self._queue, self._numbering = queue, Numbering(name)
        self._most_entries, self._most_bytes = most_entries, most_bytes
        self._table: RoutingTable | None = None
        self._due = inf
        self._new_entries = self._new_bytes = 0
        self._unplaced: deque[Waiting] = deque()
        """While there is no table."""
        self._queues: dict[int, deque[Waiting]] = {}
        """By partition, none of them empty; whose turn is next comes first."""
        self._held = HeldSlots()
        self._table_rest: RetryPause | None = None
        self._resting: dict[int, RetryPause] = {}
        """By partition."""

    def mend(self) -> None:
        """Whoever worked by this, or sent, was interrupted, wherever that was. All that is open is sent again by its number, as
        after an answer that was lost: what else is here may be half changed. An interrupted call of this is made again."""
        self.torn = True
        self.mended += 1
        for entry in list(self.open):
            entry.may_be_there |= entry.sequence > 0
            if entry.outcome is not None:
                self._close(entry)
        self._table, self._table_rest, self.stale = None, None, True
        self._queues, self._held, self.under_way, self._resting = {}, HeldSlots(), {}, {}
        self._unplaced, self._new_entries, self._new_bytes = deque(self.open), 0, 0
        self.bytes = sum(entry.size + _AROUND for entry in self.open)
        self._due, self.torn = -inf, False

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

    def hurry(self) -> None:
        """What is there now waits for no more."""
        self._due = -inf

    @property
    def due(self) -> float:
        """When something is to be sent, where nothing is held; -inf: at once."""
        return self._due if self.open else inf

    def give_up(self, entries: Iterable[Waiting], why: str) -> None:
        """What of these has no outcome yet is not sent any more; what is under way may arrive."""
        for each in filter(self.open.__contains__, entries):
            self._settle(each, Failed(why))

    def next(self, now: float) -> ReadTable | Round | float:
        """What to do; or when to ask again, and inf: when something was added. Nothing may be under way."""
        if not self.open:
            return inf
        released = self._release(now)
        if self._due > now:
            return min(self._due, released)
        if self.stale:
            return READ_TABLE if self._table_rest is None or self._table_rest.until <= now else self._table_rest.until
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

    def straight(self, entry: Waiting) -> Round | None:
        """Adds an entry; what to do is to send it, where it has nothing to wait for. Nothing may be under way."""
        table, slot = self._table, entry.slot
        if self.open or self.under_way or table is None or self.stale or self._resting or slot is None or slot < 0:
            self.add(entry)
            return None
        self.open[entry] = None
        self.bytes = entry.size + _AROUND
        if not entry.sequence:
            self._numbering.number(entry, slot)
        partition = table.partitions[slot]
        self.under_way[partition] = batch = [entry]
        return {partition: batch}

    def added(self, partition: int, first: int) -> None:
        """All of a batch was added, under numbers from this one on."""
        batch = self.under_way.pop(partition)
        if self._resting or self._held.pauses:
            self._resting.pop(partition, None)
            for entry in batch:
                self._held.added(entry.slot)
        for number, entry in enumerate(batch, first):
            self._settle(entry, Sent(partition, entry_id(number)))

    def answered(self, partition: int, codes: str, numbers: Sequence[str], now: float) -> None:
        """A batch has got there. `codes`: one for each entry; `numbers`: the offsets of those that were added, in order."""
        batch, added = self.under_way.pop(partition), iter(numbers)
        self._resting.pop(partition, None)
        away: list[Waiting] = []
        behind: list[Waiting] = []
        for entry, code in zip(batch, codes, strict=True):
            if code == _AWAY:
                away.append(entry)
            elif code == _BEHIND:
                behind.append(entry)
            elif code == _THERE and not entry.may_be_there:
                self._settle(entry, Failed(copied(self._queue)))
            else:
                self._settle(entry, Sent(partition, next(added) if code == "a" else None, code == _THERE))
                self._held.added(entry.slot)
        if behind:
            self._put_back(partition, behind, added_by_hand(partition, self._queue), now)
        if away:
            self._hold(partition, away, now)

    def failed(self, partition: int, why: str, now: float, *, passing: bool) -> None:
        """A batch may not have got there. `passing`: it is worth another try."""
        batch = self.under_way.pop(partition)
        if passing:
            self._put_back(partition, batch, why, now)
        else:
            for entry in batch:
                self._settle(entry, Failed(why))

    def unanswered(self, why: str, now: float, *, passing: bool) -> None:
        """Likewise, for all that is under way."""
        for partition in list(self.under_way):
            self.failed(partition, why, now, passing=passing)

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
        if entry.slot is None:
            entry.slot = self._numbering.any_slot()
        elif entry.slot < 0:
            partition = entry.chosen_partition
            if partition not in table.partitions:
                why = no_partition(partition, len(set(table.partitions)), self._queue)
                return self._settle(entry, Failed(why, ValueError))
            entry.slot = table.partitions.index(partition)
        if not entry.sequence:
            self._numbering.number(entry, entry.slot)
        self._append(entry, table)

    def _append(self, entry: Waiting, table: RoutingTable) -> None:
        assert entry.slot is not None
        if entry.slot in self._held.entries:
            self._held.entries[entry.slot].append(entry)
            return
        partition = table.partitions[entry.slot]
        if partition not in self._queues:
            self._queues[partition] = deque()
        self._queues[partition].append(entry)

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
        why = moving(self._queue)
        slots = {entry.slot for entry in away if entry.slot is not None}
        behind = self._queues.pop(partition, deque())
        self._held.hold(slots, now, why)
        others: deque[Waiting] = deque()
        for entry in (*away, *behind):
            (self._held.entries[entry.slot] if entry.slot in slots else others).append(entry)
        if others:
            self._queues[partition] = others
        for slot in slots:
            self._expire(self._held.entries[slot], self._held.pauses[slot])

    def _release(self, now: float) -> float:
        """What was held goes to its partition where its rest is over. When the next one's is."""
        for slot, entries in self._held.released(now):
            assert self._table is not None
            self._queues.setdefault(self._table.partitions[slot], deque()).extendleft(reversed(entries))
            self._due = -inf
        return self._held.until

    def _expire(self, part: deque[Waiting], rest: RetryPause) -> None:
        """Gives up what has no time for another try; all are patient for equally long."""
        while part and (part[0].deadline < rest.until or part[0].outcome is not None):
            self._settle(part.popleft(), Failed(rest.why))

    def waits_for(self, entry: Waiting) -> str | None:
        """Why its last try, or the one before it in its way, came to nothing."""
        if self._table_rest is not None:
            return self._table_rest.why
        if entry.slot in self._held.entries:
            return self._held.pauses[entry.slot].why
        partition = self._table.partitions[entry.slot] if self._table and entry.slot is not None and entry.slot >= 0 else None
        return self._resting[partition].why if partition in self._resting else None
