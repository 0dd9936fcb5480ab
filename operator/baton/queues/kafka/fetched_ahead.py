"""How much is fetched ahead of whoever reads. Pure.

A partition of which there is enough for a while rests: it is not fetched until half of that is left. What librdkafka has of it by
then is fetched again. So few messages are no reason where all partitions together have few; what fills a pod's memory always is:
also with small messages, for each is 300 bytes and more there (message_size.py).
"""

from dataclasses import dataclass
from typing import NamedTuple

_MESSAGES = 2_000
"""Of a partition that are enough,"""
_MESSAGES_OF_ALL = 40_000
"""where all partitions together have so many;"""
_BYTES = 32_000_000
"""or bytes of a partition;"""
_BYTES_OF_ALL = 64_000_000
"""or its share of so many, where all partitions together have them."""
_AT_ONCE = 5_000
"""Messages of a poll: for each, whoever fetches waits for Python's lock, which whoever handles messages has."""
_LEAST_AT_ONCE = 100_000
"""Bytes of a poll where all partitions together have enough: librdkafka has fetched more than that, and would once more."""
_MESSAGES_EXPECTED, _BYTES_EXPECTED = 2_000, 1_000_000
"""Of a partition that nobody reads yet."""


class FetchedAhead(NamedTuple):
    """What is fetched of a partition, and not taken."""

    messages: int
    size: int
    """Bytes in memory."""


@dataclass(slots=True)
class AllAhead:
    """The same of all partitions together. It is kept as they change: a pod may have thousands of them."""

    partitions: int = 0
    messages: int = 0
    size: int = 0

    @property
    def some_may_rest(self) -> bool:
        """Unless this is so, none does."""
        return self.messages >= _MESSAGES_OF_ALL or self.size >= _BYTES


def rests(one: FetchedAhead, of_all: AllAhead) -> bool:
    """There is enough of it. `of_all`: with this one's."""
    if of_all.size >= _BYTES_OF_ALL and one.size >= _BYTES_OF_ALL / of_all.partitions:
        return True
    return one.size >= _BYTES or (one.messages >= _MESSAGES and of_all.messages >= _MESSAGES_OF_ALL)


def at_once(of_all: AllAhead) -> int:
    """How many messages a poll takes. All of them may be of one partition of which there is nothing yet, and the next poll's of
    another: so where there is enough, they are no more than a partition's share."""
    if of_all.size < _BYTES_OF_ALL:
        return _AT_ONCE
    share = max(_BYTES_OF_ALL / of_all.partitions, _LEAST_AT_ONCE)
    return max(1, min(_AT_ONCE, int(share * of_all.messages / of_all.size)))


def rests_until_read(one: FetchedAhead) -> bool:
    """There is enough of it, though it is to be read in a moment only."""
    return one.messages >= _MESSAGES_EXPECTED or one.size >= _BYTES_EXPECTED


def goes_on(one: FetchedAhead, of_all: AllAhead) -> bool:
    """It has rested, and there is little of it."""
    few = one.messages < _MESSAGES / 2 and one.size < _BYTES / 2
    return few and (of_all.size < _BYTES_OF_ALL / 2 or one.size < _BYTES_OF_ALL / 2 / of_all.partitions)
