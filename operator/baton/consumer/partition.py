"""Held partitions: the entries in hand of each partition, from its grant until it is released or lost."""

from __future__ import annotations

import threading
import time
from bisect import bisect
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum, auto
from itertools import count, groupby, islice, repeat
from math import inf
from operator import attrgetter
from typing import TYPE_CHECKING, Any, NamedTuple

from baton.consumer.assignments import Assignments
from baton.consumer.entry import Acknowledgement, HeldEntry, OutcomeListener
from baton.consumer.outcome import Ack, DeadLetter, Kept, Nack, Outcome
from baton.model.ids import Epoch, Partition, QueueName
from baton.model.ledger import MemberEntry, flat
from baton.queues.consumer_side import SURE_FOR, Reader
from baton.queues.entry import Entries
from baton.queues.output import FinishedTogether
from baton.queues.protocol import QueueUnreachable

if TYPE_CHECKING:
    from baton.consumer.dispatcher import Delivery

_OFFSET, _NTH = attrgetter("offset"), attrgetter("nth")
_FIRST_PAUSE, _LONGEST_PAUSE = 0.1, 5.0
_LONGEST_TURN = 60.0


class Failure(NamedTuple):
    """The failure of an entry that waits for its retry."""

    why: str
    due: float
    """When the retry is due (monotonic)."""


