"""An owner's commits. Every commit names the token of its record, and is refused by the broker where another is in force."""

import time
from collections.abc import Callable, Mapping, Set
from functools import partial
from secrets import token_hex

from baton.model.ids import Epoch, Partition, QueueName, Uid
from baton.queues.fence import StaleOwner
from baton.queues.kafka.answers import StaleToken
from baton.queues.kafka.direct_handoffs import DirectHandoffs
from baton.queues.kafka.group_offsets import Commit, GroupOffsets
from baton.queues.kafka.owner_looks import OwnerLooks
from baton.queues.kafka.partition_locks import PartitionLocks
from baton.queues.kafka.read_position import ReadPosition, sent_together
from baton.queues.kafka.reading_process import NOBODY, ReadingProcess, is_before, owner_of
from baton.queues.kafka.record import BY_GIVER, Committed, Record, names
from baton.queues.kafka.take_up_records import TRIES, TakeUpRecords, granted_on
from baton.queues.protocol import PartitionUnavailable, QueueUnreachable

_SILENT_FOR = 1.0
"""Seconds for which a broker that took longer not to take a last word is not told another. What it refuses at once, such as what
is sent to a topic without the right to, is one partition's trouble."""
_AGAIN_AFTER = 6 * 3600.0
"""Seconds after which an idle partition is committed again: in a group that never had a member, for the operator is not let in,
what nobody commits expires."""


