"""An owner's commits. Each names the token of its record; the broker refuses it if another token is in force.

The layers of a commit, from the consumer down to the broker: `reader` decides when to commit; `read_position` which offset and
record (pure); this module commits a partition once at a time, and follows a refusal; `group_offsets` bounds the time, and commits
several partitions at once; `fence` makes the transaction; `client` sends its requests.
"""

import asyncio
import time
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Mapping, Set
from contextlib import asynccontextmanager, contextmanager, suppress
from dataclasses import replace
from functools import partial
from secrets import token_hex

from baton.model.ids import Epoch, Partition, QueueName, Uid
from baton.queues.consumer_side import SURE_FOR
from baton.queues.fence import StaleOwner
from baton.queues.kafka.client import ASKED_WITHIN, StaleToken
from baton.queues.kafka.direct_handoffs import DirectHandoffs
from baton.queues.kafka.event_loop import each
from baton.queues.kafka.fence import ENDS_WITHIN, GRANTED_WITHIN
from baton.queues.kafka.group_offsets import AT_ONCE, Commit, GroupOffsets
from baton.queues.kafka.read_position import ReadPosition, sent_together, taken_up
from baton.queues.kafka.record import BY_GIVER, Committed, Record, names
from baton.queues.protocol import NO_OWNER, Ownership, PartitionUnavailable, QueueUnreachable

# -- A lock for each partition: two commits of one partition at a time would be one transaction.


class PartitionLocks:
    """Locks for use in one event loop."""

    def __init__(self) -> None:
        self._taken: set[int] = set()
        self._freed = asyncio.Event()
        """Set when locks are released, then replaced."""

    @asynccontextmanager
    async def held(self, partitions: Iterable[int], until: float | None = None) -> AsyncIterator[None]:
        """Hold the locks of all these partitions. Raises TimeoutError if some are taken `until` then (monotonic)."""
        wanted = set(partitions)
        async with asyncio.timeout(None if until is None else until - time.monotonic()):
            while wanted & self._taken:
                await self._freed.wait()
        with self._holding(wanted):
            yield

    @contextmanager
    def free(self, partitions: Iterable[int]) -> Iterator[set[int]]:
        """Hold the locks that are free, and return their partitions."""
        free = set(partitions) - self._taken
        with self._holding(free):
            yield free

    @contextmanager
    def _holding(self, partitions: set[int]) -> Iterator[None]:
        self._taken |= partitions
        try:
            yield
        finally:
            self._taken -= partitions
            self._freed.set()
            self._freed = asyncio.Event()


# -- What owner records say about ownership. Pure.


def is_before(record: Record | None, epoch: Epoch) -> bool:
    """Whether the record was written before this epoch was granted: epochs only rise. Without a record, Kafka's own tools have
    set the offset since."""
    return record is not None and record.epoch < epoch


def owner_of(record: Record | None) -> Ownership:
    """Return the record's owner; without a record NO_OWNER."""
    return NO_OWNER if record is None else Ownership(record.uid, record.epoch)


# -- An owner's reads and commits of owner records.

_TRIES = 5
"""Failed tries in a row after which the error says that others keep taking tokens."""
_SILENT_FOR = 1.0
"""Seconds. If a broker took longer than this without confirming a release, nothing more is released there for as long. An
immediate refusal (no right to an output topic) concerns its partition only."""
_AGAIN_AFTER = 6 * 3600.0
"""Seconds after which an idle partition is committed again. Offsets of a group without members expire, and the group has none if
the operator may not join it."""