@dataclass(slots=True, eq=False)
class EntrySequence:
    """Entries in hand that are worked on in order: those of a partition, or of one of its keys. Changed by the consumer's loop
    only."""

    holding: HeldPartition
    key: bytes | int | None = None
    """Its key in `HeldPartition.sequences`."""
    waiting: deque[HeldEntry] = field(default_factory=deque)
    """Entries that are not handed out, or were given back."""
    out: dict[str, HeldEntry] = field(default_factory=dict)
    """Entries that are handed out and have no outcome, by offset."""
    kept: dict[str, HeldEntry] = field(default_factory=dict)
    """Entries whose handler has returned and that the program acknowledges later, by offset."""
    failed: dict[str, Failure] = field(default_factory=dict)
    """Failures of `waiting` entries that are not reported to the queue yet, by offset."""
    tries: dict[str, int] = field(default_factory=dict)
    """Number of attempts at entries that have failed in this process, by offset."""
    at_work: set[Delivery] = field(default_factory=set)
    """Deliveries with its entries that are not back. Their workers may still be working on one, whatever its outcome."""
    dropped: bool = False
    """Whether no other entry of it begins."""

    @property
    def idle(self) -> bool:
        """Whether no entry waits or is being worked on."""
        return not self.waiting and not self.busy

    @property
    def busy(self) -> bool:
        """Whether a worker has an entry of the sequence."""
        return bool(self.out or self.at_work)

    @property
    def due(self) -> float:
        """When the first waiting entry may be handed out (monotonic)."""
        if not self.waiting:
            return inf
        if (times := self.waiting[0].times) and not self.holding.releasing:
            return self.holding.left_over + (leftover_delay(times) / 8 if times > 1 else 0.0)  # others may arrive
        failure = self.failed.get(self.waiting[0].offset)
        return 0.0 if failure is None else failure.due

    @property
    def left_over(self) -> bool:
        """Whether an earlier process was handed the first waiting entry and did not finish it."""
        return bool(self.waiting) and self.waiting[0].times > 0

    @property
    def latest(self) -> float:
        """Until when other entries go before the leftover (monotonic): the later, the more often it was handed out."""
        return 0.0 if self.holding.releasing else self.holding.left_over + leftover_delay(self.waiting[0].times)

    def ready(self, now: float, *, shared: bool = False) -> bool:
        """Return whether the first waiting entry may be handed out. A leftover may not before its turn. `shared`: also while
        earlier entries are out."""
        return bool(self.waiting) and (shared or not self.busy) and not self.waiting[0].times and now >= self.due

    def allow_leftovers(self, most: int) -> None:
        """Let the first `most` entries be handed out although they are leftovers."""
        for entry in islice(self.waiting, most):
            entry.times = 0

    def hand_out(self, most: int, most_bytes: float = inf) -> list[HeldEntry]:
        """Hand out the first entries, up to one that has failed or is a leftover: the queue has to count that delivery first."""
        now = time.monotonic()
        if not self.tries and not self.holding.left_over and len(self.waiting) <= most and most_bytes == inf:
            entries = list(self.waiting)
            self.waiting.clear()
            for entry in entries:
                entry.since = now
            self.out.update(zip(map(_OFFSET, entries), entries, strict=True))
            return entries
        entries = []
        while self.waiting and len(entries) < most and self.waiting[0].offset not in self.failed:
            most_bytes -= self.waiting[0].size if most_bytes < inf else 0
            if most_bytes < 0 or self.waiting[0].times or (entries and self.waiting[0].alone):
                break
            entry = self.waiting.popleft()
            entry.since = (entry.attempt and entry.since) or now
            self.out[entry.offset] = entry
            entries.append(entry)
            if entry.alone:
                break
        return entries

    def settle(self, entries: Iterable[HeldEntry], outcome: Outcome, now: float) -> bool:
        """Record the outcome of entries. Returns False if none of them is in hand. A second outcome of an entry is ignored."""
        found = [(entry, raw) for entry in entries if (raw := _taken(self.out, entry) or _taken(self.kept, entry)) is not None]
        if not found:
            return False
        match outcome:
            case Ack():
                self._finished([entry.offset for entry, _ in found])
            case DeadLetter(why):
                for entry, _ in found:
                    self.holding.aside.append((entry.offset, why))
                    self.tries.pop(entry.offset, None)
            case Kept():
                self.kept.update((entry.offset, raw) for entry, raw in found)
            case Nack() if not self.holding.releasing:
                self.hold_up()
                self._put_back(sorted((self._again(raw, outcome, now) for _, raw in found), key=_NTH))
                self.holding.move_to_end(self)
            case _:
                self.drop()  # the next owner gets this entry, marked redelivered, and those behind it
        return True

    def acknowledge(self, entries: Iterable[HeldEntry]) -> bool:
        """Record that entries are finished: a faster `settle` with an Ack. Returns False if none of them is in hand."""
        if self.tries:
            found = [entry.offset for entry in entries if _taken(self.out, entry) or _taken(self.kept, entry)]
        else:  # all are in their first attempt
            out, kept = self.out, self.kept
            found = [offset for offset in map(_OFFSET, entries) if out.pop(offset, None) or kept.pop(offset, None)]
        self._finished(found)
        return bool(found)

    def has(self, entry: HeldEntry) -> bool:
        """Return whether the entry is in hand, in this attempt, and without an outcome."""
        raw = self.out.get(entry.offset) or self.kept.get(entry.offset)
        return raw is not None and raw.attempt == entry.attempt

    def comes_again(self, entry: HeldEntry) -> bool:
        """Return whether the entry has failed since it was handed out."""
        return self.tries.get(entry.offset, 0) > entry.attempt

    def give_back(self, entries: Iterable[HeldEntry]) -> None:
        """Take back entries that were handed out and not begun."""
        if self.out:
            self._put_back([raw for entry in entries if (raw := _taken(self.out, entry))])

    def hold_up(self) -> None:
        """Have workers begin no other entry before the one to retry. Any thread may call this."""
        for delivery in list(self.at_work):
            delivery.held_up = True

    def bring_forward(self, seconds: float) -> None:
        """Make retries due earlier by so much."""
        for offset, failure in self.failed.items():
            self.failed[offset] = failure._replace(due=failure.due - seconds)

    def drop(self) -> None:
        """Begin no other entry of the sequence, including those that come back."""
        self.dropped = True
        self.waiting.clear()
        self.failed.clear()

    def keep_all(self) -> None:
        """Record that no worker is working on entries that are out. They may still be acknowledged."""
        self.kept.update(self.out)
        self.out.clear()
        self.at_work.clear()

    def clear(self) -> None:
        """Drop all entries. Workers may still be working on some (`at_work`)."""
        self.drop()
        self.out.clear()
        self.kept.clear()
        self.tries.clear()

    def _finished(self, offsets: Sequence[str]) -> None:
        self.holding.handled += offsets
        for offset in self.tries.keys() & offsets if self.tries else ():
            del self.tries[offset]

    def _again(self, raw: HeldEntry, outcome: Nack, now: float) -> HeldEntry:
        """Record the failure, and return the entry for its next attempt."""
        tries = self.tries[raw.offset] = raw.attempt + 1
        delay = backoff(tries) if outcome.delay is None else outcome.delay
        self.failed[raw.offset] = Failure(outcome.why, now + delay)
        again = raw.again(tries, outcome.why, alone=raw.alone or outcome.alone)
        if not outcome.by_policy:
            again.since += outcome.delay or 0.0  # the handler asked for this wait, so it is not stuck
        return again

    def _put_back(self, entries: list[HeldEntry]) -> None:
        if self.dropped:
            return
        if len(entries) == 1:
            self.waiting.insert(bisect(self.waiting, entries[0].nth, key=_NTH), entries[0])
        elif entries and self.waiting and entries[-1].nth > self.waiting[0].nth:
            self.waiting = deque(sorted([*entries, *self.waiting], key=_NTH))
        else:
            self.waiting.extendleft(reversed(entries))