class OwnerCommits:
    """Of one queue, for the pod with this UID. Methods raise StaleOwner where a partition is somebody else's, and
    QueueUnreachable. Any thread may call."""

    def __init__(
        self,
        offsets: GroupOffsets,
        queue: QueueName,
        uid: Uid,
        positions: Mapping[int, ReadPosition],
        handoffs: DirectHandoffs,
    ) -> None:
        """`positions`: of the partitions that are read; it follows them as they change. `handoffs`: what the pod's announcements
        tell of them."""
        self._offsets = offsets
        self._queue = queue
        self._uid = uid
        self._positions = positions
        self._process = ReadingProcess(uid, token_hex(8))
        self._silent_at = float("-inf")
        """When the broker was last found silent (monotonic)."""
        self._locks = PartitionLocks()
        self._handoffs = handoffs
        self.looks = OwnerLooks(offsets, queue, self._process, positions)
        self.take_up_records = TakeUpRecords(offsets, queue, uid, self._process.mark, self._locks, self._handoffs)

    def begin(self, partition: int, epoch: Epoch) -> ReadPosition:
        """Where the group's offset is, if the record beside it names this pod at this epoch. The record gets the mark of this
        process before it hands anything out; where it has that of an earlier one, a new token shuts that one out."""
        now = time.monotonic()
        seen = self.take_up_records.one(partition, epoch)
        if not names(seen.record, self._uid, epoch) and self._moved(partition, epoch):
            seen = self.take_up_records.one(partition, epoch)
        if not names(seen.record, self._uid, epoch):
            if is_before(seen.record, epoch):
                raise self.looks.before_the_grant(partition)
            raise StaleOwner(partition, self._uid, epoch, owner_of(seen.record))
        return ReadPosition.begun(seen, now)

    def commit(
        self,
        partition: int,
        position: ReadPosition,
        record: Callable[[ReadPosition], Record] = ReadPosition.next_record,
        until: float | None = None,
    ) -> None:
        """What is finished, and what is to be sent of it, with the record that `record` answers, or the usual one. `until`: when
        that has to be over (monotonic)."""
        with self._locks.held([partition]):
            while position.needs_several:
                self._commit(partition, position, ReadPosition.next_record, until)
            self._commit(partition, position, record, until)

    def reserve(self, partition: int, position: ReadPosition, upto: int) -> None:
        """Before entries up to this offset are handed out. Partitions that need the same soon have it at the same time: else
        whoever reads many would wait for one after the other."""
        low = {number: one for number, one in list(self._positions.items()) if one.runs_low and number != partition}
        with self._locks.held([partition]), self._locks.free(low) as free:  # who has another is just committing it
            due = {number: low[number] for number in free} | {partition: position}
            problems = self._commit_all(due, lambda one: one.next_record(upto=upto if one is position else 0))
            if position.record.reserved < upto:
                _raise_first(problems)
        self.looks.refuse_lost(partition, position)

    def commit_several(self, partitions: Set[int]) -> Mapping[int, QueueUnreachable]:
        """What is finished of these, at the same time. The answer: of which that was not taken, and why. Where the others were
        taken, that is the partition's own trouble."""
        held = {**self._positions}  # another thread may let go of some meanwhile
        wanted = {number: one for number, one in held.items() if number in partitions}
        with self._locks.held(wanted):
            unmarked = {number: one for number, one in wanted.items() if one.handed_over and one.lost is None}
            idle = self.idle()
            due = {number: one for number, one in wanted.items() if (one.behind or number in idle) and number not in unmarked}
            tried = due.keys() | unmarked.keys()
            problems = {**self._commit_all(due, ReadPosition.next_record), **self._mark(unmarked)}
            due = {number: one for number, one in unmarked.items() if one.behind and number not in problems}
            problems = {**problems, **self._commit_all(due, ReadPosition.next_record)}
            own = problems.keys() < tried
            return {number: PartitionUnavailable(str(why)) if own else why for number, why in problems.items()}

    def idle(self) -> Set[int]:
        """Those that nobody has committed for long: `commit_several` does."""
        due = time.monotonic() - _AGAIN_AFTER
        held = {**self._positions}  # another thread may let go of some meanwhile
        return {number for number, one in held.items() if one.committed_at < due and one.lost is None}

    def is_about_to_go(self, partition: int) -> bool:
        """Its last word is due in a moment, and goes over all that is finished: a commit before it would make the next owner wait
        for both, and for the broker, which takes none of a partition while it ends another. One that is to get the mark of this
        process gets it before."""
        position = self._positions.get(partition)
        if position is None or position.handed_over:
            return False
        return self._handoffs.is_about_to_go(Partition(self._queue, partition), position.epoch)

    def last_words(self, positions: Mapping[int, ReadPosition], within: float) -> Mapping[int, QueueUnreachable]:
        """They are let go of. The answer: of which the broker has not taken that in so many seconds. If nobody says it again,
        what it has not taken comes again, and the operator waits for the Lease, or the deadline."""
        begun = time.monotonic()
        until = begun + within
        for number, position in positions.items():
            if not (position.left and position.in_doubt):  # else the broker may have taken it, and who was next then has begun
                position.then = self._handoffs.next_owner(Partition(self._queue, number), position.epoch)
            position.left = True
        late = QueueUnreachable(f"{self._offsets.place} has not taken in time that partitions of {self._queue} are let go of")
        if within <= 0 or begun - self._silent_at < _SILENT_FOR:
            return dict.fromkeys(positions, late)
        untaken: dict[int, QueueUnreachable] = {}
        with self._locks.free(positions) as free:
            first = {number: one for number, one in positions.items() if number in free}
            untaken |= self._commit_all(first, ReadPosition.last_record, until)
        rest = {number: one for number, one in positions.items() if number not in free}
        try:
            with self._locks.held(rest, until):
                untaken |= self._commit_all(rest, ReadPosition.last_record, until)
        except TimeoutError:  # a commit of one is under way, and hangs
            untaken |= dict.fromkeys(rest, PartitionUnavailable(str(late)))
        silent = any(not isinstance(problem, PartitionUnavailable) for problem in untaken.values())
        if silent and time.monotonic() - begun > _SILENT_FOR:
            self._silent_at = time.monotonic()
        return untaken

    def _commit_all(
        self, positions: Mapping[int, ReadPosition], record: Callable[[ReadPosition], Record], until: float | None = None
    ) -> Mapping[int, QueueUnreachable]:
        """But for those that are lost. `until`: when that has to be over (monotonic). The answer: which were not taken, and
        why."""
        due = {number: one for number, one in positions.items() if one.lost is None}
        together = sent_together(due)
        try:
            refused = self._commit_together(together, record, _left(until))
        except QueueUnreachable as problem:
            return dict.fromkeys(due, problem)
        problems = {number: problem for number, problem in refused.items() if isinstance(problem, QueueUnreachable)}
        for number, position in due.items():
            if number not in together or position.needs_token or isinstance(refused.get(number), StaleToken):
                try:
                    self.commit(number, position, record, until)
                except StaleOwner:
                    continue  # whoever reads it next is told
                except QueueUnreachable as problem:
                    problems[number] = problem
        return problems

    def _commit(
        self, partition: int, position: ReadPosition, record: Callable[[ReadPosition], Record], until: float | None
    ) -> None:
        """As much of it as one transaction may have."""
        for _ in range(TRIES):
            try:
                if position.needs_token:
                    seen = self._offsets.renewed(partition, partial(self._process.as_it_is, position), _left(until))
                    self._found_again(partition, position, seen)
                refused = self._commit_together({partition: position}, record, _left(until))
                if partition not in refused:
                    return
                raise refused[partition]
            except StaleToken:
                self._follow(partition, position)
        raise granted_on(self._offsets, self._queue, partition)

    def _mark(self, positions: Mapping[int, ReadPosition]) -> Mapping[int, QueueUnreachable]:
        """They were handed over by who had them before: their records get the mark of this process, under a token of its own,
        which shuts the giver out. The answer: of which that was not to be had, and why."""
        problems: dict[int, QueueUnreachable] = {}
        found = self._offsets.renewed_several({number: partial(self._process.as_it_is, one) for number, one in positions.items()})
        for number, seen in found.items():
            try:
                if isinstance(seen, QueueUnreachable):
                    raise seen
                if isinstance(seen, StaleToken):  # another has one since
                    self.commit(number, positions[number])
                else:
                    self._found_again(number, positions[number], seen)
            except StaleOwner:
                continue  # whoever reads it next is told
            except QueueUnreachable as problem:
                problems[number] = problem
        return problems

    def _moved(self, partition: int, epoch: Epoch) -> bool:
        """The queue has another topic, where this is the owner: what was read of the one before is nobody's."""
        if not self._offsets.found_elsewhere(partition, self._uid, epoch):
            return False
        for position in list(self._positions.values()):  # another thread may let go of some
            position.lost = NOBODY
        return True

    def _commit_together(
        self, positions: Mapping[int, ReadPosition], record: Callable[[ReadPosition], Record], within: float | None
    ) -> Mapping[int, StaleToken | QueueUnreachable]:
        """Which were refused, and why."""
        asked_at = time.monotonic()
        wanted = {number: _wanted(position, record) for number, position in positions.items()}
        before = {number: position.in_doubt for number, position in positions.items()}
        for position in positions.values():
            position.in_doubt = True
        refused = self._offsets.commit_several(wanted, within)
        for number, one in wanted.items():
            if number not in refused:
                positions[number].in_doubt = before[number]
                self._process.has_committed(positions[number], one.offset, one.record, asked_at)
        return refused

    def _follow(self, partition: int, position: ReadPosition) -> None:
        """Another token is in force: it is this owner's own where the record names it still. Where the record has the one that
        was refused, whoever has taken another is between two requests, or has ended there."""
        seen, unchanged = self._offsets.after_refusal(partition, position.record.token)
        if unchanged and names(seen.record, self._uid, position.epoch):
            try:
                seen = self._offsets.renewed(partition, partial(self._process.as_it_is, position))
            except StaleToken:
                return  # it was only slow
        self._found_again(partition, position, seen)

    def _found_again(self, partition: int, position: ReadPosition, seen: Committed) -> None:
        """Under another token: what was in doubt was taken, or is aborted, as the offset says."""
        proven = self._process.see(position, seen.record, time.monotonic())
        self.looks.refuse(partition, position, proven=proven)
        position.found(seen.offset)
        position.in_doubt = False
        position.handed_over = position.record.reader == BY_GIVER


def _wanted(position: ReadPosition, record: Callable[[ReadPosition], Record]) -> Commit:
    wanted = record(position)  # before the offset: one that says that all is finished goes with the last
    offset = position.offset
    return Commit(offset, wanted, position.outputs.due(offset))


def _raise_first(problems: Mapping[int, QueueUnreachable]) -> None:
    for problem in problems.values():
        raise problem


def _left(until: float | None) -> float | None:
    """Seconds."""
    return None if until is None else max(0.0, until - time.monotonic())
