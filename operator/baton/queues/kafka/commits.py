"""An owner's commits. Every commit names the token of its record, and is refused by the broker where another is in force."""

import asyncio
import time
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Mapping, Set
from contextlib import asynccontextmanager, contextmanager
from dataclasses import replace
from functools import partial
from secrets import token_hex

from baton.model.ids import Epoch, Partition, QueueName, Uid
from baton.queues.consumer_side import SURE_FOR
from baton.queues.fence import StaleOwner
from baton.queues.kafka.client import ASKED_WITHIN, StaleToken
from baton.queues.kafka.direct_handoffs import DirectHandoffs
from baton.queues.kafka.fence import ENDS_WITHIN, GRANTED_WITHIN
from baton.queues.kafka.group_offsets import Commit, GroupOffsets
from baton.queues.kafka.read_position import ReadPosition, sent_together, taken_up
from baton.queues.kafka.record import BY_GIVER, Committed, Record, names
from baton.queues.protocol import NO_OWNER, Ownership, PartitionUnavailable, QueueUnreachable

# -- A lock for each partition: two commits of one partition at a time would be one transaction. Others do not wait for it.


class PartitionLocks:
    """Used in one event loop."""

    def __init__(self) -> None:
        self._taken: set[int] = set()
        self._freed = asyncio.Event()
        """Of some of these."""

    @asynccontextmanager
    async def held(self, partitions: Iterable[int], until: float | None = None) -> AsyncIterator[None]:
        """All of these. Raises TimeoutError where another has one of them `until` then (monotonic)."""
        wanted = set(partitions)
        async with asyncio.timeout(None if until is None else until - time.monotonic()):
            while wanted & self._taken:
                await self._freed.wait()
        with self._holding(wanted):
            yield

    @contextmanager
    def free(self, partitions: Iterable[int]) -> Iterator[set[int]]:
        """Hold those of these partitions that are not held yet."""
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


# -- What owner records tell of whose a partition is. Pure.


def is_before(record: Record | None, epoch: Epoch) -> bool:
    """It stood there before this was granted: epochs only rise. No record is what Kafka's own tools leave that set a place."""
    return record is not None and record.epoch < epoch


def owner_of(record: Record | None) -> Ownership:
    """NO_OWNER, where there is no record."""
    return NO_OWNER if record is None else Ownership(record.uid, record.epoch)


# -- What an owner asks and commits.

_TRIES = 5
"""Tries in a row before it is reported that others take tokens meanwhile."""
_SILENT_FOR = 1.0
"""Seconds for which a broker that took longer not to take a last word is not told another. What it refuses at once, such as what
is sent to a topic without the right to, is one partition's trouble."""
_AGAIN_AFTER = 6 * 3600.0
"""Seconds after which an idle partition is committed again: in a group that never had a member, for the operator is not let in,
an offset that is not committed expires."""


