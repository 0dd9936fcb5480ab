"""One partition in a consumer's hands, from the grant until it is let go of or lost."""

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
from typing import TYPE_CHECKING, NamedTuple

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

# Entries that are worked on in order: those of a partition, or of one of its keys.

_OFFSET, _NTH = attrgetter("offset"), attrgetter("nth")
_FIRST_PAUSE, _LONGEST_PAUSE = 0.1, 5.0
_LONGEST_TURN = 60.0


class Failure(NamedTuple):
    """Of an entry that waits to be tried again."""

    why: str
    due: float
    """When (monotonic)."""


@dataclass(slots=True, eq=False)
class EntrySequence:
    """What is in hand, in order. Only the consumer's loop changes it."""

    holding: HeldPartition
    key: bytes | int | None = None
    """Its key in `HeldPartition.sequences`."""
    waiting: deque[HeldEntry] = field(default_factory=deque)
    """Read and not handed out, or handed out and given back."""
    out: dict[str, HeldEntry] = field(default_factory=dict)
    """Handed out and without an outcome, by offset."""
    kept: dict[str, HeldEntry] = field(default_factory=dict)
    """Whose handler has returned, to be acknowledged later."""
    failed: dict[str, Failure] = field(default_factory=dict)
    """By offset; of entries among `waiting` that the queue has not yet been told of."""
    tries: dict[str, int] = field(default_factory=dict)
    """Attempts so far at entries that have failed here, by offset."""
    at_work: set[Delivery] = field(default_factory=set)
    """That have some of its entries, and are not back: whatever became of these, their worker may still be at one."""
    dropped: bool = False
    """Nothing of it is begun any more."""

    @property
    def idle(self) -> bool:
        """No worker is at it, or is about to be."""
        return not self.waiting and not self.busy

    @property
    def busy(self) -> bool:
        """Whether a worker has an entry of it."""
        return bool(self.out or self.at_work)

    @property
    def due(self) -> float:
        """When the first that waits may be handed out (monotonic)."""
        if not self.waiting:
            return inf
        if (times := self.waiting[0].times) and not self.holding.letting_go:
            return self.holding.left_over + (turn_of(times) / 8 if times > 1 else 0.0)  # entries of others may be on their way
        failure = self.failed.get(self.waiting[0].offset)
        return 0.0 if failure is None else failure.due

    @property
    def left_over(self) -> bool:
        """An earlier process was handed out the first that waits, and did not finish it."""
        return bool(self.waiting) and self.waiting[0].times > 0

    @property
    def latest(self) -> float:
        """Until when others go before one that is left over (monotonic): the longer the more often it was handed out."""
        return 0.0 if self.holding.letting_go else self.holding.left_over + turn_of(self.waiting[0].times)

    def ready(self, now: float, *, shared: bool = False) -> bool:
        """The first that waits may be handed out; what is left over is not, before its turn. `shared`: also while earlier ones
        are out."""
        return bool(self.waiting) and (shared or not self.busy) and not self.waiting[0].times and now >= self.due

    def turn_has_come(self, most: int) -> None:
        """So many of those that are left over may be handed out."""
        for entry in islice(self.waiting, most):
            entry.times = 0

    def hand_out(self, most: int, most_bytes: float = inf) -> list[HeldEntry]:
        """The first entries, up to one that has failed before or is left over: the queue has to count that one first."""
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
        """What became of entries that were handed out. False: none of them is in hand; a second word on one is passed over."""
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
            case Nack() if not self.holding.letting_go:
                self.hold_up()
                self._put_back(sorted((self._again(raw, outcome, now) for _, raw in found), key=_NTH))
                self.holding.move_to_end(self)
            case _:
                self.drop()  # its next owner gets it, marked redelivered, and what is behind it
        return True

    def acknowledge(self, entries: Iterable[HeldEntry]) -> bool:
        """These are done with: as `settle`, for all of them at once. False: none of them is in hand."""
        if self.tries:
            found = [entry.offset for entry in entries if _taken(self.out, entry) or _taken(self.kept, entry)]
        else:  # all are in their first try
            out, kept = self.out, self.kept
            found = [offset for offset in map(_OFFSET, entries) if out.pop(offset, None) or kept.pop(offset, None)]
        self._finished(found)
        return bool(found)

    def has(self, entry: HeldEntry) -> bool:
        """It is in hand, in this try, and nothing was said of it."""
        raw = self.out.get(entry.offset) or self.kept.get(entry.offset)
        return raw is not None and raw.attempt == entry.attempt

    def comes_again(self, entry: HeldEntry) -> bool:
        """It has failed since it was handed out."""
        return self.tries.get(entry.offset, 0) > entry.attempt

    def give_back(self, entries: Iterable[HeldEntry]) -> None:
        """Those that were handed out and not begun."""
        if self.out:
            self._put_back([raw for entry in entries if (raw := _taken(self.out, entry))])

    def hold_up(self) -> None:
        """Nothing that is handed out is begun before what is to come again. From any thread."""
        for delivery in list(self.at_work):
            delivery.held_up = True

    def try_at_once(self) -> None:
        for offset, failure in self.failed.items():
            self.failed[offset] = failure._replace(due=0.0)

    def bring_forward(self, seconds: float) -> None:
        """What waits to be tried again is due so much earlier."""
        for offset, failure in self.failed.items():
            self.failed[offset] = failure._replace(due=failure.due - seconds)

    def drop(self) -> None:
        """Nothing of it is begun any more, whatever comes back."""
        self.dropped = True
        self.waiting.clear()
        self.failed.clear()

    def keep_all(self) -> None:
        """No worker is at what is out; it may still be acknowledged."""
        self.kept.update(self.out)
        self.out.clear()
        self.at_work.clear()

    def clear(self) -> None:
        self.drop()
        self.out.clear()
        self.kept.clear()
        self.tries.clear()
        self.at_work.clear()

    def _finished(self, offsets: Sequence[str]) -> None:
        self.holding.handled += offsets
        for offset in self.tries.keys() & offsets if self.tries else ():
            del self.tries[offset]

    def _again(self, raw: HeldEntry, outcome: Nack, now: float) -> HeldEntry:
        """For another try."""
        tries = self.tries[raw.offset] = raw.attempt + 1
        delay = backoff(tries) if outcome.delay is None else outcome.delay
        self.failed[raw.offset] = Failure(outcome.why, now + delay)
        return raw.again(tries, outcome.why, alone=raw.alone or outcome.alone)

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
    """From there; None: it is not there, or in a later try."""
    raw = place.pop(entry.offset, None)
    if raw is None or raw.attempt == entry.attempt:
        return raw
    place[entry.offset] = raw
    return None


