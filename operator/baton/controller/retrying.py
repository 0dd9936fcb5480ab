"""Retry the work of a group until it succeeds, reporting failures on the group only; and pace the rounds of all groups."""

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable

import structlog

from baton.controller.problems import PASSING, Problem, Stuck, may_pass, problem_of
from baton.controller.supervision import is_cancelled
from baton.kube.clock import ApiServerClock
from baton.kube.errors import ApiError, UnavailableError

log = structlog.get_logger("baton.group")


class Deposed(Exception):  # noqa: N818 -- the writer's situation, not its error
    """Another leader has taken over."""


FIRST_PAUSE, LONGEST_PAUSE = 0.5, 5.0
"""Seconds between attempts: each pause is twice as long as the one before, up to the longest."""


class Attempts:
    """Attempts at one thing, with growing pauses. Times are seconds of the monotonic clock."""

    def __init__(self, clock: ApiServerClock) -> None:
        self._clock = clock
        self._pause = 0.0
        self.since: float | None = None
        """When the first failed attempt since the last success began; None: the last attempt worked."""
        self.retry_at: float | None = None
        """When to try again; None: the last attempt worked."""

    @property
    def due(self) -> bool:
        return self.retry_at is None or self._clock.ticks() >= self.retry_at

    @property
    def lasted(self) -> float:
        """Seconds since `since`; 0: the last attempt worked."""
        return 0.0 if self.since is None else self._clock.ticks() - self.since

    def failed(self, begun: float, longest: float = LONGEST_PAUSE) -> float:
        """Record the failure of an attempt that began at `begun`. Returns the seconds until the next, `longest` at most."""
        self.since = begun if self.since is None else self.since
        self._pause = min(longest, max(FIRST_PAUSE, 2 * self._pause))
        self.retry_at = self._clock.ticks() + self._pause
        return self._pause

    def worked(self) -> None:
        self._pause, self.since, self.retry_at = 0.0, None, None


LONGEST_PAUSE_UNEXPECTED = 30.0
"""Seconds between attempts after an unexpected exception."""


class Retrying:
    """Retries the work of one group's loop."""

    def __init__(self, clock: ApiServerClock, say: Callable[[Problem], None]) -> None:
        """`say` is called with the problem to report on the group, but not while a failure is likely to pass soon."""
        self._clock = clock
        self._say = say
        self._attempts = Attempts(clock)

    @property
    def failing(self) -> bool:
        return self._attempts.since is not None

    async def until_it_works(self, work: Callable[[], Awaitable[bool]]) -> bool:
        """Run `work` until it does not fail, and return its result. Raises Deposed."""
        while True:
            begun = self._clock.ticks()
            try:
                done = await work()
            except Deposed:
                raise
            except (Stuck, ApiError, UnavailableError) as error:
                pause = self._attempts.failed(begun)
                log.warning("the group cannot go on; trying again", error=str(error))
                if not may_pass(error) or self._attempts.lasted >= PASSING:
                    self._say(problem_of(error))
            except (Exception, asyncio.CancelledError) as error:
                if isinstance(error, asyncio.CancelledError) and is_cancelled():
                    raise
                pause = self._attempts.failed(begun, LONGEST_PAUSE_UNEXPECTED)
                log.exception("unexpected failure at a group; trying again")
                self._say(problem_of(error))
            else:
                self._attempts.worked()
                return done
            await asyncio.sleep(pause)


AT_ONCE = 4
"""Rounds to start in one iteration of the event loop."""


class RoundPacing:
    """Paces the rounds of all groups on one event loop."""

    def __init__(self, open_: Callable[[], bool] = lambda: True) -> None:
        """`open_`: whether rounds may start; call `go_on` when this becomes true."""
        self._open = open_
        self._called = False
        self._waiting: deque[asyncio.Future[None]] = deque()

    async def turn(self) -> None:
        """Wait for a turn, in order of arrival."""
        mine = asyncio.get_running_loop().create_future()
        self._waiting.append(mine)
        self.go_on()
        await mine

    def go_on(self) -> None:
        """Start waiting rounds in the next iteration of the event loop."""
        if not self._called:
            self._called = True
            asyncio.get_running_loop().call_soon(self._begin_some)

    def _begin_some(self) -> None:
        self._called, left = False, AT_ONCE
        while self._waiting and left and self._open():
            one = self._waiting.popleft()
            if not one.done():  # not cancelled
                left -= 1
                one.set_result(None)
        if self._waiting and self._open():
            self.go_on()
