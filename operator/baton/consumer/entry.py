"""An entry in a consumer's hands."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from concurrent.futures import Future, InvalidStateError
from contextlib import suppress
from itertools import groupby
from operator import itemgetter
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Protocol, Self, overload

from baton.consumer.outcome import ACK, DeadLetter, Nack, Outcome, Policies, Retry, bounded, retried, seconds
from baton.model.ids import Epoch, Partition, QueueName
from baton.model.wording import counted, one_line
from baton.queues.entry import NO_HEADERS, Entry

if TYPE_CHECKING:
    from baton.consumer.partition import EntrySequence, HeldPartition


class Acknowledgement:
    """Says when the queue has taken what was acknowledged. Waiting for it is optional, and a wait that is cancelled changes
    nothing: another, or a later one, gets the answer."""

    def __init__(self) -> None:
        self._future: Future[bool] = Future()
        self._open = 0
        self._lost = False

    def wait(self, timeout: float | None = None) -> bool:
        """True: the queue has it (Kafka: as far as its one offset goes over it; behind an entry that is not finished with, this
        process knows it alone). False: it was not this consumer's any more, and comes to its next owner, marked redelivered.

        Raises TimeoutError after `timeout` seconds.
        """
        return self._future.result(timeout)

    def __await__(self) -> Generator[None, None, bool]:
        return self._told().__await__()

    async def _told(self) -> bool:
        mine: Future[bool] = Future()  # of this wait alone, for who cancels an asyncio future cancels what it wraps

        def tell(answer: Future[bool]) -> None:
            if mine.set_running_or_notify_cancel():
                mine.set_result(answer.result())

        self._future.add_done_callback(tell)
        return await asyncio.wrap_future(mine)

    # For the consumer's loop

    def expect(self, parts: int) -> None:
        """It is complete when so many parts are."""
        self._open = parts
        self._end()

    def part(self, *, taken: bool) -> None:
        self._open -= 1
        self._lost |= not taken
        self._end()

    def lost(self) -> None:
        """Some of it could not be acknowledged by this consumer."""
        self._lost = True

    def _end(self) -> None:
        if self._open <= 0:
            with suppress(InvalidStateError):  # it is known, and the first answer stands
                self._future.set_result(not self._lost)


_LONGEST_KEY = 100
"""Characters."""


class OutcomeListener(Protocol):
    """Who hears what became of entries, and knows whether they are still ours: the consumer's loop."""

    retry: Policies
    """The program's `retry=`."""

    def tell(self, outcomes: Sequence[tuple[Sequence[HeldEntry], Outcome]], receipt: Acknowledgement | None = None) -> None: ...
    def still_mine(self, holding: HeldPartition) -> bool: ...
    def time_left(self, holding: HeldPartition) -> float | None: ...


