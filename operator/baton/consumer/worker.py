"""Workers: take entries from the consumer's loop, call the handler with them, and report the outcomes."""

import asyncio
import logging
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from queue import Empty, SimpleQueue
from typing import Self

from baton.consumer.callbacks import Call, Place
from baton.consumer.dispatcher import BatchSize, Delivery, Outcomes, Want
from baton.consumer.entry import Batch, HeldEntry, by_policy
from baton.consumer.handler import HandlerRun, awaited
from baton.consumer.handler_options import CheckedOptions
from baton.consumer.loop import LOOK_EVERY, ConsumerLoop
from baton.consumer.outcome import ACK, KEPT, DeadLetter, HandlerTimeout, Nack, Reject, Retry, next_step, outcome_of
from baton.model.wording import one_line

log = logging.getLogger(__name__)

_REPORT_EVERY = 0.05
"""Seconds after which a worker reports outcomes although it has more entries in hand."""


class Progress:
    """A worker's progress with one delivery. At the end of the context, entries that were not begun go back to the loop. If
    the handler ends the process, they do not: another worker would begin them, unmarked, before the process is gone."""

    def __init__(self, loop: ConsumerLoop, delivery: Delivery, options: CheckedOptions) -> None:
        self._loop = loop
        self._delivery = delivery
        self._options = options
        self._entries, self._outcomes = options.deserializers.apply(delivery.entries)
        self._handled: list[HeldEntry] = []
        """Entries handled since the last report."""
        self._begun = self._reported_at = self._returned_at = time.monotonic()
        self._count = 0
        self._failed = False

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        self._delivery.current = ()
        if kind is not None:
            self._loop.tell(self._pop_outcomes())
            return
        self._loop.give_back(self._delivery, self._pop_outcomes(), time.monotonic() - self._begun, self._count)

    def work(self) -> Iterator[HeldEntry | Batch]:
        """Yield what the handler gets next: one entry after the other, or all as one batch. Ends early when an entry fails or
        must be retried first, or when a change of the ledger or a shutdown is pending."""
        if self._options.batch is not None:
            held = {sequence.holding for sequence, _ in self._delivery.parts}
            if self._entries and not self._delivery.recalled and all(holding.is_sure for holding in held):
                self._begin(self._entries)
                yield Batch(self._entries, self._loop)
            return
        for entry in self._entries:
            if self._failed or self._delivery.recalled or self._delivery.held_up or not entry.sequence.holding.is_sure:
                return
            self._begin((entry,))
            yield entry

    def handled(self) -> None:
        """Record that the handler has returned."""
        entries, now = self._end("returned")
        self._handled += entries
        if now - self._reported_at > _REPORT_EVERY:
            self._loop.tell(self._pop_outcomes())
            self._reported_at = now

    def failed(self, error: Exception) -> None:
        """Record that the handler has raised."""
        first = self._delivery.current[0]
        if isinstance(error, HandlerTimeout) and (measures := self._options.measures) is not None and self._delivery.exceed():
            measures.overdue(first.queue)
        raised = outcome_of(error, self._options.dead_letter_on)
        outcome = by_policy(first, raised, type(error))
        if self._options.batch is not None and (len(self._delivery.current) > 1 or isinstance(outcome, Nack)):
            if isinstance(outcome, DeadLetter):
                outcome = Nack(raised.why, (raised.delay if isinstance(raised, Nack) else None) or 0.0)
            outcome = replace(outcome, alone=True)
        entries, _ = self._end("retry" if isinstance(outcome, Nack) else "dead_letter")
        _log(error, outcome, entries)
        self._outcomes = [*self._pop_outcomes(), (entries, outcome)]
        self._failed = True

    def _begin(self, entries: Sequence[HeldEntry]) -> None:
        delivery = self._delivery
        delivery.current_since, delivery.warnings, delivery.overdue = self._returned_at, 0, False
        delivery.current = entries

    def _end(self, how: str) -> tuple[Sequence[HeldEntry], float]:
        """Return the entries that the handler was working on, and the time (monotonic)."""
        entries, now = self._delivery.current, time.monotonic()
        if (measures := self._options.measures) is not None:
            first = entries[0]
            measures.handling(first.sequence.holding.partition.queue, now - self._returned_at, how, first.attempt + 1)
        self._count += len(entries)
        self._returned_at, self._delivery.current = now, ()
        return entries, now

    def _pop_outcomes(self) -> Outcomes:
        """Return the outcomes since the last report."""
        outcomes = [*self._outcomes, (self._handled, KEPT if self._options.manual_ack else ACK)]
        self._outcomes, self._handled = [], []
        return outcomes


