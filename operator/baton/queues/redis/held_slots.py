"""Slots of a queue that moved to another partition: their entries wait for the new table."""

from collections import deque
from collections.abc import Collection, Iterator
from math import inf

from baton.queues.redis.outgoing import Waiting
from baton.queues.redis.retry_pause import RetryPause, pause_after


class HeldSlots:
    """Of one outbox. Its entries of other slots go on meanwhile."""

    def __init__(self) -> None:
        self.entries: dict[int, deque[Waiting]] = {}
        """By slot: entries that the partition refused, and those that came after them."""
        self.pauses: dict[int, RetryPause] = {}
        """By slot, until one of its entries is added: a slot that is refused again has a longer pause."""

    def hold(self, slots: Collection[int], now: float, why: str) -> None:
        """Begin a pause for these."""
        for slot in slots:
            self.pauses[slot] = pause_after(self.pauses.get(slot), now, why)
            self.entries[slot] = deque()

    def added(self, slot: int | None) -> None:
        """The queue took an entry of this slot."""
        self.pauses.pop(slot or 0, None)

    def released(self, now: float) -> Iterator[tuple[int, deque[Waiting]]]:
        """The slots whose pause is over, each with its entries. They are held no longer."""
        for slot in [slot for slot in self.entries if self.pauses[slot].until <= now]:
            entries = self.entries.pop(slot)
            if entries:
                yield slot, entries
            else:
                del self.pauses[slot]

    @property
    def until(self) -> float:
        """When the next pause is over; inf: nothing is held."""
        return min((self.pauses[slot].until for slot in self.entries), default=inf)
