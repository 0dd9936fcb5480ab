"""No entry ends the consumer, and a consumer that fails does not keep its Lease."""

import asyncio
import threading
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest

from baton.consumer import Retry
from baton.consumer.entry import Batch, HeldEntry
from baton.consumer.outcome import DeadLetter, Nack, outcome_of
from baton.consumer.session import Session
from baton.model.ids import Epoch
from baton.testing import InMemoryReader
from tests.in_memory_lease import InMemoryLease
from tests.unit.consumer.readers import consumer_of, filled, offsets
from tests.waiting import until


class SilentError(Exception):
    def __str__(self) -> str:
        raise ZeroDivisionError


@pytest.mark.parametrize("error", [ValueError("no such file caf\udce9"), SilentError(), Retry("caf\udce9")])
def test_why_an_entry_failed_is_text_that_every_queue_takes(error: Exception) -> None:
    outcome = outcome_of(error)
    assert isinstance(outcome, Nack)
    outcome.why.encode()


def test_words_of_a_program_are_text_that_every_queue_takes() -> None:
    queue = filled(2)
    with queue.consumer() as consumer:
        first, second = next(consumer.batches(max_entries=2))
        first.dead_letter("caf\udce9")
        second.dead_letter("caf\udce9").wait()
    assert len(queue.dead_letters) == 2
    for letter in queue.dead_letters:
        letter.why.encode()


HUGE = pytest.param(10**400, id="huge")


@pytest.mark.parametrize("delay", [timedelta(seconds=60), "soon", float("nan"), float("inf"), -1, HUGE])
def test_a_delay_that_is_no_number_of_seconds_is_refused_where_it_is_given(delay: float) -> None:
    with pytest.raises((TypeError, ValueError)):
        Retry("why", delay=delay)
    with filled(1).consumer() as consumer:
        batch: Batch = next(consumer.batches())
        entry: HeldEntry = batch[0]
        for word in (batch, entry):
            with pytest.raises((TypeError, ValueError)):
                word.nack(delay)
        assert batch.ack().wait()


class NotYet(Retry):
    """An exception that does not call the `__init__` of its base class."""

    def __init__(self, delay: Any = None) -> None:
        if delay is not None:
            self.delay = delay


def cancels(entry: HeldEntry) -> None:
    async def waits() -> None:
        task = asyncio.create_task(asyncio.sleep(60))
        await asyncio.sleep(0)
        task.cancel()
        await task

    asyncio.run(waits())


def raises(error: Exception) -> Callable[[HeldEntry], None]:
    def handle(entry: HeldEntry) -> None:
        raise error

    return handle


ODD = [raises(NotYet()), raises(NotYet("soon")), raises(NotYet(10**400))]


@pytest.mark.parametrize("first", [*ODD, cancels])
def test_an_entry_comes_again_however_its_handler_failed(first: Callable[[HeldEntry], None]) -> None:
    tried = list[HeldEntry]()

    def handle(entry: HeldEntry) -> None:
        tried.append(entry)
        if len(tried) == 1:
            first(entry)

    with filled(1) as queue:
        queue.start(handle)
        queue.settled()
    assert [entry.redelivered for entry in tried] == [False, True] and offsets(queue) == ["0"]


@pytest.mark.parametrize("first", ODD)
def test_and_however_its_deserializer_asks_for_another_try(first: Callable[[Any], None]) -> None:
    tried = list[bytes]()

    def deserialize(value: bytes) -> bytes:
        tried.append(value)
        if len(tried) == 1:
            first(value)
        return value

    with filled(1) as queue:
        queue.start(lambda entry: None, consumer=queue.consumer(value_deserializer=deserialize))
        queue.settled()
    assert len(tried) == 2 and offsets(queue) == ["0"]


def test_a_reason_that_is_no_text_is_refused_where_it_is_given() -> None:
    error: Any = ValueError("no such customer")
    with filled(1).consumer() as consumer:
        batch: Batch = next(consumer.batches())
        for word in (batch, batch[0]):
            with pytest.raises(TypeError, match=r"why is ValueError.*: set it to a string, such as str"):
                word.dead_letter(error)
            with pytest.raises(TypeError, match=r"why is ValueError.*: set it to a string, such as str"):
                word.nack(why=error)
        assert batch.ack().wait()


class Broken(InMemoryReader):
    """A client library with a bug."""

    def ack(self, partition: int, epoch: Epoch, offsets: object, *, soon: bool = False) -> None:
        raise ZeroDivisionError("a bug")


def test_a_consumer_that_ends_for_a_fault_of_its_own_renews_its_lease_no_more() -> None:
    def sessions() -> int:
        return sum(thread.name == "baton-session" for thread in threading.enumerate())

    before = sessions()
    session = Session(InMemoryLease(), holder="u", group="orders", every=0.01)
    consumer = consumer_of(filled(1, reader=Broken), session=session)
    with pytest.raises(ZeroDivisionError, match="a bug"):
        consumer.run(lambda entry: None)
    until(lambda: sessions() == before)


async def test_nor_in_an_event_loop() -> None:
    def sessions() -> int:
        return sum(thread.name == "baton-session" for thread in threading.enumerate())

    before = sessions()
    consumer = consumer_of(filled(1, reader=Broken), session=Session(InMemoryLease(), holder="u", group="orders", every=0.01))
    with pytest.raises(ZeroDivisionError, match="a bug"):
        async with consumer:
            await consumer.serve(lambda entry: None)
    until(lambda: sessions() == before)


def test_a_dead_letter_of_what_cannot_be_said() -> None:
    assert outcome_of(SilentError(), (SilentError,)) == DeadLetter("SilentError: (its text is unavailable: str() failed)")