def _log(error: Exception, outcome: Nack | DeadLetter, entries: Sequence[HeldEntry]) -> None:
    """Log a failure on one line, with a traceback if the exception is neither Retry nor Reject and has not been logged before."""
    first, more = entries[0], f" and {len(entries) - 1} more" if len(entries) > 1 else ""
    what, why = f"{first.queue}/{first.partition} entry {first.offset}{more}", one_line(outcome.why, 500)
    step = next_step(outcome) + (", entry by entry" if more and isinstance(outcome, Nack) else "")
    if isinstance(error, Reject):
        return  # the loop logs the dead letter
    if isinstance(error, Retry):
        log.warning("handler requested a retry of %s: %s; %s", what, why, step)
    elif first.failed_by.partition(":")[0] == type(error).__name__:
        log.error("handler failed again on %s: %s; %s", what, why, step)
    else:
        log.error("handler failed on %s: %s; %s", what, why, step, exc_info=error)


def next_delivery(loop: ConsumerLoop, handler: HandlerRun, batch: BatchSize | None = None) -> Delivery | None:
    """Wait for entries, and call callbacks that become due meanwhile. Returns None when the consumer has ended."""
    while isinstance(answer := loop.take(Want(batch)), Call):
        call(loop, handler, answer)
    return answer


def work(loop: ConsumerLoop, handler: HandlerRun, options: CheckedOptions) -> None:
    """Work until the consumer ends. Raises SystemExit or KeyboardInterrupt of the handler, after reporting finished entries."""
    while (delivery := next_delivery(loop, handler, options.batch)) is not None:
        with Progress(loop, delivery, options) as progress:
            for one in progress.work():
                try:
                    handler(one)
                    progress.handled()
                except Exception as error:
                    progress.failed(error)


def work_on_threads(loop: ConsumerLoop, new_handler: Callable[[], HandlerRun], options: CheckedOptions) -> None:
    """Do the same on several threads until all have ended. Threads whose handler does not return in time are abandoned. Raises
    what the first thread raises."""
    ends: SimpleQueue[BaseException | None] = SimpleQueue()

    def run() -> None:
        handler = new_handler()
        try:
            work(loop, handler, options)
            ends.put(None)
        except BaseException as end:
            ends.put(end)
        finally:
            handler.close()

    for number in range(options.concurrency):
        threading.Thread(target=run, name=f"baton-worker-{number}", daemon=True).start()
    left = options.concurrency
    while left and not loop.out_of_time:
        with suppress(Empty):
            end = ends.get(timeout=LOOK_EVERY)
            left -= 1
            if end is not None:
                raise end


def call(loop: ConsumerLoop, handler: HandlerRun, due: Call) -> None:
    """Run a callback to completion. Its exceptions are logged: if `on_assigned` fails, the program still gets the entries."""
    with _calling(loop, due):
        handler.complete(due.ready()())


@contextmanager
def _calling(loop: ConsumerLoop, due: Call) -> Iterator[None]:
    try:
        loop.calling = Place.here()
        try:
            yield
        finally:
            loop.calling = None
    except Exception:
        log.exception("a callback failed, and the consumer goes on")
    except BaseException:
        loop.called(due, again=True)
        raise
    loop.called(due)


async def next_delivery_async(loop: ConsumerLoop, batch: BatchSize | None = None) -> Delivery | None:
    """Do the same as `next_delivery` on this event loop."""
    while isinstance(answer := await take(loop, Want(batch)), Call):
        await call_async(loop, answer)
    return answer


