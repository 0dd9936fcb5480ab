"""Work that a group cannot go on without: what fails is said on the group, harms no other, and is tried again from the facts."""

import asyncio
from collections.abc import Awaitable, Callable

import structlog

from baton.controller.attempts import Attempts
from baton.controller.problems import Problem
from baton.controller.refusals import PASSING, Stuck, may_pass, problem_of
from baton.kube.clock import ApiServerClock
from baton.kube.errors import ApiError, UnavailableError
from baton.kube.ledger_configmap import Deposed

LONGEST_PAUSE = 30.0
"""Seconds between attempts where an exception was met that nobody expected."""


class Retrying:
    """The attempts of one group's loop."""

    def __init__(self, clock: ApiServerClock, say: Callable[[Problem], None], log: structlog.stdlib.BoundLogger) -> None:
        """`say` is called with what is to be said of the group, but not while it may well work again in a moment."""
        self._clock = clock
        self._say = say
        self._log = log
        self._attempts = Attempts(clock)

    @property
    def failing(self) -> bool:
        """Whether the last attempt failed."""
        return self._attempts.since is not None

    async def until_it_works(self, work: Callable[[], Awaitable[bool]]) -> bool:
        """What it returned at last. Raises Deposed."""
        while True:
            begun = self._clock.ticks()
            try:
                done = await work()
            except Deposed:
                raise
            except (Stuck, ApiError, UnavailableError) as error:
                pause = self._attempts.failed(begun)
                self._log.warning("the group cannot go on; trying again", error=str(error))
                if not may_pass(error) or self._attempts.lasted >= PASSING:
                    self._say(problem_of(error))
            except (Exception, asyncio.CancelledError) as error:
                if isinstance(error, asyncio.CancelledError) and _is_cancelled():
                    raise
                pause = self._attempts.failed(begun, LONGEST_PAUSE)
                self._log.exception("unexpected failure at a group; trying again")
                self._say(problem_of(error))
            else:
                self._attempts.worked()
                return done
            await asyncio.sleep(pause)


def _is_cancelled() -> bool:
    """Whether this task is, and not something that it waited for."""
    task = asyncio.current_task()
    return task is None or task.cancelling() > 0
