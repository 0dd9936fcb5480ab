"""Wait for a condition, with a limit."""

import time
from collections.abc import Callable

PATIENCE = 120.0
"""Seconds to wait for something that has to happen, enough for a busy machine."""


def wait_until(condition: Callable[[], bool], seconds: float, every: float = 0.05) -> bool:
    """Wait for the condition, and return whether it became true in time."""
    end = time.monotonic() + seconds
    while not condition():
        if time.monotonic() >= end:
            return False
        time.sleep(every)
    return True
