"""The worker of one queue of one group: carries out the engine's effects there, and knows the queue's last answers.

Each queue has a worker with a separate task. A queue that hangs delays no other, and no code waits for a worker. If the queue
does not answer, the worker tries again after longer and longer pauses, and keeps its effects. It looks at the queue regularly:
whether the queue exists and belongs to the group, its owner records, and its backlog. Looks delay no grant and no pause.
"""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import replace

import structlog

from baton.controller.backlog import Backlog
from baton.controller.group_observation import QueueFacts
from baton.controller.owner_records import OwnerRecords
from baton.controller.problems import Problem, Reason
from baton.controller.queue_effects import FIRST_BACKOFF, LONGEST_BACKOFF, QueueEffects, answer
from baton.controller.supervision import heard, is_cancelled
from baton.kube.clock import ApiServerClock
from baton.kube.errors import ApiError, UnavailableError
from baton.model.ids import QueueName
from baton.model.retrying import doubling
from baton.model.wording import quoted
from baton.queues.kind import ANSWERS_WITHIN
from baton.queues.protocol import QueueAdapter, QueueCheck, QueueConflict, QueueUnreachable, Resizing

LOOK_EVERY = 5.0
"""Seconds between two looks, unless the queue asks for more (`QueueCheck.rest`)."""
RESIZE_EVERY = 0.1
"""Least seconds between two steps of a change of the number of partitions."""
REST = 4
"""The pause is also at least REST times the duration of the last step, so that a large queue is asked less often. There is no
such pause if the queue has more to do at once."""

EXPECTED = (QueueUnreachable, QueueConflict, ApiError, UnavailableError)
"""Expected failures at a queue. Any other exception is a bug in Baton or in a library."""
MOST_WORDS = 300
"""Characters of an unexpected exception."""

log = structlog.get_logger("baton.queue")


class _Turned(Exception):  # noqa: N818 -- what happened
    """The queue has moved to another server or name, or has to be given up."""


