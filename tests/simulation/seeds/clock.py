"""Virtual time: what happens next, in order of time, then of asking for it."""

import heapq
from collections.abc import Callable
from itertools import count


class InvariantError(AssertionError):
    """Something happened that must never happen."""


class Clock:
    def __init__(self) -> None:
        self.now = 0.0
        self._due: list[tuple[float, int, Callable[[], None]]] = []
        self._numbers = count()

    def later(self, seconds: float, do: Callable[[], None]) -> None:
        self.at(self.now + seconds, do)

    def at(self, when: float, do: Callable[[], None]) -> None:
        heapq.heappush(self._due, (max(round(when, 6), self.now), next(self._numbers), do))

    def run(self, until: float) -> None:
        due = self._due
        while due and due[0][0] <= until:
            self.now, _, do = heapq.heappop(due)
            do()
        self.now = until
