"""Work that a group cannot go on without: what fails is said on the group, harms no other, and is tried again from the facts;
and groups that have something to do at the same moment take turns."""

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable

import structlog

from baton.controller.problems import PASSING, Problem, Stuck, may_pass, problem_of
from baton.controller.supervision import is_cancelled
from baton.kube.clock import ApiServerClock
from baton.kube.errors import ApiError, UnavailableError


class Deposed(Exception):  # noqa: N818 -- what became of the writer, not its error
    """Another leader has taken over."""


FIRST_PAUSE, LONGEST_PAUSE = 0.5, 5.0
"""Seconds between attempts: each pause is twice as long as the one before, up to the longest."""


class Attempts:
    """At one thing. Times are seconds of the monotonic clock."""

    def __init__(self, clock: ApiServerClock) -> None:
        self._clock = clock
        self._pause = 0.0
        self.since: float | None = None
        """When the first of those that failed was begun; None: the last one worked."""
        self.retry_at: float | None = None
        """When to try again; None: the last attempt worked."""

    @property
    def due(self) -> bool:
        return self.retry_at is None or self._clock.ticks() >= self.retry_at

    @property
    def lasted(self) -> float:
        """Seconds since the first of those that failed was begun; 0: the last one worked."""
        return 0.0 if self.since is None else self._clock.ticks() - self.since

    def failed(self, begun: float, longest: float = LONGEST_PAUSE) -> float:
        """One that was begun then. Returns the seconds until the next; `longest`: at most."""
        self.since = begun if self.since is None else self.since
        self._pause = min(longest, max(FIRST_PAUSE, 2 * self._pause))
        self.retry_at = self._clock.ticks() + self._pause
        return self._pause

    def worked(self) -> None:
        self._pause, self.since, self.retry_at = 0.0, None, None


LONGEST_PAUSE_UNEXPECTED = 30.0
"""Seconds between attempts after an unexpected exception."""


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
                if isinstance(error, asyncio.CancelledError) and is_cancelled():
                    raise
                pause = self._attempts.failed(begun, LONGEST_PAUSE_UNEXPECTED)
                self._log.exception("unexpected failure at a group; trying again")
                self._say(problem_of(error))
            else:
                self._attempts.worked()
                return done
            await asyncio.sleep(pause)


AT_ONCE = 4
"""Rounds that are begun on one turn of the event loop."""


class RoundPacing:
    """Paces the rounds of all groups on one event loop."""

    def __init__(self, open_: Callable[[], bool] = lambda: True) -> None:
        """`open_`: whether any round may begin; call `go_on` when that has become true."""
        self._open = open_
        self._called = False
        self._waiting: deque[asyncio.Future[None]] = deque()

    async def turn(self) -> None:
        """Wait for one's turn, in the order of asking."""
        mine = asyncio.get_running_loop().create_future()
        self._waiting.append(mine)
        self.go_on()
        await mine

    def go_on(self) -> None:
        """Begin rounds, on the next turn of the event loop."""
        if not self._called:
            self._called = True
            asyncio.get_running_loop().call_soon(self._begin_some)

    def _begin_some(self) -> None:
        self._called, left = False, AT_ONCE
        while self._waiting and left and self._open():
            one = self._waiting.popleft()
            if not one.done():  # a task that was cancelled needs no turn
                left -= 1
                one.set_result(None)
        if self._waiting and self._open():
            self.go_on()
