"""Signals that ask a process to end."""

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any


@dataclass(slots=True, eq=False)
class _Running:
    stop: Callable[[], None]
    leave: Callable[[], None]
    interrupted: bool = False


_running: list[_Running] = []
"""All that run in the main thread, one within the other: a signal is for each of them."""


@contextmanager
def ending(stop: Callable[[], None], leave: Callable[[], None]) -> Iterator[None]:
    """SIGTERM asks to `stop`. The first SIGINT (Ctrl-C) asks to `leave`, the second raises KeyboardInterrupt at once. Elsewhere
    than in the main thread they are the program's own business; so is one that has a handler which is not Python's, for Python
    could not put it back."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    one = _Running(stop, leave)
    _running.append(one)
    ours: dict[int, Any] = {signal.SIGTERM: _terminate, signal.SIGINT: _interrupt}
    before = {number: signal.signal(number, one) for number, one in ours.items() if signal.getsignal(number) is not None}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
        _running.remove(one)


def _terminate(*_: object) -> None:
    for one in reversed(_running):
        one.stop()


def _interrupt(*_: object) -> None:
    if _running[-1].interrupted:
        raise KeyboardInterrupt
    for one in reversed(_running):
        one.interrupted = True
        one.leave()
