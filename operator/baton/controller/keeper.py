"""One queue of one group, kept in touch with: carries out what the engine wants of it, and knows what it last said.

Each queue has a keeper with a task of its own, so that one that hangs holds up no other. A queue that does not answer is asked
again, after ever longer pauses; what is wanted of it meanwhile stays wanted.
"""

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, TypeVar

import structlog

from baton.controller.adapters import UnsupportedSource
from baton.controller.faults import boundary
from baton.controller.problems import Problem, Reason
from baton.controller.supervision import Tasks
from baton.engine.effects import Effect, Grant, Pause
from baton.engine.observation import Outcome, OwnerRecord
from baton.kube.api import ApiError, UnavailableError
from baton.kube.clock import Clock
from baton.model.ids import Epoch, Partition, QueueName
from baton.queues.protocol import QueueAdapter, QueueConflict, QueueUnreachable

ANSWER_WITHIN = 5.0
CHECK_EVERY = 5.0
FIRST_BACKOFF, LONGEST_BACKOFF = 0.25, 5.0
SHORTEST_POLL, LONGEST_POLL = 0.02, 0.25
AT_ONCE = 32

log = structlog.get_logger("baton.queue")
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class QueueFacts:
    """What a queue last said."""

    partitions: int | None = None
    """In operation; None: not known in this run of the operator."""
    fenced: bool = True
    incarnation: str | None = None
    owners: Mapping[int, OwnerRecord] = field(default_factory=dict)
    """As of the first contact, or of the last change of the incarnation."""
    problem: Problem | None = None
    refused: str | None = None
    """Why the asked for number of partitions is not the one in operation."""
    lag: Mapping[int, int] = field(default_factory=dict)
    stale_refused: Mapping[int, int] = field(default_factory=dict)
    dead_letters: Mapping[int, int] = field(default_factory=dict)
    warnings: tuple[str, ...] = ()
    """What the server's configuration puts at risk."""


