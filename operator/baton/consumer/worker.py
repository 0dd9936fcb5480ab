"""Workers: they take entries from the consumer's loop, hand them to the handler, and say what became of each."""

import asyncio
import logging
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from queue import Empty, SimpleQueue
from typing import Self

from baton.consumer.callbacks import Call, Place
from baton.consumer.dispatcher import BatchSize, Delivery, Outcomes, Want
from baton.consumer.entry import Batch, HeldEntry, decided
from baton.consumer.handler import HandlerRun, awaited
from baton.consumer.handler_options import CheckedOptions
from baton.consumer.loop import LOOK_EVERY, ConsumerLoop
from baton.consumer.outcome import ACK, KEPT, DeadLetter, HandlerTimeout, Nack, Reject, Retry, outcome_of, then
from baton.model.wording import one_line

log = logging.getLogger(__name__)

_TELL_EVERY = 0.05
"""Seconds after which a worker says what it has handled, though it has more in hand."""


class Progress:
    """With one delivery. As a context: in the end what was not begun goes back. Where the handler has ended the process it does
    not: another worker would begin what this one was at, unmarked, or what is behind that."""

    def __init__(self, loop: ConsumerLoop, delivery: Delivery, options: CheckedOptions) -> None:
        self._loop = loop
        self._delivery = delivery
        self._options = options
        self._entries, self._outcomes = options.deserializers.apply(delivery.entries)
        self._handled: list[HeldEntry] = []
        """Since the last word."""
        self._begun = self._told_at = self._returned_at = time.monotonic()
        self._count = 0
        self._failed = False

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        self._delivery.at = ()
        if kind is not None:
            self._loop.tell(self._said())
            return
        self._loop.give_back(self._delivery, self._said(), time.monotonic() - self._begun, self._count)

    def work(self) -> Iterator[HeldEntry | Batch]:
        """What the handler gets next: an entry, or all of them as one batch. Until one fails or is to come again, or the ledger
        or the end calls."""
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
        """The handler has returned."""
        entries, now = self._end("returned")
        self._handled += entries
        if now - self._told_at > _TELL_EVERY:
            self._loop.tell(self._said())
            self._told_at = now

    def failed(self, error: Exception) -> None:
        """The handler has raised."""
        first = self._delivery.at[0]
        if isinstance(error, HandlerTimeout) and (measures := self._options.measures) is not None and self._delivery.exceed():
            measures.overdue(first.queue)
        said = outcome_of(error, self._options.dead_letter_on)
        outcome = decided(first, said, type(error))
        if self._options.batch is not None and (len(self._delivery.at) > 1 or isinstance(outcome, Nack)):
            named = said.delay if isinstance(said, Nack) else None
            delay = outcome.delay if isinstance(outcome, Nack) else named or 0.0
            outcome = Nack(said.why, delay, alone=True)
        entries, _ = self._end("retry" if isinstance(outcome, Nack) else "dead_letter")
        _log(error, outcome, entries)
        self._outcomes = [*self._said(), (entries, outcome)]
        self._failed = True

    def _begin(self, entries: Sequence[HeldEntry]) -> None:
        delivery = self._delivery
        delivery.at_since, delivery.warnings, delivery.overdue, delivery.at = self._returned_at, 0, False, entries

    def _end(self, how: str) -> tuple[Sequence[HeldEntry], float]:
        """What the handler was at, and when it has returned (monotonic)."""
        entries, now = self._delivery.at, time.monotonic()
        if (measures := self._options.measures) is not None:
            first = entries[0]
            measures.handling(first.sequence.holding.partition.queue, now - self._returned_at, how, first.attempt + 1)
        self._count += len(entries)
        self._returned_at, self._delivery.at = now, ()
        return entries, now

    def _said(self) -> Outcomes:
        """What became of entries since the last word."""
        said = [*self._outcomes, (self._handled, KEPT if self._options.manual_ack else ACK)]
        self._outcomes, self._handled = [], []
        return said