async def work_async(loop: ConsumerLoop, handler: Callable[..., object], options: CheckedOptions) -> None:
    """Do the same as `work` on this event loop."""
    while (delivery := await next_delivery_async(loop, options.batch)) is not None:
        with Progress(loop, delivery, options) as progress:
            for one in progress.work():
                try:
                    await _within(options.handler_timeout, handler, one)
                    progress.handled()
                except Exception as error:
                    progress.failed(error)


async def _within(seconds: float | None, handler: Callable[..., object], one: HeldEntry | Batch) -> None:
    """Call the handler. Cancels a coroutine that takes longer, and raises HandlerTimeout."""
    if seconds is None:
        await awaited(handler(one))
        return
    try:
        async with asyncio.timeout(seconds) as limit:
            await awaited(handler(one))
    except TimeoutError as error:
        if limit.expired():
            raise HandlerTimeout(f"not finished after {seconds:g} s") from error
        raise


async def work_on_tasks(loop: ConsumerLoop, handler: Callable[..., object], options: CheckedOptions) -> None:
    """Do the same as `work` by several tasks until all have ended. Handlers that do not return in time are cancelled; one that
    swallows the cancellation delays the end, because closing an event loop waits for its tasks."""
    ends: list[BaseException] = []

    async def run() -> None:
        try:
            await work_async(loop, handler, options)
        except (SystemExit, KeyboardInterrupt) as end:  # would stop the event loop while the other tasks run
            ends.append(end)

    working = {asyncio.create_task(run()) for _ in range(options.concurrency)}
    try:
        left = working
        while left and not ends and not loop.out_of_time:
            ended, left = await asyncio.wait(left, timeout=LOOK_EVERY, return_when=asyncio.FIRST_COMPLETED)
            for task in ended:
                task.result()
    finally:
        for task in working:
            task.cancel()
        await asyncio.gather(*working, return_exceptions=True)
    for end in ends:
        raise end


async def call_async(loop: ConsumerLoop, due: Call) -> None:
    """Do the same as `call` on this event loop."""
    with _calling(loop, due):
        await awaited((await asyncio.to_thread(due.ready) if due.time_left else due.ready())())


async def take(loop: ConsumerLoop, want: Want) -> Delivery | Call | None:
    """Do the same as `ConsumerLoop.take` on this event loop. If the task is cancelled, its entries go back to the loop."""
    loop.want(want)
    answer = asyncio.wrap_future(want.answer)
    try:
        while not answer.done() and not loop.ended:
            await asyncio.wait({answer}, timeout=LOOK_EVERY)
        return answer.result() if answer.done() else loop.last_answer(want)
    except asyncio.CancelledError:
        loop.forget(want)
        raise


class BatchStream:
    """An iterator of batches of all partitions of a consumer, until it ends. Callbacks run while it waits for the next batch.

    The next batch does not wait until this one is acknowledged: a program may hold any number of entries up to the queue's
    maxDeliveredUnacked. Entries of a partition come in order.
    """

    def __init__(self, loop: ConsumerLoop, handler: HandlerRun, options: CheckedOptions) -> None:
        self._loop = loop
        self._handler = handler
        self._options = options

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> Batch:
        while (delivery := next_delivery(self._loop, self._handler, self._options.batch)) is not None:
            if batch := self._batch(delivery):
                return batch
        raise StopIteration

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> Batch:
        while (delivery := await next_delivery_async(self._loop, self._options.batch)) is not None:
            if batch := self._batch(delivery):
                return batch
        raise StopAsyncIteration

    def _batch(self, delivery: Delivery) -> Batch | None:
        entries, others = self._options.deserializers.apply(delivery.entries)
        if others:
            known = {entry.nth for those in (entries, *(unread for unread, _ in others)) for entry in those}
            left = [(sequence, [entry for entry in those if entry.nth not in known]) for sequence, those in delivery.parts]
            self._loop.give_back(Delivery(left), others)
        return Batch(entries, self._loop) if entries else None
