"""Decides what a producer sends: the order, the requests, the retries, and the outcomes.

Works without a clock, a lock or a connection, so that threads and tasks share it. At most one batch of a slot is in flight, and
returned entries go before those that follow them. So entries of a key never overtake each other.
"""

from collections import deque
from collections.abc import Callable, Iterable, Sequence
from dataclasses import KW_ONLY, dataclass, field
from math import inf
from secrets import randbelow
from typing import NamedTuple

from baton.queues.producer_side import Sent
from baton.queues.protocol import QueueUnreachable
from baton.queues.redis.routing import SLOTS, RoutingTable

_BATCH_BYTES = 1_000_000


class Failed(NamedTuple):
    """An entry that may not be in the queue."""

    why: str
    error: type[Exception] = QueueUnreachable


@dataclass(slots=True, eq=False, repr=False)
class OutgoingEntry:
    """An entry to send, until its outcome is known."""

    slot: int | None
    """None: any slot. A negative number selects a partition (`to_partition`)."""
    key: bytes
    value: bytes
    headers: bytes
    """Packed."""
    deadline: float
    _: KW_ONLY
    due: float = -inf
    """The latest time to send it, by the same clock as `deadline`."""
    producer: str = ""
    """The name whose sequence it counts in. Empty: the outbox's, from its placement on."""
    listener: Callable[[], object] | None = None
    """Called when the outcome is known."""
    sequence: int = field(init=False)
    may_be_there: bool = field(init=False)
    """Whether it may be in the queue already: sent before by this producer or, under this name, by any producer."""
    size: int = field(init=False)
    outcome: Sent | Failed | None = field(default=None, init=False)

    def __post_init__(self) -> None:
        self.sequence = 1 if self.producer else 0
        self.may_be_there = bool(self.producer)
        self.size = len(self.key) + len(self.value) + len(self.headers)


def to_partition(number: int) -> int:
    """Encode a partition as `slot` of an entry: any slot of the partition at the time of the first attempt. Its own inverse."""
    return -1 - number


def all_known(entries: Iterable[OutgoingEntry]) -> Callable[[], bool]:
    """Return a function that tells whether all entries have an outcome. All its calls together check each entry about once."""
    left = list(entries)

    def known() -> bool:
        while left and left[-1].outcome is not None:
            left.pop()
        return not left

    return known


def next_batch(queue: deque[OutgoingEntry], most: int) -> list[OutgoingEntry]:
    """Take the entries for one script, all of one producer name."""
    batch: list[OutgoingEntry] = []
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


Round = dict[int, list[OutgoingEntry]]
"""The batches of one round trip, by partition. Each ends with `Outbox.answered`, `failed` or `repeat`."""

_FIRST_PAUSE, _LONGEST_PAUSE = 0.02, 1.0


class RetryPause(NamedTuple):
    """The pause after a failed attempt."""

    until: float
    pause: float
    why: str


def pause_after(rest: RetryPause | None, now: float, why: str) -> RetryPause:
    """Return the next pause, twice as long as the last one."""
    pause = _FIRST_PAUSE if rest is None else min(2 * rest.pause, _LONGEST_PAUSE)
    return RetryPause(now + pause, pause, why)


_BATCH = 200
"""Entries per script, as long scripts block other clients."""
_STEP = 633
"""Slots from one entry without a key to the next: near the golden ratio of all slots, so that consecutive entries are far apart,
and odd, so that each slot has its turn."""
_OVERHEAD = 200
"""Bytes of memory per entry, in addition to key, value and headers."""
_ADDED, _MOVED, _WAITS, _DUPLICATE = "a", "m", "w", "d"
"""Codes in an answer of the script add: added; slot not accepted here; waits for foreign entries; was added before."""
_ADDED_BY_HAND = (
    "Entries were added to partition {} of {} by hand (XADD), with ids beyond those of its producers: "
    "new entries wait until its consumers have finished those."
)
_COPIED = (
    "{} already has another entry with this entry's sequence number and did not take this one: a copy of this process sends "
    "there too (from a restored snapshot?). Create a new producer in each copy after restoring it."
)
_MOVING = "The slots of some keys of {} are moving between partitions."


