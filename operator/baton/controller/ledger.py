"""Keeps the ledger of a group: writes it before anything is done, puts it right when others wrote it, stops when that was
a later leader, and doubts it where a queue contradicts it.

Every grant that the ledger counts as done was made at the queue first. So a queue that has recorded something else for a
partition at rest contradicts the ledger: a hand may have edited it while no operator was there to put it right. Then nobody is
believed: the engine grants everything again, above both, as it does when the queue's server came back with older records.
"""

import asyncio
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace

from baton.controller.problems import EventReason
from baton.controller.retrying import Attempts
from baton.engine import GroupState
from baton.engine.step import size
from baton.kube.clock import ApiServerClock
from baton.kube.elector import Elector
from baton.kube.errors import ApiError, ConflictError, NotFoundError, UnavailableError
from baton.kube.ledger_configmap import Deposed, ForeignConfigMap, Ledger
from baton.model.ids import Epoch, Partition, QueueName
from baton.model.wording import counted
from baton.queues.protocol import Owner

APART = 0.05
"""Seconds between writes in the long run: what changes meanwhile goes into one."""

BURST = 4
"""Writes that may follow each other faster, so that a lone hand-off (revoke, grant) need not wait."""

SETTLE = 0.003
"""Seconds after a write within which several answers of a queue usually come together."""

REFUSALS = (ApiError, UnavailableError, ForeignConfigMap)
"""What keeps a ledger from being written."""


@dataclass(slots=True)
class LedgerWrites:
    """Counted since this replica leads, and how the ledger is now."""

    writes: int = 0
    restored: int = 0
    failed: int = 0
    fails_since: float | None = None
    """monotonic seconds; None: it can be written"""
    bytes: int = 0


class LedgerWriter:
    """Writes the ledger of one group.

    Methods raise Deposed, REFUSALS, and AlreadyWritten where an earlier write is found to have been carried out.
    """

    def __init__(self, ledger: Ledger, elector: Elector, clock: ApiServerClock) -> None:
        self._clock = clock
        self._ledger = ledger
        self._elector = elector
        self._due_at = float("-inf")
        """When the bucket of writes is full again."""
        self._doubtful = False
        self.forsaken = False
        """Nothing is written any more."""
        self.attempts = Attempts(clock)
        self.refusal: Exception | None = None
        """Why the ledger does not say what it should; None: it does."""
        self.tally = LedgerWrites()

    @property
    def written(self) -> Mapping[str, str] | None:
        return self._ledger.written

    @property
    def doubtful(self) -> bool:
        """What stands there may be something else than what was written."""
        return self._doubtful and not self.forsaken

    def took_unseen(self) -> bool:
        """Somebody else has overwritten, since this was asked last, what this operator may have written without an answer."""
        overwritten, self._ledger.overwritten = self._ledger.overwritten, False
        return overwritten

    @property
    def figures(self) -> LedgerWrites:
        """As they are at this moment."""
        return replace(self.tally, fails_since=self.attempts.since, bytes=size(self._ledger.written or {}))

    async def claim(self) -> Mapping[str, str] | None:
        """Take the ledger over, see `Ledger.claim`."""
        self._must_lead()
        with self._counting():
            found = await self._ledger.claim()
        self.settled()
        return found

    def forsake(self) -> Mapping[str, str] | None:
        """Write nothing from now on: the group is being deleted, and its ledger cannot be written any more. Returns what the
        group's ledger said when it was found; None: there was none."""
        self.forsaken = True
        self.settled()
        return self._ledger.found

    def settled(self) -> None:
        """The ledger says all that there is to say."""
        self.attempts.worked()
        self.refusal = None

    async def gather(self) -> None:
        """Wait until another write is due, so that notifications that come together end up in one."""
        left = self._due_at - self._clock.ticks()
        if left > 0:
            await asyncio.sleep(max(SETTLE, left - (BURST - 1) * APART))

    async def write(self, data: Mapping[str, str]) -> bool:
        """Write these texts. True if the ledger had another text than this operator's, which was overwritten."""
        if self.forsaken or data == self._ledger.written:
            return False
        self._must_lead()
        with self._counting():
            overruled = await self._make_it(data)
        self._due_at = max(self._due_at, self._clock.ticks()) + APART
        self.tally.writes += 1
        return overruled

    def listed(self, version: str | None) -> None:
        """A list showed the ledger at this version (None: it showed none); an older one than the last is an old story."""
        if version is None or self._ledger.version is None or int(version) > int(self._ledger.version):
            self._doubtful = True

    def resync(self, deleting: bool = False) -> None:
        """Check again while a write without an answer may still arrive, and while the group's namespace may be going
        (`deleting`)."""
        self._doubtful |= self._ledger.unanswered or deleting

    async def check(self) -> bool:
        """If in doubt, look; and put right what somebody else wrote or deleted. True if that was necessary."""
        if not self.doubtful or self._ledger.written is None:
            return False
        self._must_lead()
        self._doubtful = False
        try:
            with self._counting():
                return await self._overrule(None)
        except REFUSALS:
            self._doubtful = True
            raise

    async def _make_it(self, data: Mapping[str, str]) -> bool:
        try:
            await self._ledger.write(data)
            return False
        except (ConflictError, NotFoundError):
            return await self._overrule(data)
        except UnavailableError:
            self._doubtful = True  # it may be written, and only the answer lost
            raise

    async def _overrule(self, data: Mapping[str, str] | None) -> bool:
        """Make it so, whatever stands there; None: as it was written last. True if that was somebody else's."""
        found = await self._ledger.look()
        before = self._ledger.written or {}
        restored = found is None or found.data != before
        if found is not None and self._ledger.wrote(found) and not restored and data in (None, before):
            return False
        # Seen first, then confirmed to lead, then written: so a leader that comes in between makes the write fail.
        if not await self._elector.confirm():
            self._must_lead()
            raise UnavailableError("the API server does not confirm the lead")
        self._must_lead()
        await self._ledger.write(before if data is None else data)
        self.tally.restored += restored
        return restored

    def _must_lead(self) -> None:
        """In the term in which the ledger was claimed. A request that has to wait for the lead does so where it waits for its
        turn."""
        if self._elector.deposed or self._elector.term != self._ledger.term:
            raise Deposed

    @contextmanager
    def _counting(self) -> Iterator[None]:
        begun = self._clock.ticks()
        try:
            yield
        except REFUSALS as error:
            self.tally.failed += 1
            self.attempts.failed(begun)
            self.refusal = error
            raise