class HeldEntry(Entry):
    """What a handler gets: an entry of a partition that this consumer owns for now. `baton.consumer` exports it as `Entry`.

    ```python
    def handle(entry: Entry) -> None:
        if not entry.redelivered or not already_paid(entry.key):
            pay(json.loads(entry.value))
    ```

    Two are equal, and hash alike, by what the queue says of them, not by key and value. As a dataclass (`dataclasses.asdict`) it
    has the attributes below.

    Attributes:
        queue: The name of its PartitionedQueue.
        partition: The number of its partition.
        offset: Its place in the partition: grows along it, and is opaque.
        timestamp: When the queue took it, by the server's clock: milliseconds since 1970.
        epoch: Of the pod's grant: grows with every grant of the partition.
        redelivered: It was handed out before, perhaps to another consumer, and may have been processed.
    """

    __slots__ = (
        "alone",
        "attempt",
        "failed_by",
        "in_transaction",
        "make",
        "nth",
        "origin",
        "sequence",
        "since",
        "source",
        "times",
    )

    key: Any
    value: Any
    """Bytes, or what a deserializer made of them; None where there is none (Kafka's tombstones)."""
    headers: Mapping[str, Any]
    """Bytes; None where there is a name alone (Kafka's)."""
    origin: Entry
    """As it was read: what a handler has made of this one (`entry.value = …`) is its own, and not its next try's."""

    def __init__(
        self,
        make: Callable[[Any], Entry],
        source: Any,
        offset: str,
        key: bytes,
        value: bytes,
        sequence: EntrySequence,
        nth: int,
    ) -> None:
        """`make`, `source`: see `Entries`. `nth`: its place among what this consumer has read."""
        self.make, self.source, self.sequence, self.nth = make, source, sequence, nth
        self.offset, self.key, self.value = offset, key, value
        self.attempt = 0
        """How many attempts were made before this one, also by earlier processes and other pods: 0 at the first. A word on an
        earlier attempt says nothing of this one."""
        self.alone = False
        """It is a batch of its own."""
        self.failed_by = ""
        """Why its last try failed."""
        self.since = 0.0
        """When it was handed out, for its first attempt here (monotonic)."""
        self.times = 0
        """How often it was handed out before and not finished with (`Entries.times`), until it is begun."""
        self.in_transaction = False
        """Of the program: one is open for it, or has finished it."""

    @classmethod
    def for_test(
        cls,
        value: Any = b"",
        key: Any = b"",
        *,
        headers: Mapping[str, bytes | None] = NO_HEADERS,
        queue: str = "orders",
        partition: int = 0,
        offset: str = "0",
        attempt: int = 0,
        redelivered: bool = False,
    ) -> EntryForTest:
        """Return an entry for a unit test of a handler alone. It is this consumer's, and keeps what is said of it in `outcomes`.
        For a handler under a consumer see `baton.testing.TestQueue`.

        ```python
        entry = Entry.for_test(b"{}", key=b"customer-1")
        handle(entry)
        assert entry.outcomes == []
        ```
        """
        from baton.consumer.partition import EntrySequence, HeldPartition

        place = Partition(QueueName(queue), partition)
        read = Entry(place.queue, partition, offset, key, value, 0, Epoch(1), redelivered, headers)
        holding = HeldPartition(place, Epoch(1), _Noted())
        made = EntryForTest(lambda _: read, read, offset, key, value, EntrySequence(holding), 0)
        made.attempt = attempt
        return made

    if not TYPE_CHECKING:  # which would take any name for an attribute

        def __getattr__(self, name: str) -> object:
            """What was not looked at yet: most handlers look at keys and values only, and to copy the rest of each entry would
            take longer than all else that a consumer does with it."""
            if name == "origin":
                found = self.make(self.source)
            elif name == "headers":
                found = dict(self.origin.headers)
            elif name in Entry.__slots__:
                found = getattr(self.origin, name)
            else:
                raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")
            setattr(self, name, found)
            return found

    def again(self, attempt: int, why: str, *, alone: bool) -> Self:
        """The same for its next try."""
        read = self.origin
        made = type(self)(self.make, self.source, read.offset, read.key, read.value, self.sequence, self.nth)
        made.attempt, made.failed_by, made.alone, made.since = attempt, why, alone, self.since
        return made

    def __reduce__(self) -> tuple[object, ...]:
        """Elsewhere (`pickle`, for another process) it is an Entry: a word on it counts here only."""
        values = (self.queue, self.partition, self.offset, self.key, self.value, self.timestamp, self.epoch, self.redelivered)
        return Entry, (*values, self.headers)

    def __copy__(self) -> Self:
        made = object.__new__(type(self))
        for name in (*Entry.__slots__, *HeldEntry.__slots__):
            setattr(made, name, getattr(self, name))
        return made

    def __eq__(self, other: object) -> bool:
        return _compared(self) == _compared(other) if isinstance(other, HeldEntry) else NotImplemented

    __hash__ = Entry.__hash__

    @property
    def size(self) -> int:
        """Bytes of key, value and headers, as the queue has them."""
        read = self.origin
        headers = sum(len(name) + len(value or b"") for name, value in read.headers.items())
        return len(read.key or b"") + len(read.value or b"") + headers

    def ack(self) -> Acknowledgement:
        """Acknowledge it, in any order, from any thread. Returns at once. Await what it returns, or call `wait()` on it: True
        when the queue has it, False if the partition was lost or a retry is due. Only the first ack, nack or dead_letter
        counts."""
        return _told(self.sequence.holding.hearing, [self], ACK)

    def nack(self, delay: float | None = None, why: str = "not acknowledged by the program") -> None:
        """Hand it out again in `delay` seconds (None: by the policy of `retry=` for `Retry`, else 0.1 to 5, longer each time).
        What follows it in its partition (or key) and was not handed out yet waits. Raises TypeError or ValueError for a delay
        that is no number of seconds."""
        word = decided(self, Nack(bounded(why), seconds(delay)))
        self.sequence.hold_up()
        self.sequence.holding.hearing.tell([([self], word)])

    def dead_letter(self, why: str) -> Acknowledgement:
        """Move it to the dead letters: another try would not help. `why` is kept with it, up to 500 characters."""
        return _told(self.sequence.holding.hearing, [self], DeadLetter(bounded(why)))

    def still_mine(self) -> bool:
        """Return whether the pod owned its partition within the last 1.5 seconds. Asks the queue if its last answer is older, for
        up to three seconds; no answer counts as no. Call it before what cannot be undone."""
        return self.sequence.holding.hearing.still_mine(self.sequence.holding)

    def time_left(self) -> float | None:
        """Return the seconds until its partition is taken away or the process ends; None if neither is due, or unknown. In an
        event loop it does not wait for the queue's answer, and is None until that comes."""
        return self.sequence.holding.hearing.time_left(self.sequence.holding)


