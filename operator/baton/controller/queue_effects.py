"""Carries out at one queue what the engine wants: pauses, what they wait for, and grants; many partitions at once. A change costs
as much as changed, not as much as there is."""

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Collection, Iterable, Iterator, Mapping
from typing import TypeVar

import structlog

from baton.controller.owner_records import OwnerRecords
from baton.engine.observation import Outcome
from baton.engine.results import Effect, Grant, Pause
from baton.kube.clock import ApiServerClock
from baton.model.ids import Epoch, Partition
from baton.queues.protocol import IN_USE, Ownership, PartitionUnavailable, QueueAdapter, QueueUnreachable

T = TypeVar("T")


async def answer(queue: str, question: Awaitable[T], within: float) -> T:
    """What the adapter answers. Raises what it raises, and QueueUnreachable where nothing comes in so many seconds."""
    try:
        async with asyncio.timeout(within):
            return await question
    except TimeoutError:
        raise QueueUnreachable(f"queue {queue} does not answer within {within:.0f} s") from None


NOTHING: Mapping[Partition, Effect] = {}


class QueueWork:
    """The work at one queue. A worker takes one effect at a time with `take`, and reports it with `granted`, `paused` or
    `handed_over`."""

    def __init__(self) -> None:
        self._wanted = NOTHING
        self._line: deque[Partition] = deque()
        """The partitions that are due, in order. Some stand twice, and some are not due any more."""
        self._due: set[Partition] = set()
        self._draining: dict[Partition, Pause] = {}
        """The pauses that had something outstanding at the last question."""
        self._next_owners: dict[Partition, set[Ownership]] = {}
        """Of the pauses that are wanted (`next_owners`)."""
        self._outcomes: dict[Partition, Outcome] = {}
        self._last_told: dict[Partition, Epoch] = {}
        """The epochs of the last outcomes, of partitions that are wanted."""
        self._drained: dict[Partition, Epoch] = {}
        self.unacknowledged: dict[Partition, int | None] = {}
        """The outstanding messages of each paused partition; None: its owner has not released it, and no number says why."""
        self.held = False
        """Nothing is due: the effects are of an earlier incarnation of the queue."""

    # -- what the engine wants

    def want(self, wanted: Mapping[Partition, Effect], told: Collection[Outcome] = ()) -> bool:
        """Replace the wanted effects. Returns False if nothing more is due than before.

        `told`: outcomes that the ledger already has. An effect that is still wanted for the partition of one is due again. An
        outcome that the ledger does not have stays, and what is wanted of its partition waits until it does: the queue may have
        accepted a grant just before the ledger had another receiver for it.
        """
        before, self._wanted = self._wanted, wanted
        heard = {one.partition for one in told if self._outcomes.get(one.partition) == one}
        changed = [partition for partition in before if partition not in wanted] if before else []
        changed += [one for one, effect in wanted.items() if one in heard or before.get(one) != effect]
        _drop(self._outcomes, heard)
        _drop(self._next_owners, heard)
        for one in changed:
            self._add_next_owner(one, wanted.get(one))
        _drop(self._drained, changed)
        _drop(self._draining, changed)
        _drop(self._last_told, (one for one in changed if one not in wanted))
        _drop(self.unacknowledged, (one for one in changed if not isinstance(wanted.get(one), Pause)))
        self._due.difference_update(one for one in changed if one not in wanted)
        return self._add(one for one in changed if one in wanted and one not in self._outcomes)

    # -- carrying it out

    @property
    def due(self) -> int:
        """The number of effects that are due."""
        return 0 if self.held else len(self._due)

    @property
    def next_owners(self) -> Mapping[int, Collection[Ownership]]:
        """Who is to have the partitions that are paused, or was to have them before that was another, by their numbers: their
        owners may have heard of that one alone."""
        return {partition.number: owners for partition, owners in self._next_owners.items()}

    @property
    def draining(self) -> Collection[Pause]:
        """The pauses that the worker asks the queue about from time to time."""
        return self._draining.values()

    @property
    def answered(self) -> bool:
        """The queue has answered to every effect that is wanted; what is outstanding under a pause is waited for."""
        return all(one in self._outcomes or one in self._drained or self.unacknowledged.get(one, 0) != 0 for one in self._wanted)

    def take(self) -> Effect | None:
        """The next effect; None: nothing is due."""
        while self._line and not self.held:
            partition = self._line.popleft()
            if partition in self._due:
                self._due.remove(partition)
                return self._wanted[partition]
        return None

    def begin_again(self) -> None:
        """Every effect without an answer is due again, because the queue may not have received it."""
        self._draining.clear()
        self._add(one for one in self._wanted if one not in self._outcomes and one not in self._drained)

    def again(self, partition: Partition) -> bool:
        """The same of one. Returns False if nothing is due."""
        self._draining.pop(partition, None)
        answered = partition in self._outcomes or partition in self._drained
        return partition in self._wanted and not answered and self._add([partition])

    def grants(self, partition: Partition) -> bool:
        """It is to be granted, now or after a pause."""
        wanted = self._wanted.get(partition)
        return isinstance(wanted, Grant) or (isinstance(wanted, Pause) and wanted.then is not None)

    def forget(self) -> None:
        """The queue is somewhere else now: what came of anything where it was says nothing about it."""
        self._outcomes.clear()
        self._drained.clear()
        self._last_told.clear()

    def seen_before(self, grant: Grant, record: Ownership) -> bool:
        """This record was seen at the queue before this grant. True: it is of an earlier grant, whose answer was lost, and the
        engine hears of that first. It does so once: where nothing follows from it, this grant is made."""
        is_news = grant.above is not None and record.uid is not None and grant.above < record.epoch < grant.epoch
        if not is_news or self._last_told.get(grant.partition) == record.epoch:
            return False
        self._accepted(Outcome(grant.partition, record), as_wanted=False)
        return True

    def granted(self, grant: Grant, outcome: Outcome) -> None:
        """Record the outcome of a grant, also of one that is not wanted any more: the queue's owner is another for it."""
        wanted = self._wanted.get(grant.partition)
        self._accepted(outcome, as_wanted=grant in (wanted, wanted.then if isinstance(wanted, Pause) else None))

    def handed_over(self, outcome: Outcome) -> None:
        """The same where the owner that was paused has made another the owner itself: that which was next when it was told."""
        wanted = self._wanted.get(outcome.partition)
        then = wanted.then if isinstance(wanted, Pause) else None
        self._draining.pop(outcome.partition, None)
        self._accepted(
            outcome, as_wanted=then is not None and (outcome.record.uid, outcome.record.epoch) == (then.uid, then.epoch)
        )

    def _accepted(self, outcome: Outcome, *, as_wanted: bool) -> None:
        partition, wanted = outcome.partition, self._wanted.get(outcome.partition)
        if partition in self._outcomes and self._outcomes[partition].record.epoch > outcome.record.epoch:
            return  # a later grant was faster
        self._outcomes[partition] = outcome
        self._last_told[partition] = outcome.record.epoch
        if not as_wanted:
            self._due.discard(partition)
        elif isinstance(wanted, Pause):
            self.unacknowledged[partition] = 0
            self._drained[partition] = wanted.epoch

    def paused(self, pause: Pause, left: int | None) -> bool:
        """Record how much is outstanding under a pause. Returns True for the first answer, when nothing is outstanding, and when
        only the owner's release is waited for any more."""
        partition = pause.partition
        if self._wanted.get(partition) != pause:
            return False
        known = None if left == IN_USE else left
        first = partition not in self.unacknowledged
        news = first or left == 0 or (known is None and self.unacknowledged[partition] is not None)
        self.unacknowledged[partition] = known
        if left:
            self._draining[partition] = pause
        elif left == 0:
            self._draining.pop(partition, None)
            self._drained[partition] = pause.epoch
        return news

    def let_go(self, pause: Pause) -> bool:
        """Nothing is outstanding, and what comes `then` is done now. Returns False if the pause is not wanted any more."""
        if self._wanted.get(pause.partition) != pause:
            return False
        self._draining.pop(pause.partition, None)
        self.unacknowledged[pause.partition] = 0
        return True

    def _add_next_owner(self, partition: Partition, effect: Effect | None) -> None:
        if not isinstance(effect, Pause):
            self._next_owners.pop(partition, None)
        elif effect.then is not None:
            self._next_owners.setdefault(partition, set()).add(Ownership(effect.then.uid, effect.then.epoch))

    def _add(self, partitions: Iterable[Partition]) -> bool:
        """Make partitions due. Returns False if all of them were due already."""
        new = [partition for partition in dict.fromkeys(partitions) if partition not in self._due]
        self._due.update(new)
        self._line.extend(new)
        return bool(new)

    # -- what came of it

    @property
    def outcomes(self) -> Iterable[Outcome]:
        """The outcomes of grants, and of hand-overs by owners, that the engine has not taken in yet."""
        return self._outcomes.values()

    @property
    def drained(self) -> Iterable[tuple[Partition, Epoch]]:
        """The paused partitions with nothing outstanding, and their epochs."""
        return self._drained.items()


