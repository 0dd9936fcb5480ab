"""What runs here and not in a process that is forked from this one: threads stay behind."""

import os
from typing import Protocol
from weakref import WeakSet


class Forked(Protocol):
    """An object with a thread, which a forked process does not have."""

    def left_behind(self) -> None:
        """Called in the new process."""


_running: WeakSet[Forked] = WeakSet()


def follow(one: Forked) -> None:
    """From now on it hears of forks."""
    _running.add(one)


def refusal(what: str) -> RuntimeError:
    """The error that a forked process gets when it uses `what`."""
    return RuntimeError(f"this {what} runs in the process that this one was forked from: read and acknowledge there")


def _forked() -> None:
    for one in list(_running):
        one.left_behind()


os.register_at_fork(after_in_child=_forked)