class Keeper:
    """See above. `changed` is called when there is news for the loop."""

    def __init__(
        self,
        queue: QueueName,
        connect: Callable[[], Awaitable[QueueAdapter]],
        clock: Clock,
        tasks: Tasks,
        changed: Callable[[], None],
    ) -> None:
        self._tasks = tasks
        self.queue = queue
        self._clock = clock
        self.facts = QueueFacts()
        self.drained: frozenset[tuple[Partition, Epoch]] = frozenset()
        self.outcomes: frozenset[Outcome] = frozenset()
        self.unacknowledged: dict[Partition, int | None] = {}
        """What is still to be waited for of the partitions that are paused; None: the queue cannot say."""
        self._connect = connect
        self._changed = changed
        self._adapter: QueueAdapter | None = None
        self._asked_for: int | None = None
        self._pauses: frozenset[Pause] = frozenset()
        self._grants: frozenset[Grant] = frozenset()
        self._done: set[Grant] = set()
        self._paused: set[Pause] = set()
        self._wanted_since = 0.0
        self._check_at = 0.0
        self._news = asyncio.Event()

    def want(self, partitions: int | None, effects: Iterable[Effect], told: frozenset[Outcome]) -> None:
        """All that is wanted now. `told`: outcomes that the engine has taken into its (written) state."""
        effects = list(effects)
        pauses = frozenset(effect for effect in effects if isinstance(effect, Pause))
        grants = frozenset(effect for effect in effects if isinstance(effect, Grant))
        self.outcomes -= told
        self._done &= grants
        if told:
            # A grant that is wanted still, although its outcome was told, is wanted anew.
            self._done -= {grant for grant in grants if any(outcome.partition == grant.partition for outcome in told)}
        self.drained &= {(pause.partition, pause.epoch) for pause in pauses}
        if partitions != self._asked_for:
            self._asked_for, self._check_at = partitions, 0.0
            self._news.set()
        if pauses - self._pauses or grants - self._done:
            self._wanted_since = self._clock.ticks()
            self._news.set()
        self._pauses, self._grants = pauses, grants
        self._paused &= pauses
        wanted = {pause.partition for pause in pauses}
        self.unacknowledged = {partition: left for partition, left in self.unacknowledged.items() if partition in wanted}

    def reconnect(self, connect: Callable[[], Awaitable[QueueAdapter]]) -> None:
        """The queue is somewhere else now."""
        self._connect = connect
        stale, self._adapter = self._adapter, None
        self._check_at = 0.0
        self._news.set()
        if stale is not None:
            self._tasks.start("close", _quietly(stale.close()), queue=self.queue)

    async def run(self) -> None:
        """Keep at it until cancelled."""
        backoff = FIRST_BACKOFF
        while True:
            self._news.clear()
            try:
                await self._work()
                backoff = FIRST_BACKOFF
                await self._sleep(self._next())
            except (QueueUnreachable, QueueConflict, UnsupportedSource, ApiError, UnavailableError) as error:
                self._trouble(_problem(self.queue, error))
                self._check_at = 0.0
                await self.close()  # its Secret may say something else next time
                await asyncio.sleep(backoff)  # news would not make it answer
                backoff = min(LONGEST_BACKOFF, backoff * 2)
            except Exception:
                log.exception("unexpected failure at a queue", queue=self.queue)
                self._trouble(
                    Problem(Reason.QUEUE_UNREACHABLE, f"queue {self.queue}: unexpected failure; see the operator's log")
                )
                self._check_at = 0.0
                await asyncio.sleep(LONGEST_BACKOFF)

    async def release(self) -> None:
        """Give the queue up for another group. Raises QueueUnreachable."""
        with boundary("release"):
            await self._ask(lambda adapter: adapter.release())

    async def close(self) -> None:
        """Close connections."""
        adapter, self._adapter = self._adapter, None
        if adapter is not None:
            await _quietly(adapter.close())

    async def _work(self) -> None:
        if self._clock.ticks() >= self._check_at:
            await self._check()
            self._check_at = self._clock.ticks() + (CHECK_EVERY if self.facts.fenced else float("inf"))
        grants = [grant for grant in self._grants if grant not in self._done]
        pauses = [pause for pause in self._pauses if (pause.partition, pause.epoch) not in self.drained]
        await _in_turns([self._grant(grant) for grant in grants])
        await _in_turns([self._pause(pause) for pause in pauses])

    async def _check(self) -> None:
        """Is it there, is it ours, is it what the spec says, and has its server been restarted?"""
        adapter = await self._connected()
        known = self.facts
        refused = await self._ensure() if self._asked_for is not None else None
        incarnation = await self._ask(lambda one: one.incarnation())  # a queue that was not made yet had none
        partitions = await self._ask(lambda one: one.partitions())
        owners = known.owners
        if known.partitions is None or incarnation != known.incarnation:
            found = await self._ask(lambda one: one.owners())
            owners = {number: OwnerRecord(owner.uid, owner.epoch) for number, owner in found.items()}
        facts = QueueFacts(
            partitions=partitions if partitions is not None else self._asked_for,
            fenced=adapter.fenced,
            incarnation=incarnation,
            owners=owners,
            refused=refused,
            lag=await self._ask(lambda one: one.lag()),
            stale_refused=await self._ask(lambda one: one.stale_refused()),
            dead_letters=await self._ask(lambda one: one.dead_letters()),
            warnings=await self._ask(lambda one: one.warnings()),
        )
        self.facts = facts
        if _telling(facts) != _telling(known):
            self._changed()

    async def _ensure(self) -> str | None:
        """Make the queue as asked for; where its count cannot be changed, make sure of it as it is and say why."""
        wanted = self._asked_for
        assert wanted is not None
        try:
            with boundary("ensure"):
                await self._ask(lambda one: one.ensure(wanted))
            return None
        except QueueConflict as refusal:
            current = await self._ask(lambda one: one.partitions())
            if current is None or current == wanted:
                raise
            await self._ask(lambda one: one.ensure(current))
            return str(refusal)

    async def _grant(self, grant: Grant) -> None:
        with boundary("grant"):
            owner = await self._ask(lambda one: one.grant(grant.partition.number, grant.uid, grant.epoch))
        if grant in self._grants:
            self._done.add(grant)
            self.outcomes |= {Outcome(grant.partition, OwnerRecord(owner.uid, owner.epoch))}
            self._changed()

    async def _pause(self, pause: Pause) -> None:
        if pause in self._paused:
            left = await self._ask(lambda one: one.outstanding(pause.partition.number))
        else:
            with boundary("pause"):
                left = await self._ask(lambda one: one.pause(pause.partition.number, pause.epoch))
            self._paused.add(pause)
        if pause not in self._pauses:
            return
        first = pause.partition not in self.unacknowledged
        self.unacknowledged[pause.partition] = left
        if left == 0:
            self.drained |= {(pause.partition, pause.epoch)}
        if first or left == 0:
            self._changed()

    def _next(self) -> float:
        """When to look again (monotonic seconds)."""
        if not self.facts.fenced or all((pause.partition, pause.epoch) in self.drained for pause in self._pauses):
            return self._check_at
        waited = self._clock.ticks() - self._wanted_since
        return min(self._check_at, self._clock.ticks() + min(LONGEST_POLL, max(SHORTEST_POLL, waited / 10)))

    async def _connected(self) -> QueueAdapter:
        if self._adapter is None:
            self._adapter = await self._connect()
        return self._adapter

    async def _ask(self, question: Callable[[QueueAdapter], Coroutine[Any, Any, T]]) -> T:
        adapter = await self._connected()
        try:
            async with asyncio.timeout(ANSWER_WITHIN):
                return await question(adapter)
        except TimeoutError:
            raise QueueUnreachable(f"queue {self.queue} does not answer within {ANSWER_WITHIN:.0f} s") from None

    async def _sleep(self, until: float) -> None:
        try:
            async with asyncio.timeout(max(0.0, until - self._clock.ticks())):
                await self._news.wait()
        except TimeoutError:
            pass

    def _trouble(self, problem: Problem) -> None:
        self._paused.clear()  # whether it still knows of them is not known
        if self.facts.problem != problem:
            log.warning("a queue cannot be worked with", queue=self.queue, reason=problem.reason, why=problem.message)
            self.facts = replace(self.facts, problem=problem)
            self._changed()


