"""An in-memory queue to test programs with a real consumer, without a server, a cluster or waiting.

    with TestQueue(partitions=4) as queue:
        queue.start(handle, order="key", concurrency=8)
        queue.send(b"customer-1", b"order 1")
        queue.settled()
        assert [entry.value for entry in queue.acked] == [b"order 1"]

With `async with` its methods are coroutines: `await queue.settled()`.
"""

import asyncio
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from itertools import count
from math import inf
from typing import TYPE_CHECKING, NamedTuple, Self, TypeVar, Unpack

from baton.consumer.callbacks import Callbacks, Partitions
from baton.consumer.consumer import Consumer
from baton.consumer.handler import UserHandler
from baton.consumer.handler_options import Deserializer, Deserializers, HandlerOptions
from baton.consumer.partition import Notice
from baton.consumer.turns import Turns
from baton.model.ids import Epoch, MemberId, QueueName, Uid
from baton.model.ledger import MemberEntry
from baton.queues.entry import NO_HEADERS, Entries, Entry
from baton.queues.fence import StaleOwner
from baton.queues.protocol import Ownership, QueueUnreachable
from baton.queues.redis.routing import RoutingTable

if TYPE_CHECKING:
    from baton.consumer.metrics import ConsumerMetrics

__all__ = ["AsyncTestQueue", "SetAside", "TestQueue"]

POD = Uid("pod-of-the-test")
_LOOK_EVERY = 0.02
"""Seconds."""
_AT_WORK_FOR = 0.2
"""Seconds after which a method that waits for callbacks does not expect a running handler to return."""

Answer = TypeVar("Answer")


class SetAside(NamedTuple):
    """A dead letter of a TestQueue: the entry and the reason.

    ```python
    assert [letter.why for letter in queue.dead_letters] == ["no such order"]
    ```
    """

    entry: Entry
    why: str


