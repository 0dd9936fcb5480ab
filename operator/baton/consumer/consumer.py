"""The consumer of a plain pod: reads the partitions assigned to it, passes their entries to a handler, and acknowledges them."""

import asyncio
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, closing, contextmanager, nullcontext
from dataclasses import replace
from inspect import signature
from math import inf
from typing import TYPE_CHECKING, Literal, Self, Unpack

from baton.consumer.assignments import AnnouncedAssignments, Assignments, AssignmentSource
from baton.consumer.callbacks import Callbacks, Partitions
from baton.consumer.decoding import DecodingHandler, decoding
from baton.consumer.ending import LedgerDeadlines, Left, ending
from baton.consumer.entry import HeldEntry
from baton.consumer.handler import Handler, HandlerRun, UserHandler, is_coroutine_function, outside_of_event_loops
from baton.consumer.handler_options import CheckedOptions, Deserializer, Deserializers, HandlerOptions
from baton.consumer.loop import Answer, ConsumerLoop
from baton.consumer.outcome import Backoff
from baton.consumer.pod import DEFAULT_GRACE, Pod
from baton.consumer.probes import ProbeServer
from baton.consumer.session import Session
from baton.consumer.transaction import Transaction
from baton.consumer.turns import Turns
from baton.consumer.worker import (
    BatchStream,
    call,
    call_async,
    next_delivery,
    next_delivery_async,
    work,
    work_on_tasks,
    work_on_threads,
)
from baton.model.ids import QueueName, Uid
from baton.queues.consumer_side import Reader, addressed, opened
from baton.queues.kinds import with_transactions
from baton.queues.protocol import QueueUnreachable

if TYPE_CHECKING:
    from baton.consumer.metrics import ConsumerMetrics