def _taken(place: dict[str, HeldEntry], entry: HeldEntry) -> HeldEntry | None:
    """Remove and return the entry; None if it is not in `place`, or there in a later attempt."""
    raw = place.pop(entry.offset, None)
    if raw is None or raw.attempt == entry.attempt:
        return raw
    place[entry.offset] = raw
    return None


def leftover_delay(times: int) -> float:
    """Return the seconds for which others go before a leftover that was handed out so often."""
    return min(_LONGEST_TURN, 2.0 ** min(times - 1, 10))


def backoff(tries: int) -> float:
    """Return the default delay of a retry, in seconds."""
    return min(_LONGEST_PAUSE, _FIRST_PAUSE * 2.0 ** min(tries - 1, 10))


_LOST_WITHIN = 3.0
"""Seconds to send acknowledgements for a partition that another pod owns."""


class Phase(Enum):
    """The phase of a held partition."""

    SERVING = auto()
    RELEASING = auto()
    """Nothing new is read, and entries in hand are finished."""
    RELEASED = auto()
    """Released by this consumer."""
    FENCED = auto()
    """Lost: the queue rejects this consumer, or the ledger no longer names the partition."""


class Notice(Enum):
    """Which of the program's callbacks were called for the partition so far."""

    NONE = auto()
    ASSIGNING = auto()
    ASSIGNED = auto()
    REVOKING = auto()
    """`on_revoked` is due."""
    IN_ON_REVOKED = auto()
    REVOKED = auto()


class Outage(NamedTuple):
    """An outage of a queue, or of some requests for one partition."""

    tries: int
    until: float
    """When the next request is due (monotonic)."""
    since: float
    why: str
    """The first error. Later ones that differ in numbers only, such as the partition's, do not replace it."""
    of_all: bool = False
    """Whether all requests for the partition fail (PartitionUnavailable), so that any success ends the outage."""


