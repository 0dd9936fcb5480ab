"""The ledger of a group: claim it, write it before any effect, restore it after edits by others, stop when a later leader wrote
it, and doubt it when a queue contradicts it.

A new leader claims the ledger with its term before it does anything else, so that a deposed leader's writes fail: each write
replaces the version that its writer saw last. A ledger of another live release is left to that release.

Every grant that the ledger counts as done was made at the queue first. So if a queue has recorded something else for a partition
at rest, one of the two is wrong: the ledger may have been edited while no operator ran. The engine then trusts neither and grants
everything again with higher epochs, as after a queue's server came back with older records.
"""

import asyncio
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace

from baton.controller.problems import EventReason
from baton.controller.retrying import Attempts, Deposed
from baton.engine import GroupState
from baton.engine.step import size
from baton.kube.api import Api, core_path
from baton.kube.clock import ApiServerClock
from baton.kube.elector import Elector
from baton.kube.errors import ApiError, ConflictError, NotFoundError, UnavailableError
from baton.kube.ledger_configmap import ForeignConfigMap, LedgerOwner, Stored, stored
from baton.kube.releases import OperatorReleases
from baton.model.ids import Partition, QueueName
from baton.model.wording import counted
from baton.queues.protocol import NO_OWNER, Ownership

APART = 0.05
"""Seconds between writes in the long run; changes in between go into one write."""

BURST = 4
"""Writes that may follow each other faster, so that a single hand-off (revoke, grant) does not wait."""

SETTLE = 0.003
"""Seconds to wait after a write for further answers of a queue, which usually arrive together."""

REFUSALS = (ApiError, UnavailableError, ForeignConfigMap)
"""Errors that keep a ledger from being written."""


class ServedElsewhere(Deposed):
    """Another live release of the operator owns the ledger."""

    def __init__(self, release: str) -> None:
        super().__init__(f"the operator's release {release} serves the group")
        self.release = release


@dataclass(slots=True)
class LedgerWrites:
    """Counts since this replica leads, and the current state of the ledger."""

    writes: int = 0
    restored: int = 0
    failed: int = 0
    fails_since: float | None = None
    """Monotonic seconds; None: the last write worked."""
    bytes: int = 0


