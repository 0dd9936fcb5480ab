"""How long a producer waits before it tries again."""

from typing import NamedTuple

_FIRST_PAUSE, _LONGEST_PAUSE = 0.02, 1.0


class Rest(NamedTuple):
    """After a try that failed."""

    until: float
    pause: float
    why: str


def rest_after(rest: Rest | None, now: float, why: str) -> Rest:
    """Twice as long as the last one."""
    pause = _FIRST_PAUSE if rest is None else min(2 * rest.pause, _LONGEST_PAUSE)
    return Rest(now + pause, pause, why)
