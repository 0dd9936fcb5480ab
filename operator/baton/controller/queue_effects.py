"""Carries out the engine's effects at one queue: pauses, the wait for outstanding messages, and grants; many partitions at
once.

A change of the wanted effects costs time in proportion to what changed, not to the number of partitions.
"""

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
from baton.model.retrying import doubling
from baton.queues.protocol import IN_USE, Ownership, PartitionUnavailable, QueueAdapter, QueueUnreachable

T = TypeVar("T")


async def answer(queue: str, question: Awaitable[T], within: float) -> T:
    """Return the adapter's answer. Raises what the adapter raises, and QueueUnreachable after `within` seconds without one."""
    try:
        async with asyncio.timeout(within):
            return await question
    except TimeoutError:
        raise QueueUnreachable(f"queue {queue} does not answer within {within:.0f} s") from None


NOTHING: Mapping[Partition, Effect] = {}


class QueueWork:
    """The effects that are wanted at one queue, and their results.

    A task takes one effect at a time with `take`, and reports it with `granted`, `paused` or `handed_over`.
    """

    def __init__(self) -> None:
        self._wanted = NOTHING
        self._line: deque[Partition] = deque()
        """The partitions that are due, in order. Some are in it twice, and some are no longer due."""
        self._due: set[Partition] = set()
        self._draining: dict[Partition, Pause] = {}
        """The pauses that had messages outstanding when the queue was asked last."""
        self._next_owners: dict[Partition, set[Ownership]] = {}
        """See `next_owners`; only of wanted pauses."""
        self._outcomes: dict[Partition, Outcome] = {}
        self._last_outcomes: dict[Partition, Epoch] = {}
        """The epochs of the last outcomes, for partitions with a wanted effect."""
        self._drained: dict[Partition, Epoch] = {}
        self.unacknowledged: dict[Partition, int | None] = {}
        """The outstanding messages of each paused partition; None: the owner has not released it, and the queue gives no
        number."""
        self.held = False
        """No effect is due, because the effects are for an earlier incarnation of the queue."""

    # -- the wanted effects

    def want(self, wanted: Mapping[Partition, Effect], told: Collection[Outcome] = ()) -> bool:
        """Replace the wanted effects. Returns False if no more effects are due than before.

        `told`: outcomes that the ledger already has. If an effect is still wanted for such a partition, it is due again. An
        outcome that the ledger does not have yet is kept, and the wanted effect of its partition waits: the queue may have
        accepted a grant just before the ledger got another receiver.
        """
        before, self._wanted = self._wanted, wanted
        written = {one.partition for one in told if self._outcomes.get(one.partition) == one}
        changed = [partition for partition in before if partition not in wanted] if before else []
        changed += [one for one, effect in wanted.items() if one in written or before.get(one) != effect]
        _drop(self._outcomes, written)
        _drop(self._next_owners, written)
        for one in changed:
            self._add_next_owner(one, wanted.get(one))
        _drop(self._drained, changed)
        _drop(self._draining, changed)
        _drop(self._last_outcomes, (one for one in changed if one not in wanted))
        _drop(self.unacknowledged, (one for one in changed if not isinstance(wanted.get(one), Pause)))
        self._due.difference_update(one for one in changed if one not in wanted)
        return self._add(one for one in changed if one in wanted and one not in self._outcomes)

    # -- carrying them out

    @property
    def due(self) -> int:
        """The number of effects that are due."""
        return 0 if self.held else len(self._due)

    @property
    def next_owners(self) -> Mapping[int, Collection[Ownership]]:
        """The next owners of paused partitions, by partition number, including earlier ones that were replaced meanwhile: an
        owner that hands its partition over may know only of an earlier one."""
        return {partition.number: owners for partition, owners in self._next_owners.items()}

    @property
    def draining(self) -> Collection[Pause]:
        """The pauses with messages outstanding, about which the queue has to be asked again."""
        return self._draining.values()

    @property
    def answered(self) -> bool:
        """True if the queue has answered to every wanted effect, also if messages are outstanding under a pause."""
        return all(one in self._outcomes or one in self._drained or self.unacknowledged.get(one, 0) != 0 for one in self._wanted)

    def take(self) -> Effect | None:
        """Return the next effect; None: no effect is due."""
        while self._line and not self.held:
            partition = self._line.popleft()
            if partition in self._due:
                self._due.remove(partition)
                return self._wanted[partition]
        return None

    def begin_again(self) -> None:
        """Make every effect without an answer due again, because the queue may not have received it."""
        self._draining.clear()
        self._add(one for one in self._wanted if one not in self._outcomes and one not in self._drained)

    def again(self, partition: Partition) -> bool:
        """Make the effect of one partition due again, if it has no answer. Returns False if it is not due."""
        self._draining.pop(partition, None)
        answered = partition in self._outcomes or partition in self._drained
        return partition in self._wanted and not answered and self._add([partition])

    def grants(self, partition: Partition) -> bool:
        """True if the partition has to be granted, now or after a pause."""
        wanted = self._wanted.get(partition)
        return isinstance(wanted, Grant) or (isinstance(wanted, Pause) and wanted.then is not None)

    def forget(self) -> None:
        """Forget all results, because the queue has moved to another server or name."""
        self._outcomes.clear()
        self._drained.clear()
        self._last_outcomes.clear()

    def seen_before(self, grant: Grant, record: Ownership) -> bool:
        """Take in the owner record that the queue had before this grant.

        Returns True if the record is of an earlier grant whose answer was lost. The engine then gets that outcome first, but
        only once: if it still wants this grant, the grant is made.
        """
        is_news = grant.above is not None and record.uid is not None and grant.above < record.epoch < grant.epoch
        if not is_news or self._last_outcomes.get(grant.partition) == record.epoch:
            return False
        self._accepted(Outcome(grant.partition, record), as_wanted=False)
        return True

    def granted(self, grant: Grant, outcome: Outcome) -> None:
        """Record the outcome of a grant, even if the grant is no longer wanted, because the queue has another owner now."""
        wanted = self._wanted.get(grant.partition)
        self._accepted(outcome, as_wanted=grant in (wanted, wanted.then if isinstance(wanted, Pause) else None))

    def handed_over(self, outcome: Outcome) -> None:
        """Record that the paused owner has granted the partition itself, to the next owner that it knew of (direct
        hand-off)."""
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
        self._last_outcomes[partition] = outcome.record.epoch
        if not as_wanted:
            self._due.discard(partition)
        elif isinstance(wanted, Pause):
            self.unacknowledged[partition] = 0
            self._drained[partition] = wanted.epoch

    def paused(self, pause: Pause, left: int | None) -> bool:
        """Record the messages outstanding under a pause.

        Returns True for news: the first answer, no message outstanding, or that now only the owner's release is missing.
        """
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

    def released(self, pause: Pause) -> bool:
        """Record that nothing is outstanding, so the grant `then` is made now. Returns False if the pause is no longer
        wanted."""
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

    # -- the results

    @property
    def outcomes(self) -> Iterable[Outcome]:
        """The outcomes of grants, by the operator or by owners, that the engine has not taken in yet."""
        return self._outcomes.values()

    @property
    def drained(self) -> Iterable[tuple[Partition, Epoch]]:
        """The paused partitions with nothing outstanding, and their epochs."""
        return self._drained.items()


