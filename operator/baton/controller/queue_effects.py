"""Carries out at one queue what the engine wants: pauses, what they wait for, and grants; many partitions at once."""

import asyncio
from collections.abc import Callable, Collection, Iterator, Mapping

import structlog

from baton.controller.owner_records import OwnerRecords
from baton.controller.queue_request import answer
from baton.controller.queue_work import NOTHING, QueueWork
from baton.engine.effects import Effect, Grant, Pause
from baton.engine.observation import Outcome, OwnerRecord
from baton.kube.clock import ApiServerClock
from baton.model.ids import Partition
from baton.queues.protocol import Owner, PartitionUnavailable, QueueAdapter

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
        if seen is not None and self.work.seen_before(grant, OwnerRecord(seen.uid, seen.epoch)):
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
        self.work.granted(grant, Outcome(grant.partition, OwnerRecord(owner.uid, owner.epoch)))
        self._changed()

    async def _pause(self, adapter: QueueAdapter, pause: Pause, tasks: asyncio.TaskGroup) -> None:
        number = pause.partition.number
        within = max(0.0, pause.deadline - self._clock.now())
        then = Owner(pause.then.uid, pause.then.epoch) if pause.then is not None else None
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

    def _left(self, adapter: QueueAdapter, pause: Pause, left: int | Owner | None, tasks: asyncio.TaskGroup) -> None:
        if pause.partition in self._granting or self.work.held:  # held: the answer may be of another queue
            return
        if isinstance(left, Owner):
            self._records.granted(pause.partition.number, left)
            self._unavailable.pop(pause.partition, None)
            self.work.handed_over(Outcome(pause.partition, OwnerRecord(left.uid, left.epoch)))
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