class TestQueue:
    """One queue and one member that owns all its partitions. Any thread may call its methods.

    ```python
    def test_an_order_is_paid():
        with TestQueue(partitions=4) as queue:
            queue.start(handle, concurrency=8)
            queue.send("customer-1", b"order 1")
            queue.settled()
            assert len(queue.acked) == 1
    ```

    Keys are distributed over partitions as on Redis. `settled` does not wait for the delay of a retry, but skips it.
    """

    __test__ = False

    def __init__(
        self,
        partitions: int = 1,
        *,
        name: str = "orders",
        max_redeliveries: int = 0,
        timeout: float = 10.0,
        reader: "type[InMemoryReader] | None" = None,
    ) -> None:
        """Create a queue with its member.

        Args:
            max_redeliveries: As in the PartitionedQueue; 0: no limit.
            timeout: Maximum seconds that a method waits, and that handlers get at the end.
            reader: A subclass of InMemoryReader that answers differently.

        Raises:
            ValueError: If Redis does not support this number of partitions.
        """
        self.acked: list[Entry] = []
        """Acknowledged entries in order of acknowledgement, as `send` returned them."""
        self.dead_letters: list[SetAside] = []
        self.moved = 0.0
        """Total of skipped seconds of retry delays."""
        self._routing = RoutingTable.even(1, partitions)
        self._queue = (reader or InMemoryReader)(QueueName(name), partitions, max_redeliveries, self.acked, self.dead_letters)
        self._ledger = InMemoryAssignments(self._queue)
        self._timeout = timeout
        self._consumer: Consumer | None = None
        self._thread: threading.Thread | None = None
        self._task: asyncio.Task[None] | None = None
        self._at_work = False
        """Whether the handler that `start` started is running."""
        self._failure: BaseException | None = None
        self._next = count()

    def consumer(
        self,
        *,
        on_assigned: Callable[[Partitions], object] | None = None,
        on_revoked: Callable[[Partitions, float | None], object] | None = None,
        on_lost: Callable[[Partitions], object] | None = None,
        key_deserializer: Deserializer | None = None,
        value_deserializer: Deserializer | None = None,
        metrics: "ConsumerMetrics | None" = None,
    ) -> Consumer:
        """Return the member's consumer, for a program that runs it itself. The arguments are those of
        `Consumer.from_environment`. Signals do not end it. Raises RuntimeError the second time."""
        if self._consumer is not None:
            raise RuntimeError("this queue has a consumer already: make another TestQueue for another member")
        self._consumer = Consumer(
            lambda name: self._queue,
            self._ledger,
            POD,
            grace=self._timeout,
            callbacks=Callbacks(on_assigned, on_revoked, on_lost),
            deserializers=Deserializers(key_deserializer, value_deserializer),
            metrics=metrics,
            signals=False,
        )
        return self._consumer

    def start(self, handler: UserHandler, *, consumer: Consumer | None = None, **options: Unpack[HandlerOptions]) -> None:
        """Run `handler` in the background until the end of the `with` block, with the options of `Consumer.run`. `consumer`: the
        result of `consumer(…)`, if it needs callbacks or deserializers."""
        running = consumer or self.consumer()

        def run() -> None:
            try:
                running.run(handler, **options)
            except BaseException as failure:
                self._failure = failure
            finally:
                self._at_work = False

        self._at_work = True
        self._thread = threading.Thread(target=run, name="baton-test", daemon=True)
        self._thread.start()

    def send(
        self,
        key: bytes | str | None,
        value: bytes | str,
        *,
        headers: Mapping[str, bytes | None] = NO_HEADERS,
        partition: int | None = None,
    ) -> Entry:
        """Append an entry to the partition of its key, or to `partition`; without either, partitions take turns. Return the entry
        as it will appear in `acked`. Raises ValueError for an unknown partition, TypeError unless key and value are bytes or
        str."""
        bare = b"" if key is None else _bytes(key, "key")
        if partition is None:
            partition = self._routing.partition_of(bare) if bare else next(self._next) % len(self._queue.epochs)
        self._queue.check_partition(partition)
        return self._queue.append(partition, bare, _bytes(value, "value"), headers)

    def settled(self) -> None:
        """Wait until all entries of the member's partitions are acknowledged or dead letters, and callbacks have returned. When
        all entries left wait for a retry, the delay is skipped (see `moved`). Raises TimeoutError that names the entries left, or
        the exception that ended the program."""
        until = time.monotonic() + self._timeout
        while left := self._queue.left():
            self._raise_failure()
            if time.monotonic() >= until:
                cure = "call `start` first" if self._consumer is None else "see the consumer's log"
                raise TimeoutError(f"not finished after {self._timeout:g} s: {', '.join(left)}; {cure}")
            self._move(None)
            with self._queue.changed:
                self._queue.changed.wait(_LOOK_EVERY)
        self._until_up_to_date()
        self._raise_failure()

    def advance(self, seconds: float) -> None:
        """Make pending retries come earlier by these seconds; not needed for `settled`."""
        self._move(seconds)

    def hand_over(self, partition: int) -> None:
        """Hand the partition off to another member: entries in hand are finished, and `on_revoked` is called. Raises TimeoutError
        if the consumer does not release it, and ValueError if the member does not own it."""
        self._ledger.check_owned(partition)
        self._until_up_to_date()
        self._ledger.call_back(partition)
        grant = partition, self._queue.epochs[partition]
        self._until(lambda: grant in self._queue.released, f"partition {partition} is released")
        self._ledger.take(partition)
        self._until_up_to_date()

    def lose(self, partition: int) -> None:
        """Give the partition to another member at once, as after a missed deadline: the queue rejects this member from now on,
        `entry.still_mine()` is False, and `on_lost` is called when the handler has returned. Raises ValueError if the member does
        not own it."""
        self._ledger.check_owned(partition)
        self._until_up_to_date()
        self._ledger.take(partition)
        self._until_up_to_date()

    def grant(self, partition: int) -> None:
        """Grant a partition to the member again: `on_assigned` is called, and unfinished entries come again, marked redelivered.
        Raises ValueError if the member owns it."""
        self._ledger.give(partition)
        self._until_up_to_date()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        """Release everything as on SIGTERM. Raises the exception that ended the program, or TimeoutError if a handler hangs."""
        self._stop()
        if self._thread is not None:
            self._thread.join(self._timeout + 1)
        self._check_end(kind, hangs=self._thread is not None and self._thread.is_alive())

    async def __aenter__(self) -> "AsyncTestQueue":
        return AsyncTestQueue(self)

    async def __aexit__(self, kind: type[BaseException] | None, *_: object) -> None:
        self._stop()
        if self._task is not None:
            await asyncio.wait({self._task}, timeout=self._timeout + 1)
        self._check_end(kind, hangs=self._task is not None and self._task.cancel())

    async def _serve(self, consumer: Consumer, handler: UserHandler, options: HandlerOptions) -> None:
        try:
            async with consumer:
                await consumer.serve(handler, **options)
        except BaseException as failure:
            self._failure = failure

    def _ended(self, _: object) -> None:
        self._at_work = False

    def _stop(self) -> None:
        if self._consumer is not None:
            self._consumer.stop()
            self._ledger.call_back(*self._ledger.owned)

    def _check_end(self, kind: type[BaseException] | None, *, hangs: bool) -> None:
        if kind is None:
            self._raise_failure()
            if hangs:
                raise TimeoutError(f"a handler has not returned within {self._timeout:g} s of the end of the test")

    def _raise_failure(self) -> None:
        if (failure := self._failure) is not None:
            self._failure = None
            raise failure

    @property
    def _runs(self) -> bool:
        return self._at_work or (self._consumer is not None and self._consumer.running)

    def _move(self, seconds: float | None) -> None:
        self.moved += self._ask(lambda turns: _moved(turns, seconds), 0.0)

    def _ask(self, question: Callable[[Turns], Answer], otherwise: Answer) -> Answer:
        return otherwise if self._consumer is None else self._consumer.ask(question, otherwise)

    def _until_up_to_date(self) -> None:
        """Wait until the consumer has followed its ledger, and callbacks have returned."""
        self._until(lambda: self._ask(lambda turns: _up_to_date(turns, self._ledger.grants), False), "callbacks have returned")

    def _until(self, condition: Callable[[], bool], what: str) -> None:
        until = time.monotonic() + self._timeout
        while self._runs and not condition():
            if time.monotonic() >= until:
                raise TimeoutError(f"not after {self._timeout:g} s: {what}")
            with self._queue.changed:
                self._queue.changed.wait(_LOOK_EVERY)