class QueueWorker:
    """Works on one queue of one group. Calls `changed` when there is news for the group's loop."""

    def __init__(
        self, queue: QueueName, connect: Callable[[], Awaitable[QueueAdapter]], clock: ApiServerClock, changed: Callable[[], None]
    ) -> None:
        self.queue = queue
        self.facts = QueueFacts()
        self.backlog = Backlog()
        self.records = OwnerRecords()
        self.effects = QueueEffects(self.records, clock, self._done)
        self.troubled_since: float | None = None
        """Since when the queue carries out no effect (monotonic seconds); None: it does, or has none to carry out. A queue may
        answer to looks only, if its server is full or the user has lost the right to write."""
        self.ended = False
        """The queue was given up, or could not be and is not waited for: the worker has nothing left to do."""
        self.begun_with: str | None = None
        """The first incarnation of the queue that was seen; None: none yet."""
        self._clock = clock
        self._connect = connect
        self._changed = changed
        self._adapter: QueueAdapter | None = None
        self._asked_for: int | None = None
        self._pauses = doubling(FIRST_BACKOFF, LONGEST_BACKOFF)
        self._look_every = LOOK_EVERY
        self._patient: bool | None = None
        """Whether giving the queue up is retried until it succeeds (True) or tried once (False); None: the queue is kept."""
        self._moved = False
        self._turn = asyncio.Event()
        self._claiming = asyncio.Lock()
        """Held while the queue is claimed: a claim that arrived after the release would make the queue the group's again."""
        self._look_now = asyncio.Event()

    # -- instructions

    def ask_for(self, partitions: int | None) -> None:
        """Set the wanted number of partitions; None: keep the present number, or that of a change under way."""
        if partitions != self._asked_for:
            self._asked_for = partitions
            self._look_now.set()

    def reconnect(self, connect: Callable[[], Awaitable[QueueAdapter]]) -> None:
        """Use another connection, because the queue has moved to another server or name."""
        self._connect = connect
        self._moved = True
        self._turn.set()

    def leave(self, *, patient: bool) -> None:
        """Give the queue up, so that another group may have it, and end. `patient`: retry until that succeeds."""
        if self._patient is None or (self._patient and not patient):
            self._patient = patient
            self._turn.set()

    @property
    def leaving(self) -> bool:
        """True if the queue is being given up."""
        return self._patient is not None

    def stop(self) -> None:
        """End, and leave the queue as it is. Cancelling the task is not enough: a task group passes a cancellation on to its
        tasks only once, and a task that loses it would run for ever."""
        self.ended = True
        self._turn.set()
        self._look_now.set()

    # -- the task

    async def run(self) -> None:
        """Work until the queue is given up, or the task is cancelled."""
        try:
            while not self.ended:
                self._turn.clear()
                if self._moved:
                    self._moved = False
                    await self._close()
                    self.begun_with = None
                    self.effects.forget()
                try:
                    await (self._serve() if self._patient is None else self._release())
                except _Turned:
                    continue
                except Exception as error:
                    if is_cancelled():
                        raise asyncio.CancelledError from None
                    await self._in_trouble(error)
        finally:
            await self._close()

    async def _serve(self) -> None:
        """Look at the queue, then carry out effects and look again regularly. Raises _Turned, or the failure."""
        try:
            async with asyncio.TaskGroup() as tasks:
                tasks.create_task(self._turns())
                adapter = await self._opened()
                await self._look(adapter)
                tasks.create_task(self._look_again(adapter))
                await self.effects.carry_out(adapter)
        except BaseExceptionGroup as errors:
            raise _first(errors) from None

    async def _turns(self) -> None:
        """Raise _Turned on an instruction; to give the queue up, only while no claim is under way."""
        await self._turn.wait()
        if self.leaving:
            await self._claiming.acquire()
            self._claiming.release()
        raise _Turned

    async def _release(self) -> None:
        """Give the queue up. The worker ends once all of the queue is given up."""
        adapter = await self._opened()
        if await answer(self.queue, adapter.release(), adapter.answers_within):
            self._end()
        else:
            self.troubled_since = None

    def _end(self) -> None:
        self.ended = True
        self._changed()

    async def _in_trouble(self, error: Exception) -> None:
        if self.troubled_since is None:
            self.troubled_since = self._clock.ticks()
        self.backlog.lost()
        problem = queue_problem(self.queue, error)
        if self.facts.problem != problem:
            if isinstance(error, EXPECTED):
                log.warning("a queue cannot be used", queue=self.queue, reason=problem.reason, why=problem.message)
            else:
                log.error("unexpected failure at a queue", queue=self.queue, why=problem.message, exc_info=error)
            self.facts = replace(self.facts, problem=problem)
            self._changed()
        await self._close()  # the Secret may have changed by the next try
        if self._patient is False:
            self._end()
            return
        await heard(self._turn, next(self._pauses))  # new effects would not make the queue answer

    def _done(self) -> None:
        """An effect has a result. After trouble, look at once, so that the problem is cleared."""
        if self.troubled_since is not None:
            self.troubled_since = None
            self._look_now.set()
        self._changed()

    # -- looking

    async def _look(self, adapter: QueueAdapter) -> None:
        """Claim and create the queue as the spec says, then read its incarnation, owner records and backlog."""
        self._look_now.clear()
        resizing = await self._ensure(adapter)
        self.records.look()
        asked = self._clock.ticks()
        seen = await answer(self.queue, adapter.check(), adapter.answers_within)  # it has no incarnation before it is created
        self._look_every = max(LOOK_EVERY, seen.rest)
        self.effects.saw(seen.incarnation)
        self.begun_with = self.begun_with or seen.incarnation
        known = self.facts
        afresh = known.partitions is None or seen.incarnation != known.check.incarnation
        if self.effects.work.answered:
            self.troubled_since = None
        next_owners = self.effects.work.next_owners
        surprised = adapter.fenced and self.records.found(seen.owners, afresh=afresh, next_owners=next_owners)
        owners = dict(self.records.known) if surprised else None
        check = lasting(seen)
        check = known.check if check == known.check else check  # facts with the same object compare fast
        self.facts = replace(
            self.facts,
            partitions=seen.partitions if seen.partitions is not None else self._asked_for,
            fenced=adapter.fenced,
            owners=known.owners if owners is None else owners,
            problem=None if self.troubled_since is None else self.facts.problem,
            resizing=resizing,
            check=check,
            warnings=seen.warnings + self.effects.warnings,
        )
        self.backlog.saw(seen, asked)
        if surprised or self.facts.telling != known.telling:
            self._changed()

    async def _ensure(self, adapter: QueueAdapter) -> Resizing | None:
        """Create the queue with the wanted number of partitions, or continue a change of that number. Returns what is left of
        the change."""
        async with self._claiming:
            return await answer(self.queue, adapter.ensure(self._asked_for), adapter.answers_within)

    async def _look_again(self, adapter: QueueAdapter) -> None:
        while not self._turn.is_set():
            await self._rest(adapter)
            await self._look(adapter)
            self._pauses = doubling(FIRST_BACKOFF, LONGEST_BACKOFF)

    async def _rest(self, adapter: QueueAdapter) -> None:
        """Wait until the next look is due. Meanwhile, continue a change of the number of partitions; look when it ends."""
        rests_until, took = self._clock.ticks() + self._look_every, 0.0
        while self.facts.resizing is not None and not self._look_now.is_set() and self._clock.ticks() < rests_until:
            await heard(self._look_now, max(RESIZE_EVERY, REST * took))
            began = self._clock.ticks()
            resizing = await self._ensure(adapter)
            took = self._clock.ticks() - began
            if resizing is None:
                return
            took *= not resizing.more
            if resizing != self.facts.resizing:
                self.facts = replace(self.facts, resizing=resizing)
                self._changed()
        await heard(self._look_now, max(0.0, rests_until - self._clock.ticks()) if adapter.fenced else None)

    # -- the connection

    async def _opened(self) -> QueueAdapter:
        if self._adapter is None:
            try:
                async with asyncio.timeout(ANSWERS_WITHIN):
                    self._adapter = await self._connect()
            except TimeoutError:
                raise UnavailableError(f"no answer within {ANSWERS_WITHIN:.0f} s") from None
        return self._adapter

    async def _close(self) -> None:
        adapter, self._adapter = self._adapter, None
        if adapter is None:
            return
        try:
            async with asyncio.timeout(ANSWERS_WITHIN):
                await adapter.close()
        except Exception as error:
            log.debug("closing a connection failed", queue=self.queue, error=type(error).__name__)


