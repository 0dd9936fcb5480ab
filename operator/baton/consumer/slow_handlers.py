"""Handlers that do not return."""

import logging
import time
from collections.abc import Collection, Sequence
from math import inf

from baton.consumer.delivery import Delivery
from baton.consumer.held_entry import HeldEntry, shown_key

log = logging.getLogger(__name__)

_LOOK_EVERY = 1.0
"""Seconds."""


class SlowHandlers:
    """Warns of them. Used by the thread of the consumer's loop only."""

    def __init__(self, out: Collection[Delivery]) -> None:
        """`out`: what workers have in their hands."""
        self.warn_after = 60.0
        """Seconds that a handler may take."""
        self._out = out
        self._looked_at = -inf

    @property
    def next(self) -> float:
        """When to look again, while workers have something (monotonic)."""
        return self._looked_at + _LOOK_EVERY if self._out else inf

    def look(self) -> None:
        """Warn of a handler that takes too long, again whenever its time has doubled."""
        now = time.monotonic()
        if now < self._looked_at + _LOOK_EVERY:
            return
        self._looked_at = now
        for delivery in self._out:
            since, at = delivery.at_since, delivery.at
            if at and now - since >= self.warn_after * 2**delivery.warnings:
                log.warning("the handler has not returned from %s", _told(at, now - since))
                delivery.warnings += 1

    def tell_end(self) -> None:
        """Time is up: name what handlers have not returned from."""
        now = time.monotonic()
        for delivery in self._out:
            since, at = delivery.at_since, delivery.at
            if at:
                log.error("time is up, and a handler has not returned: its next owner gets %s", _told(at, now - since))


def _told(at: Sequence[HeldEntry], seconds: float) -> str:
    """What a handler works on."""
    first, others = at[0], f" and {len(at) - 1} more" if len(at) > 1 else ""
    queue, number = first.sequence.holding.partition
    key = shown_key(first)
    return f"{queue}/{number} entry {first.offset}{others} (key {key}, attempt {first.attempt + 1}) after {seconds:.0f} s"
