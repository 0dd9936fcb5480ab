"""Entries and batches as a handler gets them."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from concurrent.futures import Future, InvalidStateError
from contextlib import suppress
from itertools import groupby
from operator import itemgetter
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Protocol, Self, overload

from baton.consumer.outcome import ACK, DeadLetter, Nack, Outcome, Policies, Retry, apply_policy, bounded, seconds
from baton.model.ids import Epoch, Partition, QueueName
from baton.model.wording import counted, one_line
from baton.queues.entry import NO_HEADERS, Entry

if TYPE_CHECKING:
    from baton.consumer.partition import EntrySequence, HeldPartition


class Acknowledgement:
    """The result of an acknowledgement. Waiting for it is optional. Cancelling a wait changes nothing: other waits still get the
    result."""

    def __init__(self) -> None:
        self._future: Future[bool] = Future()
        self._open = 0
        self._lost = False

    def wait(self, timeout: float | None = None) -> bool:
        """Return True when the queue has the acknowledgement (on Kafka it is stored only when all earlier entries of the
        partition are finished too; until then only this process knows it). Return False if the entries no longer belonged to this
        consumer; the next owner gets them, marked redelivered.

        Raises TimeoutError after `timeout` seconds.
        """
        return self._future.result(timeout)

    def __await__(self) -> Generator[None, None, bool]:
        return self._result().__await__()

    async def _result(self) -> bool:
        mine: Future[bool] = Future()  # for this wait alone: cancelling an asyncio future cancels the future that it wraps

        def set_result(known: Future[bool]) -> None:
            if mine.set_running_or_notify_cancel():
                mine.set_result(known.result())

        self._future.add_done_callback(set_result)
        return await asyncio.wrap_future(mine)

    # For the consumer's loop

    def expect(self, parts: int) -> None:
        """Complete after this number of calls of `part`, one for each partition."""
        self._open = parts
        self._end()

    def part(self, *, taken: bool) -> None:
        self._open -= 1
        self._lost |= not taken
        self._end()

    def lost(self) -> None:
        """Record that some entries could not be acknowledged."""
        self._lost = True

    def _end(self) -> None:
        if self._open <= 0:
            with suppress(InvalidStateError):  # the first result counts
                self._future.set_result(not self._lost)


_LONGEST_KEY = 100
"""Characters."""


class OutcomeListener(Protocol):
    """Takes the outcomes of entries, and knows whether their partitions are still owned: the consumer's loop."""

    retry: Policies
    """The program's `retry=`."""

    def tell(self, outcomes: Sequence[tuple[Sequence[HeldEntry], Outcome]], receipt: Acknowledgement | None = None) -> None: ...
    def still_mine(self, holding: HeldPartition) -> bool: ...
    def time_left(self, holding: HeldPartition) -> float | None: ...


