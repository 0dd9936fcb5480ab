"""Signals that ask a process to end."""

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any


@contextmanager
def ending(stop: Callable[[], None], leave: Callable[[], None]) -> Iterator[None]:
    """SIGTERM asks to `stop`. The first SIGINT (Ctrl-C) asks to `leave`, the second raises KeyboardInterrupt at once. Elsewhere
    than in the main thread they are the program's own business."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    interrupted = False

    def interrupt(*_: object) -> None:
        nonlocal interrupted
        if interrupted:
            raise KeyboardInterrupt
        interrupted = True
        leave()

    before: dict[int, Any] = {
        signal.SIGTERM: signal.signal(signal.SIGTERM, lambda *_: stop()),
        signal.SIGINT: signal.signal(signal.SIGINT, interrupt),
    }
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
