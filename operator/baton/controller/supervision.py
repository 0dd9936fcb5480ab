"""The operator's background tasks. None dies in silence: what fails is logged and counted, and what must go on starts again.

A task without an observer keeps its exception to itself: its work simply stops. So no other module here makes tasks.
"""

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable, Collection, Coroutine, Mapping
from contextvars import copy_context
from typing import Any, Literal, get_args

import structlog
from structlog.contextvars import bind_contextvars, clear_contextvars

from baton.kube.clock import ApiServerClock
from baton.model.wording import first_of

FIRST_PAUSE, LONGEST_PAUSE = 1.0, 30.0
"""Seconds before what ended is started again: the first time, and in the long run."""

CALM = 60.0
"""Seconds after which a failure counts as the first one again."""

CANCEL_AGAIN, GIVE_UP_AFTER = 1.0, 15.0
"""Seconds after which a task that was cancelled and has not ended is cancelled again, and after which it is left to itself."""

TaskName = Literal[
    "collector",
    "elector",
    "elsewhere",
    "events",
    "fleet",
    "group",
    "list",
    "mount-refresh",
    "queue",
    "replica",
    "scale",
    "status",
    "target-size",
]
"""What kind of work a task is. All are known beforehand: Prometheus takes the first value that it sees for no increase, so each
is counted from 0 on."""

log = structlog.get_logger("baton.tasks")


async def end(tasks: Collection[asyncio.Task[object]]) -> None:
    """Cancel tasks, and wait until they have ended; but not for ever. A cancellation can be lost on its way through a library,
    and a caller that stops a group must not hang because one of its tasks does."""
    for _ in range(round(GIVE_UP_AFTER / CANCEL_AGAIN)):
        if not (left := [task for task in tasks if not task.done()]):
            return
        for task in left:
            task.cancel()
        await asyncio.wait(left, timeout=CANCEL_AGAIN)
    if deaf := [task.get_name() for task in tasks if not task.done()]:
        log.error("cancelled tasks do not end", tasks=first_of(sorted(deaf), 3))


def is_cancelled() -> bool:
    """Whether this task is, and not something that it waited for."""
    task = asyncio.current_task()
    return task is None or task.cancelling() > 0


async def heard(event: asyncio.Event, seconds: float) -> bool:
    """Wait for the event, for `seconds` at most. False: it was not set by then."""
    try:
        async with asyncio.timeout(seconds):
            return await event.wait()
    except TimeoutError:
        return False


def _only(where: Mapping[str, str]) -> None:
    clear_contextvars()
    bind_contextvars(**where)


class Tasks:
    """Starts tasks and hears when they end. A name says what kind of work it is; `where`, of what: it stands in every log line
    that is written in the task, also by libraries."""

    def __init__(self, clock: ApiServerClock) -> None:
        self._clock = clock
        self._running: set[asyncio.Task[object]] = set()
        """The event loop itself does not hold on to its tasks."""
        self.failures: Counter[TaskName] = Counter(dict.fromkeys(get_args(TaskName), 0))
        """How often one failed, or ended where it should have gone on."""

    def start(self, name: TaskName, work: Coroutine[Any, Any, Any], **where: str) -> asyncio.Task[Any]:
        """Work that comes to an end. If it fails, that is logged; its user starts it again."""
        context = copy_context()
        context.run(_only, where)  # not where the one who starts it works
        task = asyncio.create_task(work, name=name, context=context)
        self._running.add(task)
        task.add_done_callback(lambda done: self._ended(name, done, where))
        return task

    def keep(self, name: TaskName, work: Callable[[], Awaitable[object]], **where: str) -> asyncio.Task[Any]:
        """Work that never ends: it is started again until the task is cancelled."""
        return self.start(name, self._kept(name, work, where), **where)

    async def _kept(self, name: TaskName, work: Callable[[], Awaitable[object]], where: dict[str, str]) -> None:
        pause = FIRST_PAUSE
        while True:
            began = self._clock.ticks()
            try:
                await work()
                self._failed(name, "a background task ended; it starts again", None, where)
            except asyncio.CancelledError as error:
                if is_cancelled():
                    raise
                self._failed(name, "a background task failed; it starts again", error, where)
            except Exception as error:
                self._failed(name, "a background task failed; it starts again", error, where)
            if self._clock.ticks() - began >= CALM:
                pause = FIRST_PAUSE
            await asyncio.sleep(pause)
            pause = min(LONGEST_PAUSE, pause * 2)

    def _ended(self, name: TaskName, task: asyncio.Task[object], where: dict[str, str]) -> None:
        self._running.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            self._failed(name, "a background task failed", error, where)

    def _failed(self, name: TaskName, what: str, error: BaseException | None, where: dict[str, str]) -> None:
        self.failures[name] += 1
        log.error(what, task=name, exc_info=error, **where)
