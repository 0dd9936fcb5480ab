"""One partition in a consumer's hands, from the grant until it is let go of or lost."""

import time
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from enum import Enum, auto
from itertools import count, groupby, repeat
from operator import attrgetter
from typing import NamedTuple

from baton.consumer.acknowledgement import Acknowledgement
from baton.consumer.entry_sequence import EntrySequence
from baton.consumer.held_entry import HeldEntry, OutcomeListener
from baton.model.ids import Epoch, Partition
from baton.queues.consumer_side import Reader
from baton.queues.entries import Entries
from baton.queues.output import FinishedTogether

_LOST_WITHIN = 3.0
"""Seconds for the queue to hear what was acknowledged of a partition that somebody else has."""


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
    """What is in hand: by key (an entry without a key by its `nth`), or all of it under None."""
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
        """Nothing is in hand, nothing is to be told, and nobody calls it back."""
        return self.phase is Phase.SERVING and not (self.sequences or self.handled or self.aside)

    @property
    def waiting(self) -> bool:
        return any(sequence.waiting for sequence in self.sequences.values())

    @property
    def out(self) -> bool:
        """Somebody works on some of it."""
        return any(sequence.busy for sequence in self.sequences.values())

    def watched(self, *, shared: bool) -> bool:
        """The queue is asked once in a while whether it still is ours: somebody works on it, or is to hear that it goes."""
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
        if read.times:
            made, self.left_over = _with_times(made, read.times), self.left_over or time.monotonic()
        for sequence, entries in groupby(made, key=attrgetter("sequence")):
            if not sequence.dropped:
                sequence.waiting.extend(entries)

    def _sequence(self, key: bytes | int | None) -> EntrySequence:
        sequence = self.sequences.get(key)
        if sequence is None:
            sequence = self.sequences[key] = EntrySequence(self)
        return sequence

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
        """Somebody else has it. What was not acknowledged is his."""
        reader.let_go({self.partition.number: self.epoch}, _LOST_WITHIN, give_up=True)
        self.forget()

    def forget(self, phase: Phase = Phase.FENCED) -> None:
        """Nothing of it is worked on any more, and what was not acknowledged counts here no longer."""
        self.phase = self.phase if self.over else phase
        for sequence in self.sequences.values():
            sequence.clear()
        self.aside.clear()
        self.acknowledged(taken=False)


def _with_times(entries: Iterable[HeldEntry], times: Mapping[str, int]) -> Iterator[HeldEntry]:
    for entry in entries:
        entry.times = times.get(entry.offset, 0)
        yield entry
