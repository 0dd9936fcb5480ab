"""Works on one queue of one group: carries out the engine's effects there, and knows the queue's last answers.

Each queue has a worker with a task of its own. A queue that hangs delays no other, and no code waits for a worker. The worker
asks a queue that does not answer again, after longer and longer pauses, and keeps the effects that it has to carry out. Regularly
it looks at the queue: whether it is there and belongs to the group, who owns what, and how large the backlog is. That delays no
grant and no pause.
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
from baton.kube.clock import ApiServerClock
from baton.kube.errors import ApiError, UnavailableError
from baton.model.ids import QueueName
from baton.model.wording import quoted
from baton.queues.kind import ANSWERS_WITHIN
from baton.queues.protocol import QueueAdapter, QueueConflict, QueueUnreachable, Resizing

LOOK_EVERY = 5.0
"""Seconds between two looks, unless the queue asks for more (`QueueCheck.rest`)."""
RESIZE_EVERY = 0.1
"""Seconds between two steps of a change of the number of partitions, and"""
REST = 4
"""so many times as long as the last of them took: a large queue is asked more seldom, unless there is more to do at once."""

EXPECTED = (QueueUnreachable, QueueConflict, ApiError, UnavailableError)
"""What can go wrong at a queue. Anything else is a mistake of Baton's, or of a library."""
MOST_SHOWN = 300
"""Characters of an unexpected exception."""

log = structlog.get_logger("baton.queue")


