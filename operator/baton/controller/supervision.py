"""The operator's background tasks. Failures are logged and counted, and tasks that must keep running are restarted.

The exception of an unobserved asyncio task is lost and its work just stops. So no other module of this package creates tasks.
"""

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable, Collection, Coroutine, Mapping
from contextvars import copy_context
from typing import Any, Literal, get_args

import structlog
from structlog.contextvars import bind_contextvars, clear_contextvars

from baton.kube.clock import ApiServerClock
from baton.model.retrying import doubling
from baton.model.wording import first_of

FIRST_PAUSE, LONGEST_PAUSE = 1.0, 30.0
"""Seconds before a task that ended is restarted: the first time, and in the long run."""

CALM = 60.0
"""Seconds a task must run for its next failure to count as the first."""

CANCEL_AGAIN, GIVE_UP_AFTER = 1.0, 15.0
"""Seconds after which a cancelled task that has not ended is cancelled again, and after which it is abandoned."""

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
"""Kind of work of a task. All kinds are known in advance so that each counter starts at 0: Prometheus does not count the first
value of a series as an increase."""

log = structlog.get_logger("baton.tasks")


async def end(tasks: Collection[asyncio.Task[object]]) -> None:
    """Cancel tasks, and wait until they end, for GIVE_UP_AFTER at most. A library can swallow a cancellation, and stopping a
    group must not hang because one of its tasks does."""
    for _ in range(round(GIVE_UP_AFTER / CANCEL_AGAIN)):
        if not (left := [task for task in tasks if not task.done()]):
            return
        for task in left:
            task.cancel()
        await asyncio.wait(left, timeout=CANCEL_AGAIN)
    if deaf := [task.get_name() for task in tasks if not task.done()]:
        log.error("cancelled tasks do not end", tasks=first_of(sorted(deaf), 3))


def is_cancelled() -> bool:
    """Whether the current task is cancelled, and not something that it waited for. Before Python 3.13, a task group that is
    cancelled just when one of its tasks fails raises only the failure."""
    task = asyncio.current_task()
    return task is None or task.cancelling() > 0


async def heard(event: asyncio.Event, seconds: float | None) -> bool:
    """Wait for the event for `seconds` at most (None: without limit). False: it was not set in time."""
    try:
        async with asyncio.timeout(seconds):
            return await event.wait()
    except TimeoutError:
        return False


def _only(where: Mapping[str, str]) -> None:
    clear_contextvars()
    bind_contextvars(**where)


class Tasks:
    """Starts tasks and observes their end. `name`: the kind of work; `where`: fields added to every log line of the task,
    including those of libraries."""

    def __init__(self, clock: ApiServerClock) -> None:
        self._clock = clock
        self._running: set[asyncio.Task[object]] = set()
        """References to the running tasks; the event loop holds none."""
        self.failures: Counter[TaskName] = Counter(dict.fromkeys(get_args(TaskName), 0))
        """How often a task failed, or ended when it should have kept running."""

    def start(self, name: TaskName, work: Coroutine[Any, Any, Any], **where: str) -> asyncio.Task[Any]:
        """Start work that ends. A failure is logged; the caller restarts it."""
        context = copy_context()
        context.run(_only, where)  # without the fields of the task that starts it
        task = asyncio.create_task(work, name=name, context=context)
        self._running.add(task)
        task.add_done_callback(lambda done: self._ended(name, done, where))
        return task

    def keep(self, name: TaskName, work: Callable[[], Awaitable[object]], **where: str) -> asyncio.Task[Any]:
        """Start work that should never end, and restart it until the task is cancelled."""
        return self.start(name, self._kept(name, work, where), **where)

    async def _kept(self, name: TaskName, work: Callable[[], Awaitable[object]], where: dict[str, str]) -> None:
        pauses = doubling(FIRST_PAUSE, LONGEST_PAUSE)
        while True:
            began = self._clock.ticks()
            try:
                await work()
                self._failed(name, "a background task ended; it starts again", None, where)
            except (Exception, asyncio.CancelledError) as error:
                if isinstance(error, asyncio.CancelledError) and is_cancelled():
                    raise
                self._failed(name, "a background task failed; it starts again", error, where)
            if self._clock.ticks() - began >= CALM:
                pauses = doubling(FIRST_PAUSE, LONGEST_PAUSE)
            await asyncio.sleep(next(pauses))

    def _ended(self, name: TaskName, task: asyncio.Task[object], where: dict[str, str]) -> None:
        self._running.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            self._failed(name, "a background task failed", error, where)

    def _failed(self, name: TaskName, what: str, error: BaseException | None, where: dict[str, str]) -> None:
        self.failures[name] += 1
        log.error(what, task=name, exc_info=error, **where)
