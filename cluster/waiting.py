"""Waiting until something is true of processes and servers, with a bound."""

import time
from collections.abc import Callable

PATIENCE = 120.0
"""Seconds for what must come. Past it something is wrong; a busy machine is only slow."""


def wait_until(condition: Callable[[], bool], seconds: float, every: float = 0.05) -> bool:
    """Whether the condition came true within this time."""
    end = time.monotonic() + seconds
    while not condition():
        if time.monotonic() >= end:
            return False
        time.sleep(every)
    return True