def _drop(by_partition: dict[Partition, T], partitions: Iterable[Partition]) -> None:
    if by_partition:
        for partition in partitions:
            by_partition.pop(partition, None)


log = structlog.get_logger("baton.queue")

SHORTEST_POLL, LONGEST_POLL = 0.005, 0.25
"""Shortest and longest pause, in seconds, before asking a queue for outstanding messages again."""
REST, REST_FOR_EACH = 1, 0.0002
"""The pause is at least REST times the duration of the last round, but no more than REST_FOR_EACH seconds for each partition.
So many partitions are asked about less often, and a few are not delayed by one slow answer, perhaps of an earlier hand-off."""
AT_ONCE = 256
"""Partitions worked on at once. An adapter sends together what it is asked together."""
FIRST_BACKOFF, LONGEST_BACKOFF = 0.25, 5.0
"""Seconds until a failure is tried again: the first and the longest pause."""
MOST_SHOWN = 3
"""Partitions for which the status says why they cannot be granted; of more it gives the number."""
TURN = 4
"""Effects after which other tasks get a turn, because some queues answer without any wait (External)."""


class QueueEffects:
    """Carries out the effects at one queue. Calls `changed` when there is a result."""

    def __init__(self, records: OwnerRecords, clock: ApiServerClock, changed: Callable[[], None]) -> None:
        self.work = QueueWork()
        self.incarnation: str | None = None
        """The incarnation that the last look saw; before the first look, that of the ledger. None: neither has one."""
        self._records = records
        self._clock = clock
        self._changed = changed
        self._granting: set[Partition] = set()
        """Partitions with a grant under way. Newer effects for them wait until the engine has taken the outcome in."""
        self._unavailable: dict[Partition, tuple[Iterator[float], str]] = {}
        """Partitions that could not be granted: the pauses until the next tries, and why."""
        self._put_off_until: dict[Partition, asyncio.Task[None]] = {}
        """Tasks that make these partitions due again."""
        self._busy = 0
        self._wanted_since = 0.0
        self._due = asyncio.Event()
        self._drains = asyncio.Event()

    def want(self, effects: Mapping[Partition, Effect] = NOTHING, told: Collection[Outcome] = ()) -> None:
        """Replace the wanted effects; see `QueueWork.want`."""
        if self.work.want(effects, told):
            self._wanted_since = self._clock.ticks()
            self._due.set()

    def saw(self, incarnation: str | None) -> None:
        """Take in the incarnation that a look has seen. If it is a new one, no effect is carried out until `go_on`, because the
        wanted effects are for the old one."""
        self.work.held |= self.incarnation is not None and incarnation not in (None, self.incarnation)
        self.incarnation = incarnation or self.incarnation

    def go_on(self) -> None:
        """Carry out effects at the new incarnation, because the engine has taken it in, or cannot."""
        if self.work.held:
            self.work.held = False
            self.work.begin_again()
            self._due.set()

    @property
    def busy(self) -> bool:
        """True if effects are being carried out. Waiting for outstanding messages does not count."""
        return self._busy > 0 or self.work.due > 0

    @property
    def warnings(self) -> tuple[str, ...]:
        """Why partitions cannot be granted, although the queue works for others."""
        known = sorted(self._unavailable.items())
        shown = [f"{one.queue}/{one.number}: {why}" for one, (_, why) in known if self.work.grants(one)]
        more = len(shown) - MOST_SHOWN
        return (*shown[:MOST_SHOWN], f"and {more} more partitions cannot be granted") if more > 0 else tuple(shown)

    def forget(self) -> None:
        """Forget all results, because the queue has moved to another server or name."""
        self.work.forget()
        self._unavailable.clear()

    async def carry_out(self, adapter: QueueAdapter) -> None:
        """Carry out effects until cancelled, or until the adapter raises. Effects without an answer are due again at the
        start."""
        self.work.begin_again()
        self._granting.clear()  # a task that was cancelled before it began has not removed its partition
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
        """Carry out one effect after the other, until none is due."""
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
        """Try the partition again after a pause, without delaying the others."""
        if (known := self._unavailable.get(partition)) is None:
            log.warning("a partition cannot be granted", queue=partition.queue, partition=partition.number, why=str(problem))
        pauses = doubling(FIRST_BACKOFF, LONGEST_BACKOFF) if known is None else known[0]
        self._unavailable[partition] = pauses, str(problem)
        if (before := self._put_off_until.get(partition)) is not None:
            before.cancel()
        self._put_off_until[partition] = tasks.create_task(self._again(partition, next(pauses)))
        self._changed()

    async def _again(self, partition: Partition, seconds: float) -> None:
        await asyncio.sleep(seconds)
        del self._put_off_until[partition]
        if self.work.again(partition):
            self._due.set()

    async def _ask_again(self, adapter: QueueAdapter, granting: asyncio.TaskGroup) -> None:
        """Ask the queue repeatedly for the outstanding messages of paused partitions."""
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
        if pause.partition in self._granting or self.work.held:  # held: the answer may be of another incarnation
            return
        if isinstance(left, Ownership):
            self._records.granted(pause.partition.number, left)
            self._unavailable.pop(pause.partition, None)
            self.work.handed_over(Outcome(pause.partition, left))
            self._changed()
            return
        if left == 0 and pause.then is not None and self.work.released(pause):
            self._granting.add(pause.partition)  # now, because other tasks may run before the new one begins
            tasks.create_task(self._grant(adapter, pause.then, tasks))
        elif self.work.paused(pause, left):
            self._changed()
        if left:
            self._drains.set()


def pause_between(partitions: int, took: float, waited: float) -> float:
    """Return the seconds until the next round of questions.

    `took`: seconds that the last round took; `waited`: seconds since the wanted effects changed.
    """
    return max(min(REST * took, REST_FOR_EACH * partitions), min(LONGEST_POLL, max(SHORTEST_POLL, waited / 40)))
