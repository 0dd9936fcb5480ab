"""Workers: they take entries from the consumer's loop, hand them to the handler, and say what became of each."""

import asyncio
import logging
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from queue import Empty, SimpleQueue

from baton.consumer.callbacks import Call, Place
from baton.consumer.delivery import Delivery, Want
from baton.consumer.handler import HandlerRun, awaited
from baton.consumer.handler_options import CheckedOptions
from baton.consumer.loop import LOOK_EVERY, ConsumerLoop
from baton.consumer.progress import Progress

log = logging.getLogger(__name__)


def work(loop: ConsumerLoop, handler: HandlerRun, options: CheckedOptions) -> None:
    """Work until the consumer ends. Raises what the handler raises to end the process (SystemExit, KeyboardInterrupt), after
    telling what was handled."""
    while (answer := loop.take(options.want())) is not None:
        if isinstance(answer, Call):
            call(loop, handler, answer)
            continue
        with Progress(loop, answer, options) as progress:
            if options.batch is not None:
                if batch := progress.batch():
                    try:
                        handler(batch)
                        progress.handled(batch)
                    except Exception as error:
                        progress.failed(error, batch)
                continue
            for entry in progress.entries():
                try:
                    handler(entry)
                    progress.handled([entry])
                except Exception as error:
                    progress.failed(error, [entry])


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


# The same in an event loop


async def work_async(loop: ConsumerLoop, handler: Callable[..., object], options: CheckedOptions) -> None:
    """Gives entries and callbacks to the handler on this event loop, one after the other, until the consumer has stopped."""
    while (answer := await take(loop, options.want())) is not None:
        if isinstance(answer, Call):
            await call_async(loop, answer)
            continue
        with Progress(loop, answer, options) as progress:
            if options.batch is not None:
                if batch := progress.batch():
                    try:
                        await awaited(handler(batch))
                        progress.handled(batch)
                    except Exception as error:
                        progress.failed(error, batch)
                continue
            for entry in progress.entries():
                try:
                    await awaited(handler(entry))
                    progress.handled([entry])
                except Exception as error:
                    progress.failed(error, [entry])


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