class OwnerCommits:
    """Of one queue, for the pod with this UID. Methods raise StaleOwner where a partition has another owner, and
    QueueUnreachable. Used in one event loop."""

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
        self._mark = token_hex(8)
        """By it a record names this process (`Record.reader`)."""
        self._silent_at = float("-inf")
        """When the broker was last found silent (monotonic)."""
        self._locks = PartitionLocks()
        self._handoffs = handoffs
        self._marking: dict[int, Epoch] = {}
        """Of which the broker was told of this process, under this epoch, and has not said that it heard: nothing of them was
        handed out, so they have no try more where it is told again."""

    async def begin(self, partition: int, epoch: Epoch) -> ReadPosition:
        """Where the group's offset is, if the record beside it names this pod at this epoch. The record gets the mark of this
        process before it hands anything out; where it has that of an earlier one, a new token shuts that one out."""
        now = time.monotonic()
        seen = await self._marked(partition, epoch)
        if not names(seen.record, self._uid, epoch) and await self._moved(partition, epoch):
            seen = await self._marked(partition, epoch)
        if not names(seen.record, self._uid, epoch):
            if is_before(seen.record, epoch):
                raise self.before_the_grant(partition)
            raise StaleOwner(partition, self._uid, epoch, owner_of(seen.record))
        return ReadPosition.begun(seen, now)

    async def commit(
        self,
        partition: int,
        position: ReadPosition,
        record: Callable[[ReadPosition], Record] = ReadPosition.next_record,
        until: float | None = None,
    ) -> None:
        """What is finished, and what is to be sent of it, with the record that `record` answers, or the usual one. `until`: when
        that has to be over (monotonic)."""
        async with self._locks.held([partition]):
            await self._commit_all_of(partition, position, record, until)

    async def reserve(self, partition: int, position: ReadPosition, upto: int) -> None:
        """Before entries up to this offset are handed out. Partitions that need the same soon have it at the same time, or
        else a reader of many would wait for one after the other."""
        low = {number: one for number, one in list(self._positions.items()) if one.reservation_low and number != partition}
        async with self._locks.held([partition]):
            with self._locks.free(low) as free:  # who has another is just committing it
                due = {number: low[number] for number in free} | {partition: position}
                problems = await self._commit_all(due, lambda one: one.next_record(upto=upto if one is position else 0))
        if position.record.reserved < upto and problems:
            raise next(iter(problems.values()))
        self.raise_if_lost(partition, position)

    async def commit_several(self, partitions: Set[int]) -> Mapping[int, QueueUnreachable]:
        """What is finished of these, at the same time. The answer: of which that was not taken, and why. Where the others were
        taken, that is the partition's own trouble."""
        held = {**self._positions}  # another thread may let go of some meanwhile
        wanted = {number: one for number, one in held.items() if number in partitions}
        async with self._locks.held(wanted):
            unmarked = {number: one for number, one in wanted.items() if one.handed_over and one.lost is None}
            idle = self.idle()
            due = {number: one for number, one in wanted.items() if (one.has_news or number in idle) and number not in unmarked}
            tried = due.keys() | unmarked.keys()
            problems = {**await self._commit_all(due, ReadPosition.next_record), **await self._mark_all(unmarked)}
            due = {number: one for number, one in unmarked.items() if one.has_news and number not in problems}
            problems |= await self._commit_all(due, ReadPosition.next_record)
            own = problems.keys() < tried
            return {number: PartitionUnavailable(str(why)) if own else why for number, why in problems.items()}

    def idle(self) -> Set[int]:
        """Partitions that were not committed for long; `commit_several` commits them."""
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

    async def release(self, positions: Mapping[int, ReadPosition], within: float) -> Mapping[int, QueueUnreachable]:
        """They are let go of. The answer: of which the broker has not taken that in so many seconds. If that is not repeated,
        what the broker has not taken comes again, and the operator waits for the Lease, or the deadline."""
        begun = time.monotonic()
        until = begun + within
        for number, position in positions.items():
            if not (position.let_go and position.in_doubt):  # else the broker may have taken it, and who was next then has begun
                position.next_owner = self._handoffs.next_owner(Partition(self._queue, number), position.epoch)
            position.let_go = True
        late = QueueUnreachable(f"{self._offsets.place} has not taken in time that partitions of {self._queue} are let go of")
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
        except TimeoutError:  # a commit of one is under way, and hangs
            untaken |= dict.fromkeys(rest, PartitionUnavailable(str(late)))
        silent = any(not isinstance(problem, PartitionUnavailable) for problem in untaken.values())
        if silent and time.monotonic() - begun > _SILENT_FOR:
            self._silent_at = time.monotonic()
        return untaken

    async def _commit_all(
        self, positions: Mapping[int, ReadPosition], record: Callable[[ReadPosition], Record], until: float | None = None
    ) -> Mapping[int, QueueUnreachable]:
        """But for those that are lost. `until`: when that has to be over (monotonic). The answer: which were not taken, and
        why."""
        due = {number: one for number, one in positions.items() if one.lost is None}
        together = sent_together(due)
        try:
            refused = await self._commit_together(together, record, _left(until))
        except QueueUnreachable as problem:
            return dict.fromkeys(due, problem)
        problems = {number: problem for number, problem in refused.items() if isinstance(problem, QueueUnreachable)}
        for number, position in due.items():
            if number not in together or position.needs_token or isinstance(refused.get(number), StaleToken):
                try:
                    await self._commit_all_of(number, position, record, until)
                except StaleOwner:
                    continue  # its next reader is told
                except QueueUnreachable as problem:
                    problems[number] = problem
        return problems

    async def _commit_all_of(
        self, partition: int, position: ReadPosition, record: Callable[[ReadPosition], Record], until: float | None = None
    ) -> None:
        """In as many transactions as it takes."""
        while position.needs_several:
            await self._commit(partition, position, ReadPosition.next_record, until)
        await self._commit(partition, position, record, until)

    async def _commit(
        self, partition: int, position: ReadPosition, record: Callable[[ReadPosition], Record], until: float | None
    ) -> None:
        """As much of it as one transaction may have."""
        for _ in range(_TRIES):
            try:
                if position.needs_token:
                    seen = await self._offsets.renewed(partition, partial(self._record_with_mark, position), _left(until))
                    self._resume_at(partition, position, seen)
                refused = await self._commit_together({partition: position}, record, _left(until))
                if partition not in refused:
                    return
                raise refused[partition]
            except StaleToken:
                await self._follow(partition, position)
        raise self._granted_on(partition)

    async def _mark_all(self, positions: Mapping[int, ReadPosition]) -> Mapping[int, QueueUnreachable]:
        """They were handed over by who had them before: their records get the mark of this process, under a token of its own,
        which shuts the giver out. The answer: of which that was not to be had, and why."""
        problems: dict[int, QueueUnreachable] = {}
        changes = {number: partial(self._record_with_mark, one) for number, one in positions.items()}
        found = await self._offsets.renewed_several(changes)
        for number, seen in found.items():
            try:
                if isinstance(seen, QueueUnreachable):
                    raise seen
                if isinstance(seen, StaleToken):  # another has one since
                    await self._commit_all_of(number, positions[number], ReadPosition.next_record)
                else:
                    self._resume_at(number, positions[number], seen)
            except StaleOwner:
                continue  # its next reader is told
            except QueueUnreachable as problem:
                problems[number] = problem
        return problems

    async def _moved(self, partition: int, epoch: Epoch) -> bool:
        """The queue has another topic, where this is the owner: entries that were read of the former one are dropped."""
        if not await self._offsets.found_elsewhere(partition, self._uid, epoch):
            return False
        for position in list(self._positions.values()):  # another thread may let go of some
            position.lost = NO_OWNER
        return True

    async def _commit_together(
        self, positions: Mapping[int, ReadPosition], record: Callable[[ReadPosition], Record], within: float | None
    ) -> Mapping[int, StaleToken | QueueUnreachable]:
        """Which were refused, and why."""
        asked_at = time.monotonic()
        wanted = {number: _wanted(position, record) for number, position in positions.items()}
        before = {number: position.in_doubt for number, position in positions.items()}
        for position in positions.values():
            position.in_doubt = True
        refused = await self._offsets.commit_several(wanted, within)
        for number, one in wanted.items():
            if number not in refused:
                positions[number].in_doubt = before[number]
                self._has_committed(positions[number], one.offset, one.record, asked_at)
        return refused

    async def _follow(self, partition: int, position: ReadPosition) -> None:
        """Another token is in force: it is this owner's own where the record names it still. Where the record still has the
        refused one, the process that took another is between two requests, or has ended there."""
        seen, unchanged = await self._offsets.after_refusal(partition, position.record.token)
        if unchanged and names(seen.record, self._uid, position.epoch):
            try:
                seen = await self._offsets.renewed(partition, partial(self._record_with_mark, position))
            except StaleToken:
                return  # it was only slow
        self._resume_at(partition, position, seen)

    def _resume_at(self, partition: int, position: ReadPosition, seen: Committed) -> None:
        """Under another token: what was in doubt was taken, or is aborted, as the offset says."""
        proven = self._see(position, seen.record, time.monotonic())
        self.refuse(partition, position, proven=proven)
        position.set_committed(seen.offset)
        position.in_doubt = False

    def _granted_on(self, partition: int) -> PartitionUnavailable:
        """Others take its tokens without an end."""
        return PartitionUnavailable(
            f"{self._offsets.place}: {self._queue}/{partition} is granted again and again: see that only one operator does"
        )

    # -- taking up

    def take_handed_over(self, partitions: Mapping[int, Epoch]) -> dict[int, ReadPosition]:
        """Those of these that the owner before has handed over to this pod, as its announcements have seen: nothing is asked,
        and nothing marked yet."""
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
        """Those of these that are this pod's at these epochs, and that no process has read yet."""
        found, _ = await self._offsets.now(tuple(partitions))
        return {number: seen for number, seen in found.items() if _is_new(seen.record, self._uid, partitions[number])}

    async def take_up(self, found: Mapping[int, Committed]) -> dict[int, ReadPosition]:
        """What `newly_granted` has found: the records get the mark of this process, before it hands anything out. Without those
        of which that was refused: see `begin`."""
        now = time.monotonic()
        marked = {
            number: seen._replace(record=taken_up(seen.record, seen.offset, 0, self._mark))
            for number, seen in found.items()
            if seen.record is not None
        }
        wanted = {number: Commit(at, record, seen=found[number]) for number, (at, record) in marked.items() if record is not None}
        self._marking |= {number: one.record.epoch for number, one in wanted.items()}
        refused = await self._offsets.commit_several(wanted)  # no other commits these meanwhile
        for number in wanted.keys() - refused.keys():
            del self._marking[number]
        return {number: ReadPosition.begun(seen, now) for number, seen in marked.items() if number not in refused}

    async def _marked(self, partition: int, epoch: Epoch) -> Committed:
        """What is committed, with this process in the record if it is the pod's; also where others take tokens at the same time,
        or have taken one and gone."""
        for tries in range(_TRIES):
            try:
                seen = await self._taken_up(partition, epoch, trusting=not tries)
            except StaleToken:
                await asyncio.sleep(GRANTED_WITHIN / _TRIES)
                continue
            if names(seen.record, self._uid, epoch):
                self._marking.pop(partition, None)
                self._handoffs.begins(Partition(self._queue, partition), epoch)
            return seen
        raise self._granted_on(partition)

    async def _taken_up(self, partition: int, epoch: Epoch, *, trusting: bool) -> Committed:
        """`trusting`: under the record's token, if no process has read yet. Raises StaleToken."""
        async with self._locks.held([partition]):
            found, _ = await self._offsets.now((partition,))
            seen = found.get(partition)
            if seen is not None and not names(seen.record, self._uid, epoch):
                return seen
            if trusting and seen is not None and seen.record is not None and _is_new(seen.record, self._uid, epoch):
                record = taken_up(seen.record, seen.offset, 0, self._mark)
                self._marking[partition] = epoch
                await self._offsets.commit(partition, Commit(seen.offset, record, seen=seen))
                return seen._replace(record=record)

            def change(seen: Committed, end: int) -> Record | None:
                if seen.record is None or not names(seen.record, self._uid, epoch):
                    return None
                if seen.record.reader == BY_GIVER and self._handoffs.is_new(Partition(self._queue, partition), epoch):
                    self._marking[partition] = epoch
                    return replace(seen.record, reader=self._mark, released=False)
                if seen.record.reader != self._mark:
                    self._marking[partition] = epoch
                elif self._marking.get(partition) == epoch:
                    return seen.record
                return taken_up(seen.record, seen.offset, end, self._mark)

            return await self._offsets.renewed(partition, change)

    # -- what records tell

    def _see(self, position: ReadPosition, record: Record | None, asked_at: float, before: Record | None = None) -> bool:
        """What stands in the record. `before`: what was known when it was asked for; what was committed since then is newer.
        False: that is from before the grant, and says nothing of who has the partition now."""
        readers = (self._mark, BY_GIVER)  # what the giver wrote was there before any mark
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

    def _has_committed(self, position: ReadPosition, offset: int, record: Record, asked_at: float) -> None:
        """The broker has taken this. What was handed over is its receiver's: nothing more is said of it under this token."""
        position.commit_taken(offset, record, asked_at)
        if not names(record, self._uid, position.epoch):
            position.lost = owner_of(record)

    def _record_with_mark(self, position: ReadPosition, seen: Committed, end: int = 0) -> Record | None:
        """What is committed stays, under another token; with the mark of this process, where it has that from the giver alone."""
        record = seen.record
        if record is None or not names(record, self._uid, position.epoch) or record.reader != BY_GIVER:
            return record
        return replace(record, reader=self._mark, released=False)

    def raise_if_lost(self, partition: int, position: ReadPosition) -> None:
        """Raises StaleOwner where the partition is known to have another owner."""
        if position.lost is not None:
            raise StaleOwner(partition, self._uid, position.epoch, position.lost, other_process=position.other_process)

    async def look(self, partition: int, position: ReadPosition) -> None:
        """At all owner records at once; of commits that are under way only this partition's is waited for: others are read, and
        committed, meanwhile."""
        asked_at, before = time.monotonic(), position.record
        unproven, pending = await self._look_at({**self._positions, partition: position}, asked_at)
        proven = partition not in unproven
        if partition not in pending:
            position.unsettled = False
        else:
            proven = self._see(position, (await self._stable(partition, position)).record, asked_at, before)
        self.refuse(partition, position, proven=proven)

    async def check_all(self) -> None:
        """Look at the records of all partitions that are read, so that readers need not, for a while. Raises QueueUnreachable
        only, also where the look takes longer than it is good for."""
        if held := {**self._positions}:  # another thread may let go of some meanwhile
            await self._look_at(held, time.monotonic(), SURE_FOR)

    def refuse(self, partition: int, position: ReadPosition, *, proven: bool) -> None:
        """Raises StaleOwner where another owner was seen, PartitionUnavailable where that is not `proven`: what was
        seen is from before the grant."""
        self.raise_if_lost(partition, position)
        if not proven:
            raise self.before_the_grant(partition)

    def before_the_grant(self, partition: int) -> PartitionUnavailable:
        return PartitionUnavailable(
            f"{self._offsets.place} answers for {self._queue}/{partition} with an owner from before it was granted to this pod: "
            "the broker that keeps the group's place is behind: wait until it has caught up, or the operator has granted it again"
        )

    async def _look_at(
        self, held: Mapping[int, ReadPosition], asked_at: float, within: float = ASKED_WITHIN
    ) -> tuple[Set[int], tuple[int, ...]]:
        """The answer: of which what was seen says nothing, and of which a commit is under way."""
        before = {number: one.record for number, one in held.items()}
        found, pending = await self._offsets.now(tuple(held), within)
        unproven = {
            number for number, seen in found.items() if not self._see(held[number], seen.record, asked_at, before[number])
        }
        return unproven, pending

    async def _stable(self, partition: int, position: ReadPosition) -> Committed:
        """What is committed, after a commit that is under way: once that did not end, it is not waited for any more."""
        try:
            seen = await self._offsets.stable(partition, 0.0 if position.unsettled else ENDS_WITHIN)
        except PartitionUnavailable:
            if position.in_doubt:  # it is this process' own
                raise PartitionUnavailable(
                    f"{self._offsets.place} is slow: a commit of {self._queue}/{partition} has not ended yet: see to its brokers"
                ) from None
            position.unsettled = True
            raise
        position.unsettled = False
        return seen


def _wanted(position: ReadPosition, record: Callable[[ReadPosition], Record]) -> Commit:
    wanted = record(position)  # before the offset: one that says that all is finished goes with the last
    offset = position.offset
    return Commit(offset, wanted, position.outputs.due(offset))


def _left(until: float | None) -> float | None:
    """Seconds."""
    return None if until is None else max(0.0, until - time.monotonic())


def _is_new(record: Record | None, uid: Uid, epoch: Epoch) -> bool:
    """The record names this owner, and no process has read the partition since."""
    return record is not None and names(record, uid, epoch) and not (record.reader or record.query)