class LedgerWriter:
    """Writes the ledger of one group, as one leader.

    Methods raise Deposed, REFUSALS, and ServedElsewhere.
    """

    def __init__(
        self,
        api: Api,
        owner: LedgerOwner,
        elector: Elector,
        releases: OperatorReleases,
        clock: ApiServerClock,
        booked: Callable[[], int],
    ) -> None:
        """`booked`: the number of partitions that the group has, or is about to have."""
        self._api = api
        self._owner = owner
        self._elector = elector
        self._term = elector.term
        self._releases = releases
        self._clock = clock
        self._booked = booked
        self.written: Mapping[str, str] | None = None
        """Data that this leader wrote last; None: it has not claimed the ledger."""
        self._found: Mapping[str, str] | None = None
        """The group's ledger when it was claimed. None: there was none."""
        self._stands: Stored | None = None
        """The ConfigMap as last written or seen; None: not found."""
        self._taken = False
        """Whether a ConfigMap of the ledger's name was seen, so that a create without a look is not tried again."""
        self._unanswered: Mapping[str, str] | None = None
        """Data of a write without an answer, which may have arrived or may still arrive."""
        self._over: str | None = None
        """The version that this write was to replace; None: it was to create the ledger, or there is no such write."""
        self._doubtful = False
        self._due_at = float("-inf")
        """When a full burst of writes is allowed again."""
        self.forsaken = False
        """Whether the writer was told to write nothing any more."""
        self.attempts = Attempts(clock)
        self.refusal: Exception | None = None
        """Why the ledger is not up to date; None: it is."""
        self.tally = LedgerWrites()

    @property
    def doubtful(self) -> bool:
        """Whether the ConfigMap may differ from what was written last."""
        return self._doubtful and not self.forsaken

    @property
    def figures(self) -> LedgerWrites:
        """The current counts."""
        return replace(self.tally, fails_since=self.attempts.since, bytes=size(self.written or {}))

    async def claim(self, *, absent: bool = False) -> Mapping[str, str] | None:
        """Put this leader's term on the ledger, and return its content, or None if the group had no ledger: then an empty one is
        created. A ledger that was found, could not be written, and was deleted since is written again.

        `absent`: a list made in this term showed no ledger, so it is created without looking for it first. A create never
        overwrites. If it is refused, because the name is taken or for another reason such as a full quota, which the API server
        checks before it looks for the name, the ledger is looked up and claimed as usual.
        """
        self._must_lead()
        with self._counting():
            if absent and self._stands is None and not self._taken:
                await self._create()
            else:
                await self._look_and_claim()
        self.settled()
        return self._found

    async def _create(self) -> None:
        """Create an empty ledger. If that is refused, claim the ledger that a look finds."""
        try:
            await self._send({}, 0)
        except ApiError as error:
            self._taken = isinstance(error, ConflictError)
            await self._look_and_claim(error)

    async def _look_and_claim(self, refused: ApiError | None = None) -> None:
        """Claim the ledger that a look finds, or create it. `refused`: why a create before the look failed; raised if the look
        finds nothing, unless the name was taken then."""
        found, partitions = await self._see(), 0
        if found is not None:
            self._found = found.data if found.owner_uid == self._owner.uid else None
            partitions = 0 if self._found is None else found.partitions
        elif refused is not None and not isinstance(refused, ConflictError):
            raise refused
        if refused is not None:  # the create took time, in which another leader may have taken over
            await self._confirm_lead()
        await self._send(self._found or {}, partitions)

    def forsake(self) -> Mapping[str, str] | None:
        """Write nothing from now on, because the group is being deleted and its ledger can no longer be written. Returns the
        group's ledger as it was found; None: there was none."""
        self.forsaken = True
        self.settled()
        return self._found

    def settled(self) -> None:
        """The ledger is up to date."""
        self.attempts.worked()
        self.refusal = None

    async def gather(self) -> None:
        """Wait until another write is due, so that changes that come together go into one write."""
        left = self._due_at - self._clock.ticks()
        if left > 0:
            await asyncio.sleep(max(SETTLE, left - (BURST - 1) * APART))

    async def write(self, data: Mapping[str, str]) -> bool:
        """Write `data`. True if others had edited or deleted the ledger, and their change was overwritten. After UnavailableError
        `data` may have been written: call `check` before the next write."""
        if self.forsaken or data == self.written:
            return False
        self._must_lead()
        with self._counting():
            overruled = await self._make_it(data)
        self._due_at = max(self._due_at, self._clock.ticks()) + APART
        self.tally.writes += 1
        return overruled

    def listed(self, version: str | None) -> None:
        """A list showed the ledger at this version, or none (None). The ledger is in doubt if the version is newer than the last
        one known."""
        if version is None or self._stands is None or int(version) > int(self._stands.version):
            self._doubtful = True

    def resync(self, deleting: bool = False) -> None:
        """Doubt the ledger while the group's namespace may be being deleted (`deleting`)."""
        self._doubtful |= deleting

    async def check(self) -> bool:
        """Look at the ledger if it is in doubt, and restore it if others edited or deleted it. True if that was necessary.

        Afterwards `written` is what the ledger has, also if a write had no answer. If that was carried out, its data stands. If
        others have replaced what may have been it, it is written again, because pods may have seen it: begun at its epochs, or
        released partitions, which is final. Otherwise the version that it was to replace is replaced, so it fails from now on.
        """
        if not self.doubtful or self.written is None:
            return False
        self._must_lead()
        with self._counting():
            return await self._overrule(None)

    async def _make_it(self, data: Mapping[str, str]) -> bool:
        try:
            await self._send(data, self._booked())
            return False
        except (ConflictError, NotFoundError):
            return await self._overrule(data)
        except UnavailableError:
            self._doubtful = True  # it may have been written, with only the answer lost
            raise

    async def _overrule(self, data: Mapping[str, str] | None) -> bool:
        """Look, and write `data` (None: what was written last) over it. True if others had written or deleted the ledger. If the
        write is refused, the ledger stays in doubt, because the next list may show no newer version than this look."""
        self._doubtful = False
        try:
            return await self._look_and_overrule(data)
        except REFUSALS:
            self._doubtful = True
            raise

    async def _look_and_overrule(self, data: Mapping[str, str] | None) -> bool:
        found = await self._see()
        mine = found is not None and self._wrote(found)
        excluded = found is not None and self._over is not None and (found.data, found.replaces) == (self.written, self._over)
        if found is not None and mine and (excluded or found.data == self._unanswered):
            self._stood(found, found.data)
        before = self.written or {}
        restored = found is None or found.data != before
        if data is None:
            if mine and not restored and self._unanswered is None:
                return False
            may_have_stood = self._unanswered is not None and (found is None or found.version != self._over)
            data = self._unanswered if self._unanswered is not None and may_have_stood else before
        # Seen first, then confirmed to lead, then written: so a leader that comes in between makes the write fail.
        await self._confirm_lead()
        await self._send(data, self._booked())
        self.tally.restored += restored
        return restored

    async def _send(self, data: Mapping[str, str], partitions: int) -> None:
        """Create the ledger, or replace the version seen last. Raises ConflictError if it has changed since."""
        sent = dict(data)
        body = self._owner.manifest(sent, self._term, self._elector.release, partitions, self._stands)
        try:
            if self._stands is None:
                made = await self._api.create(core_path(self._owner.namespace, "configmaps"), body)
            else:
                made = await self._api.replace(self._owner.path, body)
        except UnavailableError:
            if sent != self.written and sent != self._unanswered:  # otherwise it makes no difference whether it was carried out
                self._unanswered, self._over = sent, None if self._stands is None else self._stands.version
            raise
        self._stood(stored(made), sent)

    def _stood(self, stands: Stored, data: Mapping[str, str]) -> None:
        """Record a write that was carried out. An unanswered write still under way replaces an older version, so it will fail."""
        self._stands, self.written, self._unanswered, self._over = stands, data, None, None

    def _wrote(self, found: Stored) -> bool:
        """Whether this leader wrote it, by its annotations."""
        return (found.owner_uid, found.term, found.release) == (self._owner.uid, self._term, self._elector.release)

    async def _see(self) -> Stored | None:
        """Read the ledger; the next write replaces this version."""
        manifest = await self._api.find(self._owner.path)
        found = None if manifest is None else stored(manifest)
        if found is not None:
            self._taken = True
            same = self._stands is not None and found.uid == self._stands.uid
            if not found.is_ledger_of(self._owner.group) and not same:
                raise ForeignConfigMap(self._owner)
            by = found.release or self._elector.release
            if by != self._elector.release and await self._releases.serves(by, self._owner.namespace):
                raise ServedElsewhere(by)
        self._stands = found
        return found

    async def _confirm_lead(self) -> None:
        """Raises UnavailableError if the API server does not confirm it."""
        if not await self._elector.confirm():
            self._must_lead()
            raise UnavailableError("the API server does not confirm the lead")
        self._must_lead()

    def _must_lead(self) -> None:
        """Raise Deposed unless this is still the term in which the ledger was claimed. A leader whose lead has only lapsed waits
        for it where requests wait for their turn."""
        if self._elector.deposed or self._elector.term != self._term:
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


