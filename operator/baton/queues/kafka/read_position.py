"""Where a reader is in a partition: what it was handed out, what it may be, and what is written into the record. Pure."""

from bisect import bisect_left
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from confluent_kafka import Message

from baton.model.ids import Epoch
from baton.queues.consumer_side import SURE_FOR
from baton.queues.kafka.outputs import PendingOutputs
from baton.queues.kafka.record import BY_GIVER, Committed, Record
from baton.queues.output import MOST_IN_TRANSACTION
from baton.queues.protocol import Ownership

# -- How far an owner is in a partition: what it was handed out, and what may be committed of it. Pure.


class FinishedOffsets:
    """Entries are finished in any order; the committed offset goes over those that are finished without a gap."""

    def __init__(self, offset: int) -> None:
        self.offset = offset
        """Of the next entry that is not finished, or not handed out."""
        self.end = offset
        """Of the next entry that is not handed out."""
        self._out: list[int] = []
        """Handed out, in order: from the first that is not finished."""
        self._done: set[int] = set()
        """Of these."""

    @property
    def unfinished(self) -> int:
        return len(self._out) - len(self._done)

    @property
    def behind(self) -> int:
        """Finished, behind one that is not."""
        return len(self._done)

    def handed_out(self, offsets: Iterable[int]) -> None:
        """In order."""
        self._out.extend(offsets)
        if self._out:
            self.end = max(self.end, self._out[-1] + 1)

    def nothing_before(self, end: int) -> None:
        """No entry stands between what was handed out and this offset, but marks of transactions."""
        self.end = max(self.end, end)
        if not self._out:
            self.offset = max(self.offset, end)

    def is_out(self, offset: int) -> bool:
        """It was handed out, and is not finished."""
        place = bisect_left(self._out, offset)
        return self._out[place : place + 1] == [offset] and offset not in self._done

    def finish(self, offsets: Sequence[int]) -> None:
        """What is not out is passed over."""
        out, done = self._out, self._done
        if not done and out[: len(offsets)] == offsets:  # the next ones, as nearly always
            self._go_over(len(offsets))
            return
        done.update(filter(self.is_out, offsets))
        self._go_over(next((nth for nth, offset in enumerate(out) if offset not in done), len(out)))

    def _go_over(self, count: int) -> None:
        """The first of those that are out are finished."""
        if not count:
            return
        self.offset = self._out[count - 1] + 1
        self._done.difference_update(self._out[:count])
        del self._out[:count]


_MOST_WAITING = 64_000_000
"""Weight of outputs that wait behind an entry that is not finished, before nothing more is handed out."""
_MOST_BEHIND = 100_000
"""Finished entries behind one that is not, likewise: they are kept in memory, and come again if another process takes over."""
AHEAD = 1000
"""Offsets beyond what was handed out that a record reserves, or twice as many as were handed out since the record before: so many
entries at most are marked redelivered without need after a process that was killed. A reader that wants to hand out more than is
reserved first waits for a record; a fast one would wait for most of its time."""