class HeldEntry(Entry):
    """An entry as a handler gets it, from a partition that this consumer owns. `baton.consumer` exports it as `Entry`.

    ```python
    def handle(entry: Entry) -> None:
        if not entry.redelivered or not already_paid(entry.key):
            pay(json.loads(entry.value))
    ```

    Equality and hash ignore key and value, which a deserializer may change. `dataclasses.asdict` returns the attributes below.

    Attributes:
        queue: The name of the PartitionedQueue.
        partition: The number of the partition.
        offset: The entry's position in the partition. An opaque text; later entries have greater offsets.
        timestamp: When the queue stored the entry, by the server's clock, in milliseconds since 1970.
        epoch: The epoch of the pod's grant. It grows with every grant of the partition.
        redelivered: Whether the entry was handed out before, perhaps to another consumer, and may have been processed.
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
    """Bytes, or the result of a deserializer; None if the message has no value (Kafka's tombstones)."""
    headers: Mapping[str, Any]
    """Bytes by name; None for a header without a value (Kafka)."""
    origin: Entry
    """The entry as read: the next attempt starts from it, whatever the handler assigned (`entry.value = …`)."""

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
        """`make`, `source`: see `Entries`. `nth`: position among all entries that this consumer has read."""
        self.make, self.source, self.sequence, self.nth = make, source, sequence, nth
        self.offset, self.key, self.value = offset, key, value
        self.attempt = 0
        """Number of attempts before this one, including those of earlier processes and other pods: 0 at the first. Outcomes of an
        earlier attempt do not count for this one."""
        self.alone = False
        """Whether it must be a batch by itself."""
        self.failed_by = ""
        """Error of the last attempt."""
        self.since = 0.0
        """When it was handed out for the first attempt in this process (monotonic)."""
        self.times = 0
        """How often earlier processes were handed it without finishing it (`Entries.times`); 0 once it begins here."""
        self.in_transaction = False
        """Whether a transaction of the program is open for it, or has finished it."""

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
        """Return an entry for a unit test of a handler without a consumer. Its `outcomes` records ack, nack and dead_letter. To
        test a handler with a consumer, see `baton.testing.TestQueue`.

        ```python
        entry = Entry.for_test(b"{}", key=b"customer-1")
        handle(entry)
        assert entry.outcomes == []
        ```
        """
        from baton.consumer.partition import EntrySequence, HeldPartition

        place = Partition(QueueName(queue), partition)
        read = Entry(place.queue, partition, offset, key, value, 0, Epoch(1), redelivered, headers)
        holding = HeldPartition(place, Epoch(1), _RecordedOutcomes())
        made = EntryForTest(lambda _: read, read, offset, key, value, EntrySequence(holding), 0)
        made.attempt = attempt
        return made

    if not TYPE_CHECKING:  # a type checker would accept any attribute

        def __getattr__(self, name: str) -> object:
            """Fill in the attributes of the source on first use. Most handlers use keys and values only, and copying the others
            for each entry would take longer than all other work of the consumer on it."""
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
        """Return a copy for the next attempt."""
        read = self.origin
        made = type(self)(self.make, self.source, read.offset, read.key, read.value, self.sequence, self.nth)
        made.attempt, made.failed_by, made.alone, made.since = attempt, why, alone, self.since
        return made

    def __reduce__(self) -> tuple[object, ...]:
        """Pickle as a plain Entry: it can be acknowledged in this process only."""
        values = (self.queue, self.partition, self.offset, self.key, self.value, self.timestamp, self.epoch, self.redelivered)
        return Entry, (*values, self.headers)

    def __copy__(self) -> Self:
        made = object.__new__(type(self))
        for name in (*Entry.__slots__, *HeldEntry.__slots__):
            setattr(made, name, getattr(self, name))
        return made

    def __eq__(self, other: object) -> bool:
        return _identity(self) == _identity(other) if isinstance(other, HeldEntry) else NotImplemented

    __hash__ = Entry.__hash__

    @property
    def size(self) -> int:
        """Bytes of key, value and headers as stored in the queue."""
        read = self.origin
        headers = sum(len(name) + len(value or b"") for name, value in read.headers.items())
        return len(read.key or b"") + len(read.value or b"") + headers

    def ack(self) -> Acknowledgement:
        """Acknowledge the entry, in any order, from any thread. Returns at once. Await the result, or call `wait()` on it, to
        learn whether the queue has it: False if the partition was lost or a retry is due. Only the first ack, nack or dead_letter
        counts, and only for the current attempt."""
        return _tell(self.sequence.holding.listener, [self], ACK)

    def nack(self, delay: float | None = None, why: str = "not acknowledged by the program") -> None:
        """Retry the entry in `delay` seconds (None: by the policy of `retry=` for `Retry`, else 0.1 to 5, longer each time).
        Later entries of its partition (or key) that were not handed out yet wait for it. Raises TypeError or ValueError for an
        invalid delay."""
        outcome = by_policy(self, Nack(bounded(why), seconds(delay)))
        self.sequence.hold_up()
        self.sequence.holding.listener.tell([([self], outcome)])

    def dead_letter(self, why: str) -> Acknowledgement:
        """Move the entry to the dead letters, without another attempt. `why` is stored with it, up to 500 characters."""
        return _tell(self.sequence.holding.listener, [self], DeadLetter(bounded(why)))

    def still_mine(self) -> bool:
        """Return whether the pod owned the partition within the last 1.5 seconds. Call it before work that cannot be undone. It
        asks the queue if the last answer is older, and returns False if the queue does not answer within three seconds."""
        return self.sequence.holding.listener.still_mine(self.sequence.holding)

    def time_left(self) -> float | None:
        """Return the seconds until the partition is taken away or the process ends; None if neither is due, or unknown. In an
        event loop it does not wait for the queue's answer, and returns None until it comes."""
        return self.sequence.holding.listener.time_left(self.sequence.holding)


class EntryForTest(HeldEntry):
    """An entry made by `Entry.for_test`."""

    __slots__ = ()

    @property
    def outcomes(self) -> Sequence[Outcome]:
        """The outcomes set by `ack`, `nack` and `dead_letter`, in order."""
        recorded = self.sequence.holding.listener
        assert isinstance(recorded, _RecordedOutcomes)
        return recorded.outcomes


class _RecordedOutcomes:
    """The OutcomeListener of an entry that was made for a test."""

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


def by_policy(entry: HeldEntry, outcome: Nack | DeadLetter, kind: type[Exception] = Retry) -> Nack | DeadLetter:
    """Return the outcome of a failed attempt under the program's retry policy for this kind of exception."""
    if isinstance(outcome, DeadLetter):
        return outcome
    return apply_policy(outcome, entry.sequence.holding.listener.retry, kind, entry.attempt)


def _tell(listener: OutcomeListener, entries: Sequence[HeldEntry], outcome: Outcome) -> Acknowledgement:
    receipt = Acknowledgement()
    listener.tell([(entries, outcome)], receipt)
    return receipt


def shown_key(entry: HeldEntry) -> str:
    """Return the key as stored in the queue, for a log line."""
    return one_line(repr(entry.origin.key), _LONGEST_KEY)


def _identity(entry: Entry) -> tuple[object, ...]:
    place = (entry.queue, entry.partition, entry.offset)
    return (*place, entry.timestamp, entry.epoch, entry.redelivered, entry.headers)


class Batch(Sequence[HeldEntry]):
    """A sequence of entries of one or several partitions. Entries of each partition are in order.

    ```python
    for batch in consumer.batches():
        for partition, entries in batch.by_partition().items():
            store(partition, [entry.value for entry in entries])
        batch.ack()
    ```
    """

    def __init__(self, entries: Sequence[HeldEntry], listener: OutcomeListener) -> None:
        self._entries = entries
        self._listener = listener

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
        """Return the entries by (queue, number), in order within each partition."""
        found: dict[Partition, list[HeldEntry]] = {}
        for entry in self._entries:
            found.setdefault(entry.sequence.holding.partition, []).append(entry)
        return found

    def ack(self) -> Acknowledgement:
        """Acknowledge all entries except those with an earlier `entry.nack` or `entry.dead_letter`, in any order, from any
        thread. Returns at once; `await batch.ack()` or `batch.ack().wait()` is True when the queue has the acknowledgement."""
        return _tell(self._listener, self._entries, ACK)

    def nack(self, delay: float | None = None, why: str = "not acknowledged by the program") -> None:
        """Retry all entries, as `entry.nack` does for one."""
        failed = Nack(bounded(why), seconds(delay))
        outcomes = [(entry, by_policy(entry, failed)) for entry in self._entries]
        self._listener.tell([([entry for entry, _ in run], one) for one, run in groupby(outcomes, itemgetter(1))])

    def dead_letter(self, why: str) -> Acknowledgement:
        """Move all entries to the dead letters."""
        return _tell(self._listener, self._entries, DeadLetter(bounded(why)))
