"""How long a producer waits before it tries again."""

from typing import NamedTuple

_FIRST_PAUSE, _LONGEST_PAUSE = 0.02, 1.0


class RetryPause(NamedTuple):
    """After a try that failed."""

    until: float
    pause: float
    why: str


def pause_after(rest: RetryPause | None, now: float, why: str) -> RetryPause:
    """Twice as long as the last one."""
    pause = _FIRST_PAUSE if rest is None else min(2 * rest.pause, _LONGEST_PAUSE)
    return RetryPause(now + pause, pause, why)
