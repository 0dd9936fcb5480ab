"""How much is fetched ahead of whoever reads. Pure.

A partition of which there is enough for a while rests: it is not fetched until half of that is left. What librdkafka has of it by
then is fetched again. So few messages are no reason where all partitions together have few; what fills a pod's memory always is.
"""

from collections.abc import Collection
from typing import NamedTuple

_MESSAGES = 2_000
"""Of a partition that are enough,"""
_MESSAGES_OF_ALL = 40_000
"""where all partitions together have so many;"""
_BYTES = 32_000_000
"""or bytes of a partition;"""
_BYTES_OF_ALL = 64_000_000
"""or its share of so many, where all partitions together have them."""


class FetchedAhead(NamedTuple):
    """What is fetched of a partition, and not taken."""

    messages: int
    size: int
    """Bytes of keys and values."""


def rests(one: FetchedAhead, of_all: Collection[FetchedAhead]) -> bool:
    """There is enough of it. `of_all`: what there is of each partition, with this one's."""
    messages, size = _sums(of_all)
    if size >= _BYTES_OF_ALL and one.size >= _BYTES_OF_ALL / len(of_all):
        return True
    return one.size >= _BYTES or (one.messages >= _MESSAGES and messages >= _MESSAGES_OF_ALL)


def goes_on(one: FetchedAhead, of_all: Collection[FetchedAhead]) -> bool:
    """It has rested, and there is little of it."""
    _, size = _sums(of_all)
    few = one.messages < _MESSAGES / 2 and one.size < _BYTES / 2
    return few and (size < _BYTES_OF_ALL / 2 or one.size < _BYTES_OF_ALL / 2 / len(of_all))


def _sums(of_all: Collection[FetchedAhead]) -> FetchedAhead:
    return FetchedAhead(sum(one.messages for one in of_all), sum(one.size for one in of_all))