def _log(error: Exception, outcome: Nack | DeadLetter, entries: Sequence[HeldEntry]) -> None:
    """In one line; with the traceback of an exception that says nothing on purpose, the first time."""
    first, more = entries[0], f" and {len(entries) - 1} more" if len(entries) > 1 else ""
    what, why = f"{first.queue}/{first.partition} entry {first.offset}{more}", one_line(outcome.why, 500)
    comes = then(outcome) + (", entry by entry" if more and isinstance(outcome, Nack) else "")
    if isinstance(error, Reject):
        return  # it is said that the entry was set aside
    if isinstance(error, Retry):
        log.warning("handler requested a retry of %s: %s; %s", what, why, comes)
    elif first.failed_by.partition(":")[0] == type(error).__name__:
        log.error("handler failed again on %s: %s; %s", what, why, comes)
    else:
        log.error("handler failed on %s: %s; %s", what, why, comes, exc_info=error)


def next_delivery(loop: ConsumerLoop, handler: HandlerRun, batch: BatchSize | None = None) -> Delivery | None:
    """Wait for entries, and call the callbacks that are due meanwhile. None: the consumer has ended."""
    while isinstance(answer := loop.take(Want(batch)), Call):
        call(loop, handler, answer)
    return answer


def work(loop: ConsumerLoop, handler: HandlerRun, options: CheckedOptions) -> None:
    """Work until the consumer ends. Raises what the handler raises to end the process (SystemExit, KeyboardInterrupt), after
    telling what was handled."""
    while (delivery := next_delivery(loop, handler, options.batch)) is not None:
        with Progress(loop, delivery, options) as progress:
            for one in progress.work():
                try:
                    handler(one)
                    progress.handled()
                except Exception as error:
                    progress.failed(error)


def work_on_threads(loop: ConsumerLoop, new_handler: Callable[[], HandlerRun], options: CheckedOptions) -> None:
    """The same on several threads, until all have ended; one whose handler does not return in time is left to itself. Raises what
    the first of them raises."""
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
    """Call a callback to its end. What it raises is logged: a program that cannot take a partition up gets its entries all the
    same."""
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
    """As `next_delivery`, on this event loop."""
    while isinstance(answer := await take(loop, Want(batch)), Call):
        await call_async(loop, answer)
    return answer


async def work_async(loop: ConsumerLoop, handler: Callable[..., object], options: CheckedOptions) -> None:
    """As `work`, on this event loop."""
    while (delivery := await next_delivery_async(loop, options.batch)) is not None:
        with Progress(loop, delivery, options) as progress:
            for one in progress.work():
                try:
                    await _within(options.handler_timeout, handler, one)
                    progress.handled()
                except Exception as error:
                    progress.failed(error)


async def _within(seconds: float | None, handler: Callable[..., object], one: HeldEntry | Batch) -> None:
    """Call the handler. Raises HandlerTimeout after it has cancelled a coroutine that took longer."""
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
    """By several tasks, until all have ended; one whose handler does not return in time is cancelled."""
    ends: list[BaseException] = []

    async def run() -> None:
        try:
            await work_async(loop, handler, options)
        except (SystemExit, KeyboardInterrupt) as end:  # it would tear the event loop down under the others
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
    """Calls a callback on this event loop. What it raises is logged, and the consumer goes on."""
    with _calling(loop, due):
        await awaited((await asyncio.to_thread(due.ready) if due.time_left else due.ready())())


async def take(loop: ConsumerLoop, want: Want) -> Delivery | Call | None:
    """As `ConsumerLoop.take`. Where the task is cancelled, what came for it goes back."""
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
    """Of all partitions of this consumer, until it ends. Callbacks are called while the next batch is waited for.

    The next batch does not wait until this one is acknowledged: how many are in the program's hands is its own affair, up to the
    queue's maxDeliveredUnacked. Entries of a partition come in order.
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