def turn_of(times: int) -> float:
    """Seconds for which others go first."""
    return min(_LONGEST_TURN, 2.0 ** min(times - 1, 10))


def backoff(tries: int) -> float:
    """Seconds until the next try."""
    return min(_LONGEST_PAUSE, _FIRST_PAUSE * 2.0 ** min(tries - 1, 10))


_LOST_WITHIN = 3.0
"""Seconds for the queue to hear what was acknowledged of a partition that another pod has."""


class Phase(Enum):
    """Where a holding is in its life."""

    SERVING = auto()
    LETTING_GO = auto()
    """Nothing new is read; what is in hand is finished."""
    RELEASED = auto()
    """Given back by this consumer's own word."""
    FENCED = auto()
    """Lost: the queue refuses this consumer, or its ledger does not name the partition any more."""


class Notice(Enum):
    """What the program's callbacks have said of the partition so far."""

    NONE = auto()
    ASSIGNING = auto()
    ASSIGNED = auto()
    REVOKING = auto()
    """`on_revoked` is due."""
    IN_ON_REVOKED = auto()
    REVOKED = auto()


class Outage(NamedTuple):
    """A queue that does not answer, or does not take what is to be told or sent of one partition."""

    tries: int
    until: float
    """When it is asked again (monotonic)."""
    since: float
    why: str
    """As it was first said: what differs by a number alone, such as that of the partition that was asked for, is the same."""
    of_all: bool = False
    """Whatever is asked of the partition is answered so (PartitionUnavailable): any other answer ends it."""


