"""Signals that ask a process to end."""

import logging
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

log = logging.getLogger(__name__)


@dataclass(slots=True, eq=False)
class _Running:
    stop: Callable[[], None]
    leave: Callable[[], None]
    interrupted: bool = False


_running: list[_Running] = []
"""All that run in the main thread, one within the other: a signal is for each of them."""


@contextmanager
def ending(stop: Callable[[], None], leave: Callable[[], None]) -> Iterator[None]:
    """SIGTERM asks to `stop`. The first SIGINT (Ctrl-C) asks to `leave`, the second raises KeyboardInterrupt at once. Python
    gives signals to the main thread, and could not put back a handler that is not Python's: then a warning says that the program
    has to call `Consumer.stop()`."""
    one = _Running(stop, leave)
    ours: dict[int, Any] = {signal.SIGTERM: _terminate, signal.SIGINT: _interrupt}
    off_main = threading.current_thread() is not threading.main_thread()
    heard = {} if off_main else {number: ours[number] for number in ours if signal.getsignal(number) is not None}
    if signal.SIGTERM not in heard:
        where = "runs off the main thread" if off_main else "runs in a program with a SIGTERM handler that is not Python's"
        log.warning("the consumer %s, so it hears no SIGTERM: have the program call Consumer.stop() when it is to end", where)
    if off_main:
        yield
        return
    _running.append(one)
    before = {number: signal.signal(number, handler) for number, handler in heard.items()}
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
