"""Signals that ask a process to end."""

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any


@contextmanager
def ending(stop: Callable[[], None]) -> Iterator[None]:
    """SIGTERM and SIGINT ask to stop; elsewhere than in the main thread they are the program's own business."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before: dict[int, Any] = {number: signal.signal(number, lambda *_: stop()) for number in (signal.SIGTERM, signal.SIGINT)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