class AsyncTestQueue:
    """A TestQueue in `async with`: methods that wait are coroutines, and the handler runs in the test's event loop.

    ```python
    async def test_an_order_is_paid():
        async with TestQueue() as queue:
            queue.start(handle, concurrency=50)
            queue.send("customer-1", b"order 1")
            await queue.settled()
    ```
    """

    __test__ = False

    def __init__(self, queue: TestQueue) -> None:
        self._queue = queue
        self.consumer, self.send, self.advance = queue.consumer, queue.send, queue.advance
        self.acked, self.dead_letters = queue.acked, queue.dead_letters

    @property
    def moved(self) -> float:
        """Total of skipped seconds of retry delays."""
        return self._queue.moved

    def start(self, handler: UserHandler, *, consumer: Consumer | None = None, **options: Unpack[HandlerOptions]) -> None:
        """Do the same as `TestQueue.start`, with the options of `Consumer.serve`."""
        queue = self._queue
        queue._at_work = True
        queue._task = asyncio.create_task(queue._serve(consumer or self.consumer(), handler, options))
        queue._task.add_done_callback(queue._ended)

    async def settled(self) -> None:
        """Do the same as `TestQueue.settled`."""
        await asyncio.to_thread(self._queue.settled)

    async def hand_over(self, partition: int) -> None:
        """Do the same as `TestQueue.hand_over`."""
        await asyncio.to_thread(self._queue.hand_over, partition)

    async def lose(self, partition: int) -> None:
        """Do the same as `TestQueue.lose`."""
        await asyncio.to_thread(self._queue.lose, partition)

    async def grant(self, partition: int) -> None:
        """Do the same as `TestQueue.grant`."""
        await asyncio.to_thread(self._queue.grant, partition)


class _Sent:
    """An entry of the queue, the epoch at which it was last handed out (0: never), and the number of earlier attempts."""

    __slots__ = ("entry", "epoch", "tries")

    def __init__(self, entry: Entry) -> None:
        self.entry, self.epoch, self.tries = entry, Epoch(0), 0