class OwnerCommits:
    """Commits of one queue, for the pod with this UID. Methods raise StaleOwner if a partition has another owner, and
    QueueUnreachable. For use in one event loop."""

    def __init__(
        self,
        offsets: GroupOffsets,
        queue: QueueName,
        uid: Uid,
        positions: Mapping[int, ReadPosition],
        handoffs: DirectHandoffs,
    ) -> None:
        """`positions`: those of the partitions that are read; the caller changes it. `handoffs`: what the pod's announcements say
        about hand-offs."""
        self._offsets = offsets
        self._queue = queue
        self._uid = uid
        self._positions = positions
        self._mark = token_hex(8)
        """This process in records (`Record.reader`)."""
        self._silent_at = float("-inf")
        """When the broker was last found silent (monotonic)."""
        self._locks = PartitionLocks()
        self._handoffs = handoffs
        self._unconfirmed_marks: dict[int, Epoch] = {}
        """Partitions whose record was sent with this process's mark under this epoch, without an answer yet. Nothing of them was
        handed out, so sending the mark again counts no ended process."""

    async def begin(self, partition: int, epoch: Epoch) -> ReadPosition:
        """Begin at the group's offset, if the record names this pod at this epoch. First the record gets this process's mark; if
        it has the mark of an earlier process, a new token shuts that one out."""
        now = time.monotonic()
        seen = await self._mark_record(partition, epoch)
        if not names(seen.record, self._uid, epoch) and await self._topic_changed(partition, epoch):
            seen = await self._mark_record(partition, epoch)
        if not names(seen.record, self._uid, epoch):
            if is_before(seen.record, epoch):
                raise self._older_than_grant(partition)
            raise StaleOwner(partition, self._uid, epoch, owner_of(seen.record))
        return ReadPosition.begun(seen, now)

    async def commit(self, partition: int, position: ReadPosition) -> None:
        """Commit what is finished, its outputs, and the next record."""
        async with self._locks.held([partition]):
            await self._commit_all_of(partition, position, ReadPosition.next_record)

    async def reserve(self, partition: int, position: ReadPosition, upto: int) -> None:
        """Reserve entries up to this offset before they are handed out. Partitions whose reservation is low are committed at the
        same time; otherwise a reader of many would wait for one after the other."""
        low = {number: one for number, one in list(self._positions.items()) if one.reservation_low and number != partition}
        async with self._locks.held([partition]):
            with self._locks.free(low) as free:  # the others are being committed already
                due = {number: low[number] for number in free} | {partition: position}
                problems = await self._commit_all(due, lambda one: one.next_record(upto=upto if one is position else 0))
        if position.record.reserved < upto and problems:
            raise next(iter(problems.values()))
        self.raise_if_lost(partition, position)

    async def commit_several(self, partitions: Set[int]) -> Mapping[int, QueueUnreachable]:
        """Commit what is finished in these partitions, all at once. Return those whose commit failed, and why: if others
        succeeded, as PartitionUnavailable."""
        held = {**self._positions}  # another thread may remove some meanwhile
        wanted = {number: one for number, one in held.items() if number in partitions}
        async with self._locks.held(wanted):
            idle = self.idle()
            due = {number: one for number, one in wanted.items() if one.has_news or one.handed_over or number in idle}
            problems = await self._commit_all(due, ReadPosition.next_record)
            own = problems.keys() < due.keys()
            return {number: PartitionUnavailable(str(why)) if own else why for number, why in problems.items()}

    def idle(self) -> Set[int]:
        """Return partitions that were not committed for long; `commit_several` commits them."""
        due = time.monotonic() - _AGAIN_AFTER
        held = {**self._positions}  # another thread may remove some meanwhile
        return {number for number, one in held.items() if one.committed_at < due and one.lost is None}

    def is_about_to_release(self, partition: int) -> bool:
        """Whether the partition's last commit is due in a moment. A commit before it would delay the next owner: a broker takes
        no commit of a partition while it ends another. A partition that still needs this process's mark is not held back."""
        position = self._positions.get(partition)
        if position is None or position.handed_over:
            return False
        return self._handoffs.is_about_to_release(Partition(self._queue, partition), position.epoch)

    async def release(self, positions: Mapping[int, ReadPosition], within: float) -> Mapping[int, QueueUnreachable]:
        """Release partitions: commit their last records within so many seconds. Return those that failed, and why. Unless that
        is repeated, uncommitted entries come again, and the operator waits for the Lease, or the deadline."""
        begun = time.monotonic()
        until = begun + within
        for number, position in positions.items():
            if not (position.releasing and position.in_doubt):  # else the broker may have granted it to that next owner
                position.next_owner = self._handoffs.next_owner(Partition(self._queue, number), position.epoch)
            position.releasing = True
        late = QueueUnreachable(f"{self._offsets.place} has not confirmed in time that partitions of {self._queue} were released")
        if within <= 0 or begun - self._silent_at < _SILENT_FOR:
            return dict.fromkeys(positions, late)
        untaken: dict[int, QueueUnreachable] = {}
        with self._locks.free(positions) as free:
            first = {number: one for number, one in positions.items() if number in free}
            untaken |= await self._commit_all(first, ReadPosition.last_record, until)
        rest = {number: one for number, one in positions.items() if number not in free}
        try:
            async with self._locks.held(rest, until):
                untaken |= await self._commit_all(rest, ReadPosition.last_record, until)
        except TimeoutError:  # a commit under way hangs
            untaken |= dict.fromkeys(rest, PartitionUnavailable(str(late)))
        silent = any(not isinstance(problem, PartitionUnavailable) for problem in untaken.values())
        if silent and time.monotonic() - begun > _SILENT_FOR:
            self._silent_at = time.monotonic()
        return untaken

    async def _commit_all(
        self, positions: Mapping[int, ReadPosition], record: Callable[[ReadPosition], Record], until: float | None = None
    ) -> Mapping[int, QueueUnreachable]:
        """Commit all of these that are not lost: first those that need no new token. `until`: when that has to be over
        (monotonic). Return those that failed, and why."""
        due = {number: one for number, one in positions.items() if one.lost is None}
        together = sent_together(due)
        try:
            refused = await self._commit_together(together, record, _seconds_until(until))
        except QueueUnreachable as problem:
            return dict.fromkeys(due, problem)
        problems = {number: problem for number, problem in refused.items() if isinstance(problem, QueueUnreachable)}

        async def commit(number: int) -> None:
            try:
                await self._commit_all_of(number, due[number], record, until)
            except StaleOwner:
                pass  # the next call for this partition raises it
            except QueueUnreachable as problem:
                problems[number] = problem

        left = [number for number in due if number not in together or isinstance(refused.get(number), StaleToken)]
        await each(commit, [number for number in left if not due[number].outputs], at_once=AT_ONCE)
        await each(commit, [number for number in left if due[number].outputs], at_once=1)  # as large as a transaction may be
        return problems

    async def _commit_all_of(
        self, partition: int, position: ReadPosition, record: Callable[[ReadPosition], Record], until: float | None = None
    ) -> None:
        """Commit in as many transactions as it takes."""
        while position.needs_several:
            await self._commit(partition, position, ReadPosition.next_record, until)
        await self._commit(partition, position, record, until)

    async def _commit(
        self, partition: int, position: ReadPosition, record: Callable[[ReadPosition], Record], until: float | None
    ) -> None:
        """Commit as much as fits in one transaction, first taking a new token if needed: it shuts the giver of a partition that
        was handed over out, and the record gets this process's mark."""
        for _ in range(_TRIES):
            try:
                if position.needs_token:
                    await self._take_token(partition, position, until)
                    if record is ReadPosition.next_record and not (position.has_news or position.releasing):
                        return  # the next record would only reserve more, which `reserve` does when it is needed
                refused = await self._commit_together({partition: position}, record, _seconds_until(until))
                if partition not in refused:
                    return
                raise refused[partition]
            except StaleToken:
                await self._follow_token(partition, position, until)
        raise self._contended(partition)

    async def _topic_changed(self, partition: int, epoch: Epoch) -> bool:
        """Whether the queue has another topic, with this owner. If so, drop the entries of the former topic."""
        if not await self._offsets.found_elsewhere(partition, self._uid, epoch):
            return False
        for position in list(self._positions.values()):  # another thread may remove some meanwhile
            position.lost = NO_OWNER
        return True

    async def _commit_together(
        self, positions: Mapping[int, ReadPosition], record: Callable[[ReadPosition], Record], within: float | None
    ) -> Mapping[int, StaleToken | QueueUnreachable]:
        """Commit these at once. Return those that were refused, and why."""
        asked_at = time.monotonic()
        wanted = {number: _commit_of(position, record) for number, position in positions.items()}
        before = {number: position.in_doubt for number, position in positions.items()}
        for position in positions.values():
            position.in_doubt = True
        refused = await self._offsets.commit_several(wanted, within)
        for number, one in wanted.items():
            if number not in refused:
                position = positions[number]
                position.in_doubt = before[number]
                position.commit_taken(one.offset, one.record, asked_at)
                if not names(one.record, self._uid, position.epoch):  # handed over: commit nothing more under this token
                    position.lost = owner_of(one.record)
        return refused

    async def _take_token(self, partition: int, position: ReadPosition, until: float | None) -> None:
        """Raises StaleToken if another process has taken a token since."""
        asked_at = time.monotonic()
        seen = await self._offsets.renewed(partition, partial(self._record_with_mark, position), _seconds_until(until))
        self._resume_at(partition, position, seen, asked_at)

    async def _follow_token(self, partition: int, position: ReadPosition, until: float | None) -> None:
        """Another token is in force. If the record names this owner, adopt its token. If the record still has the refused token,
        the process that took the new one is between two requests or ended there: take another token."""
        asked_at = time.monotonic()
        seen, unchanged = await self._offsets.after_refusal(partition, position.record.token, _seconds_until(until))
        if unchanged and names(seen.record, self._uid, position.epoch):
            with suppress(StaleToken):  # the other process has written its record by now
                await self._take_token(partition, position, until)
        else:
            self._resume_at(partition, position, seen, asked_at)

    def _resume_at(self, partition: int, position: ReadPosition, seen: Committed, asked_at: float) -> None:
        """Go on under another token, from the offset in `seen`: it shows whether commits in doubt were taken. `asked_at`: when it
        was requested (monotonic)."""
        proven = self._observe(position, seen.record, asked_at)
        self._raise_if_not_owner(partition, position, proven=proven)
        position.set_committed(seen.offset)
        position.in_doubt = False

    def _contended(self, partition: int) -> PartitionUnavailable:
        """Return the error for other processes taking tokens again and again."""
        return PartitionUnavailable(
            f"{self._offsets.place}: {self._queue}/{partition} is granted again and again: see that only one operator grants it"
        )

    # -- taking up

    def take_handed_over(self, partitions: Mapping[int, Epoch]) -> dict[int, ReadPosition]:
        """Take up those of these partitions that the former owner handed over to this pod, as its announcements saw. Sends no
        request and marks nothing yet."""
        found: dict[int, ReadPosition] = {}
        for number, epoch in partitions.items():
            seen = self._handoffs.take(Partition(self._queue, number), epoch)
            if seen is None or not self._offsets.begin_with(seen.topic):
                continue
            record = seen.committed.record
            if record is not None and (record.queue, record.uid, record.reader) == (self._queue, self._uid, BY_GIVER):
                found[number] = ReadPosition.begun(seen.committed, seen.asked_at)
        return found

    async def newly_granted(self, partitions: Mapping[int, Epoch]) -> dict[int, Committed]:
        """Return those of these partitions that are this pod's at these epochs and that no process has read yet."""
        found, _ = await self._offsets.now(tuple(partitions))
        return {number: seen for number, seen in found.items() if _is_new(seen.record, self._uid, partitions[number])}

    async def take_up(self, found: Mapping[int, Committed]) -> dict[int, ReadPosition]:
        """Put this process's mark in the records that `newly_granted` returned. Return positions, without those that were
        refused: see `begin`."""
        now = time.monotonic()
        marked = {
            number: seen._replace(record=taken_up(seen.record, seen.offset, 0, self._mark))
            for number, seen in found.items()
            if seen.record is not None
        }
        wanted = {number: Commit(at, record, seen=found[number]) for number, (at, record) in marked.items() if record is not None}
        self._unconfirmed_marks |= {number: one.record.epoch for number, one in wanted.items()}
        refused = await self._offsets.commit_several(wanted)  # no other task commits these meanwhile
        for number in wanted.keys() - refused.keys():
            del self._unconfirmed_marks[number]
        return {number: ReadPosition.begun(seen, now) for number, seen in marked.items() if number not in refused}

    async def _mark_record(self, partition: int, epoch: Epoch) -> Committed:
        """Return what is committed, with this process's mark if the partition is the pod's, even if others take tokens at the
        same time or ended after taking one."""
        for _ in range(_TRIES):
            try:
                seen = await self._try_mark_record(partition, epoch)
            except StaleToken:
                await asyncio.sleep(GRANTED_WITHIN / _TRIES)
                continue
            if names(seen.record, self._uid, epoch):
                self._unconfirmed_marks.pop(partition, None)
                self._handoffs.begins(Partition(self._queue, partition), epoch)
            return seen
        raise self._contended(partition)

    async def _try_mark_record(self, partition: int, epoch: Epoch) -> Committed:
        """Try once. Raises StaleToken."""
        async with self._locks.held([partition]):
            found, _ = await self._offsets.now((partition,))
            seen = found.get(partition)
            if seen is not None and not names(seen.record, self._uid, epoch):
                return seen
            end = await self._offsets.end_of_log(partition)

            def change(seen: Committed) -> Record | None:
                record = seen.record
                if record is None or not names(record, self._uid, epoch):
                    return record
                if record.reader == BY_GIVER and self._handoffs.is_new(Partition(self._queue, partition), epoch):
                    self._unconfirmed_marks[partition] = epoch
                    return replace(record, reader=self._mark, released=False)
                if record.reader != self._mark:
                    self._unconfirmed_marks[partition] = epoch
                elif self._unconfirmed_marks.get(partition) == epoch:
                    return record
                return taken_up(record, seen.offset, end, self._mark)

            return await self._offsets.renewed(partition, change)

    # -- what records say

    def _observe(self, position: ReadPosition, record: Record | None, asked_at: float, before: Record | None = None) -> bool:
        """Take in a record that was requested at `asked_at`. `before`: the record known at that time; one committed since is
        newer. Return False if it was written before the grant: then it says nothing about the present owner."""
        readers = (self._mark, BY_GIVER)  # the giver wrote its record before any mark
        older = before is not None and position.record is not before
        if record is not None and names(record, self._uid, position.epoch) and record.reader in readers:
            if not older:
                position.record = record
            position.sure_at = max(position.sure_at, asked_at)
        elif not older or (record is not None and record.epoch > position.epoch):
            if is_before(record, position.epoch):
                return False
            position.lost = owner_of(record)
            position.other_process = names(record, self._uid, position.epoch)
        return True

    def _record_with_mark(self, position: ReadPosition, seen: Committed) -> Record | None:
        """Return the record unchanged; if only the giver has written it, with this process's mark."""
        record = seen.record
        if record is None or not names(record, self._uid, position.epoch) or record.reader != BY_GIVER:
            return record
        return replace(record, reader=self._mark, released=False)

    def raise_if_lost(self, partition: int, position: ReadPosition) -> None:
        if position.lost is not None:
            raise StaleOwner(partition, self._uid, position.epoch, position.lost, other_process=position.other_process)

    async def check_owner(self, partition: int, position: ReadPosition) -> None:
        """Check the records of all partitions at once. Only this partition's commit under way is waited for: others are read and
        committed meanwhile."""
        asked_at, before = time.monotonic(), position.record
        unproven, pending = await self._check({**self._positions, partition: position}, asked_at)
        proven = partition not in unproven
        if partition not in pending:
            position.unsettled = False
        else:
            proven = self._observe(position, (await self._settled_commit(partition, position)).record, asked_at, before)
        self._raise_if_not_owner(partition, position, proven=proven)

    async def check_all(self) -> None:
        """Check the records of all partitions that are read, so that readers need not for a while. Raises only QueueUnreachable,
        also if the check takes longer than its answer is valid."""
        if held := {**self._positions}:  # another thread may remove some meanwhile
            await self._check(held, time.monotonic(), SURE_FOR)

    def _raise_if_not_owner(self, partition: int, position: ReadPosition, *, proven: bool) -> None:
        """Raise StaleOwner if another owner was seen, or PartitionUnavailable if `proven` is False: what was seen is older than
        the grant."""
        self.raise_if_lost(partition, position)
        if not proven:
            raise self._older_than_grant(partition)

    def _older_than_grant(self, partition: int) -> PartitionUnavailable:
        return PartitionUnavailable(
            f"{self._offsets.place} answers for {self._queue}/{partition} with an owner from before it was granted to this pod: "
            "the group's coordinator is behind: wait until it has caught up, or the operator has granted the partition again"
        )

    async def _check(
        self, held: Mapping[int, ReadPosition], asked_at: float, within: float = ASKED_WITHIN
    ) -> tuple[Set[int], tuple[int, ...]]:
        """Check these records. Return the partitions whose record is older than the grant, and those with a commit under way."""
        before = {number: one.record for number, one in held.items()}
        found, pending = await self._offsets.now(tuple(held), within)
        unproven = {
            number for number, seen in found.items() if not self._observe(held[number], seen.record, asked_at, before[number])
        }
        return unproven, pending

    async def _settled_commit(self, partition: int, position: ReadPosition) -> Committed:
        """Return what is committed after the commit under way. One that did not end before is not waited for again."""
        try:
            seen = await self._offsets.stable(partition, 0.0 if position.unsettled else ENDS_WITHIN)
        except PartitionUnavailable:
            if position.in_doubt:  # the commit is this process's
                raise PartitionUnavailable(
                    f"{self._offsets.place} is slow: a commit of {self._queue}/{partition} has not ended yet: check its brokers"
                ) from None
            position.unsettled = True
            raise
        position.unsettled = False
        return seen


def _commit_of(position: ReadPosition, record: Callable[[ReadPosition], Record]) -> Commit:
    wanted = record(position)  # before the offset, so a record that says all is finished goes with the last offset
    offset = position.offset
    return Commit(offset, wanted, position.outputs.due(offset))


def _seconds_until(until: float | None) -> float | None:
    return None if until is None else max(0.0, until - time.monotonic())


def _is_new(record: Record | None, uid: Uid, epoch: Epoch) -> bool:
    """Whether the record names this owner and no process has read the partition since the grant."""
    return record is not None and names(record, uid, epoch) and not (record.reader or record.query)
