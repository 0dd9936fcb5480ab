"""A queue in memory for tests of a program: real consumers read it, without a server, a cluster or a second of waiting.

    with TestQueue(partitions=4) as queue:
        queue.start(handle, order="key", concurrency=8)
        queue.send(b"customer-1", b"order 1")
        queue.settled()
        assert [entry.value for entry in queue.acked] == [b"order 1"]

`async with` gives the same for coroutines: `await queue.settled()`.
"""

import asyncio
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
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
"""Seconds after which a handler is not expected to return while a method waits for callbacks."""

Answer = TypeVar("Answer")


class SetAside(NamedTuple):
    """A dead letter of a TestQueue: the entry, and why it died.

    ```python
    assert [letter.why for letter in queue.dead_letters] == ["no such order"]
    ```
    """

    entry: Entry
    why: str


class TestQueue:
    """One queue and one member that owns all its partitions. Every method may be called from any thread.

    ```python
    def test_an_order_is_paid():
        with TestQueue(partitions=4) as queue:
            queue.start(handle, concurrency=8)
            queue.send("customer-1", b"order 1")
            queue.settled()
            assert len(queue.acked) == 1
    ```

    Keys go to partitions as on Redis. Time is the test's: `settled` does not wait for the delay of a retry but moves it up.
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
        """`max_redeliveries`: as in the PartitionedQueue; 0 for no limit. `timeout`: seconds that any method waits, and
        that handlers get at the end. `reader`: the queue itself, where it is to answer otherwise than InMemoryReader. Raises
        ValueError for a number of partitions that Redis could not have."""
        self.acked: list[Entry] = []
        """What was acknowledged, in this order: the entries that `send` returned."""
        self.dead_letters: list[SetAside] = []
        self.moved = 0.0
        """Seconds by which retries came earlier, in all."""
        self._routing = RoutingTable.even(1, partitions)
        self._queue = (reader or InMemoryReader)(QueueName(name), partitions, max_redeliveries, self.acked, self.dead_letters)
        self._ledger = InMemoryAssignments(self._queue)
        self._timeout = timeout
        self._consumer: Consumer | None = None
        self._thread: threading.Thread | None = None
        self._task: asyncio.Task[None] | None = None
        self._at_work = False
        """From `start` to the end of what it started."""
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
        `Consumer.from_environment`. It hears no signals. Raises RuntimeError the second time."""
        if self._consumer is not None:
            raise RuntimeError("this queue has its consumer: one test is one member; for another make another TestQueue")
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
        """Run `handler` in the background until the end of the `with`, with the options of `Consumer.run`. `consumer`: what
        `consumer(…)` returned, where it has callbacks or deserializers."""
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
        """Append an entry to the partition of its key, or to `partition`; without a key they take turns. Return it as it will
        stand in `acked`. Raises ValueError for a partition that there is not, TypeError for what is neither bytes nor str."""
        bare = b"" if key is None else _bytes(key, "key")
        if partition is None:
            partition = self._routing.partition_of(bare) if bare else next(self._next) % len(self._queue.epochs)
        self._queue.see(partition)
        return self._queue.append(partition, bare, _bytes(value, "value"), headers)

    def settled(self) -> None:
        """Wait until every entry of the member's partitions is acknowledged or a dead letter, and callbacks have returned. Where
        all that is left waits for another try, that comes at once (see `moved`). Raises TimeoutError that names what is left, and
        what ended the program."""
        until = time.monotonic() + self._timeout
        while left := self._queue.left():
            self._see_it_runs()
            if time.monotonic() >= until:
                cure = "call `start` first" if self._consumer is None else "see what the consumer has logged"
                raise TimeoutError(f"not finished after {self._timeout:g} s: {', '.join(left)}; {cure}")
            self._move(None)
            with self._queue.changed:
                self._queue.changed.wait(_LOOK_EVERY)
        self._until_told()
        self._see_it_runs()

    def advance(self, seconds: float) -> None:
        """Have what waits for another try come so much earlier; `settled` needs no such call."""
        self._move(seconds)

    def hand_over(self, partition: int) -> None:
        """Call the partition back and give it to another member: what is in hand is finished, `on_revoked` is called. Raises
        TimeoutError where the consumer does not let go of it, ValueError where it has not got it."""
        self._ledger.see_owned(partition)
        self._until_told()
        self._ledger.call_back(partition)
        grant = partition, self._queue.epochs[partition]
        self._until(lambda: grant in self._queue.released, f"partition {partition} is let go of")
        self._ledger.take(partition)
        self._until_told()

    def lose(self, partition: int) -> None:
        """Give the partition to another member without asking, as at a missed deadline: the queue refuses this one from now on,
        `entry.still_mine()` is False, and `on_lost` is called, when the handler has returned. Raises ValueError where it has not
        got it."""
        self._ledger.see_owned(partition)
        self._until_told()
        self._ledger.take(partition)
        self._until_told()

    def grant(self, partition: int) -> None:
        """Give a partition back to the member: `on_assigned` is called, and entries that it had not finished come again, marked
        redelivered. Raises ValueError where it has it."""
        self._ledger.give(partition)
        self._until_told()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        """Let go of everything as at SIGTERM. Raises what ended the program, or TimeoutError for a handler that hangs."""
        self._stop()
        if self._thread is not None:
            self._thread.join(self._timeout + 1)
        self._see_it_ended(kind, hangs=self._thread is not None and self._thread.is_alive())

    async def __aenter__(self) -> "AsyncTestQueue":
        return AsyncTestQueue(self)

    async def __aexit__(self, kind: type[BaseException] | None, *_: object) -> None:
        self._stop()
        if self._task is not None:
            await asyncio.wait({self._task}, timeout=self._timeout + 1)
        self._see_it_ended(kind, hangs=self._task is not None and self._task.cancel())

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

    def _see_it_ended(self, kind: type[BaseException] | None, *, hangs: bool) -> None:
        if kind is None:
            self._see_it_runs()
            if hangs:
                raise TimeoutError(f"a handler has not returned within {self._timeout:g} s of the end of the test")

    def _see_it_runs(self) -> None:
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

    def _until_told(self) -> None:
        """Wait until the consumer has followed its ledger and has called what is to be called."""
        self._until(lambda: self._ask(lambda turns: _told(turns, self._ledger.grants), False), "callbacks have returned")

    def _until(self, condition: Callable[[], bool], what: str) -> None:
        until = time.monotonic() + self._timeout
        while self._runs and not condition():
            if time.monotonic() >= until:
                raise TimeoutError(f"not after {self._timeout:g} s: {what}")
            with self._queue.changed:
                self._queue.changed.wait(_LOOK_EVERY)


