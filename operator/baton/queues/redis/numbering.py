"""The numbers of a producer's entries, by which the queue takes each of them once."""

from baton.queues.redis.outgoing import Waiting
from baton.queues.redis.routing import SLOTS


class Numbering:
    """Of one producer. Where it is interrupted, a number may be left out, and none is given twice."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._last = [0] * SLOTS
        self._any = 0

    def number(self, entry: Waiting, slot: int) -> None:
        """The next one of its slot."""
        self._last[slot] += 1
        entry.producer = self._name
        entry.sequence = self._last[slot]

    def any_slot(self) -> int:
        """For an entry without a key: each slot in turn."""
        self._any = (self._any + 1) % SLOTS
        return self._any
