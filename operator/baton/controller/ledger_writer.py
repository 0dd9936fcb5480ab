"""Keeps the ledger: writes it before anything is done, puts it right when somebody else wrote it, and stops when that was a later
leader."""

import asyncio
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace

from baton.controller.attempts import Attempts
from baton.engine.fitting import size
from baton.kube.clock import ApiServerClock
from baton.kube.elector import Elector
from baton.kube.errors import ApiError, ConflictError, NotFoundError, UnavailableError
from baton.kube.ledger_configmap import Deposed, ForeignConfigMap, Ledger

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
