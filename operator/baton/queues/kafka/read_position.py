"""How far a reader is in a partition, what it may hand out next, and what it writes into the owner record. Pure."""

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

# -- Which offset may be committed. Pure.


class FinishedOffsets:
    """Entries finish in any order; the offset to commit passes those that are finished without a gap."""

    def __init__(self, offset: int) -> None:
        self.offset = offset
        """The first offset that is not finished."""
        self.end = offset
        """The first offset that was not handed out."""
        self._out: list[int] = []
        """Offsets handed out, in order, from the first unfinished one on."""
        self._done: set[int] = set()
        """Finished offsets in `_out`."""

    @property
    def unfinished(self) -> int:
        return len(self._out) - len(self._done)

    @property
    def finished_early(self) -> int:
        """The number of finished entries behind an unfinished one."""
        return len(self._done)

    def is_first(self, offset: int) -> bool:
        """Whether this offset is the first unfinished one that was handed out."""
        return self._out[:1] == [offset]

    def handed_out(self, offsets: Iterable[int]) -> None:
        """Add these offsets, in order."""
        self._out.extend(offsets)
        if self._out:
            self.end = max(self.end, self._out[-1] + 1)

    def skip_to(self, end: int) -> None:
        """Skip to this offset: only transaction markers stand before it."""
        self.end = max(self.end, end)
        if not self._out:
            self.offset = max(self.offset, end)

    def is_unfinished(self, offset: int) -> bool:
        """Whether this offset was handed out and is not finished."""
        place = bisect_left(self._out, offset)
        return self._out[place : place + 1] == [offset] and offset not in self._done

    def finish(self, offsets: Sequence[int]) -> None:
        """Mark these offsets as finished, ignoring those that are not out."""
        out, done = self._out, self._done
        if not done and out[: len(offsets)] == offsets:  # the next ones, as nearly always
            self._go_over(len(offsets))
            return
        done.update(filter(self.is_unfinished, offsets))
        self._go_over(next((nth for nth, offset in enumerate(out) if offset not in done), len(out)))

    def _go_over(self, count: int) -> None:
        """Remove the first `count` offsets, which are finished."""
        if not count:
            return
        self.offset = self._out[count - 1] + 1
        self._done.difference_update(self._out[:count])
        del self._out[:count]


_MOST_WAITING = 64_000_000
"""Weight of the outputs behind an unfinished entry at which nothing more is handed out."""
_MOST_BEHIND = 100_000
"""The number of finished entries behind an unfinished one at which nothing more is handed out. They are kept in memory, and come
again if another process takes over."""
AHEAD = 1000
"""A record reserves this many offsets beyond the last one handed out, or twice as many as were handed out since the record
before. After a process was killed, up to that many entries are marked redelivered without need. A reader reserves before it hands
out more; with a smaller number a fast one would spend most of its time waiting for commits."""


