"""Attempts at something that a group cannot go on without: since when they fail, and when to try again."""

from baton.kube.clock import ApiServerClock

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