class EntryForTest(HeldEntry):
    """What `HeldEntry.for_test` returns."""

    __slots__ = ()

    @property
    def outcomes(self) -> Sequence[Outcome]:
        """What was said of it by `ack`, `nack` and `dead_letter`."""
        noted = self.sequence.holding.hearing
        assert isinstance(noted, _Noted)
        return noted.outcomes


class _Noted:
    """Hears what is said of an entry that no consumer has."""

    retry: Policies = MappingProxyType({})

    def __init__(self) -> None:
        self.outcomes: list[Outcome] = []

    def tell(self, outcomes: Sequence[tuple[Sequence[HeldEntry], Outcome]], receipt: Acknowledgement | None = None) -> None:
        self.outcomes += [outcome for _, outcome in outcomes]
        if receipt is not None:
            receipt.expect(0)

    def still_mine(self, holding: HeldPartition) -> bool:
        return True

    def time_left(self, holding: HeldPartition) -> float | None:
        return None


def decided(entry: HeldEntry, word: Nack | DeadLetter, kind: type[Exception] = Retry) -> Nack | DeadLetter:
    """What comes of an attempt at it that failed, by the program's policy for this kind of exception."""
    return retried(word, entry.sequence.holding.hearing.retry, kind, entry.attempt) if isinstance(word, Nack) else word


def _told(hearing: OutcomeListener, entries: Sequence[HeldEntry], outcome: Outcome) -> Acknowledgement:
    receipt = Acknowledgement()
    hearing.tell([(entries, outcome)], receipt)
    return receipt


def shown_key(entry: HeldEntry) -> str:
    """The key as the queue has it, for a line of the log."""
    return one_line(repr(entry.origin.key), _LONGEST_KEY)


def _compared(entry: Entry) -> tuple[object, ...]:
    place = (entry.queue, entry.partition, entry.offset)
    return (*place, entry.timestamp, entry.epoch, entry.redelivered, entry.headers)


class Batch(Sequence[HeldEntry]):
    """A sequence of entries of one or several partitions; those of one partition are in order.

    ```python
    for batch in consumer.batches():
        for partition, entries in batch.by_partition().items():
            store(partition, [entry.value for entry in entries])
        batch.ack()
    ```
    """

    def __init__(self, entries: Sequence[HeldEntry], hearing: OutcomeListener) -> None:
        self._entries = entries
        self._hearing = hearing

    @overload
    def __getitem__(self, index: int) -> HeldEntry: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[HeldEntry]: ...
    def __getitem__(self, index: int | slice) -> HeldEntry | Sequence[HeldEntry]:
        return self._entries[index]

    def __len__(self) -> int:
        return len(self._entries)

    def __iter__(self) -> Iterator[HeldEntry]:
        return iter(self._entries)

    def __repr__(self) -> str:
        return f"Batch({counted(len(self), 'entry', 'entries')} of {counted(len(self.by_partition()), 'partition')})"

    def by_partition(self) -> dict[Partition, list[HeldEntry]]:
        """Return the entries by (queue, number), those of each partition in order."""
        found: dict[Partition, list[HeldEntry]] = {}
        for entry in self._entries:
            found.setdefault(entry.sequence.holding.partition, []).append(entry)
        return found

    def ack(self) -> Acknowledgement:
        """Acknowledge all of it, in any order, from any thread, but for entries with an earlier `entry.nack` or
        `entry.dead_letter`. Returns at once; `await batch.ack()`, or `batch.ack().wait()`, is True when the queue has it."""
        return _told(self._hearing, self._entries, ACK)

    def nack(self, delay: float | None = None, why: str = "not acknowledged by the program") -> None:
        """Hand all of it out again, as `entry.nack` does for one."""
        word = Nack(bounded(why), seconds(delay))
        words = [(entry, decided(entry, word)) for entry in self._entries]
        self._hearing.tell([([entry for entry, _ in run], one) for one, run in groupby(words, itemgetter(1))])

    def dead_letter(self, why: str) -> Acknowledgement:
        """Move all of it to the dead letters."""
        return _told(self._hearing, self._entries, DeadLetter(bounded(why)))