@dataclass(slots=True)
class ReadPosition:
    """The state of one partition in one process, under one epoch."""

    epoch: Epoch
    record: Record
    progress: FinishedOffsets
    committed: int
    """The offset that the broker has."""
    sure_at: float
    committed_at: float
    unsettled: bool = False
    """Whether a foreign commit of the partition had not ended at the last look."""
    lost: Ownership | None = None
    """The new owner of a lost partition."""
    other_process: bool = False
    """Whether it was lost to another process of this pod."""
    read: dict[str, Message] = field(default_factory=dict)
    """Messages in the consumer's hands, by offset as entries have it. They are kept because a dead letter is a whole message."""
    outputs: PendingOutputs = field(default_factory=PendingOutputs)
    recorded: int = 0
    """The first offset that was not handed out when the last record was written."""
    in_doubt: bool = False
    """Whether a commit is under way, or failed without an answer. Its outputs must not be sent again under the same token."""
    exhausted: list[str] = field(default_factory=list)
    """Offsets of entries that have failed, or on which processes have ended, too often: they become dead letters before anything
    else is fetched."""
    ended: int = 0
    """How many earlier processes may have ended on the first entry; 0 once a commit has recorded that this process `outlived` an
    attempt at it, or at the first unfinished entry behind it."""
    outlived: bool = False
    """Whether this process has survived such an attempt and no commit has recorded it. Until then this process counts as ended on
    that entry if another one ends it, so the others wait."""
    first_not_begun: bool = False
    """Whether earlier processes may have ended on the first entry and this one has not begun it. The entry is not reserved until
    then, so it is not counted if this process ends before."""
    alone_from: float = float("inf")
    """When every former reader has stopped handing out entries (monotonic): it has seen this process in the record, or checks
    before it goes on."""
    caught_up: bool = False
    """Whether all entries that another process may have handed out were handed out again."""
    failures: dict[int, int] = field(default_factory=dict)
    """How often each entry has failed, of those that failed in this process; the next commit records it."""
    counting: dict[int, int] = field(default_factory=dict)
    """Failure counts that are not `counted` yet: calling `failed` again for one of these entries changes nothing."""
    next_owner: Ownership | None = None
    """The planned next owner when the partition was released, if known."""
    full_logged: bool = False
    """Whether the log has said that the partition is full."""
    releasing: bool = False
    """Whether the release has begun: every commit from then on writes the last record."""
    first: int | None = None
    """The first offset that was handed out. It may be above the committed one, if transaction markers or aborted or compacted
    messages come first."""

    @classmethod
    def begun(cls, seen: Committed, now: float) -> "ReadPosition":
        """Begin at a record that names this process, or the partition's owner."""
        record = seen.record
        assert record is not None
        at = seen.offset
        ended = record.ends.get(at, 0)
        alone = now + 2 * SURE_FOR  # once for them, and once to fetch what the broker had by then
        return cls(
            record.epoch,
            record,
            FinishedOffsets(at),
            at,
            now,
            now,
            recorded=at,
            ended=ended,
            first_not_begun=ended > 0 and record.reserved <= at,
            alone_from=alone,
        )

    @property
    def handed_over(self) -> bool:
        """Whether the former owner granted the partition and this process has not put its mark in the record: the giver still
        knows the token."""
        return self.record.reader == BY_GIVER and self.record.epoch == self.epoch

    @property
    def offset(self) -> int:
        """The offset that the next commit writes."""
        finished = self.progress.offset
        return finished if finished == self.committed else self.outputs.reached(finished)

    @property
    def needs_several(self) -> bool:
        """Whether the finished entries have more outputs than one transaction may have: the next commit covers only a part."""
        return self.offset < self.outputs.whole(self.progress.offset)

    @property
    def uncommitted(self) -> bool:
        """Whether finished entries are to be committed."""
        return self.offset != self.committed

    @property
    def has_news(self) -> bool:
        """Whether there is anything to commit."""
        failures = {**self.failures}  # the reader's thread may add some meanwhile
        return (
            self.uncommitted or self.outlived or any(count > self.record.tries.get(entry, 0) for entry, count in failures.items())
        )

    @property
    def reservation_low(self) -> bool:
        """Whether more than three quarters of what the last record reserved is handed out."""
        return not self.first_not_begun and 4 * (self.record.reserved - self.progress.end) < self.record.reserved - self.recorded

    @property
    def needs_token(self) -> bool:
        return self.handed_over or (self.in_doubt and bool(self.outputs.due(self.offset)))

    @property
    def one_by_one(self) -> bool:
        """Whether to hand out entries one by one and commit each at once, because earlier processes may have ended on one of
        them: one process with `maxRedeliveries`, two without. If this process ends too, it has ended on the entry at the
        committed offset. Entries go out as usual once the first unfinished one has failed here and that is committed: its key
        must not hold up the others."""
        return self.ended > (0 if self.record.most else 1) and self.progress.offset < self.record.again

    @property
    def is_full(self) -> bool:
        """Whether so many finished entries, or outputs, wait behind an unfinished entry that nothing more may be handed out."""
        return self.progress.finished_early >= _MOST_BEHIND or (self.outputs.weight >= _MOST_WAITING and not self.uncommitted)

    def room(self, in_hand: int) -> int | None:
        """Return how many entries may be handed out while the pod has `in_hand` of them; None: any number."""
        if self.is_full:
            return 0
        left = max(0, self.record.unacked - in_hand) if self.record.unacked else None
        if self.one_by_one or self.first_not_begun:
            alone = 0 if self.progress.unfinished else 1
            return alone if left is None else min(left, alone)
        return left

    @property
    def marked(self) -> int:
        """Entries before this offset are marked as redelivered."""
        return self.record.again if self.caught_up else self.record.marked

    @property
    def times(self) -> Mapping[str, int]:
        """See `Entries.times`. Only the committed offset has a count, so it is known of the first entry alone."""
        return {str(self.first): self.ended} if self.first_not_begun and self.first is not None else {}

    def reached_end(self, now: float) -> None:
        """Note that everything in the log was handed out."""
        self.caught_up = self.caught_up or now > self.alone_from

    def handed_out(self, offsets: Sequence[int]) -> None:
        if self.first is None and offsets:
            self.first = offsets[0]
        self.progress.handed_out(offsets)

    def commit_taken(self, offset: int, record: Record, asked_at: float) -> None:
        """Note that the broker took a commit that was sent at `asked_at`."""
        self.record, self.committed_at, self.recorded = record, asked_at, self.progress.end
        self.sure_at = max(self.sure_at, asked_at)
        if self.outlived and not record.ends:  # else the commit was under way before
            self.ended, self.outlived = 0, False
        self.set_committed(offset)

    def set_committed(self, offset: int) -> None:
        """Note that the broker has this offset, and so the outputs of the entries before it: while the record names this process,
        no other moves the offset."""
        self.committed = offset
        self.outputs.committed(offset)
        for entry in [entry for entry in {**self.failures} if entry < offset]:
            del self.failures[entry]

    def next_record(self, *, upto: int = 0) -> Record:
        """Return the record to commit with `offset`. `upto`: entries before this offset are about to be handed out."""
        if self.releasing:
            return self.last_record()
        ahead = max(AHEAD, 2 * (self.progress.end - self.recorded))
        reserved = self.record.reserved if self.first_not_begun else max(self.record.reserved, self.progress.end + ahead, upto)
        return replace(self._record_here(), reserved=reserved, released=False)

    def last_record(self) -> Record:
        """Return the record to commit when the partition is released. It grants the partition to the next owner, unless that is
        unknown or the record has more to tell it: then the operator grants."""
        then = self.next_owner
        here = self._record_here()
        if self.needs_several:  # another commit follows
            return replace(here, reserved=self.progress.end)
        if then is None or self.progress.unfinished or here.marked or here.tries or here.ends:
            reserved = self.record.reserved if self.first_not_begun else self.progress.end
            return replace(here, reserved=reserved, released=not self.progress.unfinished)
        reserved = self.progress.end + AHEAD
        return replace(here, uid=then.uid, epoch=then.epoch, reader=BY_GIVER, reserved=reserved, released=False)

    def _record_here(self) -> Record:
        may_end = self.ended and not self.outlived  # read before `failures`: another thread may be in `survived`
        record = replace(self.record, tries={**self.record.tries, **self.failures}).at(self.offset)
        return replace(record, stale=0 if self.caught_up else record.stale, ends=record.ends if may_end else {})

    def survived(self, offset: int) -> bool:
        """Note that this process survived an attempt at the first unfinished entry: earlier processes that may have ended on it
        count as failed attempts from now on. Return whether the next commit has to record that."""
        if not self.ended or self.outlived or not self.progress.is_first(offset):
            return False
        if tried := self.tried(offset):
            self.failures[offset] = tried
        self.outlived = True
        return True

    def failed(self, offset: int) -> None:
        """Count a failure of an entry. Until `counted`, further calls are for the same failure."""
        self.survived(offset)
        self.failures[offset] = self.counting.setdefault(offset, self.tried(offset) + 1)

    def counted(self, offset: int) -> None:
        """Count the next call of `failed` as another failure."""
        self.counting.pop(offset, None)

    def tried(self, offset: int) -> int:
        """Return how often an entry has failed, or has had processes end on it."""
        ended = self.ended if offset == self.first else 0
        return self.failures.get(offset) or self.record.tries.get(offset, 0) + ended

    def too_often(self, offset: int) -> bool:
        """Whether an entry has failed more often than maxRedeliveries allows."""
        return bool(self.record.most) and self.tried(offset) > self.record.most


def sent_together(positions: Mapping[int, ReadPosition]) -> dict[int, ReadPosition]:
    """Return the positions that can commit together: each has a usable token, and their outputs fit in one transaction."""
    found: dict[int, ReadPosition] = {}
    left = MOST_IN_TRANSACTION
    for number, position in positions.items():
        weight = position.outputs.weight
        if weight <= left and not position.needs_token:
            found[number] = position
            left -= weight
    return found


def taken_up(record: Record, offset: int, end: int, reader: str) -> Record:
    """Return the record that a process writes before it begins to read; `end` is where the log ends. The pod's own last process
    is over, but a query may still read. An entry that may have ended a process comes alone and is reserved only when it is begun
    (`ReadPosition.first_not_begun`)."""
    again, ends = record.again_for_next(end), record.ends_for_next(offset, end)
    stale = record.stale_for_next() if record.query else record.stale
    reserved = offset if offset < again and (record.most or ends.get(offset)) else offset + AHEAD
    return replace(record, reader=reader, reserved=reserved, again=again, stale=stale, query=0, ends=ends, released=False)