def _first(errors: BaseExceptionGroup[BaseException]) -> BaseException:
    """Return the first failure; a _Turned comes before the failures that it interrupted."""
    flat = [_first(one) if isinstance(one, BaseExceptionGroup) else one for one in errors.exceptions]
    return next((one for one in flat if isinstance(one, _Turned)), flat[0])


def lasting(seen: QueueCheck) -> QueueCheck:
    """Return a look without what differs at every look while entries flow, so that equal facts need no new status. The backlog
    has those numbers, and OwnerRecords the owner records."""
    return seen._replace(owners={}, lag={}, unfinished={}, finished=None, oldest=None, rest=0.0)


def queue_problem(queue: QueueName, error: Exception) -> Problem:
    """Return what an error at the queue means for the group, in a sentence for people."""
    match error:
        case QueueConflict():
            return Problem(Reason.CONFLICT, str(error))
        case QueueUnreachable():
            return Problem(Reason.QUEUE_UNREACHABLE, str(error))
        case ApiError() | UnavailableError():
            return Problem(Reason.QUEUE_UNREACHABLE, f"queue {queue}: its Secret cannot be read: {error}")
    return Problem(
        Reason.QUEUE_UNREACHABLE, f"queue {queue}: unexpected failure ({type(error).__name__}: {quoted(str(error), MOST_WORDS)})"
    )