@dataclass(slots=True, eq=False)
class HeldPartition:
    """What is in hand of a partition under one epoch."""

    partition: Partition
    epoch: Epoch
    hearing: OutcomeListener = field(repr=False)
    by_key: bool = False
    """Its keys are worked on beside each other."""
    phase: Phase = Phase.SERVING
    notice: Notice = Notice.NONE
    sequences: dict[bytes | int | None, EntrySequence] = field(default_factory=dict)
    """Entries in hand, by key (an entry without a key by its `nth`), or all under None. Served in this order."""
    handled: list[str] = field(default_factory=list)
    """Offsets to acknowledge;"""
    receipts: list[Acknowledgement] = field(default_factory=list)
    """who wants to hear of it;"""
    together: list[FinishedTogether] = field(default_factory=list)
    """which of these are finished with what is sent of them;"""
    aside: list[tuple[str, str]] = field(default_factory=list)
    """and offsets to set aside as dead letters, and why."""
    outage: Outage | None = None
    """The queue answers, and does not take these, a failure, or what is sent: there is no such topic, or no right."""
    read_before: bool = False
    """This process has read it; if not, what an earlier run of this container had in hand is still to be asked for."""
    left_over: float = 0.0
    """When something was read that was handed out to an earlier process, and not finished by it; 0: nothing of that waits."""
    sure_at: float = 0.0
    """When the queue last said that the partition is ours."""
    since: float = field(default_factory=time.monotonic)
    """When it was granted, as far as this process knows."""
    served_at: float = 0.0
    """When it had its turn last; 0: never."""

    @property
    def over(self) -> bool:
        return self.phase in (Phase.RELEASED, Phase.FENCED)

    @property
    def is_sure(self) -> bool:
        """It is ours, as far as the queue has said lately."""
        return not self.over and time.monotonic() - self.sure_at <= SURE_FOR

    @property
    def letting_go(self) -> bool:
        return self.phase is not Phase.SERVING

    @property
    def has_turns(self) -> bool:
        """Its entries may be handed out."""
        return (self.phase is Phase.SERVING and self.notice is Notice.ASSIGNED) or self.phase is Phase.LETTING_GO

    @property
    def told(self) -> bool:
        """The queue knows what became of its entries."""
        return not self.handled and not self.aside

    @property
    def at_rest(self) -> bool:
        """Nothing is in hand, nothing is to be told, and it is not called back."""
        return self.phase is Phase.SERVING and not (self.sequences or self.handled or self.aside)

    @property
    def waiting(self) -> bool:
        return any(sequence.waiting for sequence in self.sequences.values())

    @property
    def out(self) -> bool:
        """A worker is at some of it."""
        return any(sequence.busy for sequence in self.sequences.values())

    def watched(self, *, shared: bool) -> bool:
        """The queue is asked once in a while whether it still is ours: a worker is at it, or is to hear that it goes."""
        saying_goodbye = self.notice in (Notice.REVOKING, Notice.IN_ON_REVOKED) and self.sure_at > 0
        return saying_goodbye or (self.out and not shared)

    @property
    def in_hand(self) -> int:
        """Entries that wait or are worked on."""
        return sum(len(sequence.waiting) + len(sequence.out) for sequence in self.sequences.values())

    @property
    def with_program(self) -> list[HeldEntry]:
        """Entries that were handed out and are not finished. Any thread may ask."""
        sequences = list(self.sequences.values())
        return [entry for sequence in sequences for place in (sequence.out, sequence.kept) for entry in list(place.values())]

    @property
    def unfinished_since(self) -> float:
        """When the program got the first of those, or of what waits for another attempt (monotonic), else inf. Any
        thread may ask."""
        failed = [
            entry
            for one in list(self.sequences.values())
            if one.tries
            for entry in list(one.waiting)
            if entry.offset in one.tries
        ]
        return min((entry.since for entry in (*self.with_program, *failed)), default=inf)

    def ready(self, now: float, *, shared: bool = False) -> Iterator[EntrySequence]:
        """Those from which entries may be handed out."""
        return (sequence for sequence in list(self.sequences.values()) if sequence.ready(now, shared=shared))

    def take_in(self, read: Entries, nth: int) -> None:
        """Entries that were read; the first is the nth of all."""
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
        if self.sequences.pop(failed.key, None) is not None:
            self.sequences[failed.key] = failed

    def tidy(self) -> None:
        """Forget sequences of which nothing is in hand."""
        for key in [
            key for key, sequence in self.sequences.items() if sequence.idle and not sequence.kept and not sequence.dropped
        ]:
            del self.sequences[key]

    def let_go(self) -> None:
        """Read nothing new any more; what is in hand is tried at once."""
        if self.phase is Phase.SERVING:
            self.phase = Phase.LETTING_GO
            for sequence in self.sequences.values():
                sequence.try_at_once()

    def finish(self) -> None:
        """Read nothing any more, also of what was read before; what is in hand is tried at once."""
        self.let_go()
        self.read_before = True

    def leave(self) -> None:
        """Begin no entry any more."""
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
        """Another pod has it, with what was not acknowledged."""
        reader.let_go({self.partition.number: self.epoch}, _LOST_WITHIN, give_up=True)
        self.forget()

    def forget(self, phase: Phase = Phase.FENCED) -> None:
        """Nothing of it is worked on any more, and what was not acknowledged counts here no longer."""
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
    """Holdings by partition; changed by the consumer's loop only."""

    def __init__(
        self,
        open_queue: Callable[[QueueName], Reader],
        source: Assignments,
        hearing: OutcomeListener,
        woken: Callable[[], None],
    ) -> None:
        """`woken`: called, from any thread, when there may be something to read."""
        self._by_key = False
        self._open_queue = open_queue
        self._source = source
        self._hearing = hearing
        self._woken = woken
        self._entry: MemberEntry | None = None
        self._holdings: dict[Partition, HeldPartition] = {}
        self._readers: dict[QueueName, Reader] = {}

    def __iter__(self) -> Iterator[HeldPartition]:
        return iter(list(self._holdings.values()))

    def divide(self, *, by_key: bool) -> None:
        """Whether keys are worked on beside each other, but for holdings of which something is in hand already."""
        self._by_key = by_key
        for holding in self._holdings.values():
            if not holding.sequences:
                holding.by_key = by_key

    def follow_ledger(self, last_word: Callable[[HeldPartition, Reader], object]) -> list[HeldPartition]:
        """Take up what was granted, begin to let go of what is called back, and drop what is not ours any more: the answer.
        `last_word` is called with each of these before."""
        entry = self._source.current()
        if entry is self._entry:
            return []
        self._entry = entry
        owned, revoking = (dict(flat(entry.owned)), dict(flat(entry.revoking))) if entry else ({}, {})
        told = owned | revoking
        dropped = [holding for holding in self._holdings.values() if told.get(holding.partition) != holding.epoch]
        for holding in dropped:
            reader = self._readers.get(holding.partition.queue)
            if reader is None:
                holding.phase = Phase.FENCED
                continue
            if not holding.over:
                last_word(holding, reader)
            if not holding.over:
                holding.lose(reader)
        # A grant back has a new epoch, so what was let go of at one epoch stays let go of.
        self._holdings = {
            partition: before
            if (before := self._holdings.get(partition)) is not None and before.epoch == epoch
            else HeldPartition(partition, epoch, self._hearing, self._by_key)
            for partition, epoch in told.items()
        }
        for partition in revoking:
            self._holdings[partition].let_go()
        for queue in self._readers.keys() - {partition.queue for partition in told}:
            # Not in this thread: a server that hangs must not hold the other queues up.
            threading.Thread(target=self._readers.pop(queue).close, name="baton-close", daemon=True).start()
        return dropped

    def let_go(
        self, holdings: Iterable[HeldPartition], within: float, *, give_up: bool = False
    ) -> Mapping[HeldPartition, QueueUnreachable]:
        """Nothing of these is worked on any more. Each queue hears of all of its own at once, in so many seconds for all. The
        answer: of which its queue has not taken that; they are let go of once more, unless they are given up."""
        untaken: dict[HeldPartition, QueueUnreachable] = {}
        until = time.monotonic() + within
        by_queue: dict[QueueName, list[HeldPartition]] = {}
        for holding in holdings:
            by_queue.setdefault(holding.partition.queue, []).append(holding)
        for those in by_queue.values():
            left = max(0.0, until - time.monotonic())
            epochs = {holding.partition.number: holding.epoch for holding in those}
            problems = self.reader(those[0]).let_go(epochs, left, give_up=give_up)
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

    def limits(self) -> list[tuple[QueueName, Callable[[], bool]]]:
        """Of each queue that has a limit of unacknowledged entries, whether this pod is at it."""
        found = [(queue, getattr(reader, "is_full", None)) for queue, reader in self._readers.items()]
        return [(queue, is_full) for queue, is_full in found if is_full is not None]

    def wait_for_entries(self, at_rest: Callable[[HeldPartition, Reader], bool]) -> None:
        """Wait at the queues for what is at rest."""
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