class AsyncTestQueue:
    """A TestQueue in `async with`: what waits is a coroutine, and the handler runs in the test's event loop.

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
        """As `TestQueue.moved`."""
        return self._queue.moved

    def start(self, handler: UserHandler, *, consumer: Consumer | None = None, **options: Unpack[HandlerOptions]) -> None:
        """As `TestQueue.start`, with the options of `Consumer.serve`."""
        queue = self._queue
        queue._at_work = True
        queue._task = asyncio.create_task(queue._serve(consumer or self.consumer(), handler, options))
        queue._task.add_done_callback(queue._ended)

    async def settled(self) -> None:
        """As `TestQueue.settled`."""
        await asyncio.to_thread(self._queue.settled)

    async def hand_over(self, partition: int) -> None:
        """As `TestQueue.hand_over`."""
        await asyncio.to_thread(self._queue.hand_over, partition)

    async def lose(self, partition: int) -> None:
        """As `TestQueue.lose`."""
        await asyncio.to_thread(self._queue.lose, partition)

    async def grant(self, partition: int) -> None:
        """As `TestQueue.grant`."""
        await asyncio.to_thread(self._queue.grant, partition)


class _Sent:
    """An entry of the queue, under which epoch it was handed out last (0: it was not), and how often before that."""

    __slots__ = ("entry", "epoch", "tries")

    def __init__(self, entry: Entry) -> None:
        self.entry, self.epoch, self.tries = entry, Epoch(0), 0


class InMemoryReader:
    """A Reader (`baton.queues.consumer_side`) of a queue in memory."""

    def __init__(
        self, name: QueueName, partitions: int, max_redeliveries: int, acked: list[Entry], dead_letters: list[SetAside]
    ) -> None:
        self.name = name
        self.changed = threading.Condition()
        self.epochs = dict.fromkeys(range(partitions), Epoch(1))
        """Of the owner that the queue takes requests of."""
        self.lost: set[int] = set()
        """Partitions that another member owns."""
        self.released: set[tuple[int, Epoch]] = set()
        self._most, self._acked, self._dead = max_redeliveries, acked, dead_letters
        self._unfinished: dict[int, dict[str, _Sent]] = {number: {} for number in range(partitions)}
        self._offsets = count()
        self._asked_at = 0.0
        self._waits_for: frozenset[int] = frozenset()
        self._woken: Callable[[], None] = lambda: None

    def see(self, partition: int) -> None:
        """Raises ValueError where there is no such partition."""
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
        """What is not finished of the member's partitions, for a person."""
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
                read.append(_handed_out(sent.entry, epoch, again=sent.epoch > 0))
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

    def let_go(self, partitions: Mapping[int, Epoch], within: float, *, give_up: bool = False) -> Mapping[int, QueueUnreachable]:
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
        """Once, where there is something to read in what is waited for."""
        if any(self.ready(partition, self.epochs[partition]) for partition in self._waits_for):
            self._waits_for = frozenset()
            self._woken()

    @contextmanager
    def _asked(self, partition: int, epoch: Epoch) -> Iterator[None]:
        """Refuse a stale owner, and tell who waits of what has changed."""
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
        """All that the ledger names."""
        return {partition: self._queue.epochs[partition] for partition in self.owned | self._revoking}

    def see_owned(self, *partitions: int) -> None:
        for partition in partitions:
            self._queue.see(partition)
            if partition not in self.owned | self._revoking:
                raise ValueError(f"partition {partition}: the member does not have it; grant({partition}) gives it back")

    def call_back(self, *partitions: int) -> None:
        self.see_owned(*partitions)
        self.owned, self._revoking = self.owned - {*partitions}, self._revoking | {*partitions}
        self._say()

    def take(self, partition: int) -> None:
        """Another member has it."""
        self.see_owned(partition)
        self._next_epoch(partition)
        self._queue.lost.add(partition)
        self.owned, self._revoking = self.owned - {partition}, self._revoking - {partition}
        self._say()

    def give(self, partition: int) -> None:
        self._queue.see(partition)
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
    """As the producers take it."""
    if isinstance(text, bytes):
        return text
    if isinstance(text, str):
        return text.encode()
    raise TypeError(f"a {what} is bytes or str, not {type(text).__name__}")


def _handed_out(sent: Entry, epoch: Epoch, *, again: bool) -> Entry:
    return Entry(sent.queue, sent.partition, sent.offset, sent.key, sent.value, sent.timestamp, epoch, again, sent.headers)


def _told(turns: Turns, grants: Mapping[int, Epoch]) -> bool:
    """The consumer knows what it has, and its callbacks have returned. Or they cannot be called yet: all workers have been at
    their handlers for a while, or a program takes batches and is not waiting for one."""
    dispatcher = turns.dispatcher
    if {one.partition.number: one.epoch for one in turns.holdings} != grants or dispatcher.calling is not None:
        return False
    told = not dispatcher.calls and all(one.over or one.notice in (Notice.ASSIGNED, Notice.REVOKED) for one in turns.holdings)
    if told or dispatcher.wants:
        return told
    before = time.monotonic() - _AT_WORK_FOR
    busy = [delivery for delivery in dispatcher.out if delivery.at and delivery.at_since < before]
    return dispatcher.shared or len(busy) == dispatcher.workers


def _moved(turns: Turns, seconds: float | None) -> float:
    """Have retries come so much earlier; None: as much as the first needs, if nothing else goes on. Return the seconds."""
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