@dataclass(slots=True)
class ReadPosition:
    """Of one process, under one epoch."""

    epoch: Epoch
    record: Record
    progress: FinishedOffsets
    committed: int
    """The offset that the broker has."""
    sure_at: float
    committed_at: float
    unsettled: bool = False
    """A foreign commit of the partition had not ended when last seen."""
    lost: Ownership | None = None
    """Whose it is now;"""
    other_process: bool = False
    """of this pod's, another process reads it."""
    read: dict[str, Message] = field(default_factory=dict)
    """What is in the consumer's hands, by offset as entries have it: a dead letter is all of the message."""
    outputs: PendingOutputs = field(default_factory=PendingOutputs)
    recorded: int = 0
    """How far it had handed out at its last record."""
    in_doubt: bool = False
    """A commit may have been taken, or be under way. What it had is not to be sent again under its token."""
    hopeless: list[str] = field(default_factory=list)
    """Offsets of entries on which processes have ended too often: to be set aside before anything else is handed out."""
    ended: int = 0
    """Processes before this one that may have ended on its first entry; 0 once an attempt at that entry has failed here, which
    this process survived."""
    waits: bool = False
    """What earlier processes may have ended by is not begun yet, and so not reserved: if this one ends now, then by something
    else."""
    alone_from: float = float("inf")
    """The time from which on a former reader has heard of this process, or looks before it hands out more (monotonic)."""
    caught_up: bool = False
    """All entries that another process may have handed out were handed out again."""
    failures: dict[int, int] = field(default_factory=dict)
    """Entries that failed in this process and are not committed yet, and how often they have failed: the next commit records
    it."""
    counting: dict[int, int] = field(default_factory=dict)
    """The same of those whose last failure is not `counted` yet: `failed` may be called once more for it."""
    then: Ownership | None = None
    """Whose it is to be when it was let go of, as far as that is known."""
    told_full: bool = False
    """It was said that it is full."""
    left: bool = False
    """It was let go of: what is committed from then on is the last word, whether the broker has taken that before or not."""
    first: int | None = None
    """The first entry that it was handed out: it stands further on where marks of transactions come before it, or what was
    aborted or compacted away."""

    @classmethod
    def begun(cls, seen: Committed, now: float) -> "ReadPosition":
        """Begin at a record that names this process, or the partition's owner."""
        record = seen.record
        assert record is not None
        at = seen.offset
        ended = record.ends.get(at, 0)
        alone = now + 2 * SURE_FOR  # once for them, and once for the broker to bring what it had by then
        return cls(
            record.epoch,
            record,
            FinishedOffsets(at),
            at,
            now,
            now,
            recorded=at,
            ended=ended,
            waits=ended > 0 and record.reserved <= at,
            alone_from=alone,
        )

    @property
    def handed_over(self) -> bool:
        """The owner before has granted it, and the mark of this process is not there yet. The token is the giver's, too."""
        return self.record.reader == BY_GIVER and self.record.epoch == self.epoch

    @property
    def offset(self) -> int:
        """How far the next commit goes."""
        finished = self.progress.offset
        return finished if finished == self.committed else self.outputs.reached(finished)

    @property
    def needs_several(self) -> bool:
        """More is to be sent of what is finished than one transaction may have: the next commit does not go over all of it."""
        return self.offset < self.outputs.whole(self.progress.offset)

    @property
    def behind(self) -> bool:
        """There is something finished to commit."""
        return self.offset != self.committed

    @property
    def has_news(self) -> bool:
        """There is something to commit."""
        failures = {**self.failures}  # the reader may add some meanwhile
        return self.behind or any(count > self.record.tries.get(entry, 0) for entry, count in failures.items())

    @property
    def runs_low(self) -> bool:
        """More than three quarters of what its last record reserved is handed out."""
        return not self.waits and 4 * (self.record.reserved - self.progress.end) < self.record.reserved - self.recorded

    @property
    def token_is_spent(self) -> bool:
        """There is something to send, and not under this token."""
        return self.in_doubt and bool(self.outputs.due(self.offset))

    @property
    def needs_token(self) -> bool:
        """Nothing is to be committed under the one that it has."""
        return self.token_is_spent or self.handed_over

    @property
    def careful(self) -> bool:
        """Whether to hand out entries one by one and commit each at once, because earlier processes may have ended on one of
        them: one process with `maxRedeliveries`, two without. If this process ends too, it has ended on the entry at the
        committed offset. Entries go out as usual once the first one has failed here: its key must not hold up the others."""
        return self.ended > (0 if self.record.most else 1) and self.progress.offset < self.record.again

    @property
    def is_full(self) -> bool:
        """Finished entries wait for one before them, and they, or what is to be sent of them, are as much as a pod may keep."""
        return self.progress.behind >= _MOST_BEHIND or (self.outputs.weight >= _MOST_WAITING and not self.behind)

    def most(self, in_hand: int) -> int | None:
        """How many entries may be handed out, where the pod has so many in hand; None: any number."""
        if self.is_full:
            return 0
        left = max(0, self.record.unacked - in_hand) if self.record.unacked else None
        if self.careful or self.waits:
            alone = 0 if self.progress.unfinished else 1
            return alone if left is None else min(left, alone)
        return left

    @property
    def marked(self) -> int:
        """Entries before this offset are marked as redelivered."""
        return self.record.again if self.caught_up else self.record.marked

    @property
    def times(self) -> Mapping[str, int]:
        """See `Entries.times`: only the committed offset says it, so it is known of the first entry alone."""
        return {str(self.first): self.ended} if self.waits and self.first is not None else {}

    def all_is_out(self, now: float) -> None:
        """Nothing waits in the log."""
        self.caught_up = self.caught_up or now > self.alone_from

    def handed_out(self, offsets: Sequence[int]) -> None:
        """In order."""
        if self.first is None and offsets:
            self.first = offsets[0]
        self.progress.handed_out(offsets)

    def taken(self, offset: int, record: Record, asked_at: float) -> None:
        """The broker has taken a commit, which was begun at `asked_at`."""
        self.record, self.committed_at, self.recorded = record, asked_at, self.progress.end
        self.sure_at = max(self.sure_at, asked_at)
        self.found(offset)

    def found(self, offset: int) -> None:
        """The broker has this offset, and with it what was to be sent of the entries before it: no other process moves it while
        the record names this one."""
        self.committed = offset
        self.outputs.committed(offset)
        for entry in [entry for entry in {**self.failures} if entry < offset]:
            del self.failures[entry]

    def next_record(self, *, upto: int = 0) -> Record:
        """To be committed with the offset that is reached; `upto`: entries before this offset are to be handed out."""
        if self.left:
            return self.last_record()
        ahead = max(AHEAD, 2 * (self.progress.end - self.recorded))
        reserved = self.record.reserved if self.waits else max(self.record.reserved, self.progress.end + ahead, upto)
        return replace(self._record_here(), reserved=reserved, released=False)

    def last_record(self) -> Record:
        """The last one. By it the next owner has the partition, where that is known, and nothing is left of which only the
        operator's grant would tell it."""
        then = self.then
        here = self._record_here()
        if self.needs_several:  # it is not the last one yet
            return replace(here, reserved=self.progress.end)
        if then is None or self.progress.unfinished or here.marked or here.tries or here.ends:
            reserved = self.record.reserved if self.waits else self.progress.end
            return replace(here, reserved=reserved, released=not self.progress.unfinished)
        reserved = self.progress.end + AHEAD
        return replace(here, uid=then.uid, epoch=then.epoch, reader=BY_GIVER, reserved=reserved, released=False)

    def _record_here(self) -> Record:
        record = replace(self.record, tries={**self.record.tries, **self.failures}).at(self.offset)
        return replace(record, stale=0 if self.caught_up else record.stale, ends=record.ends if self.ended else {})

    def survived(self, offset: int) -> bool:
        """Record that this process survived an attempt at the entry: earlier processes that may have ended on it count as failed
        attempts from now on. Return whether that changed the record."""
        if offset != self.first or not self.ended:
            return False
        self.failures[offset] = self.tried(offset)
        self.ended = 0
        return True

    def failed(self, offset: int) -> None:
        """An entry has failed once more. Calls before it is `counted` are of the same failure."""
        self.survived(offset)
        self.failures[offset] = self.counting.setdefault(offset, self.tried(offset) + 1)

    def counted(self, offset: int) -> None:
        """The next call of `failed` is another failure."""
        self.counting.pop(offset, None)

    def tried(self, offset: int) -> int:
        """How often it has failed, or had processes end on it."""
        ended = self.ended if offset == self.first else 0
        return self.failures.get(offset) or self.record.tries.get(offset, 0) + ended

    def too_often(self, offset: int) -> bool:
        """That is more often than it may."""
        return bool(self.record.most) and self.tried(offset) > self.record.most


def sent_together(positions: Mapping[int, ReadPosition]) -> dict[int, ReadPosition]:
    """Those of these that commit at the same time: each under the token that it has, and with no more outputs than one
    transaction may have."""
    found: dict[int, ReadPosition] = {}
    left = MOST_IN_TRANSACTION
    for number, position in positions.items():
        weight = position.outputs.weight
        if weight <= left and not position.needs_token:
            found[number] = position
            left -= weight
    return found


def taken_up(record: Record, offset: int, end: int, reader: str) -> Record:
    """By a process that begins to read; `end` is where the log ends. The pod's own last process is over, a query may not be. What
    may have ended one comes one by one: it is reserved when it is handed out, or begun (`ReadPosition.waits`)."""
    again, ends = record.comes_again(end), record.ended_on(offset, end)
    stale = record.still_read() if record.query else record.stale
    reserved = offset if offset < again and (record.most or ends.get(offset)) else offset + AHEAD
    return replace(record, reader=reader, reserved=reserved, again=again, stale=stale, query=0, ends=ends, released=False)