@dataclass(slots=True, eq=False)
class HeldPartition:
    """A partition held at one epoch, with its entries in hand."""

    partition: Partition
    epoch: Epoch
    listener: OutcomeListener = field(repr=False)
    by_key: bool = False
    """Whether its keys are worked on concurrently."""
    phase: Phase = Phase.SERVING
    notice: Notice = Notice.NONE
    sequences: dict[bytes | int | None, EntrySequence] = field(default_factory=dict)
    """Entries in hand, by key (an entry without a key by its `nth`), or all under None. Served in this order."""
    handled: list[str] = field(default_factory=list)
    """Offsets to acknowledge."""
    receipts: list[Acknowledgement] = field(default_factory=list)
    """Results to complete when `handled` is acknowledged."""
    together: list[FinishedTogether] = field(default_factory=list)
    """Those of `handled` that are finished in transactions, and what is sent in these."""
    aside: list[tuple[str, str]] = field(default_factory=list)
    """Offsets to move to the dead letters, and why."""
    outage: Outage | None = None
    """Set if the queue answers but rejects acknowledgements, dead letters, failures or messages, such as for a missing topic or
    permission."""
    read_before: bool = False
    """Whether this process has read the partition. If not, entries of an earlier run of this container may still be read."""
    left_over: float = 0.0
    """When leftovers were read: entries that an earlier process was handed and did not finish. 0: none waits."""
    sure_at: float = 0.0
    """When the queue last confirmed that the partition is ours (monotonic)."""
    since: float = field(default_factory=time.monotonic)
    """When this process learned of the grant (monotonic)."""
    revoked_at: float = 0.0
    """When this process learned that the partition is revoked (monotonic); 0: it is not."""
    served_at: float = 0.0
    """When its last turn began (monotonic); 0: it had none."""
    superseded: str = ""
    """Why the queue rejects this process although its pod owns the partition: a newer process of the pod has read it. Empty: no
    other process has."""
    before: HeldPartition | None = field(default=None, repr=False)
    """The partition at an earlier epoch, if workers had entries of it when this grant came."""

    @property
    def over(self) -> bool:
        return self.phase in (Phase.RELEASED, Phase.FENCED)

    @property
    def is_sure(self) -> bool:
        """Whether the queue has recently confirmed that the partition is ours."""
        return not self.over and time.monotonic() - self.sure_at <= SURE_FOR

    @property
    def releasing(self) -> bool:
        return self.phase is not Phase.SERVING

    @property
    def has_turns(self) -> bool:
        """Whether its entries may be handed out: after `on_assigned` has returned, and any worker that was still working on an
        entry of an earlier epoch."""
        return not (self.over or self.earlier_at_work or self.notice in (Notice.NONE, Notice.ASSIGNING))

    @property
    def earlier_at_work(self) -> bool:
        """Whether a worker still has an entry of an earlier epoch."""
        return self.before is not None and bool(self.before.out)

    @property
    def settled(self) -> bool:
        """Whether the queue has all acknowledgements and dead letters."""
        return not self.handled and not self.aside

    @property
    def at_rest(self) -> bool:
        """Whether nothing is in hand or to be sent, and the partition is not revoked."""
        return self.phase is Phase.SERVING and not (self.sequences or self.handled or self.aside)

    @property
    def waiting(self) -> bool:
        return any(sequence.waiting for sequence in self.sequences.values())

    @property
    def out(self) -> bool:
        """Whether a worker has entries of it."""
        return any(sequence.busy for sequence in self.sequences.values())

    def watched(self, *, shared: bool) -> bool:
        """Return whether to ask the queue regularly if the partition is still ours: while a worker has entries of it, and until
        `on_revoked` has returned."""
        revoking = self.notice in (Notice.REVOKING, Notice.IN_ON_REVOKED) and self.sure_at > 0
        return revoking or (self.out and not shared)

    @property
    def in_hand(self) -> int:
        """Number of entries that wait or are being worked on."""
        return sum(len(sequence.waiting) + len(sequence.out) for sequence in self.sequences.values())

    @property
    def with_program(self) -> list[HeldEntry]:
        """Entries that were handed out and are not finished. Any thread may use this."""
        sequences = list(self.sequences.values())
        return [entry for sequence in sequences for place in (sequence.out, sequence.kept) for entry in list(place.values())]

    @property
    def unfinished_since(self) -> float:
        """When the program got the oldest of those, or of the entries that wait for a retry (monotonic), plus the delays that it
        asked for; inf: there are none. Any thread may use this."""
        failed = [
            entry
            for one in list(self.sequences.values())
            if one.tries
            for entry in list(one.waiting)
            if entry.offset in one.tries
        ]
        return min((entry.since for entry in (*self.with_program, *failed)), default=inf)

    def ready(self, now: float, *, shared: bool = False) -> Iterator[EntrySequence]:
        """Return the sequences from which entries may be handed out."""
        return (sequence for sequence in list(self.sequences.values()) if sequence.ready(now, shared=shared))

    def take_in(self, read: Entries, nth: int) -> None:
        """Take in entries that were read. `nth`: position of the first among all entries that this consumer has read."""
        if not read:
            return
        if self.by_key:
            names = (number if key == read.without_key else key for number, key in enumerate(read.keys, nth))
            sequences: Iterable[EntrySequence] = map(self._sequence, names)
        else:
            sequences = repeat(self._sequence(None))
        columns = repeat(read.make), read.sources, read.offsets, read.keys, read.values
        made: Iterable[HeldEntry] = map(HeldEntry, *columns, sequences, count(nth))
        if read.times or read.attempts:
            made = _tried_before(made, read)
        if read.times:
            self.left_over = self.left_over or time.monotonic()
        for sequence, entries in groupby(made, key=attrgetter("sequence")):
            if not sequence.dropped:
                sequence.waiting.extend(entries)

    def _sequence(self, key: bytes | int | None) -> EntrySequence:
        sequence = self.sequences.get(key)
        if sequence is None:
            sequence = self.sequences[key] = EntrySequence(self, key)
        return sequence

    def move_to_end(self, failed: EntrySequence) -> None:
        """Have all other sequences served before a failed one: a turn has time for a few retries, each of which is a request."""
        if self.sequences.get(failed.key) is failed:
            self.sequences[failed.key] = self.sequences.pop(failed.key)

    def tidy(self) -> None:
        """Forget sequences with nothing in hand."""
        for key in [
            key for key, sequence in self.sequences.items() if sequence.idle and not sequence.kept and not sequence.dropped
        ]:
            del self.sequences[key]

    def revoke(self) -> None:
        """Begin to release the partition to another member."""
        self.revoked_at = self.revoked_at or time.monotonic()
        self.begin_release()

    def begin_release(self) -> None:
        """Read nothing new, and retry failed entries at once."""
        if self.phase is Phase.SERVING:
            self.phase = Phase.RELEASING
            for sequence in self.sequences.values():
                sequence.bring_forward(inf)

    def finish(self) -> None:
        """Read nothing at all, not even entries of an earlier run, and retry failed entries at once."""
        self.begin_release()
        self.read_before = True

    def leave(self) -> None:
        """Begin no other entry."""
        self.finish()
        for sequence in self.sequences.values():
            sequence.drop()

    def acknowledged(self, *, taken: bool) -> None:
        self.handled.clear()
        self.together.clear()
        for receipt in self.receipts:
            receipt.part(taken=taken)
        self.receipts.clear()

    def lose(self, reader: Reader) -> None:
        """Give up a partition that another pod owns."""
        self.forget()
        reader.release({self.partition.number: self.epoch}, _LOST_WITHIN, give_up=True)

    def forget(self, phase: Phase = Phase.FENCED) -> None:
        """Drop all entries and outcomes, and enter this phase unless the partition is over already."""
        self.phase = self.phase if self.over else phase
        for sequence in self.sequences.values():
            sequence.clear()
        self.aside.clear()
        self.acknowledged(taken=False)