class InMemoryReader:
    """The in-memory queue, as a Reader (`baton.queues.consumer_side`)."""

    def __init__(
        self, name: QueueName, partitions: int, max_redeliveries: int, acked: list[Entry], dead_letters: list[SetAside]
    ) -> None:
        self.name = name
        self.changed = threading.Condition()
        self.epochs = dict.fromkeys(range(partitions), Epoch(1))
        """Epoch of the current owner, by partition."""
        self.lost: set[int] = set()
        """Partitions that another member owns."""
        self.released: set[tuple[int, Epoch]] = set()
        self._most, self._acked, self._dead = max_redeliveries, acked, dead_letters
        self._unfinished: dict[int, dict[str, _Sent]] = {number: {} for number in range(partitions)}
        self._offsets = count()
        self._asked_at = 0.0
        self._waits_for: frozenset[int] = frozenset()
        self._woken: Callable[[], None] = lambda: None

    def check_partition(self, partition: int) -> None:
        """Raises ValueError for an unknown partition."""
        if partition not in self.epochs:
            raise ValueError(f"partition is {partition}: this queue has 0 to {len(self.epochs) - 1}")

    def append(self, partition: int, key: bytes, value: bytes, headers: Mapping[str, bytes | None]) -> Entry:
        now = int(time.time() * 1000)
        with self.changed:
            offset = str(next(self._offsets))
            entry = Entry(self.name, partition, offset, key, value, now, Epoch(1), False, headers)
            self._unfinished[partition][offset] = _Sent(entry)
            self._wake()
        return entry

    def left(self) -> list[str]:
        """Describe the unfinished entries of the member's partitions."""
        with self.changed:
            return [
                f"{self.name}/{number} entry {offset}" + (f" (tried {sent.tries + 1} times)" if sent.tries else "")
                for number, entries in self._unfinished.items()
                if number not in self.lost
                for offset, sent in entries.items()
            ]

    def read(
        self, partition: int, epoch: Epoch, count: int = 100, *, most_bytes: float = inf, new: bool = True
    ) -> Sequence[Entry]:
        with self._asked(partition, epoch):
            found = [sent for sent in self._unfinished[partition].values() if sent.epoch != epoch and (new or sent.epoch)]
            read: list[Entry] = []
            attempts: dict[str, int] = {}
            for sent in found[:count]:
                most_bytes -= len(sent.entry.key) + len(sent.entry.value)
                if read and most_bytes < 0:
                    break
                read.append(replace(sent.entry, epoch=epoch, redelivered=sent.epoch > 0))
                if sent.epoch:
                    attempts[sent.entry.offset] = sent.tries = sent.tries + 1
                sent.epoch = epoch
            entries = Entries(read)
            entries.attempts = attempts
            return entries

    def ack(self, partition: int, epoch: Epoch, offsets: Sequence[str], *, soon: bool = False) -> None:
        with self._asked(partition, epoch):
            self._acked += [sent.entry for offset in offsets if (sent := self._unfinished[partition].pop(offset, None))]

    def retry(self, partition: int, epoch: Epoch, offset: str, why: str) -> bool:
        with self._asked(partition, epoch):
            sent = self._unfinished[partition][offset]
            sent.tries += 1
            if not self._most or sent.tries <= self._most:
                return True
        self.set_aside(partition, epoch, offset, why)
        return False

    def set_aside(self, partition: int, epoch: Epoch, offset: str, why: str) -> None:
        with self._asked(partition, epoch):
            self._dead.append(SetAside(self._unfinished[partition].pop(offset).entry, why))

    def release(self, partitions: Mapping[int, Epoch], within: float, *, give_up: bool = False) -> Mapping[int, QueueUnreachable]:
        with self.changed:
            self.released |= set(partitions.items())
            self.changed.notify_all()
        return {}

    def verify(self, partition: int, epoch: Epoch) -> None:
        with self._asked(partition, epoch):
            pass

    def sure_at(self, partition: int) -> float:
        return self._asked_at

    def ready(self, partition: int, epoch: Epoch) -> bool:
        with self.changed:
            return any(sent.epoch != epoch for sent in self._unfinished[partition].values())

    def wait_for(self, partitions: frozenset[int], woken: Callable[[], None]) -> None:
        with self.changed:
            self._waits_for, self._woken = partitions, woken
            self._wake()

    def close(self) -> None: ...

    def _wake(self) -> None:
        """Call `woken` once if a partition that is waited for has entries to read."""
        if any(self.ready(partition, self.epochs[partition]) for partition in self._waits_for):
            self._waits_for = frozenset()
            self._woken()

    @contextmanager
    def _asked(self, partition: int, epoch: Epoch) -> Iterator[None]:
        """Reject a stale owner, and notify waiting methods of the change."""
        with self.changed:
            if partition in self.lost or epoch != self.epochs[partition]:
                raise StaleOwner(partition, POD, epoch, Ownership(Uid("another-pod"), self.epochs[partition]))
            self._asked_at = time.monotonic()
            yield
            self.changed.notify_all()


