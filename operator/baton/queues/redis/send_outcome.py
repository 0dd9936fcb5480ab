"""What became of an entry that a producer sent without waiting for it."""

import logging
from collections.abc import Callable, Iterable
from inspect import CO_COROUTINE, iscoroutinefunction
from types import MethodType
from typing import Any, Self

from baton.model.options import function
from baton.model.wording import counted
from baton.queues.protocol import QueueUnreachable
from baton.queues.redis.outgoing import Failed, SendListener, Sent, Waiting

log = logging.getLogger(__name__)

_MOST = 1000
"""Failures that are kept until somebody looks at them; of more only their number."""


class SendOutcome(SendListener):
    """What deliveries of threads and of tasks have in common."""

    def __init__(self, unseen: "UnseenFailures", on_delivery: "Callable[[Any], object] | None") -> None:
        self.entry: Waiting
        self.seen = False
        self._unseen = unseen
        self._callbacks: list[Callable[[Any], object]] = []
        if on_delivery is not None:
            _see_takes_a_delivery("on_delivery", on_delivery)
            self._callbacks.append(on_delivery)

    def done(self) -> bool:
        """Whether it is known: `result` answers at once."""
        return self.entry.outcome is not None

    def add_done_callback(self, callback: Callable[[Self], object]) -> None:
        """It is called with this when the outcome is known, also where it is by now. What it raises is logged. Raises TypeError
        for what cannot be called so."""
        _see_takes_a_delivery("callback", callback)
        self._callbacks.append(callback)
        if self.done():
            self._call_back()

    def settled(self) -> None:
        """Also where it was called before: nothing is done twice."""
        if self._callbacks:
            self._call_back()
        if not self.seen and isinstance(self.entry.outcome, Failed):
            self._unseen.add(self)

    def _call_back(self) -> None:
        """Each of them once, though several threads do this."""
        self.seen = True
        while self._callbacks:
            try:
                callback = self._callbacks.pop(0)
            except IndexError:
                return
            try:
                callback(self)
            except Exception:
                log.exception("a callback for an entry that was sent has failed")

    def known(self) -> Sent:
        """Of one that is done."""
        self.seen = True
        assert self.entry.outcome is not None
        return sent(self.entry.outcome)


class UnseenFailures:
    """Entries that may not be in the queue, and of which nobody knows yet."""

    def __init__(self) -> None:
        self._failed: dict[SendOutcome, None] = {}
        self._more = 0

    def add(self, outcome: SendOutcome) -> None:
        if len(self._failed) >= _MOST:
            self._failed = {each: None for each in self._failed if not each.seen}
        if len(self._failed) < _MOST:
            self._failed[outcome] = None
        else:
            self._more += 1

    def report(self) -> str | None:
        """A sentence about them, once; None where there are none."""
        failed, self._failed = self._failed, {}
        found = [each for each in failed if not each.seen]
        count, self._more = len(found) + self._more, 0
        if not count:
            return None
        first = found[0].entry.outcome if found else None
        why = f" The first: {first.why}" if isinstance(first, Failed) else ""
        return f"{counted(count, 'entry', 'entries')} of produce() may not be in the queue, and nobody looked.{why}"


def _see_takes_a_delivery(name: str, value: Any) -> None:
    """Raises TypeError. Mostly it is a function of one argument, and nothing needs to be asked that takes longer than a send."""
    code = getattr(value, "__code__", None)
    arguments = 2 if isinstance(value, MethodType) else 1
    if code is None or code.co_argcount != arguments or code.co_kwonlyargcount or code.co_flags & CO_COROUTINE:
        function(name, value, "delivery")
        if iscoroutinefunction(value):
            raise TypeError(f"{name} is {value!r}, which is called and not awaited: give a plain function")


def sent(outcome: Sent | Failed) -> Sent:
    """Raises what it failed with."""
    if isinstance(outcome, Sent):
        return outcome
    raise outcome.error(outcome.why)


def all_sent(entries: Iterable[Waiting]) -> list[Sent]:
    """Raises QueueUnreachable, with how many may not have been sent."""
    found: list[Sent] = []
    failed: list[Failed] = []
    for entry in entries:
        if isinstance(entry.outcome, Sent):
            found.append(entry.outcome)
        elif entry.outcome is not None:
            failed.append(entry.outcome)
    if not failed:
        return found
    first = failed[0]
    if first.error is not QueueUnreachable:
        raise first.error(first.why)
    raise QueueUnreachable(f"{first.why} {counted(len(failed), 'entry', 'entries')} may not have been sent.")