class _Turned(Exception):  # noqa: N818 -- what happened
    """The queue is somewhere else now, or is to be given up."""


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
        """Since when nothing is done at the queue of what is to be done (monotonic seconds); None: it is, or there is nothing. A
        queue may answer to looks alone: a server that is full, or whose user may no more write."""
        self.ended = False
        """The queue was given up, or giving it up failed and is not awaited: there is nothing left to do."""
        self.begun_with: str | None = None
        """The queue's incarnation as it was first known; None: it is not."""
        self._clock = clock
        self._connect = connect
        self._changed = changed
        self._adapter: QueueAdapter | None = None
        self._asked_for: int | None = None
        self._backoff = FIRST_BACKOFF
        self._look_every = LOOK_EVERY
        self._patient: bool | None = None
        """The queue is to be given up: at all events, or if that is possible at once. None: it is not."""
        self._moved = False
        self._turn = asyncio.Event()
        self._claiming = asyncio.Lock()
        """The queue is being asked for: a claim that came after the release would make the queue the group's again."""
        self._look_now = asyncio.Event()

    # -- what is wanted

    def ask_for(self, partitions: int | None) -> None:
        """The queue is to have so many partitions; None: those that it has, or that a change under way gives it."""
        if partitions != self._asked_for:
            self._asked_for = partitions
            self._look_now.set()

    def reconnect(self, connect: Callable[[], Awaitable[QueueAdapter]]) -> None:
        """The queue is somewhere else now."""
        self._connect = connect
        self._moved = True
        self._turn.set()

    def leave(self, *, patient: bool) -> None:
        """Give the queue up for another group, then end. `patient`: however long it takes; else if it can be done at once."""
        if self._patient is None or (self._patient and not patient):
            self._patient = patient
            self._turn.set()

    @property
    def leaving(self) -> bool:
        """It is being given up."""
        return self._patient is not None

    def stop(self) -> None:
        """Leave the queue as it is. Not by cancelling the task alone: a task group passes that on to its tasks only once,
        and one that loses it would go on for ever."""
        self.ended = True
        self._turn.set()
        self._look_now.set()

    # -- the task

    async def run(self) -> None:
        """Keep at it until the queue is given up, or this is cancelled."""
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
                    if _cancelled():
                        raise asyncio.CancelledError from None
                    await self._in_trouble(error)
        finally:
            await self._close()

    async def _serve(self) -> None:
        """Look at the queue, then do what is wanted and look again every now and then. Raises _Turned, or what went wrong."""
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
        """What is given up is turned from between two claims."""
        await self._turn.wait()
        if self.leaving:
            await self._claiming.acquire()
            self._claiming.release()
        raise _Turned

    async def _release(self) -> None:
        """Another group may have the queue, once all of it is given up."""
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
        problem = problem_of(self.queue, error)
        if self.facts.problem != problem:
            if isinstance(error, EXPECTED):
                log.warning("a queue cannot be worked with", queue=self.queue, reason=problem.reason, why=problem.message)
            else:
                log.error("unexpected failure at a queue", queue=self.queue, why=problem.message, exc_info=error)
            self.facts = replace(self.facts, problem=problem)
            self._changed()
        await self._close()  # its Secret may say something else next time
        if self._patient is False:
            self._end()
            return
        await _until(self._turn, self._backoff)  # news would not make it answer
        self._backoff = min(LONGEST_BACKOFF, self._backoff * 2)

    def _done(self) -> None:
        """Something came of an effect. After trouble the next look tells that it is over."""
        if self.troubled_since is not None:
            self.troubled_since = None
            self._look_now.set()
        self._changed()

    # -- looking

    async def _look(self, adapter: QueueAdapter) -> None:
        """Is it there, is it ours, is it what the spec says, has its server been restarted, and who owns what?"""
        self._look_now.clear()
        resizing = await self._ensure(adapter)
        self.records.look()
        asked = self._clock.ticks()
        # After the queue was made, for before it had no incarnation.
        seen = await answer(self.queue, adapter.check(), adapter.answers_within)
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
        self.facts = replace(
            self.facts,
            partitions=seen.partitions if seen.partitions is not None else self._asked_for,
            fenced=adapter.fenced,
            owners=known.owners if owners is None else owners,
            problem=None if self.troubled_since is None else self.facts.problem,
            resizing=resizing,
            check=seen,
            warnings=seen.warnings + self.effects.warnings,
        )
        self.backlog.saw(seen, asked)
        if surprised or self.facts.telling != known.telling:
            self._changed()

    async def _ensure(self, adapter: QueueAdapter) -> Resizing | None:
        """Make the queue as asked for; what is still to be done of a change of its number of partitions. One that is not to grow
        goes on with what has begun."""
        async with self._claiming:
            return await answer(self.queue, adapter.ensure(self._asked_for), adapter.answers_within)

    async def _look_again(self, adapter: QueueAdapter) -> None:
        while not self._turn.is_set():
            await self._rest(adapter)
            await self._look(adapter)
            self._backoff = FIRST_BACKOFF

    async def _rest(self, adapter: QueueAdapter) -> None:
        """Until the next look is due. A change of the number of partitions goes on meanwhile; its end is worth a look."""
        rests_until, took = self._clock.ticks() + self._look_every, 0.0
        while self.facts.resizing is not None and not self._look_now.is_set() and self._clock.ticks() < rests_until:
            await _until(self._look_now, max(RESIZE_EVERY, REST * took))
            began = self._clock.ticks()
            resizing = await self._ensure(adapter)
            took = self._clock.ticks() - began
            if resizing is None:
                return
            took *= not resizing.more
            if resizing != self.facts.resizing:
                self.facts = replace(self.facts, resizing=resizing)
                self._changed()
        await _until(self._look_now, max(0.0, rests_until - self._clock.ticks()) if adapter.fenced else None)

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


def _cancelled() -> bool:
    """Before Python 3.13 a task group that is cancelled just when something fails in it raises the failure only."""
    task = asyncio.current_task()
    return task is not None and task.cancelling() > 0


def _first(errors: BaseExceptionGroup[BaseException]) -> BaseException:
    """What happened first; that there is a turn comes before what it interrupted."""
    flat = [_first(one) if isinstance(one, BaseExceptionGroup) else one for one in errors.exceptions]
    return next((one for one in flat if isinstance(one, _Turned)), flat[0])


def problem_of(queue: QueueName, error: Exception) -> Problem:
    """What an error means for the group, in a sentence for people."""
    match error:
        case QueueConflict():
            return Problem(Reason.CONFLICT, str(error))
        case QueueUnreachable():
            return Problem(Reason.QUEUE_UNREACHABLE, str(error))
        case ApiError() | UnavailableError():
            return Problem(Reason.QUEUE_UNREACHABLE, f"queue {queue}: its Secret cannot be read: {error}")
    return Problem(
        Reason.QUEUE_UNREACHABLE, f"queue {queue}: unexpected failure ({type(error).__name__}: {quoted(str(error), MOST_SHOWN)})"
    )


async def _until(event: asyncio.Event, seconds: float | None) -> None:
    """The event, or so many seconds."""
    try:
        async with asyncio.timeout(seconds):
            await event.wait()
    except TimeoutError:
        pass