class InMemoryAssignments:
    """The member's Assignments (`baton.consumer.assignments`)."""

    def __init__(self, queue: InMemoryReader) -> None:
        self.owned = frozenset(queue.epochs)
        self._queue, self._revoking = queue, frozenset[int]()
        self._changed: Callable[[], None] = lambda: None
        self._say()

    def current(self) -> MemberEntry:
        return self._entry

    def watch(self, changed: Callable[[], None]) -> None:
        self._changed = changed

    def close(self) -> None: ...

    @property
    def grants(self) -> Mapping[int, Epoch]:
        """All partitions that the ledger names, with their epochs."""
        return {partition: self._queue.epochs[partition] for partition in self.owned | self._revoking}

    def check_owned(self, *partitions: int) -> None:
        for partition in partitions:
            self._queue.check_partition(partition)
            if partition not in self.owned | self._revoking:
                raise ValueError(f"partition {partition}: the member does not have it; grant({partition}) gives it back")

    def call_back(self, *partitions: int) -> None:
        self.check_owned(*partitions)
        self.owned, self._revoking = self.owned - {*partitions}, self._revoking | {*partitions}
        self._say()

    def take(self, partition: int) -> None:
        """Give the partition to another member."""
        self.check_owned(partition)
        self._next_epoch(partition)
        self._queue.lost.add(partition)
        self.owned, self._revoking = self.owned - {partition}, self._revoking - {partition}
        self._say()

    def give(self, partition: int) -> None:
        self._queue.check_partition(partition)
        if partition not in self._queue.lost:
            raise ValueError(f"partition {partition}: the member has it already")
        self._next_epoch(partition)
        self._queue.lost.remove(partition)
        self.owned |= {partition}
        self._say()

    def _next_epoch(self, partition: int) -> None:
        with self._queue.changed:
            self._queue.epochs[partition] = Epoch(self._queue.epochs[partition] + 1)

    def _say(self) -> None:
        epochs = self._queue.epochs
        grants = [{self._queue.name: {number: epochs[number] for number in some}} for some in (self.owned, self._revoking)]
        self._entry = MemberEntry("test/group", MemberId("pod"), POD, 1, True, *grants)
        self._changed()


def _bytes(text: bytes | str, what: str) -> bytes:
    """Convert as the producers do."""
    if isinstance(text, bytes):
        return text
    if isinstance(text, str):
        return text.encode()
    raise TypeError(f"a {what} is bytes or str, not {type(text).__name__}")


def _up_to_date(turns: Turns, grants: Mapping[int, Epoch]) -> bool:
    """Return whether the consumer knows its partitions and its callbacks have returned, or cannot be called yet: all workers have
    been busy for a while, or the program takes batches and is not waiting for one."""
    dispatcher = turns.dispatcher
    if {one.partition.number: one.epoch for one in turns.holdings} != grants or dispatcher.calling is not None:
        return False
    called = not dispatcher.calls and all(one.over or one.notice in (Notice.ASSIGNED, Notice.REVOKED) for one in turns.holdings)
    if called or dispatcher.wants:
        return called
    before = time.monotonic() - _AT_WORK_FOR
    busy = [delivery for delivery in dispatcher.out if delivery.current and delivery.current_since < before]
    return dispatcher.shared or len(busy) == dispatcher.workers


def _moved(turns: Turns, seconds: float | None) -> float:
    """Make retries due earlier by `seconds`; None: until the first is due, if nothing else is going on. Return the seconds."""
    now = time.monotonic()
    sequences = [sequence for holding in turns.holdings for sequence in holding.sequences.values()]
    due = [sequence.due for sequence in sequences if sequence.failed and sequence.due > now]
    if not due:
        return 0.0
    if seconds is None:
        if any(sequence.busy or sequence.kept or sequence.ready(now) for sequence in sequences):
            return 0.0
        seconds = min(due) - now
    for sequence in sequences:
        sequence.bring_forward(seconds)
    return seconds