_NOBODY = Owner(None, Epoch(0))


def contradicted(state: GroupState, queue: QueueName, owner_records: Mapping[int, Owner]) -> list[int]:
    """Partitions at rest for which the queue has recorded something else than the ledger: another owner, another epoch, none, or
    that they are paused; or a higher epoch where nobody is to own them."""
    wrong = []
    for number in range(state.queues[queue].partitions):
        partition = Partition(queue, number)
        record, owner_record = state.records.get(partition), owner_records.get(number, _NOBODY)
        if record is None or partition in state.moves:
            continue
        as_granted = None if record.owner is None else (state.known[record.owner].uid, record.epoch, False)
        if owner_record.epoch > record.epoch or as_granted not in (None, owner_record):
            wrong.append(number)
    return wrong


def told_of(
    state: GroupState, queue: QueueName, owner_records: Mapping[int, Owner], wrong: Sequence[int], *, first: bool
) -> tuple[EventReason, str]:
    """Reason and message of the event. `wrong`: the partitions that are contradicted. `first`: this operator found it when it
    took the group over."""
    cure = "all of it is granted again, above both"
    partitions = counted(len(wrong), "partition")
    if not owner_records:
        return (
            EventReason.OWNERS_RESTORED,
            f"the queue {queue} came back empty: it has no owner on record for {partitions} that had one, so its server has lost "
            "its data, or spec.source names another one now. Entries that were not done are lost with it; who owns what stays, "
            "and is granted again. To keep entries next time, run the server with appendonly yes on a volume that stays, and "
            "restore its backup before it starts",
        )
    if first:
        return EventReason.LEDGER_REBUILT, f"the ledger contradicts what the queue {queue} has recorded; {cure}"
    if all(owner_records.get(number, _NOBODY).epoch < state.records[Partition(queue, number)].epoch for number in wrong):
        return (
            EventReason.OWNERS_RESTORED,
            f"the queue {queue} came back with older data: for {partitions} it had recorded less than was granted; {cure}. Its "
            "server lost its last writes, a replica took over that was behind, it was restored from a backup, or keys were "
            "deleted. Entries since then may be lost, or come again: see the condition Durable of the queue",
        )
    return (
        EventReason.OWNERS_RESTORED,
        f"somebody else wrote at the queue {queue}: for {partitions} it had recorded something else than "
        f"the ledger; {cure}. Look for another operator, or a copy of this cluster, that uses the same server",
    )
