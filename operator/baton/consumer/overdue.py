"""What a program has in hand for too long: handlers that do not return, and entries that keep a pod at maxDeliveredUnacked."""

import logging
import time
from collections.abc import Collection, Sequence
from math import inf

from baton.consumer.delivery import Delivery
from baton.consumer.held_entry import HeldEntry
from baton.consumer.held_partitions import HeldPartitions
from baton.model.ids import QueueName
from baton.model.wording import counted, one_line

log = logging.getLogger(__name__)

LOOK_EVERY = 1.0
"""Seconds."""
_FULL_FOR = 5.0
"""Seconds at the limit after which the log says it: a program that acknowledges may be there for moments."""
_LONGEST_KEY = 100


class Overdue:
    """Warns of both. Used by the thread of the consumer's loop only."""

    def __init__(self, holdings: HeldPartitions, out: Collection[Delivery]) -> None:
        """`out`: what workers have in their hands."""
        self.warn_after = 60.0
        """Seconds that a handler may take."""
        self._holdings = holdings
        self._out = out
        self._looked_at = -inf
        self._full_since: dict[QueueName, float] = {}

    @property
    def next(self) -> float:
        """When to look again, while workers have something (monotonic)."""
        return self._looked_at + LOOK_EVERY if self._out else inf

    def look(self) -> None:
        """Warn of a handler that takes too long, again whenever its time has doubled, and once of each queue at its limit."""
        now = time.monotonic()
        if now < self._looked_at + LOOK_EVERY:
            return
        self._looked_at = now
        for delivery in self._out:
            since, at = delivery.at_since, delivery.at
            if at and now - since >= self.warn_after * 2**delivery.warnings:
                log.warning("the handler has not returned from %s", _told(at, now - since))
                delivery.warnings += 1
        self._look_at_limits(now)

    def tell_end(self) -> None:
        """Time is up: name what handlers have not returned from."""
        now = time.monotonic()
        for delivery in self._out:
            since, at = delivery.at_since, delivery.at
            if at:
                log.error("time is up, and a handler has not returned: its next owner gets %s", _told(at, now - since))

    def _look_at_limits(self, now: float) -> None:
        for queue, is_full in self._holdings.limits():
            if not is_full():
                self._full_since.pop(queue, None)
            elif now - self._full_since.setdefault(queue, now) >= _FULL_FOR:
                self._full_since[queue] = inf  # once
                held = [one for holding in self._holdings if holding.partition.queue == queue for one in holding.with_program]
                oldest = min(held, key=lambda entry: entry.since, default=None)
                if oldest is not None:
                    log.warning(
                        "queue %s hands out no more to this pod (maxDeliveredUnacked): %s not acknowledged, the oldest %s/%d "
                        "entry %s, which its program has had for %.0f s",
                        *(queue, counted(len(held), "entry is", "entries are")),
                        *(*oldest.sequence.holding.partition, oldest.offset, now - oldest.since),
                    )


def _told(at: Sequence[HeldEntry], seconds: float) -> str:
    """What a handler works on."""
    first, others = at[0], f" and {len(at) - 1} more" if len(at) > 1 else ""
    queue, number = first.sequence.holding.partition
    key = one_line(repr(first.origin.key), _LONGEST_KEY)
    return f"{queue}/{number} entry {first.offset}{others} (key {key}, attempt {first.attempt + 1}) after {seconds:.0f} s"
