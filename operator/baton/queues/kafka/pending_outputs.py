"""What an owner is to send of entries that are finished, and is not committed yet. Pure."""

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from baton.queues.output import MOST_IN_TRANSACTION, Output


class _Together(NamedTuple):
    """Of entries that are finished together."""

    last: int
    """Offset of the last of them."""
    outputs: Sequence[Output]
    weight: int
    """Of its outputs."""


class PendingOutputs:
    """Of one partition, by the offsets of their entries. One thread adds, and another may ask."""

    def __init__(self) -> None:
        self._by_first: dict[int, _Together] = {}
        self._several: dict[int, int] = {}
        """Of more than one entry: the offsets of the first and the last."""
        self.weight = 0
        """Of all (Output.weight)."""

    def __len__(self) -> int:
        return len(self._by_first)

    def add(self, offsets: Sequence[int], outputs: Sequence[Output]) -> None:
        """Of entries at these offsets, in order, before any of them is said to be finished."""
        weight = sum(output.weight for output in outputs)
        self._by_first[offsets[0]] = _Together(offsets[-1], tuple(outputs), weight)
        if len(offsets) > 1:
            self._several[offsets[0]] = offsets[-1]
        self.weight += weight

    def reached(self, offset: int) -> int:
        """How far a commit may go where all before `offset` is finished: not in between entries that are finished together, nor
        over more than one transaction may send."""
        offset = self.whole(offset)
        if self.weight <= MOST_IN_TRANSACTION:
            return offset
        reached, weight = None, 0
        for together in sorted((one for _, one in self._before(offset)), key=lambda one: one.last):
            weight += together.weight
            if weight > MOST_IN_TRANSACTION and reached is not None:
                return reached
            if self.whole(together.last + 1) == together.last + 1:
                reached = together.last + 1
        return offset

    def whole(self, offset: int) -> int:
        """The last place up to there that is not in between entries that are finished together."""
        cut = True
        while cut:
            cut = False
            for first, last in list(self._several.items()):
                if first < offset <= last:
                    offset, cut = first, True
        return offset

    def due(self, offset: int) -> list[Output]:
        """What belongs to a commit of this offset: in the order in which the entries were finished."""
        return [output for _, together in self._before(offset) for output in together.outputs]

    def committed(self, offset: int) -> None:
        """The brokers have it."""
        for first, together in self._before(offset):
            self.weight -= together.weight
            del self._by_first[first]
            self._several.pop(first, None)

    def _before(self, offset: int) -> Iterable[tuple[int, _Together]]:
        return [(first, together) for first, together in list(self._by_first.items()) if together.last < offset]
