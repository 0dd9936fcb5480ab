"""What was fetched of partitions and not taken, and how much of that is enough."""

import time
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from operator import ge
from typing import NamedTuple, cast

from confluent_kafka import Message

from baton.queues.kafka.messages import size_of

# -- How much is fetched ahead of whoever reads. Pure.
#
# A partition of which there is enough for a while rests: it is not fetched until half of that is left. What librdkafka
# has of it by then is fetched again. So few messages are no reason where all partitions together have few; what fills a
# pod's memory always is: also with small messages, for each is 300 bytes and more there (message_size.py).

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


# -- What was fetched of one partition and not taken, in order.

_TELL_EVERY = 30.0
"""Seconds."""


class FetchedPartition:
    """From an offset on. Its fetcher sees to it that one thread at a time is here."""

    def __init__(self, offset: int, of_all: AllAhead) -> None:
        """`of_all`: of its fetcher's partitions, this one among them until `leave`."""
        self._of_all = of_all
        of_all.partitions += 1
        self.begins_at = offset
        self.messages: deque[Message] = deque()
        self.next = offset
        """The lowest offset that may come next: what librdkafka fetches again is passed over."""
        self.size = 0
        """Bytes in memory."""
        self.end: int | None = None
        """Where the log ended when nothing was left to be fetched; None: there is more since."""
        self.resting = False
        """There is enough (fetched_ahead.py): it is not assigned. It is not paused, either: what librdkafka has paused stays so
        when it is assigned again, and nobody would read a partition that comes back."""
        self.failure: str | None = None
        self.corrupt = False
        """What comes next is. It is not assigned until that was told: librdkafka would go on somewhere behind it."""
        self.told_at = -_TELL_EVERY
        """When whoever reads was told of it (monotonic)."""

    @property
    def ahead(self) -> FetchedAhead:
        return FetchedAhead(len(self.messages), self.size)

    @property
    def to_tell(self) -> bool:
        """A failure is told every now and then: the queue's other partitions are read meanwhile. Then it is fetched again from
        behind what was fetched."""
        return self.failure is not None and time.monotonic() - self.told_at >= _TELL_EVERY

    def add(self, run: Sequence[Message]) -> bool:
        """Messages without an error. False: all of them were fetched before."""
        offsets = cast("list[int]", list(map(Message.offset, run)))
        if offsets[0] < self.next or any(map(ge, offsets, offsets[1:])):
            added = False
            for message, offset in zip(run, offsets, strict=True):
                if offset >= self.next:
                    added = self.add([message])
            return added
        self.next = offsets[-1] + 1
        self.failure, self.end = None, None
        self.messages.extend(run)
        self._grow(len(run), size_of(run).in_memory)
        return True

    def ended(self, end: int) -> None:
        """Nothing is left to be fetched: there the log ends."""
        self.next, self.end, self.failure = max(self.next, end), end, None

    def take(self, count: int, most_bytes: int, before: int) -> list[Message]:
        """As many as there may be, but for those at the end that are too much, or too late: see `Fetcher.take`."""
        taken = [self.messages.popleft() for _ in range(min(count, len(self.messages)))]
        content, size = size_of(taken)
        while taken and ((content > most_bytes and len(taken) > 1) or (taken[-1].offset() or 0) >= before):
            last = size_of(taken[-1:])
            content, size = content - last.content, size - last.in_memory
            self.messages.appendleft(taken.pop())
        self._grow(-len(taken), -size)
        return taken

    def skip_to(self, offset: int) -> None:
        """What is before it was for another."""
        before: list[Message] = []
        while self.messages and (self.messages[0].offset() or 0) < offset:
            before.append(self.messages.popleft())
        self._grow(-len(before), -size_of(before).in_memory)
        self.begins_at = offset
        if self.next <= offset:
            self.next, self.end = offset, self.end if self.end == offset else None

    def leave(self) -> None:
        """Nothing is fetched for it any more."""
        self._of_all.partitions -= 1
        self._grow(-len(self.messages), -self.size)

    def _grow(self, messages: int, size: int) -> None:
        self.size += size
        self._of_all.messages += messages
        self._of_all.size += size
