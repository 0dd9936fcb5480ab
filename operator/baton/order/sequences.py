"""Numbers as spans: costs what the holes cost, not what the numbers cost."""

from bisect import bisect_right
from collections.abc import Iterator

MOST_HOLES = 1_000
"""Of a key. Where there are more, the oldest counts as found and is not filled any more."""


class Sequences:
    """Which sequences of a key there were."""

    __slots__ = ("_firsts", "_lasts", "given_up")

    def __init__(self) -> None:
        self._firsts: list[int] = []
        self._lasts: list[int] = []
        self.given_up = 0
        """Numbers in holes that were given up."""

    def add(self, number: int) -> bool:
        """Add a sequence. False: it was in the set already."""
        firsts, lasts = self._firsts, self._lasts
        if lasts and number == lasts[-1] + 1:  # as nearly all are
            lasts[-1] = number
            return True
        at = bisect_right(firsts, number) - 1
        if at >= 0 and number <= lasts[at]:
            return False
        after_one = at >= 0 and lasts[at] + 1 == number
        before_one = at + 1 < len(firsts) and firsts[at + 1] == number + 1
        if after_one and before_one:
            lasts[at] = lasts.pop(at + 1)
            firsts.pop(at + 1)
        elif after_one:
            lasts[at] = number
        elif before_one:
            firsts[at + 1] = number
        else:
            firsts.insert(at + 1, number)
            lasts.insert(at + 1, number)
            self._bound()
        return True

    def holes(self, first: int, last: int) -> Iterator[tuple[int, int]]:
        """What of this span there was not."""
        begin = first
        for low, high in zip(self._firsts, self._lasts, strict=True):
            if low > last:
                break
            if low > begin:
                yield begin, low - 1
            begin = max(begin, high + 1)
        if begin <= last:
            yield begin, last

    def highest(self, default: int) -> int:
        return self._lasts[-1] if self._lasts else default

    def _bound(self) -> None:
        if len(self._firsts) > MOST_HOLES + 1:
            self.given_up += self._firsts[1] - self._lasts[0] - 1
            self._firsts.pop(1)
            self._lasts[0] = self._lasts.pop(1)
