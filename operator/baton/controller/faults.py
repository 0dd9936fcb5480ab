"""A switch for tests: the operator ends (or stops) itself right before or right after something that it does to the world.

The environment variable BATON_FAULT is `SIGNAL:WHEN:EFFECT#N`, as in `KILL:after:ledger-write#3` or `STOP:before:grant#1`: the
operator sends itself that signal the N-th time that it gets there. Without the variable nothing is armed and nothing is counted.
"""

import os
import re
import signal
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass

import structlog

VARIABLE = "BATON_FAULT"

EFFECTS = ("finalizer", "claim", "ensure", "ledger-write", "pause", "grant", "bump", "scale", "status-write", "release")
"""All that the operator changes outside its process, but for events and its Lease. `claim`: of the ledger, by a new leader;
`ensure`, `release`: of a queue."""

log = structlog.get_logger("baton.faults")


class BadFault(ValueError):  # noqa: N818 -- what is wrong, for the user
    """The text is no fault. The message says what one looks like."""


@dataclass(slots=True)
class Fault:
    """What is armed."""

    signal: signal.Signals
    place: tuple[str, str]
    """before or after, and the effect."""
    left: int
    """How often the process still gets there."""

    def reached(self, when: str, effect: str) -> None:
        """The process is there now."""
        if self.place == (when, effect):
            self.left -= 1
            if self.left == 0:
                os.kill(os.getpid(), self.signal)


_OFF: AbstractContextManager[None] = nullcontext()
_armed: Fault | None = None


def arm(environment: Mapping[str, str] = os.environ) -> None:
    """Once, at the start. Raises BadFault."""
    global _armed
    text = environment.get(VARIABLE) or None
    _armed = None if text is None else parse(text)
    if _armed is not None:
        log.warning(f"{VARIABLE} is set: this operator ends or stops itself, for a test", fault=text)


def parse(text: str) -> Fault:
    """Raises BadFault."""
    found = re.fullmatch(r"(KILL|STOP):(before|after):([a-z-]+)#([1-9][0-9]*)", text)
    if found is None or found[3] not in EFFECTS:
        raise BadFault(
            f"{VARIABLE}={text!r} is no fault: unset it, or write KILL or STOP, before or after, one of {', '.join(EFFECTS)}, "
            "and which time, as in KILL:after:grant#2"
        )
    return Fault(signal.Signals[f"SIG{found[1]}"], (found[2], found[3]), int(found[4]))


def boundary(effect: str) -> AbstractContextManager[None]:
    """`with boundary("grant"):` around what does it; one of EFFECTS. What fails has no "after"."""
    return _OFF if _armed is None else _around(_armed, effect)


@contextmanager
def _around(fault: Fault, effect: str) -> Iterator[None]:
    fault.reached("before", effect)
    yield
    fault.reached("after", effect)