class Outbox:
    """The entries of one producer. All `now` arguments are from one monotonic clock."""

    def __init__(self, queue: str, name: str, most_entries: int, most_bytes: int) -> None:
        """`most_entries` or `most_bytes` make a full request, which is sent without waiting for more."""
        self.open: dict[OutgoingEntry, None] = {}
        """Entries without an outcome, in the order of adding."""
        self.settled: list[Callable[[], object]] = []
        """Listeners of entries with an outcome; after an interruption some may be in the list twice. The caller calls and removes
        them."""
        self._queue, self._name = queue, name
        self._most_entries, self._most_bytes = most_entries, most_bytes
        self._last_numbers = [0] * SLOTS
        """By slot, the last sequence number. An interrupted change may skip a number, but no number is used twice."""
        self._without_key = randbelow(SLOTS)
        """The slot of the last entry without a key. It begins at random, so that many producers of a few entries use all
        partitions."""
        self._begin()

    def _begin(self) -> None:
        self.bytes = 0
        """Memory that the open entries need."""
        self.stale = True
        """Whether the routing table must be read before sending more."""
        self.under_way: Round = {}
        """Batches in flight, or whose sending was interrupted."""
        self._table: RoutingTable | None = None
        self._table_rest: RetryPause | None = None
        self._due = inf
        self._new_entries = self._new_bytes = 0
        self._unplaced: deque[OutgoingEntry] = deque()
        """Entries that wait for the routing table."""
        self._queues: dict[int, deque[OutgoingEntry]] = {}
        """Nonempty queues by partition, the next one to send first."""
        self._resting: dict[int, RetryPause] = {}
        """Pauses by partition."""
        self._held: dict[int, deque[OutgoingEntry]] = {}
        """By slot, entries that a partition did not accept (MOVED), and later ones of the slot. Other slots continue
        meanwhile."""
        self._slot_rests: dict[int, RetryPause] = {}
        """Pauses by slot, kept until an entry of the slot is added, so that a repeated refusal has a longer pause."""

    def repair(self) -> None:
        """Repair the outbox after a change or a sending thread was interrupted at any point: all open entries are sent again with
        their sequence numbers, as after a lost answer."""
        for entry in list(self.open):
            entry.may_be_there |= entry.sequence > 0
            if entry.outcome is not None:
                self._close(entry)
        self._begin()
        self._unplaced = deque(self.open)
        self.bytes = sum(entry.size + _OVERHEAD for entry in self.open)
        self._due = -inf

    def add(self, entry: OutgoingEntry) -> None:
        self.open[entry] = None
        self.bytes += entry.size + _OVERHEAD
        self._new_entries, self._new_bytes = self._new_entries + 1, self._new_bytes + entry.size
        full = self._new_entries >= self._most_entries or self._new_bytes >= self._most_bytes
        self._due = min(self._due, -inf if full else entry.due)
        if self._table is None:
            self._unplaced.append(entry)
        else:
            self._place(entry, self._table)

    def hurry(self) -> list[OutgoingEntry]:
        """Make all open entries due at once, and return them."""
        self._due = -inf
        return list(self.open)

    @property
    def due(self) -> float:
        """Time at which to send the next entries that are not held; -inf: at once."""
        return self._due if self.open else inf

    def give_up(self, entries: Iterable[OutgoingEntry], why: str) -> None:
        """Fail those of these entries that have no outcome. Entries in flight may still arrive."""
        for each in filter(self.open.__contains__, entries):
            self._settle(each, Failed(why))

    def next(self, now: float) -> Round | float | None:
        """Return what to send; None: read the routing table and call `routed`; a number: the time to ask again (inf: after the
        next `add`). No other thread may be sending."""
        if self.under_way:
            self.repair()
        if not self.open:
            return inf
        released = self._release(now) if self._held else inf
        if self._due > now:
            return min(self._due, released)
        if self.stale:
            return None if self._table_rest is None or self._table_rest.until <= now else self._table_rest.until
        if found := self._gather(now):
            return found
        # Only resting queues are left; entries that are added for other partitions do not wait for them.
        self._due = min((self._resting[partition].until for partition in self._queues), default=inf)
        return min(self._due, released)

    def routed(self, table: RoutingTable | None, why: str, now: float) -> None:
        """Take the current routing table; None: it could not be read, for the reason `why`."""
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
        """Take the answer to a batch. `codes`: one for each entry; `numbers`: the offsets of the added ones, in order."""
        batch, added = self.under_way.pop(partition, ()), iter(numbers)  # (): the batch will be sent again, see `repair`
        self._resting.pop(partition, None)
        away: list[OutgoingEntry] = []
        behind: list[OutgoingEntry] = []
        for entry, code in zip(batch, codes, strict=False):
            if code == _MOVED:
                away.append(entry)
            elif code == _WAITS:
                behind.append(entry)
            elif code == _DUPLICATE and not entry.may_be_there:
                self._settle(entry, Failed(_COPIED.format(self._queue)))
            else:
                self._settle(entry, Sent(partition, next(added) if code == _ADDED else None, code == _DUPLICATE))
                self._slot_rests.pop(entry.slot or 0, None)
        if behind:
            self._put_back(partition, behind, _ADDED_BY_HAND.format(partition, self._queue), now)
        if away:
            self._hold(partition, away, now)

    def failed(self, partition: int, why: str, now: float, *, passing: bool) -> None:
        """Take the failure of a batch, which may have arrived or not. `passing`: try again."""
        batch = self.under_way.pop(partition, ())
        if passing:
            self._put_back(partition, batch, why, now)
        else:
            for entry in batch:
                self._settle(entry, Failed(why))

    def repeat(self, partition: int) -> None:
        """Send a batch again at once: the server did not execute any of it."""
        if batch := self.under_way.pop(partition, None):
            self._queues.setdefault(partition, deque()).extendleft(reversed(batch))
            self._due = -inf

    def waits_for(self, entry: OutgoingEntry) -> str | None:
        """Return why the last attempt at the entry, or at those it waits behind, failed."""
        if self._table_rest is not None:
            return self._table_rest.why
        if entry.slot in self._held:
            return self._slot_rests[entry.slot].why
        partition = self._table.partitions[entry.slot] if self._table and entry.slot is not None and entry.slot >= 0 else None
        return self._resting[partition].why if partition in self._resting else None

    def _settle(self, entry: OutgoingEntry, outcome: Sent | Failed) -> None:
        if entry.outcome is None:
            entry.outcome = outcome
            self._close(entry)

    def _close(self, entry: OutgoingEntry) -> None:
        self.bytes -= entry.size + _OVERHEAD
        if entry.listener is not None:
            self.settled.append(entry.listener)
        del self.open[entry]

    def _place(self, entry: OutgoingEntry, table: RoutingTable) -> None:
        """Assign the entry its final slot and its sequence number there."""
        slot = entry.slot
        if slot is None:
            slot = self._without_key = (self._without_key + _STEP) % SLOTS
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

    def _append(self, entry: OutgoingEntry, table: RoutingTable) -> None:
        assert entry.slot is not None
        queue = self._held.get(entry.slot)
        if queue is None:
            queue = self._queues.setdefault(table.partitions[entry.slot], deque())
        queue.append(entry)

    def _gather(self, now: float) -> Round:
        """Take a batch from each partition that has entries and does not rest, up to the limits of a round trip."""
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

    def _put_back(self, partition: int, batch: Sequence[OutgoingEntry], why: str, now: float) -> None:
        """Put entries back at the front of their queue, to be sent again after a pause."""
        self._resting[partition] = rest = pause_after(self._resting.get(partition), now, why)
        queue = self._queues.setdefault(partition, deque())
        queue.extendleft(reversed(batch))
        for entry in batch:
            entry.may_be_there = True
        self._expire(queue, rest)
        if not queue:
            del self._queues[partition]
        self._due = -inf

    def _hold(self, partition: int, away: Sequence[OutgoingEntry], now: float) -> None:
        """Hold entries of slots that moved until a pause is over and the routing table was read again. Other slots continue."""
        self.stale = True
        slots = {entry.slot for entry in away if entry.slot is not None}
        for slot in slots:
            self._slot_rests[slot] = pause_after(self._slot_rests.get(slot), now, _MOVING.format(self._queue))
            self._held[slot] = deque()
        others: deque[OutgoingEntry] = deque()
        for entry in (*away, *self._queues.pop(partition, ())):
            (self._held[entry.slot] if entry.slot in slots else others).append(entry)
        if others:
            self._queues[partition] = others
        for slot in slots:
            self._expire(self._held[slot], self._slot_rests[slot])

    def _release(self, now: float) -> float:
        """Requeue held entries whose pause is over. Returns the end of the next pause."""
        assert self._table is not None
        for slot in [slot for slot in self._held if self._slot_rests[slot].until <= now]:
            if entries := self._held.pop(slot):
                self._queues.setdefault(self._table.partitions[slot], deque()).extendleft(reversed(entries))
                self._due = -inf
            else:
                del self._slot_rests[slot]
        return min((self._slot_rests[slot].until for slot in self._held), default=inf)

    def _expire(self, part: deque[OutgoingEntry], rest: RetryPause) -> None:
        """Fail entries whose deadline is before the end of the pause. They are in the order of their deadlines."""
        while part and (part[0].deadline < rest.until or part[0].outcome is not None):
            self._settle(part.popleft(), Failed(rest.why))