class Consumer:
    """Passes the entries of the pod's partitions to a program, in order per partition, at least once.

    ```python
    consumer = Consumer.from_environment()
    consumer.run(lambda entry: print(entry.key, entry.value))
    ```

    - `run(handler)` calls a function or a coroutine function; `batches()` is for your own loop, in `with` or `async with`.
    - When a partition is revoked, the consumer reads nothing more from it, finishes and acknowledges the entries in hand, and
      releases it. Work on one entry should take well under the queue's maxHandoffSeconds. Otherwise the partition is taken
      before the entry is finished.
    - When a partition is lost (a missed deadline), the consumer drops its entries. The next owner gets them, marked redelivered.
    - On SIGTERM the consumer keeps working until its partitions are handed off or the grace period is nearly over, and then
      releases the rest. On Ctrl-C it finishes the running handlers and releases everything; a second Ctrl-C ends it at once.
    """

    def __init__(
        self,
        open_queue: Callable[[QueueName], Reader],
        source: Assignments,
        uid: Uid,
        session: Session | None = None,
        grace: float = DEFAULT_GRACE,
        *,
        callbacks: Callbacks | None = None,
        deserializers: Deserializers | None = None,
        metrics: "ConsumerMetrics | None" = None,
        deadlines: Left = lambda partition, epoch: None,
        transactions: bool = False,
        health_port: int | None = None,
        signals: bool = True,
    ) -> None:
        """Create a consumer from its parts; programs use `from_environment`.

        Args:
            open_queue: Opens each queue that appears in the ledger. Its reader is closed when the ledger no longer names it.
            grace: The pod's terminationGracePeriodSeconds.
            session: None: the operator learns of releases from the queues alone.
            deadlines: Returns the seconds until a revoked partition is taken away, or None if unknown.
            transactions: Whether the queues' readers are `TransactionalReader`s.
            health_port: The port of the probes, served while the consumer runs.
            signals: Whether SIGTERM and Ctrl-C end the consumer, if it runs in the main thread.
        """
        if metrics is not None:
            open_queue = metrics.around(open_queue, lambda: self._loop.holdings)
        self._loop = ConsumerLoop(open_queue, source, uid, session, grace, callbacks or Callbacks(), deadlines)
        self._metrics = metrics
        self._transactions = transactions
        checks = {"/healthz": self._loop.unhealthy, "/readyz": self._loop.unheard}
        self._health = nullcontext() if health_port is None else ProbeServer(health_port, checks)
        self._signals = signals
        self._deserializers = deserializers or Deserializers()
        self._calling = HandlerRun(lambda _: None)
        """Runs callbacks outside of an event loop."""
        self._ending: ExitStack | None = None
        """Undoes `__enter__`; None unless the consumer is running."""

    @classmethod
    def from_environment(
        cls,
        *,
        on_assigned: Callable[[Partitions], object] | None = None,
        on_revoked: Callable[[Partitions, float | None], object] | None = None,
        on_lost: Callable[[Partitions], object] | None = None,
        key_deserializer: Deserializer | None = None,
        value_deserializer: Deserializer | None = None,
        metrics: "ConsumerMetrics | None" = None,
    ) -> Self:
        """Return the consumer of this pod. It needs the environment of `Pod.from_environment`, the address of the group's queues
        in BATON_REDIS_URL or BATON_KAFKA_URL, and a service account that may write the pod's Lease.

        ```python
        consumer = Consumer.from_environment(value_deserializer=json.loads, on_revoked=write_totals)
        ```

        Args:
            on_assigned: Called with partitions, a sequence of (queue, number), before their first entry. All callbacks may be
                functions or coroutine functions. They run where the handler runs, and their exceptions are logged.
            on_revoked: Called with partitions after their last entry, and with the seconds left (None: unknown). The partitions
                are released when it returns.
            on_lost: Called instead of `on_revoked` with partitions that another pod already owns.
            key_deserializer: Converts the key from bytes for `entry.key`. None: keys stay bytes.
            value_deserializer: Converts the value from bytes for `entry.value`. If a deserializer raises anything but `Retry`,
                the entry becomes a dead letter.
            metrics: A `baton.consumer.metrics.ConsumerMetrics`. None: no metrics.

        Raises:
            ValueError: If a variable is missing, or is not an address.
            TypeError: If a callback or a deserializer cannot be called with these arguments.
        """
        from baton.consumer.api_server import ApiConnection, session_of

        pod = Pod.from_environment()
        kind, address = addressed(os.environ)
        group = f"{pod.namespace}/{pod.group}"
        try:
            side = opened(kind, address, group, pod.uid)
        except QueueUnreachable as problem:
            raise ValueError(f"{kind.variable} cannot be used. {problem}") from None
        api = ApiConnection.from_environment()
        assignments: Assignments = AssignmentSource(pod.ledger, pod.name, pod.uid)
        deadlines: Left = LedgerDeadlines(pod.ledger, api.clock.now).left
        announcements = side.announcements()
        if announcements is not None:
            assignments = announced = AnnouncedAssignments(assignments, announcements, group, pod.name, pod.uid, deadlines)
            deadlines = announced.left
        return cls(
            side.reader,
            assignments,
            pod.uid,
            session_of(pod, api),
            pod.grace,
            callbacks=Callbacks(on_assigned, on_revoked, on_lost),
            deserializers=Deserializers(key_deserializer, value_deserializer),
            metrics=metrics,
            deadlines=deadlines,
            transactions=kind.transactions,
            health_port=pod.health_port,
        )

    def run(
        self,
        handler: UserHandler,
        *,
        concurrency: int = 1,
        order: Literal["partition", "key"] = "partition",
        max_entries: int | None = None,
        max_bytes: float = inf,
        max_wait: float = 0.2,
        manual_ack: bool = False,
        dead_letter_on: tuple[type[Exception], ...] = (),
        handler_warn_seconds: float = 60.0,
        handler_timeout: float | None = None,
        retry: Backoff | Mapping[type[Exception], Backoff] | None = None,
    ) -> None:
        """Call `handler` with entries until SIGTERM, Ctrl-C or `stop`. Returns when all partitions are released.

        An entry is acknowledged when the handler returns. If it raises, the entry is retried, and its partition (or key) waits
        for it; the others go on. `Retry(delay=…)` sets the delay; `Reject("why")` makes it a dead letter.

        ```python
        consumer.run(handle, order="key", concurrency=8)
        ```

        Args:
            handler: A function or a coroutine function of one entry, or of a batch. If its first argument is annotated with a
                pydantic model or a dataclass, it gets the entry's value as that type, and the entry as its second argument, if
                it has one.
            concurrency: Number of entries (or batches) handled at a time, 1 to 10,000: by threads, or by tasks of one event loop
                if the handler is a coroutine function.
            order: Whether entries are handled one after another in each "partition" or in each "key".
            max_entries: Maximum number of entries in a `Batch`; None: the handler gets single entries.
            max_bytes: Maximum bytes of keys, values and headers in a batch. A larger entry is a batch by itself.
            max_wait: Seconds that a batch which has an entry waits for more.
            manual_ack: Acknowledge only by `entry.ack()`, in the handler or later, and not when the handler returns.
            dead_letter_on: Exceptions that make the entry a dead letter without a retry.
            handler_warn_seconds: Seconds after which a handler that has not returned is logged, and again whenever its time has
                doubled.
            handler_timeout: Maximum seconds for an entry (or a batch). A coroutine is then cancelled, and the entry fails with
                `HandlerTimeout`. A thread cannot be interrupted, so its timeout is only logged and counted. None: no limit.
            retry: Delay and number of attempts of failed entries: a `Backoff` for all exceptions, or a dict from exceptions to
                Backoffs, of which the nearest base class applies. None: 0.1 to 5 seconds, without a limit.

        Raises:
            TypeError: If an argument has the wrong type, or the handler cannot be called with an entry.
            ValueError: If an argument is out of its range.
            RuntimeError: If an event loop runs in this thread (use `serve`), or the consumer has run before.
        """
        outside_of_event_loops("`async with consumer: await consumer.serve(handler)` does the same in it")
        call, checked = self._checked(
            handler,
            concurrency=concurrency,
            order=order,
            max_entries=max_entries,
            max_bytes=max_bytes,
            max_wait=max_wait,
            manual_ack=manual_ack,
            dead_letter_on=dead_letter_on,
            handler_warn_seconds=handler_warn_seconds,
            handler_timeout=handler_timeout,
            retry=retry,
        )
        if is_coroutine_function(call):
            with self._entered(), asyncio.Runner() as runner:
                runner.run(work_on_tasks(self._loop, call, checked))
            return
        with self._entered(), closing(HandlerRun(call)) as one:
            if checked.concurrency == 1:
                work(self._loop, one, checked)
            else:
                work_on_threads(self._loop, lambda: HandlerRun(call), checked)

    async def serve(self, handler: UserHandler, **options: Unpack[HandlerOptions]) -> None:
        """Do the same as `run`, with its arguments and errors, in a program that has an event loop.

        ```python
        async with Consumer.from_environment() as consumer:
            await consumer.serve(handle, concurrency=50)
        ```

        Cancelling it ends the work. The end of `async with` gives back all entries that are not acknowledged.
        """
        signature(Consumer.run).bind(self, handler, **options)  # an unknown option is a TypeError of `run`
        call, checked = self._checked(handler, **options)
        await work_on_tasks(self._loop, call, checked)

    def batches(self, max_entries: int = 500, max_bytes: float = inf, max_wait: float = 0.2) -> BatchStream:
        """Return an iterator of batches, for a loop in `with` or `async with`. It ends on SIGTERM, Ctrl-C or `stop`.

        ```python
        with Consumer.from_environment() as consumer:
            for batch in consumer.batches(max_entries=100):
                store(entry.value for entry in batch)
                batch.ack()
        ```

        Args:
            max_entries: Maximum number of entries in a batch.
            max_bytes: Maximum bytes of keys, values and headers in a batch. A larger entry is a batch by itself.
            max_wait: Seconds that a batch which has an entry waits for more.

        Raises:
            TypeError: If an argument has the wrong type.
            ValueError: If an argument is out of its range.
            RuntimeError: If `run` or `serve` was called before; the iterator also raises it outside of `with`.
        """
        checked = CheckedOptions(
            max_entries=max_entries, max_bytes=max_bytes, max_wait=max_wait, deserializers=self._deserializers
        )
        self._loop.serve(checked, shared=True)
        return BatchStream(self._loop, self._calling, checked)

    def transaction(self, entries: HeldEntry | Sequence[HeldEntry]) -> Transaction:
        """Return a Kafka transaction that sends messages and finishes an entry (or entries of one partition) atomically.

        ```python
        def handle(entry):
            with consumer.transaction(entry) as transaction:
                transaction.send("payments", entry.value, key=entry.key)
        ```

        Raises RuntimeError if the queues are not on Kafka, TypeError for anything but entries that a consumer handed out, and
        ValueError for entries of several partitions."""
        if not self._transactions:
            raise RuntimeError(
                f"transactions need queues on {with_transactions()}, and this consumer's are not: write all results together "
                "with the entry's offset into one database before you acknowledge the entry"
            )
        return Transaction(entries, self._loop.finish_together)

    def stop(self) -> None:
        """End as SIGTERM does. Call it from any thread or signal handler; it returns at once."""
        self._loop.stop()

    @property
    def interrupted(self) -> bool:
        """True if a hand-off or shutdown is pending while a handler runs. No other entry begins before it."""
        return self._loop.interrupted

    def interrupt(self) -> None:
        """Check the ledger before another entry begins. Call it from any thread."""
        self._loop.interrupt()

    @property
    def running(self) -> bool:
        """True from the start of `run`, `serve` or `with` until its end."""
        return self._loop.running

    def ask(self, question: Callable[[Turns], Answer], otherwise: Answer) -> Answer:
        """For `baton.testing`: ask the thread of the consumer's loop. Return `otherwise` if it is not running."""
        return self._loop.ask(question, otherwise)

    def __enter__(self) -> Self:
        with ExitStack() as stack:
            if self._signals:
                stack.enter_context(ending(self._loop.stop, self._loop.leave))
            stack.callback(self._calling.close)
            stack.enter_context(self._health)
            self._loop.start()
            self._ending = stack.pop_all()
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        """Call `on_revoked` and give entries that are not acknowledged to the next owner. After an exception, only pass on the
        acknowledgements that the program made."""
        try:
            with self._leaving(kind):
                while (delivery := next_delivery(self._loop, self._calling)) is not None:
                    self._loop.give_back(delivery, ())
                for due in self._loop.last_calls:
                    call(self._loop, self._calling, due)
        finally:
            self._loop.join()

    async def __aenter__(self) -> Self:
        return self.__enter__()

    async def __aexit__(self, kind: type[BaseException] | None, *_: object) -> None:
        try:
            with self._leaving(kind):
                while (delivery := await next_delivery_async(self._loop)) is not None:
                    self._loop.give_back(delivery, ())
                for due in self._loop.last_calls:
                    await call_async(self._loop, due)
        finally:
            await asyncio.to_thread(self._loop.join)

    @contextmanager
    def _leaving(self, kind: type[BaseException] | None) -> Iterator[None]:
        ending, self._ending = self._ending, None
        with ending or nullcontext():
            if kind is None:
                self._loop.leave(idle=True)
            else:
                self._loop.abort()
            yield

    def _entered(self) -> AbstractContextManager[object]:
        """Enter the consumer for `run`, unless the program is in `with` already."""
        return self if self._ending is None else nullcontext()

    def _checked(self, handler: UserHandler, **options: Unpack[HandlerOptions]) -> tuple[Handler, CheckedOptions]:
        call = decoding(handler)
        is_coroutine_function(call)
        checked = CheckedOptions(**options, deserializers=self._deserializers, measures=self._metrics)
        if isinstance(call, DecodingHandler):
            call.check_options(batch=checked.batch is not None, manual_ack=checked.manual_ack)
            checked.deserializers = replace(self._deserializers, model=call.decode)
            call = call.call
        self._loop.serve(checked)
        return call, checked