def contradicted(state: GroupState, queue: QueueName, owner_records: Mapping[int, Ownership]) -> list[int]:
    """Numbers of the partitions at rest whose owner record contradicts the ledger: another owner, another epoch, none, or paused;
    or, for a partition without an owner in the ledger, a higher epoch."""
    wrong = []
    for number in range(state.queues[queue].partitions):
        partition = Partition(queue, number)
        record, owner_record = state.records.get(partition), owner_records.get(number, NO_OWNER)
        if record is None or partition in state.moves:
            continue
        as_granted = None if record.owner is None else (state.known[record.owner].uid, record.epoch, False)
        if owner_record.epoch > record.epoch or as_granted not in (None, owner_record):
            wrong.append(number)
    return wrong


def contradiction_event(
    state: GroupState, queue: QueueName, owner_records: Mapping[int, Ownership], wrong: Sequence[int], *, first: bool
) -> tuple[EventReason, str]:
    """Reason and message of the event for owner records that contradict the ledger. `wrong`: see `contradicted`. `first`: found
    while this operator took the group over."""
    cure = "all its partitions are granted again, with higher epochs"
    partitions = counted(len(wrong), "partition")
    if not owner_records:
        return (
            EventReason.OWNERS_RESTORED,
            f"the queue {queue} came back empty: it has no owner on record for {partitions} that had one, so its server has lost "
            "its data, or spec.source now names another server. Unprocessed entries are lost; owners stay the same and are "
            "granted their partitions again. To keep entries next time, run the server with appendonly yes on a persistent "
            "volume, and restore its backup before it starts",
        )
    if first:
        return EventReason.LEDGER_REBUILT, f"the ledger contradicts what the queue {queue} has recorded; {cure}"
    if all(owner_records.get(number, NO_OWNER).epoch < state.records[Partition(queue, number)].epoch for number in wrong):
        return (
            EventReason.OWNERS_RESTORED,
            f"the queue {queue} came back with older data: for {partitions} it had recorded a lower epoch than was granted; "
            f"{cure}. Its server lost its last writes, a lagging replica took over, it was restored from a backup, or keys were "
            "deleted. Entries since then may be lost or repeated: see the queue's condition Durable",
        )
    return (
        EventReason.OWNERS_RESTORED,
        f"another client wrote at the queue {queue}: for {partitions} its owner record differs from the ledger; {cure}. Look for "
        "another operator, or a copy of this cluster, that uses the same server",
    )
