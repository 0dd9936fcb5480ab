"""Partitions given out in turn, by slices instead of one by one."""

from collections.abc import Iterable, Mapping, Sequence
from typing import TypeVar

Taker = TypeVar("Taker")


def in_rounds(wants: Mapping[Taker, int]) -> Iterable[tuple[Taker, slice]]:
    """Each round gives one to every taker, in this order, until each has as many as it wants (at least 1). Yields takers
    with slices of what is given out.

    A slice covers all rounds in which the same takers take part, so a taker may come up several times.
    """
    first = done = 0
    takers: Sequence[Taker] = list(wants)
    for rounds in sorted(set(wants.values())):
        takers = [taker for taker in takers if wants[taker] > done]
        last = first + len(takers) * (rounds - done)
        for place, taker in enumerate(takers, first):
            yield taker, slice(place, last, len(takers))
        first, done = last, rounds