def _drop(made: dict[Partition, T], partitions: Iterable[Partition]) -> None:
    if made:
        for partition in partitions:
            made.pop(partition, None)


log = structlog.get_logger("baton.queue")

SHORTEST_POLL, LONGEST_POLL = 0.005, 0.25
"""Seconds between two questions for what is outstanding."""
REST, REST_FOR_EACH = 1, 0.0002
"""So many times as long as the last round of questions took, but no longer than so many seconds for each partition: many are
asked more seldom; a few are not, because the last answer was slow. That one may have been of a hand-off before."""
AT_ONCE = 256
"""Partitions in hand. An adapter sends on together what is asked together."""
FIRST_BACKOFF, LONGEST_BACKOFF = 0.25, 5.0
"""Seconds after which what could not be done is tried again."""
TOLD = 3
"""Partitions of which it is said why they cannot be granted: of more the number."""
TURN = 4
"""Partitions after which others have their turn, where a queue answers without being waited for (External)."""


class QueueEffects:
    """One queue's. `changed` is called when something came of it."""

    def __init__(self, records: OwnerRecords, clock: ApiServerClock, changed: Callable[[], None]) -> None:
        self.work = QueueWork()
        self.incarnation: str | None = None
        """The queue's, of the last look; before the first one that of the ledger. None: neither had one."""
        self._records = records
        self._clock = clock
        self._changed = changed
        self._granting: set[Partition] = set()
        """A grant of them is under way. What is wanted since then waits until the engine has heard what came of it."""
        self._unavailable: dict[Partition, tuple[int, str]] = {}
        """Those that could not be granted: how often one after the other, and why."""
        self._put_off_until: dict[Partition, asyncio.Task[None]] = {}
        """They are tried again when these end."""
        self._busy = 0
        self._wanted_since = 0.0
        self._due = asyncio.Event()
        self._drains = asyncio.Event()

    def want(self, effects: Mapping[Partition, Effect] = NOTHING, told: Collection[Outcome] = ()) -> None:
        """All effects that are wanted now; see `QueueWork.want`."""
        if self.work.want(effects, told):
            self._wanted_since = self._clock.ticks()
            self._due.set()

    def saw(self, incarnation: str | None) -> None:
        """A look has seen this incarnation. Where it is another, the effects are of the one before: none is carried out until
        `go_on`."""
        self.work.held |= self.incarnation is not None and incarnation not in (None, self.incarnation)
        self.incarnation = incarnation or self.incarnation

    def go_on(self) -> None:
        """The engine has taken the incarnation in, or cannot: the effects are carried out at this one."""
        if self.work.held:
            self.work.held = False
            self.work.begin_again()
            self._due.set()

    @property
    def busy(self) -> bool:
        """Effects are being carried out. What is waited for under a pause is none."""
        return self._busy > 0 or self.work.due > 0

    @property
    def warnings(self) -> tuple[str, ...]:
        """Partitions that cannot be granted, while the queue does what is wanted of the others."""
        known = sorted(self._unavailable.items())
        told = [f"{one.queue}/{one.number}: {why}" for one, (_, why) in known if self.work.grants(one)]
        more = len(told) - TOLD
        return (*told[:TOLD], f"nor can {more} more partitions be granted now") if more > 0 else tuple(told)

    def forget(self) -> None:
        """The queue is somewhere else now."""
        self.work.forget()
        self._unavailable.clear()

    async def carry_out(self, adapter: QueueAdapter) -> None:
        """Until cancelled, or something cannot be done: raises what the adapter raises. What was not answered is due again."""
        self.work.begin_again()
        self._granting.clear()  # a task that was cancelled before it began has not cleared up after itself
        self._put_off_until.clear()
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self._ask_again(adapter, tasks))
            self._busy = 0
            while True:
                self._due.clear()
                for _ in range(min(self.work.due, AT_ONCE - self._busy)):
                    self._busy += 1
                    tasks.create_task(self._some(adapter, tasks))
                await self._due.wait()

    async def _some(self, adapter: QueueAdapter, tasks: asyncio.TaskGroup) -> None:
        """One after the other, until nothing is due."""
        done = 0
        try:
            while (effect := self.work.take()) is not None:
                if effect.partition in self._granting:
                    continue
                if isinstance(effect, Grant):
                    await self._grant(adapter, effect, tasks)
                else:
                    await self._pause(adapter, effect, tasks)
                done += 1
                if done % TURN == 0:
                    await asyncio.sleep(0)
        finally:
            self._busy -= 1

    async def _grant(self, adapter: QueueAdapter, grant: Grant, tasks: asyncio.TaskGroup) -> None:
        number = grant.partition.number
        seen = self._records.seen(number)
        if seen is not None and self.work.seen_before(grant, seen):
            self._granting.discard(grant.partition)
            self._unavailable.pop(grant.partition, None)
            self._changed()
            return
        self._granting.add(grant.partition)
        try:
            with self._records.changing(number):
                owner = await answer(grant.partition.queue, adapter.grant(number, grant.uid, grant.epoch), adapter.answers_within)
                if adapter.fenced:
                    self._records.granted(number, owner)
        except PartitionUnavailable as problem:
            self._put_off(grant.partition, problem, tasks)
            return
        finally:
            self._granting.discard(grant.partition)
        self._unavailable.pop(grant.partition, None)
        self.work.granted(grant, Outcome(grant.partition, owner))
        self._changed()

    async def _pause(self, adapter: QueueAdapter, pause: Pause, tasks: asyncio.TaskGroup) -> None:
        number = pause.partition.number
        within = max(0.0, pause.deadline - self._clock.now())
        then = Ownership(pause.then.uid, pause.then.epoch) if pause.then is not None else None
        with self._records.changing(number):
            left = await answer(pause.partition.queue, adapter.pause(number, pause.epoch, within, then), adapter.answers_within)
            self._records.paused(number, pause.epoch)
        self._left(adapter, pause, left, tasks)

    def _put_off(self, partition: Partition, problem: PartitionUnavailable, tasks: asyncio.TaskGroup) -> None:
        """It is tried again after a while, and no other waits for it."""
        tries, _ = self._unavailable.get(partition, (0, ""))
        if not tries:
            log.warning("a partition cannot be granted", queue=partition.queue, partition=partition.number, why=str(problem))
        self._unavailable[partition] = tries + 1, str(problem)
        if (before := self._put_off_until.get(partition)) is not None:
            before.cancel()
        seconds = min(LONGEST_BACKOFF, FIRST_BACKOFF * 2.0 ** min(tries, 10))
        self._put_off_until[partition] = tasks.create_task(self._again(partition, seconds))
        self._changed()

    async def _again(self, partition: Partition, seconds: float) -> None:
        await asyncio.sleep(seconds)
        del self._put_off_until[partition]
        if self.work.again(partition):
            self._due.set()

    async def _ask_again(self, adapter: QueueAdapter, granting: asyncio.TaskGroup) -> None:
        """From time to time, how much is outstanding of what is paused."""
        took = 0.0
        while True:
            self._drains.clear()
            if not self.work.draining:
                await self._drains.wait()
            await asyncio.sleep(pause_between(len(self.work.draining), took, self._clock.ticks() - self._wanted_since))
            began, pauses = self._clock.ticks(), list(self.work.draining)
            async with asyncio.TaskGroup() as tasks:
                left = iter(pauses)
                for _ in range(min(len(pauses), AT_ONCE)):
                    tasks.create_task(self._outstanding(adapter, left, granting))
            took = self._clock.ticks() - began

    async def _outstanding(self, adapter: QueueAdapter, pauses: Iterator[Pause], granting: asyncio.TaskGroup) -> None:
        for pause in pauses:
            left = await answer(pause.partition.queue, adapter.outstanding(pause.partition.number), adapter.answers_within)
            self._left(adapter, pause, left, granting)

    def _left(self, adapter: QueueAdapter, pause: Pause, left: int | Ownership | None, tasks: asyncio.TaskGroup) -> None:
        if pause.partition in self._granting or self.work.held:  # held: the answer may be of another queue
            return
        if isinstance(left, Ownership):
            self._records.granted(pause.partition.number, left)
            self._unavailable.pop(pause.partition, None)
            self.work.handed_over(Outcome(pause.partition, left))
            self._changed()
            return
        if left == 0 and pause.then is not None and self.work.let_go(pause):
            self._granting.add(pause.partition)  # before the task begins: others may have their turn until then
            tasks.create_task(self._grant(adapter, pause.then, tasks))
        elif self.work.paused(pause, left):
            self._changed()
        if left:
            self._drains.set()


def pause_between(partitions: int, took: float, waited: float) -> float:
    """Seconds until so many partitions are asked again. The last round `took` so long, and what is wanted has waited for so long
    already."""
    return max(min(REST * took, REST_FOR_EACH * partitions), min(LONGEST_POLL, max(SHORTEST_POLL, waited / 40)))