def _tried_before(entries: Iterable[HeldEntry], read: Entries) -> Iterator[HeldEntry]:
    for entry in entries:
        entry.times = read.times.get(entry.offset, 0)
        entry.attempt = read.attempts.get(entry.offset, entry.times)
        entry.alone = read.bounded and entry.times > 0
        yield entry


class HeldPartitions:
    """All held partitions and the readers of their queues. Changed by the consumer's loop only."""

    def __init__(
        self,
        open_queue: Callable[[QueueName], Reader],
        source: Assignments,
        listener: OutcomeListener,
        woken: Callable[[], None],
    ) -> None:
        """`woken`: called, from any thread, when there may be entries to read."""
        self._by_key = False
        self._open_queue = open_queue
        self._source = source
        self._listener = listener
        self._woken = woken
        self._entry: MemberEntry | None = None
        self._holdings: dict[Partition, HeldPartition] = {}
        self._at_work: dict[Partition, HeldPartition] = {}
        """Dropped partitions of which workers still have entries."""
        self._readers: dict[QueueName, Reader] = {}

    def __iter__(self) -> Iterator[HeldPartition]:
        return iter(list(self._holdings.values()))

    def of(self, partition: Partition) -> HeldPartition | None:
        return self._holdings.get(partition)

    def divide(self, *, by_key: bool) -> None:
        """Set whether keys are worked on concurrently, except for partitions with entries in hand."""
        self._by_key = by_key
        for holding in self._holdings.values():
            if not holding.sequences:
                holding.by_key = by_key

    def follow_ledger(self, before_drop: Callable[[HeldPartition, Reader], object]) -> list[HeldPartition]:
        """Take up granted partitions, begin to release revoked ones, and drop those that the ledger no longer names. Returns the
        dropped ones, each of which is passed to `before_drop` first."""
        entry = self._source.current()
        if entry is self._entry:
            return []
        self._entry = entry
        owned, revoking = (dict(flat(entry.owned)), dict(flat(entry.revoking))) if entry else ({}, {})
        told = owned | revoking
        dropped = [holding for holding in self._holdings.values() if told.get(holding.partition) != holding.epoch]
        lost: list[HeldPartition] = []
        for holding in dropped:
            reader = self._readers.get(holding.partition.queue)
            if reader is not None and not holding.over:
                before_drop(holding, reader)
                if not holding.over:
                    lost.append(holding)
            holding.forget()
        self.release(lost, _LOST_WITHIN, give_up=True)
        self._at_work = {one.partition: one for one in (*self._at_work.values(), *dropped) if one.out}
        # A later grant to the same pod has a new epoch, so a partition that was released at one epoch stays released.
        self._holdings = {
            partition: before
            if (before := self._holdings.get(partition)) is not None and before.epoch == epoch
            else HeldPartition(partition, epoch, self._listener, self._by_key, before=self._at_work.get(partition))
            for partition, epoch in told.items()
        }
        for partition in revoking:
            self._holdings[partition].revoke()
        for queue in self._readers.keys() - {partition.queue for partition in told}:
            # In a separate thread: a hanging server must not block the other queues.
            threading.Thread(target=self._readers.pop(queue).close, name="baton-close", daemon=True).start()
        return dropped

    def release(
        self, holdings: Iterable[HeldPartition], within: float, *, give_up: bool = False
    ) -> Mapping[HeldPartition, QueueUnreachable]:
        """Release partitions, with one request for all partitions of a queue, and within `within` seconds in total. Returns the
        partitions whose queue has not accepted the release: release them again, unless `give_up` is set."""
        untaken: dict[HeldPartition, QueueUnreachable] = {}
        until = time.monotonic() + within
        by_queue: dict[QueueName, list[HeldPartition]] = {}
        for holding in holdings:
            by_queue.setdefault(holding.partition.queue, []).append(holding)
        for those in by_queue.values():
            left = max(0.0, until - time.monotonic())
            epochs = {holding.partition.number: holding.epoch for holding in those}
            problems = self.reader(those[0]).release(epochs, left, give_up=give_up)
            for holding in those:
                problem = problems.get(holding.partition.number)
                if problem is None or give_up:
                    holding.forget(Phase.RELEASED)
                else:
                    untaken[holding] = problem
        return untaken

    def reader(self, holding: HeldPartition) -> Reader:
        queue = holding.partition.queue
        if queue not in self._readers:
            self._readers[queue] = self._open_queue(queue)
        return self._readers[queue]

    def having(self, name: str) -> Mapping[QueueName, Callable[..., Any]]:
        """Return this optional method of readers, by queue. Any thread may call this."""
        return {queue: getattr(reader, name) for queue, reader in list(self._readers.items()) if hasattr(reader, name)}

    def wait_for_entries(self, at_rest: Callable[[HeldPartition, Reader], bool]) -> None:
        """Have the queues report new entries of partitions at rest."""
        resting: dict[QueueName, set[int]] = {queue: set() for queue in self._readers}
        for holding in self._holdings.values():
            queue = holding.partition.queue
            if queue in resting and at_rest(holding, self._readers[queue]):
                resting[queue].add(holding.partition.number)
        for queue, partitions in resting.items():
            self._readers[queue].wait_for(frozenset(partitions), self._woken)

    def close(self) -> None:
        for reader in self._readers.values():
            reader.close()
        self._readers.clear()