def _telling(facts: QueueFacts) -> tuple[object, ...]:
    return (facts.partitions, facts.fenced, facts.incarnation, facts.problem, facts.refused, facts.warnings)


def _problem(queue: QueueName, error: Exception) -> Problem:
    match error:
        case QueueConflict():
            return Problem(Reason.CONFLICT, str(error))
        case UnsupportedSource():
            return Problem(Reason.UNSUPPORTED_SOURCE, str(error))
        case QueueUnreachable():
            return Problem(Reason.QUEUE_UNREACHABLE, str(error))
        case _:
            return Problem(Reason.QUEUE_UNREACHABLE, f"queue {queue}: its Secret cannot be read: {error}")


async def _in_turns(work: list[Coroutine[Any, Any, None]]) -> None:
    """A number at once; the first failure is raised when all have ended."""
    for start in range(0, len(work), AT_ONCE):
        ended = await asyncio.gather(*work[start : start + AT_ONCE], return_exceptions=True)
        failures = [error for error in ended if isinstance(error, BaseException)]
        if failures:
            for rest in work[start + AT_ONCE :]:
                rest.close()
            raise failures[0]


async def _quietly(work: Awaitable[None]) -> None:
    try:
        async with asyncio.timeout(ANSWER_WITHIN):
            await work
    except Exception as error:
        log.debug("closing a connection failed", error=str(error))
