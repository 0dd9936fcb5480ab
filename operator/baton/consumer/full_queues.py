"""Queues that hand out no more to this pod: its program has maxDeliveredUnacked entries and acknowledges none."""

import logging
import time
from math import inf

from baton.consumer.held_partitions import HeldPartitions
from baton.model.ids import QueueName
from baton.model.wording import counted

log = logging.getLogger(__name__)

_LOOK_EVERY = 1.0
"""Seconds."""
_FULL_FOR = 5.0
"""Seconds at the limit after which the log says it: a program that acknowledges may be there for moments."""


class FullQueues:
    """Warns of each once. Used by the thread of the consumer's loop only."""

    def __init__(self, holdings: HeldPartitions) -> None:
        self._holdings = holdings
        self._looked_at = -inf
        self._full_since: dict[QueueName, float] = {}

    def look(self) -> None:
        """Warn of each queue that is at its limit for a while, and name its oldest entry."""
        now = time.monotonic()
        if now < self._looked_at + _LOOK_EVERY:
            return
        self._looked_at = now
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
